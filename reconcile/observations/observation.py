"""Base of all observations, the object that hands them to subscribers, and the observations of the process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol

from revisions.ids import TriggerKey
from revisions.store.runs import Run

Progress = Callable[[int, int], None]
"""Called now and then by a long operation with the number of items done and the total."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Base of the catalogue. `name` is the event name of log lines; it stays when a class is renamed."""

    name: ClassVar[str]

    def facts(self) -> dict[str, Any]:
        """Return the keys and values of a log line, in order; a key with the value None is left out of the line."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True)
class RunObservation(Observation):
    """Base of observations about one run.

    `trigger` is the name the trigger has now; None where it was not read. `logged` names the attributes of the run
    that its log line shows beside `run_id`.
    """

    logged: ClassVar[tuple[str, ...]] = ("trigger_id", "attempt")

    run: Run
    trigger: TriggerKey | None

    def facts(self) -> dict[str, Any]:
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in ("run", "trigger")}
        of_run = {attribute: getattr(self.run, attribute) for attribute in self.logged}
        return {"trigger": self.trigger, "run_id": self.run.id, **of_run, **own}


class Subscriber(Protocol):
    """Called with every observation, in the emitting thread; must be quick and must not raise."""

    def __call__(self, observation: Observation, /) -> None: ...


class Observations:
    """Hands each emitted observation to all subscribers."""

    def __init__(self) -> None:
        self._subscribers: tuple[Subscriber, ...] = ()

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Add a subscriber and return a function that removes it."""
        self._subscribers = (*self._subscribers, subscriber)

        def unsubscribe() -> None:
            self._subscribers = tuple(other for other in self._subscribers if other is not subscriber)

        return unsubscribe

    def emit(self, observation: Observation) -> None:
        """Call every subscriber with an observation."""
        for subscriber in self._subscribers:
            subscriber(observation)


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
