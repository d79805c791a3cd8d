"""Verdict on one instant in a trigger's life, from revisions and records (U-03)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from reconcile.decide.in_force import RevisionPeriod, following, newest, period_at
from reconcile.report.audit import DecidedSpan, RecordedSkip
from reconcile.report.delays import PastHold, RunStart
from reconcile.schedule.fires import Fire, LeftOut, fires, left_out
from reconcile.schedule.ranges import MOMENT
from revisions.outcomes import HoldKind, RunSource, RunStatus

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
    """An instant in a trigger's life: the period it belongs to, the fire named there, and the nearest ones around it.

    `left_out` are wall times between those that do not fire; looked for only where the instant itself is not named.
    """

    at: datetime
    period: RevisionPeriod | None
    fire: Fire | None
    before: Fire | None
    after: Fire | None
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True, slots=True)
class Made:
    """A run, that of the occurrence or one by hand; `waits_for` is what keeps one that is pending from its start."""

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
    """A freeze or a blackout that is in force; one without an end lasts until somebody lifts it."""

    kind: HoldKind
    owner: str
    reason: str
    until: datetime | None


@dataclass(frozen=True, slots=True)
class QuarantineState:
    """That a trigger could not be decided, since when, until when it is left alone, and what went wrong."""

    since: datetime
    until: datetime
    error: str


@dataclass(frozen=True, slots=True)
class Obstacles:
    """What may keep a trigger from being decided; `asked_at` is the next fire that a run asked for (S-08), `late` how
    much later than its nominal times it fires (S-12). `denied` is why it may start nothing (X-15)."""

    hold: HoldInForce | None = None
    quarantine: QuarantineState | None = None
    asked_at: datetime | None = None
    rate_waiting_since: datetime | None = None
    late: timedelta = timedelta(0)
    denied: str | None = None


@dataclass(frozen=True, slots=True)
class InstantFacts:
    """How far the trigger is decided, and what was recorded of the occurrence asked for.

    `started` is how many scheduled ones had started before it, since the baseline. `stood` are the freezes and
    blackouts that were in force meanwhile, oldest first.
    """

    trigger: str
    now: datetime
    standing: DecidedSpan
    started: int = 0
    obstacles: Obstacles = Obstacles()
    run: Made | None = None
    skip: RecordedSkip | None = None
    stood: Sequence[PastHold] = ()


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
