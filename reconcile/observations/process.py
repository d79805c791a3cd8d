"""Observations of the process: its start and end, its runner, settings and access."""

from collections.abc import Sequence
from dataclasses import dataclass

from reconcile.observations.observation import Observation


@dataclass(frozen=True, slots=True)
class ControllerStarted(Observation):
    """All parts of the process run; `url` is where it listens, None without an API."""

    name = "controller.started"
    url: str | None
    database: str


@dataclass(frozen=True, slots=True)
class ControllerStopping(Observation):
    """The process was asked to end."""

    name = "controller.stopping"


@dataclass(frozen=True, slots=True)
class ControllerStopped(Observation):
    """All parts of the process have ended."""

    name = "controller.stopped"


@dataclass(frozen=True, slots=True)
class RunnerUnavailable(Observation):
    """A pass of the runner failed because the database could not be reached; it is tried again."""

    name = "runner.unavailable"
    error: str


@dataclass(frozen=True, slots=True)
class RunnerFailed(Observation):
    """A pass of the runner failed for an unexpected reason; it is tried again."""

    name = "runner.failed"
    error: str


@dataclass(frozen=True, slots=True)
class SettingUnknown(Observation):
    """An environment variable is nearly that of a setting; `meant` is the setting's."""

    name = "setting.unknown"
    variable: str
    meant: str


@dataclass(frozen=True, slots=True)
class TokenCreated(Observation):
    """Somebody created a token; `bearer` is its name, `projects` what it reaches or the word `all`."""

    name = "token.created"
    token_id: str
    bearer: str
    role: str
    projects: Sequence[str] | str
    actor: str


@dataclass(frozen=True, slots=True)
class TokenRevoked(Observation):
    """Somebody revoked a token that was valid."""

    name = "token.revoked"
    token_id: str
    bearer: str
    actor: str


@dataclass(frozen=True, slots=True)
class AccessRefused(Observation):
    """A request was refused for want of a credential or a role.

    `path` is the route's, None for an unknown one: a stranger's path may hold a secret. `of` is the object named in
    the path, `why` the detail of the answer.
    """

    name = "access.refused"
    reason: str
    address: str
    actor: str | None
    method: str
    path: str | None
    of: str | None
    why: str


@dataclass(frozen=True, slots=True)
class AccessThrottled(Observation):
    """A request was refused unread: its address had failed to sign in too often."""

    name = "access.throttled"
    address: str
