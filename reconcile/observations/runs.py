"""Observations of runs and their attempts."""

from dataclasses import dataclass
from datetime import datetime

from reconcile.decide.attempt_ends import AttemptOutcome, Decision
from reconcile.observations.observation import Observation, RunObservation
from revisions.ids import TriggerKey
from revisions.outcomes import RunStatus

_WITH_SOURCE = ("trigger_id", "attempt", "source")


@dataclass(frozen=True, slots=True)
class RunFired(RunObservation):
    """Somebody fired a trigger by hand, and the run is stored."""

    name = "run.fired"
    logged = ()
    actor: str


@dataclass(frozen=True, slots=True)
class RunsBackfilled(Observation):
    """A batch of a backfill is stored; `number` counts its new runs."""

    name = "runs.backfilled"
    trigger: TriggerKey
    actor: str
    number: int


@dataclass(frozen=True, slots=True)
class RunRetriedByHand(RunObservation):
    """Somebody retried a run that had ended; `run` is the run before that, `ended_as` its status then."""

    name = "run.retried_by_hand"
    logged = ("attempt",)
    ended_as: RunStatus
    actor: str


@dataclass(frozen=True, slots=True)
class RunApproved(RunObservation):
    """Somebody approved a parked run."""

    name = "run.approved"
    logged = ()
    actor: str


@dataclass(frozen=True, slots=True)
class RunCancelRequested(RunObservation):
    """Somebody cancelled a run that had not ended; `run` is the run after the request."""

    name = "run.cancel_requested"
    logged = ("status",)
    actor: str


@dataclass(frozen=True, slots=True)
class RunExpired(RunObservation):
    """A run was not claimed by its `start_by` and ended as expired."""

    name = "run.expired"
    logged = _WITH_SOURCE


@dataclass(frozen=True, slots=True)
class WaitEnded(RunObservation):
    """A waiting run ended without an attempt: it expired, was cancelled or rejected, or gave way to a newer run.

    `run` has its final status; `at` is the instant at which it ended.
    """

    name = "wait.ended"
    at: datetime


@dataclass(frozen=True, slots=True)
class RunsClaimed(Observation):
    """A worker claimed `count` runs in one transaction of `seconds`; not emitted if there was nothing to claim."""

    name = "run.claimed"
    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LaunchTried(RunObservation):
    """A launcher was called for an attempt at `at` and returned after `seconds`; `error` is None on success."""

    name = "launch.tried"
    at: datetime
    seconds: float
    error: str | None


@dataclass(frozen=True, slots=True)
class RunStarted(RunObservation):
    """The launcher started an attempt."""

    name = "run.started"
    logged = _WITH_SOURCE


@dataclass(frozen=True, slots=True)
class RunAdopted(RunObservation):
    """A worker took over an attempt that another worker, or an earlier process, had started."""

    name = "run.adopted"


@dataclass(frozen=True, slots=True)
class RunLost(RunObservation):
    """A worker found a claim whose attempt no longer exists; it is settled as lost."""

    name = "run.lost"


@dataclass(frozen=True, slots=True)
class RunLeft(RunObservation):
    """The worker stops; the attempt goes on in another system, and the next worker takes it over."""

    name = "run.left"


@dataclass(frozen=True, slots=True)
class LeaseRenewed(Observation):
    """A worker renewed the leases of `count` attempts."""

    name = "lease.renewed"
    count: int


@dataclass(frozen=True, slots=True)
class RunCompleted(RunObservation):
    """A service reported the end of an attempt by its callback, and that was stored."""

    name = "run.completed"


@dataclass(frozen=True, slots=True)
class ClaimLost(RunObservation):
    """A report on an attempt was refused, because another worker holds the claim by now; nothing was changed."""

    name = "claim.lost"
    claim: int


@dataclass(frozen=True, slots=True)
class AttemptOver(RunObservation):
    """An attempt was to be settled but had been settled before, e.g. by its callback; nothing was changed."""

    name = "attempt.over"
    claim: int


@dataclass(frozen=True, slots=True)
class AttemptEnded(RunObservation):
    """The end of an attempt is stored, with the decision on what follows; emitted before the latter's observation.

    `run` is the run as it was claimed. `at` is the instant of the end, `seconds` the duration of the transaction.
    """

    name = "attempt.ended"
    outcome: AttemptOutcome
    error: str | None
    decision: Decision
    at: datetime
    seconds: float


@dataclass(frozen=True, slots=True)
class RunRetried(RunObservation):
    """An attempt failed, and another one follows at `at`."""

    name = "run.retried"
    logged = _WITH_SOURCE
    outcome: AttemptOutcome
    error: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class RunHandedBack(RunObservation):
    """A run went back to the queue without using an attempt, because its worker stops."""

    name = "run.handed_back"
    logged = _WITH_SOURCE


@dataclass(frozen=True, slots=True)
class RunSettled(RunObservation):
    """A run ended with its last attempt; `seconds` is from the start of that attempt to its end."""

    name = "run.settled"
    logged = _WITH_SOURCE
    status: RunStatus
    error: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class FireRequested(RunObservation):
    """A run requested its trigger's next fire; `at` is None if that was ignored, `note` names a correction (S-08)."""

    name = "fire.asked"
    at: datetime | None
    note: str | None


@dataclass(frozen=True, slots=True)
class SettleFailed(RunObservation):
    """The end of an attempt could not be stored; it is retried."""

    name = "settle.failed"
    error: str


@dataclass(frozen=True, slots=True)
class DeactivationFailed(RunObservation):
    """A trigger at a limit of its runs could not be deactivated; the scanner retries (L-16)."""

    name = "deactivation.failed"
    error: str


@dataclass(frozen=True, slots=True)
class WorkUnreadable(RunObservation):
    """The state or log of an attempt could not be read; the next pass retries."""

    name = "work.unreadable"
    error: str


@dataclass(frozen=True, slots=True)
class LogUnbounded(RunObservation):
    """The middle of a log could not be removed from its file, which therefore grows; emitted once per attempt."""

    name = "log.unbounded"
    error: str


@dataclass(frozen=True, slots=True)
class AttemptLeftBehind(RunObservation):
    """Processes, files or objects that an attempt left behind could not be removed."""

    name = "attempt.left_behind"
    error: str
