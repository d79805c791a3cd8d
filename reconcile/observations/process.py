"""Observations of the process: start and end, failures of its runner, settings and access."""

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
    """A pass of the runner failed because the database could not be reached; it is retried."""

    name = "runner.unavailable"
    error: str


@dataclass(frozen=True, slots=True)
class RunnerFailed(Observation):
    """A pass of the runner failed for an unexpected reason; it is retried."""

    name = "runner.failed"
    error: str


@dataclass(frozen=True, slots=True)
class SettingUnknown(Observation):
    """An environment variable looks like a misspelt setting; `meant` is the name of the setting."""

    name = "setting.unknown"
    variable: str
    meant: str


@dataclass(frozen=True, slots=True)
class TokenCreated(Observation):
    """Somebody created a token; `bearer` is its name, `projects` those it may use, or the word `all`."""

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
    """A request was refused because it lacks a credential or a role.

    `path` is the route's template, None for an unknown route, because a path as sent may contain a secret. `of` is the
    object named in the path, `why` the detail of the answer.
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
    """A request was refused without reading it, because its address had failed to sign in too often."""

    name = "access.throttled"
    address: str
