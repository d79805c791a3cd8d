"""What to do with everything undecided: which occurrences start now, which never, which are caught up later (L-06)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from reconcile.rules.block import Schedule
from reconcile.rules.schedule import Fire, count, fires, last
from reconcile.rules.terms import Terms

COUNTED = 1_000
"""Up to here a skipped range's count is exact."""
MOMENT = timedelta(microseconds=1)
"""Instants are that fine, so a range that ends one before another excludes it."""
MISSED, SUPERSEDED, CONCURRENCY = "missed", "superseded", "concurrency"
RATE = "rate"


@dataclass(frozen=True, slots=True)
class Range:
    """Occurrences that become no run, named by their first; `count` is None above 1,000."""

    first: Fire
    until: datetime
    count: int | None
    outcome: str
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a trigger wants of this pass, each part with where the watermark stands once it is decided.

    `skips` are decided whatever happens; `starts` each want a token, in this order; `then` is decided only when every
    start is. `backlog` is a missed range (after, until] that is stored to be drained. `ahead` is the first occurrence
    after the watermark, where planning came by it.
    """

    skips: tuple[Range, ...]
    base: datetime
    starts: tuple[Fire, ...]
    then: tuple[Range, ...]
    watermark: datetime
    backlog: tuple[datetime, datetime] | None = None
    ahead: Fire | None = None

    def granted(self, tokens: int) -> "Plan":
        """The part of the plan that this many tokens decide."""
        if tokens >= len(self.starts):
            return self
        started = self.starts[:tokens]
        return replace(self, starts=started, then=(), ahead=None, watermark=started[-1].at if started else self.base)


def plan(
    terms: Terms,
    watermark: datetime,
    now: datetime,
    live_grace: timedelta,
    *,
    busy: bool = False,
    rate_waiting_since: datetime | None = None,
) -> Plan:
    """Decides (watermark, now] by the trigger's catch-up policy; `busy` says that a run of it goes on (X-09).

    `rate_waiting_since` is when an occurrence first was refused a token alone: what was live then and never starts
    is skipped with reason `rate`.
    """
    if watermark >= now:
        return Plan((), watermark, (), (), watermark)
    if terms.policy == "all":
        return _all(terms, watermark, now, live_grace, busy)
    return _newest(terms, watermark, now, live_grace, busy, rate_waiting_since)


def _newest(
    terms: Terms, watermark: datetime, now: datetime, live_grace: timedelta, busy: bool, waiting_since: datetime | None
) -> Plan:
    schedule = terms.schedule
    first, *rest = fires(schedule, watermark, None, 2) or (None,)
    if first is None or first.at > now:
        return Plan((), now, (), (), now, ahead=first)
    ahead = rest[0] if rest and rest[0].at > now else None
    newest = first if ahead or not rest else last(schedule, watermark, now)
    assert newest is not None
    oldest_allowed = now - terms.window if terms.policy == "latest" and terms.window else None
    if terms.policy == "none":
        oldest_allowed = now - live_grace
    limited = waiting_since - live_grace if waiting_since else None
    if oldest_allowed is not None and newest.at < oldest_allowed:
        return Plan(_missed(schedule, watermark, now, limited), now, (), (), now)
    older = _missed(schedule, watermark, newest.at - MOMENT, limited) if newest is not first else ()
    if busy and terms.overlap == "skip":
        return Plan((*older, Range(newest, newest.at, 1, CONCURRENCY, "")), now, (), (), now, ahead=ahead)
    return Plan((), watermark, (newest,), older, now, ahead=ahead)


def _missed(schedule: Schedule, after: datetime, until: datetime, limited: datetime | None) -> tuple[Range, ...]:
    if limited is None or limited >= until:
        return span(schedule, after, until, MISSED)
    if limited <= after:
        return span(schedule, after, until, MISSED, RATE)
    return (*span(schedule, after, limited, MISSED), *span(schedule, limited, until, MISSED, RATE))


def _all(terms: Terms, watermark: datetime, now: datetime, live_grace: timedelta, busy: bool) -> Plan:
    schedule = terms.schedule
    edge = max(watermark, now - live_grace - MOMENT)
    newest_missed = last(schedule, watermark, edge) if edge > watermark else None
    backlog = (watermark, newest_missed.at) if newest_missed else None
    live = tuple(fires(schedule, edge, now, limit=int(live_grace.total_seconds()) + 2))
    if terms.overlap != "skip" or not live:
        return Plan((), edge, live, (), now, backlog)
    refused = live if busy else live[1:]
    skipped = (Range(refused[0], refused[-1].at, len(refused), CONCURRENCY, ""),) if refused else ()
    if busy:
        return Plan(skipped, now, (), (), now, backlog)
    return Plan((), edge, live[:1], skipped, now, backlog)


def drain(terms: Terms, cursor: datetime, until: datetime, now: datetime, limit: int, *, busy: bool = False) -> Plan:
    """The next part of a backlog (cursor, until], oldest first, at most `limit` occurrences; what lies before the
    window is given up (L-06). Costs as much as the limit, however long the backlog is (L-08)."""
    edge = now - terms.window - MOMENT if terms.window else cursor
    base = min(max(cursor, edge), until)
    skips = span(terms.schedule, cursor, base, MISSED) if base > cursor else ()
    wanted = tuple(fires(terms.schedule, base, until, limit))
    watermark = until if len(wanted) < limit else wanted[-1].at
    if terms.overlap == "skip" and wanted:
        refused = wanted if busy else wanted[1:]
        skipped = (Range(refused[0], refused[-1].at, len(refused), CONCURRENCY, ""),) if refused else ()
        if busy:
            return Plan((*skips, *skipped), watermark, (), (), watermark)
        return Plan(skips, base, wanted[:1], skipped, watermark)
    return Plan(skips, base, wanted, (), watermark)


def span(schedule: Schedule, after: datetime, until: datetime, outcome: str, reason: str = "") -> tuple[Range, ...]:
    """All occurrences in (after, until] as one range, or none."""
    first = fires(schedule, after, until, 1)
    newest = last(schedule, after, until)
    if not first or newest is None:
        return ()
    number = count(schedule, after, until, COUNTED + 1)
    return (Range(first[0], newest.at, number if number <= COUNTED else None, outcome, reason),)


def superseded(
    schedule: Schedule, watermark: datetime, now: datetime, backlogs: Sequence[tuple[datetime, datetime]]
) -> Range | None:
    """Everything undecided when a new baseline is declared, as one range (R-21)."""
    spans = [
        part for after, until in (*backlogs, (watermark, now)) for part in span(schedule, after, until, SUPERSEDED)
    ]
    if not spans:
        return None
    numbers = [part.count for part in spans]
    total = None if None in numbers else sum(number or 0 for number in numbers)
    exact = total if total is not None and total <= COUNTED else None
    return Range(spans[0].first, spans[-1].until, exact, SUPERSEDED, "")
