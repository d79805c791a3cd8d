"""Audit: one line per occurrence with its result (U-07)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from heapq import merge
from itertools import groupby
from operator import attrgetter

from reconcile.decide.in_force import Named, RevisionPeriod, named, period_at
from reconcile.schedule.fires import SCHEDULED_PREFIXES
from reconcile.schedule.ranges import DROPPED, MOMENT
from revisions.outcomes import OccurrenceOutcome

DELETED, DEACTIVATED = "deleted", "deactivated"
NOT_NAMED = "no revision then in force names it"
NOT_ACTIVE = "the trigger was inactive then"
TWICE = "decided twice"


class AuditResult(StrEnum):
    """Result for an occurrence; the last two are faults."""

    ON_TIME = "on_time"
    LATE = "late"
    SKIPPED = "skipped"
    INACTIVE = "inactive"
    UNDECIDED = "undecided"
    NOT_KEPT = "not_kept"
    MISSING = "missing"
    UNEXPECTED = "unexpected"


FAULTS = (AuditResult.MISSING, AuditResult.UNEXPECTED)


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run; `by_hand` is one that a person asked for, under a scheduled occurrence's id too (a backfill)."""

    at: datetime
    occurrence_id: str
    created_at: datetime
    revision: int
    run_id: str
    by_hand: bool = False


@dataclass(frozen=True, slots=True)
class RecordedSkip:
    """A recorded skip of all that the schedule names from `at` to `until`, both included."""

    at: datetime
    occurrence_id: str
    until: datetime
    decided_at: datetime
    revision: int
    outcome: OccurrenceOutcome
    reason: str


