"""Observations of the loop: its passes, what it found, and the replicas it runs beside."""

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
    """A due pass decides what is due, a catch-up pass takes runs from backlogs."""

    DUE = "due"
    CATCH_UP = "catch-up"


class FindingKind(StrEnum):
    """What the scanner finds.

    JOB: a job that is missing, is of another revision or belongs to no active trigger. OVERDUE: an occurrence that is
    due and that nobody decided. CLAIM: a claim that nobody renews and no runner took over. SUMMARY: a task's summary
    that is wrong. LIMIT: a trigger that is active at a limit of its runs. WATERMARK: a watermark ahead of now.
    """

    JOB = "job"
    OVERDUE = "overdue"
    CLAIM = "claim"
    SUMMARY = "summary"
    LIMIT = "limit"
    WATERMARK = "watermark"


@dataclass(frozen=True, slots=True)
class LoopResynced(Observation):
    """A resync is over: `changes` were made to the jobs, `jobs` is their number now."""

    name = "loop.resynced"
    changes: JobChanges
    jobs: int
    seconds: float


@dataclass(frozen=True, slots=True)
class FeedRead(Observation):
    """The loop read the feed of changes; `lag` is the age of the oldest change that was new, in seconds."""

    name = "feed.read"
    lag: float


@dataclass(frozen=True, slots=True)
class PassDecided(Observation):
    """A batch of triggers is decided and stored, even where nothing came of it.

    `at` is the pass's now, `seconds` the duration of its transaction. `made` are the new runs, `started` counts the
    starts decided, those included whose run was there already; `lateness` is now minus the scheduled instant of each,
    in seconds. `changes` has the traceparent of the change that made a trigger's revision, by trigger id. `waited`
    is how long starts had waited for a rate token, in seconds.
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
    """A trigger could not be decided and is left alone until an instant (L-13)."""

    name = "trigger.quarantined"
    trigger: TriggerKey | None
    trigger_id: str
    until: datetime
    error: str


@dataclass(frozen=True, slots=True)
class ClockJumped(Observation):
    """The database's clock went further than it should have; nothing is decided until a second resync confirms it."""

    name = "clock.jumped"
    now: datetime


@dataclass(frozen=True, slots=True)
class DemandSummed(Observation):
    """Starts a second that all active schedules ask for together, as far as they are counted."""

    name = "demand.summed"
    asked: float


@dataclass(frozen=True, slots=True)
class DemandExceeded(Observation):
    """The demand has risen above a share of `allowed`, the rate limit; emitted once until it falls again."""

    name = "demand.exceeded"
    asked: float
    allowed: float


@dataclass(frozen=True, slots=True)
class BudgetsSurveyed(Observation):
    """All budgets were looked at; `shares` is the highest share used of a trigger's budget, by project."""

    name = "budgets.surveyed"
    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class FaultFound(Observation):
    """The scanner found a fault; `subject` is the id of a trigger or a run, or a task's name (L-16)."""

    name = "scan.found"
    kind: FindingKind
    subject: str
    detail: str


@dataclass(frozen=True, slots=True)
class RecordsPruned(Observation):
    """Records that had been kept long enough were removed; `kind` is that of the sweep, e.g. `runs` (O-07)."""

    name = "records.pruned"
    kind: str
    number: int


@dataclass(frozen=True, slots=True)
class DeadlineMissed(Observation):
    """No run had succeeded by a deadline; `kind` names the rule of `expect`, `due_at` is the deadline."""

    name = "trigger.deadline_missed"
    trigger: TriggerKey
    trigger_id: str
    kind: DeadlineKind
    due_at: datetime
    scheduled_at: datetime | None
    revision: int


@dataclass(frozen=True, slots=True)
class ExpectationUnreadable(Observation):
    """The deadlines of a trigger could not be judged; it is tried again later."""

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
    """The first replica with another tz database has started: every trigger's next fire is worked out anew."""

    name = "tzdata.changed"
    before: str
    now: str


@dataclass(frozen=True, slots=True)
class TzdataDiffers(Observation):
    """Replicas plan with other tz databases than this one; emitted on change, with none once all agree again."""

    name = "tzdata.differs"
    ours: str
    theirs: Sequence[str]


@dataclass(frozen=True, slots=True)
class LoopFailed(Observation):
    """A pass of the loop failed, and is tried again; `unexpected` unless the database could not be reached."""

    name = "loop.failed"
    error: str
    unexpected: bool
