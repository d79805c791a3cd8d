"""Verdict on one instant in a trigger's life, and the sentences about what delayed a run (U-03).

A delay between a run's creation and its start is recorded only for approvals and freezes, so nothing else is named.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from reconcile.decide.admission import ONE_AT_A_TIME
from reconcile.decide.in_force import RevisionPeriod, following, newest, period_at
from reconcile.report.audit import DecidedSpan, RecordedSkip
from reconcile.report.wording import at_text, because, span_text
from reconcile.schedule.fires import Fire, LeftOut, fires, left_out
from reconcile.schedule.ranges import MOMENT
from revisions.ids import utc_text
from revisions.outcomes import HoldKind, RunSource, RunStatus

A_WHILE: Final = timedelta(seconds=5)
"""Delay up to which a start or a decision counts as on time."""
HOLDS_SHOWN: Final = 5
"""Maximum number of freezes and blackouts named; the newest are chosen."""


@dataclass(frozen=True, slots=True)
class PastHold:
    """Freeze or blackout that was in force; `until` is None if it still is."""

    kind: HoldKind
    owner: str
    reason: str
    since: datetime
    until: datetime | None

    def sentence(self) -> str:
        ended = f"to {at_text(self.until)}" if self.until else "on, and still is"
        return f"A {self.kind} by {self.owner} was in force from {at_text(self.since)} {ended}{because(self.reason)}."


@dataclass(frozen=True, slots=True)
class RunStart:
    """First start of a run, None if unknown, and its approval if one was required."""

    created_at: datetime
    started_at: datetime | None
    approved_at: datetime | None = None
    approved_by: str | None = None


def decided_late(past_holds: Iterable[PastHold], due_at: datetime, decided_at: datetime) -> Iterator[str]:
    """Yield a sentence for each hold that delayed the decision of an occurrence."""
    if decided_at - due_at > A_WHILE:
        yield from _hold_sentences(past_holds, due_at, decided_at)


def began_late(past_holds: Iterable[PastHold], run: RunStart) -> Iterator[str]:
    """Yield sentences that explain the delay between a run's creation and its start."""
    if run.approved_at is not None:
        waited = span_text(run.approved_at - run.created_at)
        yield f"It waited {waited} for an approval, which {run.approved_by} gave at {at_text(run.approved_at)}."
    if run.started_at is None:
        return
    could_begin = run.approved_at or run.created_at
    if run.started_at - could_begin > A_WHILE:
        since = "approved" if run.approved_at else "made"
        yield f"It began {span_text(run.started_at - could_begin)} after it was {since}, at {at_text(run.started_at)}."
        freezes = [hold for hold in past_holds if hold.kind == HoldKind.FREEZE]
        found = list(_hold_sentences(freezes, could_begin, run.started_at))
        yield from found or ["What it waited for is not recorded: a limit, a key, a run before it, or a worker."]


def _hold_sentences(past_holds: Iterable[PastHold], after: datetime, until: datetime) -> Iterator[str]:
    between = [hold for hold in past_holds if hold.since < until and (hold.until is None or after < hold.until)]
    yield from (hold.sentence() for hold in between[-HOLDS_SHOWN:])


@dataclass(frozen=True, slots=True)
class Obstruction:
    """Facts that can make a pending run wait: holder of its key, earlier run of its trigger, running count, freeze."""

    key_holder: str | None = None
    before: str | None = None
    of_trigger: int = 0
    of_task: int = 0
    over_budget_until: datetime | None = None
    frozen_by: str | None = None


@dataclass(frozen=True, slots=True)
class PendingRun:
    """Pending run and the limits on its start, from its current trigger and its task version."""

    available_at: datetime
    overlap: str
    serialize_key: str | None
    concurrency_limit: int | None
    task_limit: int | None


def waits_for(run: PendingRun, ahead: Obstruction, now: datetime) -> str:
    """Return the reason a pending run waits, empty if it only has to be claimed."""
    if ahead.frozen_by:
        return f"the end of the freeze by {ahead.frozen_by}"
    if run.available_at > now:
        return f"its next attempt, at {utc_text(run.available_at)}"
    if ahead.over_budget_until:
        return f"the next period of its budget, which begins at {utc_text(ahead.over_budget_until)}"
    if run.overlap in ONE_AT_A_TIME and ahead.before:
        return f"the end of run {ahead.before} of the same trigger (overlap {run.overlap})"
    if ahead.key_holder:
        return f"the end of run {ahead.key_holder}, which holds its serialize_key {run.serialize_key!r}"
    if run.concurrency_limit is not None and ahead.of_trigger >= run.concurrency_limit:
        return f"one of the {ahead.of_trigger} runs of its trigger to end (concurrency.limit {run.concurrency_limit})"
    if run.task_limit is not None and ahead.of_task >= run.task_limit:
        return f"one of the {ahead.of_task} runs of its task to end (its concurrency.limit {run.task_limit})"
    return ""


