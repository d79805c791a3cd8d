"""Catch-up: divides all undecided occurrences into starts, skips and a backlog (L-06)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from reconcile.decide import admission, blackouts
from reconcile.decide.blackouts import Blackout, BlackoutSpan
from reconcile.decide.terms import Terms
from reconcile.schedule import ranges
from reconcile.schedule.definition import Schedule
from reconcile.schedule.fires import Fire, fires, last
from reconcile.schedule.ranges import (
    MOMENT,
    Range,
    span,
)
from revisions.outcomes import HoldMode, OccurrenceOutcome, SkipReason
from revisions.spec.trigger import CatchupPolicy

MOST_DEFERRED = 500
"""Maximum number of deferred occurrences of a blackout that one pass starts; the next pass continues."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Facts that a decision depends on besides the trigger's terms and its watermark.

    `live` is the number of live runs, counted as far as it matters (X-09). `affordable` is the number of runs that the
    budget pays for and `wanted` the number that may start before `max_runs` can be reached, both None for no limit
    (X-08). `rate_waiting_since` is the instant at which an occurrence first got no token; occurrences that were live
    then and never start are skipped with reason `rate`. `remaining` is the number of starts left of `count` (S-07).
    `asked` is the next fire requested by a run (S-08). `denied` is the reason why the trigger may start nothing, None
    if it may (X-15).
    """

    now: datetime
    live_grace: timedelta
    live: int = 0
    affordable: int | None = None
    wanted: int | None = None
    rate_waiting_since: datetime | None = None
    remaining: int | None = None
    asked: Fire | None = None
    blackouts: tuple[Blackout, ...] = ()
    denied: str | None = None


@dataclass(frozen=True, slots=True)
class CatchupPlan:
    """Decision of one pass for one trigger, with the watermark after each part.

    `skips` are recorded in any case. `starts` need one token each, in this order. `then` is recorded only if every
    start got a token. `backlog` is a missed range (after, until] that is stored for later. `ahead` is the first
    occurrence after the watermark, if planning computed it. `held_until` is the end of the blackout that defers the
    decision. `is_asked` is true when the plan decides the fire that a run requested.
    """

    skips: tuple[Range, ...]
    base: datetime
    starts: tuple[Fire, ...]
    then: tuple[Range, ...]
    watermark: datetime
    backlog: tuple[datetime, datetime] | None = None
    ahead: Fire | None = None
    held_until: datetime | None = None
    is_asked: bool = False

    def granted(self, tokens: int) -> "CatchupPlan":
        """Return the part of the plan that this many tokens can decide."""
        if tokens >= len(self.starts):
            return self
        started = self.starts[:tokens]
        watermark = started[-1].at if started else self.base
        return replace(
            self, starts=started, then=(), ahead=None, watermark=watermark, is_asked=self.is_asked and tokens > 0
        )

    def limited(self, remaining: int | None) -> "CatchupPlan":
        """Return the plan with at most `remaining` starts."""
        if remaining is None or len(self.starts) <= remaining:
            return self
        return replace(self, starts=self.starts[:remaining], ahead=None)


def plan(terms: Terms, watermark: datetime, at: Situation) -> CatchupPlan:
    """Decide (watermark, now] by the trigger's catch-up policy and its blackouts.

    Blackouts cut the time into pieces. After a piece in which something starts, the rest is left to the next pass.
    """
    skips: tuple[Range, ...] = ()
    while True:
        made = _piece(terms, watermark, at)
        if made.starts or made.backlog or made.is_asked or made.watermark in (watermark, at.now):
            return replace(made, skips=(*skips, *made.skips)) if skips else made
        skips, watermark = (*skips, *made.skips), made.watermark


def _piece(terms: Terms, watermark: datetime, at: Situation) -> CatchupPlan:
    if watermark >= at.now:
        return _decided(watermark)
    if at.remaining == 0:
        return _decided(at.now)
    if held_until := blackouts.held_until(at.blackouts, at.now):
        return replace(_decided(watermark), held_until=held_until)
    if at.denied is not None:
        return _denied(terms, watermark, at, at.denied)
    if at.asked:
        return _asked(terms, watermark, at.asked, at)
    piece = blackouts.piece(at.blackouts, watermark, at.now)
    if piece.blackout and (made := _after_blackout(terms, watermark, piece, piece.blackout, at)):
        return made.limited(at.remaining)
    decide = _all if terms.spec.catchup.policy is CatchupPolicy.ALL else _newest
    return decide(terms, watermark, piece.until, at).limited(at.remaining)


def drain(terms: Terms, cursor: datetime, until: datetime, limit: int, at: Situation) -> CatchupPlan:
    """Decide the next part of a backlog (cursor, until], oldest first, at most `limit` occurrences.

    Occurrences older than the catch-up window are given up (L-06). The work depends on the limit, not on the backlog
    (L-08).
    """
    if at.remaining == 0:
        return _decided(until, *span(terms.schedule, cursor, until, OccurrenceOutcome.MISSED, SkipReason.COUNT))
    if blackouts.held_until(at.blackouts, at.now):
        return _decided(cursor)
    if at.denied is not None:
        return _decided(until, *span(terms.schedule, cursor, until, OccurrenceOutcome.DENIED, at.denied))
    edge = at.now - terms.spec.catchup.window - MOMENT if terms.spec.catchup.window else cursor
    base = min(max(cursor, edge), until)
    given_up = span(terms.schedule, cursor, base, OccurrenceOutcome.MISSED)
    if terms.overlap in admission.DISPLACING:
        return _drain_newest(terms, base, until, at, given_up)
    if 0 in (at.affordable, at.wanted):
        return _decided(cursor)
    most = min(most for most in (limit, at.remaining, at.affordable, at.wanted) if most is not None)
    wanted = fires(terms.schedule, base, until, most)
    watermark = until if len(wanted) < most else wanted[-1].at
    return _starting(terms, at, wanted, before=given_up, base=base, watermark=watermark)


def _drain_newest(
    terms: Terms, base: datetime, until: datetime, at: Situation, given_up: tuple[Range, ...]
) -> CatchupPlan:
    """Start only the newest occurrence of a backlog whose runs would displace each other, and only if none is live."""
    newest = last(terms.schedule, base, until)
    if newest is None or at.live:
        return _decided(until, *given_up, *span(terms.schedule, base, until, OccurrenceOutcome.CONCURRENCY))
    older = span(terms.schedule, base, newest.at - MOMENT, OccurrenceOutcome.CONCURRENCY)
    return _starting(terms, at, [newest], before=given_up, base=base, watermark=until, older=older)


def _decided(watermark: datetime, *skips: Range, ahead: Fire | None = None) -> CatchupPlan:
    """Return a plan that starts nothing."""
    return CatchupPlan(skips, watermark, (), (), watermark, ahead=ahead)


def _starting(
    terms: Terms,
    at: Situation,
    wanted: Sequence[Fire],
    *,
    base: datetime,
    watermark: datetime,
    before: tuple[Range, ...] = (),
    older: tuple[Range, ...] = (),
    **more: Any,
) -> CatchupPlan:
    """Return a plan that starts as many occurrences as the overlap policy allows; `older` is skipped with the last
    start.
    """
    if terms.overlap in admission.DISPLACING:
        older, wanted = (*older, *ranges.of(wanted[:-1], OccurrenceOutcome.CONCURRENCY)), wanted[-1:]
    beside = wanted[: admission.room(terms.overlap, at.live)]
    lacking = beside[: at.wanted]
    starts = tuple(lacking[: at.affordable])
    left = (
        *older,
        *ranges.of(lacking[len(starts) :], OccurrenceOutcome.BUDGET),
        *ranges.of(beside[len(lacking) :], OccurrenceOutcome.CONCURRENCY, SkipReason.MAX_RUNS),
        *ranges.of(wanted[len(beside) :], OccurrenceOutcome.CONCURRENCY),
    )
    if not starts:
        return CatchupPlan((*before, *left), watermark, (), (), watermark, **more)
    return CatchupPlan(before, base, starts, left, watermark, **more)


def _newest(terms: Terms, watermark: datetime, end: datetime, at: Situation) -> CatchupPlan:
    """Apply policy `latest` or `none`: start at most the newest occurrence of (watermark, end], unless a later one
    starts.
    """
    schedule = terms.schedule
    first, *rest = fires(schedule, watermark, None, 2) or (None,)
    if first is None or first.at > end:
        return _decided(end, ahead=first if end == at.now else None)
    ahead = rest[0] if rest and rest[0].at > end and end == at.now else None
    newest = first if ahead or not rest else last(schedule, watermark, end)
    assert newest is not None
    oldest_allowed = (
        at.now - terms.spec.catchup.window
        if terms.spec.catchup.policy is CatchupPolicy.LATEST and terms.spec.catchup.window
        else None
    )
    if terms.spec.catchup.policy is CatchupPolicy.NONE:
        oldest_allowed = at.now - at.live_grace
    if (oldest_allowed is not None and newest.at < oldest_allowed) or _is_outdone(terms, end, at):
        return _decided(end, *_missed(schedule, watermark, end, at))
    older = _missed(schedule, watermark, newest.at - MOMENT, at) if newest is not first else ()
    return _starting(terms, at, [newest], base=watermark, watermark=end, older=older, ahead=ahead)


def _is_outdone(terms: Terms, end: datetime, at: Situation) -> bool:
    """Return true when a later occurrence will start: one after `end` that no blackout drops."""
    while end < at.now:
        piece = blackouts.piece(at.blackouts, end, at.now)
        drops = piece.blackout is not None and piece.blackout.mode == HoldMode.DROP
        if not drops and fires(terms.schedule, end, piece.until, 1):
            return True
        end = piece.until
    return False


def _missed(schedule: Schedule, after: datetime, until: datetime, at: Situation) -> tuple[Range, ...]:
    limited = at.rate_waiting_since - at.live_grace if at.rate_waiting_since else None
    if limited is None or limited >= until:
        return span(schedule, after, until, OccurrenceOutcome.MISSED)
    edge = max(after, limited)
    return (
        *span(schedule, after, edge, OccurrenceOutcome.MISSED),
        *span(schedule, edge, until, OccurrenceOutcome.MISSED, SkipReason.RATE),
    )


def _all(terms: Terms, watermark: datetime, end: datetime, at: Situation) -> CatchupPlan:
    """Apply policy `all`: start every live occurrence and store the missed range as a backlog."""
    schedule = terms.schedule
    edge = min(max(watermark, at.now - at.live_grace - MOMENT), end)
    newest_missed = last(schedule, watermark, edge) if edge > watermark else None
    backlog = (watermark, newest_missed.at) if newest_missed else None
    live = fires(schedule, edge, end, limit=int(at.live_grace.total_seconds()) + 2)
    return _starting(terms, at, live, base=edge, watermark=end, backlog=backlog)


def _after_blackout(
    terms: Terms, watermark: datetime, piece: BlackoutSpan, over: Blackout, at: Situation
) -> CatchupPlan | None:
    """Decide the piece covered by a blackout that is over; None leaves it to the catch-up policy."""
    end, is_fresh = piece.until, at.now - blackouts.over_at(at.blackouts, over) <= at.live_grace
    if over.mode == HoldMode.DROP:
        return _decided(end, *span(terms.schedule, watermark, end, OccurrenceOutcome.BLACKOUT))
    if not is_fresh and terms.spec.catchup.policy is not CatchupPolicy.ALL:
        return None
    if over.mode == HoldMode.DEFER:
        if not is_fresh:
            return None
        wanted = fires(terms.schedule, watermark, end, MOST_DEFERRED)
        reached = end if len(wanted) < MOST_DEFERRED else wanted[-1].at
        return _starting(terms, at, wanted, base=watermark, watermark=reached)
    newest = last(terms.schedule, watermark, end)
    if newest is None:
        return _decided(end)
    older = span(terms.schedule, watermark, newest.at - MOMENT, OccurrenceOutcome.BLACKOUT)
    return _starting(terms, at, [newest], base=watermark, watermark=end, older=older)


def _denied(terms: Terms, watermark: datetime, at: Situation, why: str) -> CatchupPlan:
    """Skip every occurrence with the reason for the denial, including the fire that a run requested."""
    asked = at.asked
    if asked is None:
        return _decided(at.now, *span(terms.schedule, watermark, at.now, OccurrenceOutcome.DENIED, why))
    if asked.at > at.now:
        return _decided(watermark, ahead=asked)
    end = max(watermark, asked.at - MOMENT)
    before = span(terms.schedule, watermark, end, OccurrenceOutcome.SUPERSEDED, SkipReason.NEXT_FIRE_AT)
    later = span(terms.schedule, end, at.now, OccurrenceOutcome.DENIED, why)
    return replace(_decided(at.now, *before, *ranges.of([asked], OccurrenceOutcome.DENIED, why), *later), is_asked=True)


def _asked(terms: Terms, watermark: datetime, asked: Fire, at: Situation) -> CatchupPlan:
    """Decide the fire that a run requested; it replaces the schedule until it is decided (S-08)."""
    if asked.at > at.now:
        return _decided(watermark, ahead=asked)
    end = max(watermark, asked.at - MOMENT)
    before = span(terms.schedule, watermark, end, OccurrenceOutcome.SUPERSEDED, SkipReason.NEXT_FIRE_AT)
    if terms.spec.catchup.policy is CatchupPolicy.NONE and asked.at < at.now - at.live_grace:
        return replace(_decided(end, *before, *ranges.of([asked], OccurrenceOutcome.MISSED)), is_asked=True)
    return replace(_starting(terms, at, [asked], before=before, base=end, watermark=end), is_asked=True)
