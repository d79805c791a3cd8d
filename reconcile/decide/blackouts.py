"""Blackouts: nothing is decided while one lasts; its mode then determines the fate of its occurrences (S-13)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from reconcile.schedule.ranges import MOMENT
from revisions.outcomes import HoldMode

_MODES = tuple(HoldMode)


@dataclass(frozen=True, slots=True)
class Blackout:
    """Time [from_at, until_at) in which nothing starts."""

    from_at: datetime
    until_at: datetime
    mode: HoldMode

    def earlier(self, span: timedelta) -> "Blackout":
        return replace(self, from_at=self.from_at - span, until_at=self.until_at - span)


@dataclass(frozen=True, slots=True)
class BlackoutSpan:
    """Time after a watermark up to and including `until`, covered by one past blackout or by none."""

    until: datetime
    blackout: Blackout | None


def held_until(blackouts: Sequence[Blackout], now: datetime) -> datetime | None:
    """Return the latest end of the blackouts in force at `now`, None if there are none."""
    return max((one.until_at for one in blackouts if one.from_at <= now < one.until_at), default=None)


def over_at(blackouts: Sequence[Blackout], one: Blackout) -> datetime:
    """Return the end of a blackout, extended by blackouts that follow it without a gap."""
    end = one.until_at
    while (later := held_until(blackouts, end)) is not None:
        end = later
    return end


def piece(blackouts: Sequence[Blackout], watermark: datetime, now: datetime) -> BlackoutSpan:
    """Return the first part of (watermark, now] that is covered by one blackout or by none."""
    first = watermark + MOMENT
    ruling = [one for one in blackouts if one.from_at <= first < one.until_at]
    edges = [edge for one in blackouts for edge in (one.from_at, one.until_at) if edge > first]
    until = min([now, *(edge - MOMENT for edge in edges)])
    return BlackoutSpan(until, min(ruling, key=lambda one: _MODES.index(one.mode), default=None))
