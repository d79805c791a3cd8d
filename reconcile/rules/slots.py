"""The instants of elapsed time, whole seconds since 1970-01-01T00:00:00Z: intervals and single instants (S-06)."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import datetime

from reconcile.rules.block import EPOCH, SECOND, Every, Once
from reconcile.rules.walltime import DAY_SECONDS


def seconds(at: datetime) -> int:
    return (at - EPOCH) // SECOND


def slots(beat: Every | Once, closed: tuple[int, ...], first: int, final: int) -> list[range]:
    """The instants of an interval or a single instant in [first, final], one range between any two closed days."""
    if isinstance(beat, Once):
        at = seconds(beat.at)
        return [range(at, at + (first <= at <= final))]
    return [beats(beat, *part) for part in _stretches(closed, first, final)]


def beats(beat: Every, first: int, final: int) -> range:
    """The instants of an interval in [first, final]; slot 0 is its anchor (S-06)."""
    anchor, every = seconds(beat.anchor), beat.every // SECOND
    passed = max(-((anchor - first) // every), 0)
    return range(anchor + passed * every, final + 1, every)


def _stretches(closed: Sequence[int], first: int, final: int) -> Iterator[tuple[int, int]]:
    """The parts of the seconds [first, final] between closed days, ascending."""
    at = first
    for day in closed[bisect_left(closed, first // DAY_SECONDS) :]:
        if day * DAY_SECONDS > final:
            break
        if at < day * DAY_SECONDS:
            yield at, day * DAY_SECONDS - 1
        at = (day + 1) * DAY_SECONDS
    if at <= final:
        yield at, final
