"""Next fires of a trigger and the times held by freezes, blackouts and closed days (S-09, S-13)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from reconcile.schedule.definition import Schedule
from reconcile.schedule.fires import Fire, LeftOut, fires, left_out
from reconcile.schedule.ranges import MOMENT


@dataclass(frozen=True, slots=True)
class HoldSpan:
    """Time [from_at, until_at) in which nothing starts; without an end it lasts until somebody lifts it."""

    from_at: datetime
    until_at: datetime | None
    reason: str

    def covers(self, at: datetime) -> bool:
        return self.from_at <= at and (self.until_at is None or at < self.until_at)

    def earlier(self, span: timedelta) -> "HoldSpan":
        """Return the hold in the nominal time of a trigger that fires `span` after its nominal times (S-12)."""
        return HoldSpan(self.from_at - span, self.until_at - span if self.until_at else None, self.reason)


@dataclass(frozen=True, slots=True)
class Upcoming:
    """Fires, and wall times before the last of them that do not fire, both in order."""

    fires: Sequence[Fire]
    left_out: Sequence[LeftOut]


def upcoming(schedule: Schedule, after: datetime, limit: int, holdings: Sequence[HoldSpan], most: int) -> Upcoming:
    """The first `limit` fires after an instant that nothing holds, and at most `most` wall times that are left out.

    Of two that hold at once, the first that is given names the reason. Under one without an end there are no fires:
    what it holds is told instead, as many as were asked for.
    """
    found: list[Fire] = []
    held: list[tuple[Fire, str]] = []
    at = after
    for until, reason in _stretches(holdings, after):
        if len(found) >= limit:
            break
        if reason is None:
            found += fires(schedule, at, until, limit - len(found))
        else:
            room = limit - len(found) if until is None else most - len(held)
            held += [(fire, reason) for fire in fires(schedule, at, until, room)]
        at = until or at
    seen = [*found[-1:], *(fire for fire, _ in held[-1:])]
    if not seen:
        return Upcoming((), ())
    missing = left_out(schedule, after, max(fire.at for fire in seen), most)
    missing += [LeftOut(fire.local.isoformat()[:19], reason) for fire, reason in held]
    return Upcoming(found, sorted(missing, key=lambda one: one.local)[:most])


def _stretches(holdings: Sequence[HoldSpan], after: datetime) -> Iterator[tuple[datetime | None, str | None]]:
    """Time after an instant in pieces: until when, included, and what holds it; the last piece has no end."""
    edges = {edge for one in holdings for edge in (one.from_at, one.until_at) if edge and edge > after + MOMENT}
    begins = after + MOMENT
    for edge in (*sorted(edges), None):
        reason = next((one.reason for one in holdings if one.covers(begins)), None)
        yield (edge - MOMENT if edge else None), reason
        begins = edge or begins