@dataclass(frozen=True, slots=True)
class DecidedSpan:
    """Decided time of a trigger: all up to the watermark except the backlogs, (after, until] each.

    Records up to `forgotten_until` may have been pruned (O-07).
    """

    watermark: datetime
    backlogs: Sequence[tuple[datetime, datetime]] = ()
    forgotten_until: datetime | None = None

    def decided(self, at: datetime) -> bool:
        return at <= self.watermark and not any(after < at <= until for after, until in self.backlogs)

    def forgotten(self, at: datetime) -> bool:
        return self.forgotten_until is not None and at <= self.forgotten_until


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One occurrence and what became of it.

    `revision` is the one in force then, of an unexpected record its own; `outcome` is that of a skip; `reason` says
    more about a skip, inactive time and what is unexpected; `decided_at` is when the run or the skip came to be.
    """

    at: datetime
    occurrence_id: str
    kind: AuditResult
    revision: int
    outcome: OccurrenceOutcome | None = None
    reason: str = ""
    run_id: str | None = None
    decided_at: datetime | None = None


@dataclass(slots=True)
class AuditSummary:
    """Number of lines by result, and of skips by (outcome, reason)."""

    kinds: Counter[AuditResult] = field(default_factory=Counter)
    skips: Counter[tuple[OccurrenceOutcome, str]] = field(default_factory=Counter)

    def add(self, line: AuditLine) -> None:
        self.kinds[line.kind] += 1
        if line.kind is AuditResult.SKIPPED and line.outcome:
            self.skips[line.outcome, line.reason] += 1

    @property
    def is_clean(self) -> bool:
        """Nothing is missing, nothing happened twice, and everything is explained."""
        return not any(self.kinds[kind] for kind in FAULTS)


_Found = Named | RecordedRun | RecordedSkip


def lines(
    periods: Sequence[RevisionPeriod],
    standing: DecidedSpan,
    after: datetime,
    until: datetime,
    runs: Iterable[RecordedRun],
    skips: Sequence[RecordedSkip],
    *,
    grace: timedelta,
    started: int = 0,
) -> Iterator[AuditLine]:
    """The occurrences of (after, until], ascending by instant and id; a run created later than `grace` is late.

    `runs` are those scheduled in that time, `skips` those that reach into it, both in order of time; `started` is how
    many scheduled ones there were before, since the baseline that holds at `after` (S-07). Work and memory grow with
    what is in it: three ordered streams are merged, and only skipped ranges are kept while they last.
    """
    open_ranges = [skip for skip in skips if skip.at <= after and _is_scheduled(skip)]
    starts = _Starts(period_at(periods, after + MOMENT), started)
    inside = [skip for skip in skips if after < skip.at]
    streams: tuple[Iterable[_Found], ...] = (named(periods, after, until), runs, inside)
    for at, group in groupby(merge(*streams, key=attrgetter("at")), key=attrgetter("at")):
        moment = _moment(group)
        open_ranges = [left for left in open_ranges if left.until >= at]
        if moment.named is not None:
            open_ranges += [left for left in moment.skips if left.occurrence_id == moment.named.fire.id]
            starts.enter(moment.named.period)
        found = _judged(moment, open_ranges, standing, grace)
        yield from sorted((line for line in found if not starts.leave_out(line)), key=attrgetter("occurrence_id"))
        starts.number += moment.scheduled


@dataclass(slots=True)
class _Moment:
    """Records and fire of one instant; revision periods do not overlap, so there is at most one fire."""

    named: Named | None = None
    scheduled: int = 0
    runs: list[RecordedRun] = field(default_factory=list)
    skips: list[RecordedSkip] = field(default_factory=list)


@dataclass(slots=True)
class _Starts:
    """Number of scheduled starts since the baseline; after `count` no more are expected (S-07)."""

    period: RevisionPeriod | None
    number: int

    def enter(self, period: RevisionPeriod) -> None:
        if self.period is None or self.period.baseline != period.baseline:
            self.number = 0
        self.period = period

    def leave_out(self, line: AuditLine) -> bool:
        """Return true when no run was expected because `count` was used up."""
        if line.kind not in (AuditResult.MISSING, AuditResult.UNDECIDED, AuditResult.NOT_KEPT):
            return False
        most = self.period.terms.count if self.period else None
        return most is not None and self.number >= most


def _moment(group: Iterable[_Found]) -> _Moment:
    moment = _Moment()
    for one in group:
        if isinstance(one, RecordedRun) and not one.by_hand:
            moment.scheduled += 1
        match one:
            case Named():
                moment.named = one
            case RecordedRun() if _is_scheduled(one):
                moment.runs.append(one)
            case RecordedSkip() if _is_scheduled(one):
                moment.skips.append(one)
    return moment


def _judged(
    moment: _Moment, covering: Sequence[RecordedSkip], standing: DecidedSpan, grace: timedelta
) -> Iterator[AuditLine]:
    """The lines of an instant; what a person started is never unexpected, and what one id stands for is one line."""
    expected = moment.named
    own_id = expected.fire.id if expected else None
    records: list[RecordedRun | RecordedSkip] = [*(run for run in moment.runs if not run.by_hand), *moment.skips]
    strangers = [record for record in records if record.occurrence_id != own_id]
    yield from {stranger.occurrence_id: _unexpected(stranger, NOT_NAMED) for stranger in strangers}.values()
    if expected is None:
        return
    run = next((run for run in moment.runs if run.occurrence_id == own_id), None)
    if expected.period.counts:
        yield _counted(expected, run, covering, standing, grace)
    else:
        yield _asleep(expected, run, next((left for left in moment.skips if left.occurrence_id == own_id), None))


def _counted(
    expected: Named, run: RecordedRun | None, covering: Sequence[RecordedSkip], standing: DecidedSpan, grace: timedelta
) -> AuditLine:
    """An occurrence that had to be decided.

    What is given up as a whole goes from the first that was undecided to the last; what was decided in between stays
    so, and is no part of it.
    """
    own = [
        left
        for left in covering
        if left.outcome != OccurrenceOutcome.SUPERSEDED and not left.reason.startswith(DROPPED)
    ]
    scheduled = run if run and not run.by_hand else None
    left = next(iter(own or covering), None)
    at, id, revision = expected.at, expected.fire.id, expected.period.trigger.revision
    if len(own) + (scheduled is not None) > 1 or len(covering) - len(own) > 1:
        assert left is not None
        started = scheduled.run_id if scheduled else None
        return AuditLine(at, id, AuditResult.UNEXPECTED, revision, left.outcome, TWICE, started, left.decided_at)
    if run and (scheduled or not left):
        kind = AuditResult.LATE if run.created_at - at - expected.period.delay > grace else AuditResult.ON_TIME
        return AuditLine(at, id, kind, revision, run_id=run.run_id, decided_at=run.created_at)
    if not own and left and left.until > left.at and standing.forgotten(at):
        return AuditLine(at, id, AuditResult.NOT_KEPT, revision)  # what was decided in between may be gone
    if left:
        later = run.run_id if run else None
        return AuditLine(at, id, AuditResult.SKIPPED, revision, left.outcome, left.reason, later, left.decided_at)
    if not expected.period.is_closed and not standing.decided(at):
        return AuditLine(at, id, AuditResult.UNDECIDED, revision)
    return AuditLine(at, id, AuditResult.NOT_KEPT if standing.forgotten(at) else AuditResult.MISSING, revision)


def _asleep(expected: Named, run: RecordedRun | None, left: RecordedSkip | None) -> AuditLine:
    """A time that the schedule of an inactive trigger names: no occurrence, so that nothing may have come of it."""
    if run and not run.by_hand:
        return _unexpected(run, NOT_ACTIVE)
    if left:
        return _unexpected(left, NOT_ACTIVE)
    trigger = expected.period.trigger
    reason = DELETED if trigger.deleted else DEACTIVATED
    run_id, created_at = (run.run_id, run.created_at) if run else (None, None)
    kind = AuditResult.INACTIVE
    return AuditLine(expected.at, expected.fire.id, kind, trigger.revision, None, reason, run_id, created_at)


def _unexpected(record: RecordedRun | RecordedSkip, reason: str) -> AuditLine:
    at, id, kind = record.at, record.occurrence_id, AuditResult.UNEXPECTED
    match record:
        case RecordedRun():
            return AuditLine(at, id, kind, record.revision, None, reason, record.run_id, record.created_at)
        case RecordedSkip():
            return AuditLine(at, id, kind, record.revision, record.outcome, reason, None, record.decided_at)


def _is_scheduled(record: RecordedRun | RecordedSkip) -> bool:
    return record.occurrence_id.startswith(SCHEDULED_PREFIXES)
