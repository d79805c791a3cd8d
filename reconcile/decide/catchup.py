"""What to do with everything undecided: which occurrences start now, which never, which are caught up later (L-06)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from reconcile.decide import blackouts, concurrency
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
"""What one pass starts of a blackout's deferred occurrences; the next pass goes on."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What deciding depends on beside the trigger's terms and its watermark.

    `live`: how many runs of it go on, as far as that matters (X-09). `affordable`: how many its budget still buys, None
    for any number (X-08). `wanted`: how many may start until `max_runs` can have succeeded, should all that goes on
    succeed; None for any number. `rate_waiting_since`: when an occurrence first was refused a token alone; what
    was live then and never starts is skipped with reason `rate`. `remaining`: how many may still start (S-07).
    `asked`: the next fire that a run asked for (S-08). `denied`: why the trigger may start nothing, None when it may
    (X-15).
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
    """What a trigger wants of this pass, each part with where the watermark stands once it is decided.

    `skips` are decided whatever happens; `starts` each want a token, in this order; `then` is decided only when every
    start is. `backlog` is a missed range (after, until] that is stored to be drained. `ahead` is the first occurrence
    after the watermark, where planning came by it. `held_until` is the end of the blackout that defers everything;
    `is_asked` says that this decides the fire that a run asked for.
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
        """The part of the plan that this many tokens decide."""
        if tokens >= len(self.starts):
            return self
        started = self.starts[:tokens]
        watermark = started[-1].at if started else self.base
        return replace(
            self, starts=started, then=(), ahead=None, watermark=watermark, is_asked=self.is_asked and tokens > 0
        )

    def limited(self, remaining: int | None) -> "CatchupPlan":
        """The plan with no more starts than may still start."""
        if remaining is None or len(self.starts) <= remaining:
            return self
        return replace(self, starts=self.starts[:remaining], ahead=None)


def plan(terms: Terms, watermark: datetime, at: Situation) -> CatchupPlan:
    """Decides (watermark, now] by the trigger's catch-up policy, blackouts considered.

    They cut it into pieces; where one starts something, what comes after that piece is left to the next pass.
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
    """The next part of a backlog (cursor, until], oldest first, at most `limit` occurrences; what lies before the
    window is given up (L-06). Costs as much as the limit, however long the backlog is (L-08)."""
    if at.remaining == 0:
        return _decided(until, *span(terms.schedule, cursor, until, OccurrenceOutcome.MISSED, SkipReason.COUNT))
    if blackouts.held_until(at.blackouts, at.now):
        return _decided(cursor)
    if at.denied is not None:
        return _decided(until, *span(terms.schedule, cursor, until, OccurrenceOutcome.DENIED, at.denied))
    edge = at.now - terms.spec.catchup.window - MOMENT if terms.spec.catchup.window else cursor
    base = min(max(cursor, edge), until)
    given_up = span(terms.schedule, cursor, base, OccurrenceOutcome.MISSED)
    if terms.overlap in concurrency.DISPLACING:
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
    """Of a backlog whose runs would displace each other only the newest starts, and never in place of one after it."""
    newest = last(terms.schedule, base, until)
    if newest is None or at.live:
        return _decided(until, *given_up, *span(terms.schedule, base, until, OccurrenceOutcome.CONCURRENCY))
    older = span(terms.schedule, base, newest.at - MOMENT, OccurrenceOutcome.CONCURRENCY)
    return _starting(terms, at, [newest], before=given_up, base=base, watermark=until, older=older)


def _decided(watermark: datetime, *skips: Range, ahead: Fire | None = None) -> CatchupPlan:
    """Nothing starts."""
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
    """What is wanted starts as far as the overlap policy lets it; `older` is skipped along with the last start."""
    if terms.overlap in concurrency.DISPLACING:
        older, wanted = (*older, *ranges.of(wanted[:-1], OccurrenceOutcome.CONCURRENCY)), wanted[-1:]
    beside = wanted[: concurrency.room(terms.overlap, at.live)]
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
    """Policies `latest` and `none`: of (watermark, end] one starts at most, and none when something newer will."""
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
    """Whether something newer will start: an occurrence after `end` that no blackout drops."""
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
    """Policy `all`: every live one starts, the missed range becomes a backlog."""
    schedule = terms.schedule
    edge = min(max(watermark, at.now - at.live_grace - MOMENT), end)
    newest_missed = last(schedule, watermark, edge) if edge > watermark else None
    backlog = (watermark, newest_missed.at) if newest_missed else None
    live = fires(schedule, edge, end, limit=int(at.live_grace.total_seconds()) + 2)
    return _starting(terms, at, live, base=edge, watermark=end, backlog=backlog)


def _after_blackout(
    terms: Terms, watermark: datetime, piece: BlackoutSpan, over: Blackout, at: Situation
) -> CatchupPlan | None:
    """What a blackout that is over makes of the piece it covered; None where that is left to the catch-up policy."""
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
    """Nothing starts, and each occurrence says why; the fire that a run asked for is one of them."""
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
    """The fire that a run asked for stands in for the schedule's until it is decided (S-08)."""
    if asked.at > at.now:
        return _decided(watermark, ahead=asked)
    end = max(watermark, asked.at - MOMENT)
    before = span(terms.schedule, watermark, end, OccurrenceOutcome.SUPERSEDED, SkipReason.NEXT_FIRE_AT)
    if terms.spec.catchup.policy is CatchupPolicy.NONE and asked.at < at.now - at.live_grace:
        return replace(_decided(end, *before, *ranges.of([asked], OccurrenceOutcome.MISSED)), is_asked=True)
    return replace(_starting(terms, at, [asked], before=before, base=end, watermark=end), is_asked=True)
