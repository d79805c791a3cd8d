"""Observations of the loop: its passes, its findings and the other replicas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from reconcile.decide.job_changes import JobChanges
from reconcile.observations.observation import Observation
from revisions.ids import TriggerKey
from revisions.outcomes import DeadlineKind
from revisions.store.backlogs import Backlog
from revisions.store.occurrences import Skip
from revisions.store.runs import NewRun


class PassKind(StrEnum):
    """A due pass decides due triggers, a catch-up pass starts runs from backlogs."""

    DUE = "due"
    CATCH_UP = "catch-up"


class FindingKind(StrEnum):
    """Kind of a scanner's finding.

    JOB: a job is missing, is of another revision, or belongs to no active trigger. OVERDUE: an occurrence is due and
    was not decided. CLAIM: a lease has lapsed and no runner took the run over. SUMMARY: a task's summary is wrong.
    LIMIT: a trigger is active though its runs have reached a limit. WATERMARK: a watermark lies ahead of now.
    """

    JOB = "job"
    OVERDUE = "overdue"
    CLAIM = "claim"
    SUMMARY = "summary"
    LIMIT = "limit"
    WATERMARK = "watermark"


@dataclass(frozen=True, slots=True)
class LoopResynced(Observation):
    """A resync has ended; `changes` were made to the jobs, and `jobs` is their number now."""

    name = "loop.resynced"
    changes: JobChanges
    jobs: int
    seconds: float


@dataclass(frozen=True, slots=True)
class FeedRead(Observation):
    """The loop read the change feed; `lag` is the age of the oldest new change, in seconds, 0 without one."""

    name = "feed.read"
    lag: float


@dataclass(frozen=True, slots=True)
class PassDecided(Observation):
    """A batch of triggers was decided and stored; emitted also if nothing was due.

    `at` is the instant of the pass, `seconds` the duration of its transaction. `made` are the new runs. `started`
    counts the starts decided, including those whose run existed already; `lateness` has `at` minus the scheduled
    instant of each, in seconds. `changes` has the traceparent of the change that made a trigger's revision, by
    trigger id. `waited` has the seconds that starts had waited for a rate token.
    """

    name = "pass.decided"
    kind: PassKind
    at: datetime
    seconds: float
    made: Sequence[NewRun]
    changes: Mapping[str, str]
    started: int
    lateness: Sequence[float]
    waited: Sequence[float]
    skips: Sequence[Skip]
    backlogs: Sequence[Backlog]


@dataclass(frozen=True, slots=True)
class TriggerQuarantined(Observation):
    """A trigger could not be decided and is in quarantine until an instant (L-13)."""

    name = "trigger.quarantined"
    trigger: TriggerKey | None
    trigger_id: str
    until: datetime
    error: str


@dataclass(frozen=True, slots=True)
class ClockJumped(Observation):
    """The database's clock jumped ahead; nothing is decided until a second resync sees the same time (L-12)."""

    name = "clock.jumped"
    now: datetime


@dataclass(frozen=True, slots=True)
class DemandSummed(Observation):
    """Starts per second that all active schedules ask for together, as far as they were read."""

    name = "demand.summed"
    asked: float


@dataclass(frozen=True, slots=True)
class DemandExceeded(Observation):
    """The demand is above 70 % of the rate limit `allowed`; emitted once each time it rises above (L-18)."""

    name = "demand.exceeded"
    asked: float
    allowed: float


@dataclass(frozen=True, slots=True)
class BudgetsSurveyed(Observation):
    """All budgets were read; `shares` has the highest share used of any trigger's budget, by project."""

    name = "budgets.surveyed"
    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class FaultFound(Observation):
    """The scanner found a fault; `subject` is the id of a trigger or a run, or the name of a task version (L-16)."""

    name = "scan.found"
    kind: FindingKind
    subject: str
    detail: str


@dataclass(frozen=True, slots=True)
class RecordsPruned(Observation):
    """A page of records past their retention was removed; `kind` is that of the sweep, e.g. `runs` (O-07)."""

    name = "records.pruned"
    kind: str
    number: int


@dataclass(frozen=True, slots=True)
class DeadlineMissed(Observation):
    """No run had succeeded by the deadline `due_at`; `kind` names the rule of `expect` (X-16)."""

    name = "trigger.deadline_missed"
    trigger: TriggerKey
    trigger_id: str
    kind: DeadlineKind
    due_at: datetime
    scheduled_at: datetime | None
    revision: int


@dataclass(frozen=True, slots=True)
class ExpectationUnreadable(Observation):
    """The deadlines of a trigger could not be judged, because its history cannot be read; retried later."""

    name = "expectation.unreadable"
    trigger: TriggerKey
    error: str


@dataclass(frozen=True, slots=True)
class ReplicasCounted(Observation):
    """A resync counted the processes that run the loop, this one included."""

    name = "replicas.counted"
    number: int


@dataclass(frozen=True, slots=True)
class TzdataChanged(Observation):
    """The first replica with another tz database has started; every trigger's next fire is computed anew (S-14)."""

    name = "tzdata.changed"
    before: str
    now: str


@dataclass(frozen=True, slots=True)
class TzdataDiffers(Observation):
    """Other replicas use other tz databases; emitted on change, with an empty `theirs` once all agree again."""

    name = "tzdata.differs"
    ours: str
    theirs: Sequence[str]


@dataclass(frozen=True, slots=True)
class LoopFailed(Observation):
    """A step of the loop failed and is retried; `unexpected` unless the database could not be reached."""

    name = "loop.failed"
    error: str
    unexpected: bool
