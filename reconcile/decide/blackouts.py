"""Blackouts: while one lasts nothing is decided; afterwards its mode says what becomes of its occurrences (S-13)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from reconcile.schedule.ranges import MOMENT
from revisions.outcomes import HoldMode

_MODES = tuple(HoldMode)


@dataclass(frozen=True, slots=True)
class Blackout:
    """A time [from_at, until_at) in which nothing starts."""

    from_at: datetime
    until_at: datetime
    mode: HoldMode

    def earlier(self, span: timedelta) -> "Blackout":
        return replace(self, from_at=self.from_at - span, until_at=self.until_at - span)


@dataclass(frozen=True, slots=True)
class BlackoutSpan:
    """Time after a watermark, up to `until` included, under one rule: that of a blackout which is over, or none."""

    until: datetime
    blackout: Blackout | None


def held_until(blackouts: Sequence[Blackout], now: datetime) -> datetime | None:
    """When the blackouts in force at `now` end, None when there is none."""
    return max((one.until_at for one in blackouts if one.from_at <= now < one.until_at), default=None)


def over_at(blackouts: Sequence[Blackout], one: Blackout) -> datetime:
    """When something could start again after a blackout: others may follow on it."""
    end = one.until_at
    while (later := held_until(blackouts, end)) is not None:
        end = later
    return end


def piece(blackouts: Sequence[Blackout], watermark: datetime, now: datetime) -> BlackoutSpan:
    """The first piece of (watermark, now]."""
    first = watermark + MOMENT
    ruling = [one for one in blackouts if one.from_at <= first < one.until_at]
    edges = [edge for one in blackouts for edge in (one.from_at, one.until_at) if edge > first]
    until = min([now, *(edge - MOMENT for edge in edges)])
    return BlackoutSpan(until, min(ruling, key=lambda one: _MODES.index(one.mode), default=None))