SHOWN = 10
"""Maximum number of suppressed wall times named between two fires."""


class Verdict(StrEnum):
    """Result for an instant."""

    NOT_THERE = "not_there"
    AHEAD = "ahead"
    INACTIVE = "inactive"
    NOT_NAMED = "not_named"
    OVER = "over"
    STARTED = "started"
    SKIPPED = "skipped"
    UNDECIDED = "undecided"
    NOT_KEPT = "not_kept"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class InstantView:
    """Instant in a trigger's life: its revision period, the fire at it, and the nearest fires around it.

    `left_out` are suppressed wall times between those fires, computed only if there is no fire at the instant.
    """

    at: datetime
    period: RevisionPeriod | None
    fire: Fire | None
    before: Fire | None
    after: Fire | None
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True, slots=True)
class Made:
    """Run of the occurrence, or one started by hand; `waits_for` is the reason a pending run has not started."""

    run_id: str
    source: RunSource
    actor: str
    scheduled_at: datetime
    began: RunStart
    status: RunStatus
    error: str | None
    is_by_hand: bool = False
    waits_for: str = ""


@dataclass(frozen=True, slots=True)
class HoldInForce:
    """Freeze or blackout in force; without `until` it lasts until it is lifted."""

    kind: HoldKind
    owner: str
    reason: str
    until: datetime | None


@dataclass(frozen=True, slots=True)
class QuarantineState:
    """Quarantine of a trigger that could not be decided: its start, its end and the error."""

    since: datetime
    until: datetime
    error: str


@dataclass(frozen=True, slots=True)
class Obstacles:
    """Facts that can keep a trigger from being decided.

    `asked_at` is the next fire that a run requested (S-08), `spread_offset` its delay by `spread` (S-12), `denied` the
    reason it may start nothing (X-15).
    """

    hold: HoldInForce | None = None
    quarantine: QuarantineState | None = None
    asked_at: datetime | None = None
    rate_waiting_since: datetime | None = None
    spread_offset: timedelta = timedelta(0)
    denied: str | None = None


@dataclass(frozen=True, slots=True)
class InstantFacts:
    """Facts about one occurrence: its record, and how far its trigger is decided.

    `started` counts the scheduled runs started before it since the baseline. `past_holds` are the freezes and blackouts
    in force meanwhile, oldest first.
    """

    trigger: str
    now: datetime
    standing: DecidedSpan
    started: int = 0
    obstacles: Obstacles = Obstacles()
    run: Made | None = None
    skip: RecordedSkip | None = None
    past_holds: Sequence[PastHold] = ()


def asked_for(periods: Sequence[RevisionPeriod], now: datetime) -> datetime:
    """Return the instant to explain if none is named: the newest occurrence, or else now."""
    found = newest(periods, now)
    return found.at if found else now


def look(periods: Sequence[RevisionPeriod], at: datetime) -> InstantView:
    """Evaluate the revisions at an instant. Raises Invalid for a spec that this release cannot read."""
    period = period_at(periods, at)
    fire = next(iter(fires(period.schedule, at - MOMENT, at, 1)), None) if period else None
    before, after = newest(periods, at - MOMENT), following(periods, at)
    out: tuple[LeftOut, ...] = ()
    if period and not fire:
        low, high = period.within(before.at if before else at, after.at if after else at)
        out = tuple(left_out(period.schedule, low, high, SHOWN))
    return InstantView(at, period, fire, before.fire if before else None, after.fire if after else None, out)


def verdict(instant: InstantView, facts: InstantFacts) -> Verdict:
    """Return the verdict on an instant."""
    period = instant.period
    if facts.run and (instant.fire or facts.run.is_by_hand):
        return Verdict.STARTED
    if period is None:
        return Verdict.NOT_THERE
    if instant.fire and facts.skip:
        return Verdict.SKIPPED
    if not period.counts:
        return Verdict.INACTIVE
    if instant.at > facts.now:
        return Verdict.AHEAD
    if not instant.fire:
        return Verdict.NOT_NAMED
    if period.terms.count is not None and facts.started >= period.terms.count:
        return Verdict.OVER
    if not (period.is_closed or facts.standing.decided(instant.at)):
        return Verdict.UNDECIDED
    return Verdict.NOT_KEPT if facts.standing.forgotten(instant.at) else Verdict.MISSING
