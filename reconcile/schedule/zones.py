"""Time zones from the packaged tz database alone, as spans of constant offset (S-14).

Instants are whole seconds since 1970-01-01T00:00:00Z. Wall times are the same count as if the wall clock were UTC, so
that `wall = instant + offset`.
"""

import difflib
import zoneinfo
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

import tzdata  # type: ignore[import-untyped]  # ships no types

from revisions.spec.notation import ScheduleError, shown

# Before the first zone of the process: a zone read from the host's files would differ between replicas.
zoneinfo.reset_tzpath(())
zoneinfo.ZoneInfo.clear_cache()

TZDATA_VERSION: Final[str] = tzdata.IANA_VERSION

# No zone of the database comes back to an offset within six days (the shortest stay is 6 d 23 h, Gaza and Recife),
# so that two probes with one offset have no change between them.
PROBE_SECONDS: Final = 4 * 86400
_BLOCK_SECONDS: Final = 91 * PROBE_SECONDS


class Span(NamedTuple):
    """Instants [start, end) during which a zone keeps one offset.

    `fresh` is the latest wall second that earlier spans reached: wall times below it occur a second time, and those
    from it up to `start + offset` do not exist. A span also ends at the end of the computed block of years, without a
    change of the clock.
    """

    start: int
    end: int
    offset: int
    fresh: int


@lru_cache(maxsize=1)
def names() -> frozenset[str]:
    """Return every zone name of the packaged database, links included."""
    return frozenset(zoneinfo.available_timezones())


def zone(name: object, path: str = "timezone") -> zoneinfo.ZoneInfo:
    """Return the zone of an IANA name, spelled as in the database. Raises ScheduleError at `path` (S-02)."""
    if isinstance(name, str) and name in names():
        return zoneinfo.ZoneInfo(name)
    hint = "write an IANA name such as Europe/Berlin"
    if isinstance(name, str) and (near := _nearest(name)):
        hint = f"did you mean {near}?"
    raise ScheduleError(path, f"{shown(name)} is not a time zone of tzdata {TZDATA_VERSION}", hint)


def _nearest(name: str) -> str | None:
    folded = {known.lower(): known for known in sorted(names())}
    near = difflib.get_close_matches(name[:64].lower().replace(" ", "_"), folded, n=1, cutoff=0.75)
    return folded[near[0]] if near else None


def span_at(name: str, instant: int) -> Span:
    """Return the span of a known zone that contains `instant`."""
    for span in _spans(name, instant // _BLOCK_SECONDS):
        if instant < span.end:
            return span
    raise AssertionError("spans of a block end with the block")


@lru_cache(maxsize=8192)
def _spans(name: str, block: int) -> tuple[Span, ...]:
    """Return the spans of one block of 52 weeks."""
    begin, end = block * _BLOCK_SECONDS, (block + 1) * _BLOCK_SECONDS
    here = zoneinfo.ZoneInfo(name)
    # One probe further back, because the hour that a change just before the stretch repeats may reach into it.
    probes = range(begin - PROBE_SECONDS, end + 1, PROBE_SECONDS)
    offsets = [(at, _offset(here, at)) for at in probes]
    turns = [turn for low, high in pairwise(offsets) for turn in _turns(here, low, high)]
    spans = []
    start, offset, fresh = begin, offsets[0][1], begin + offsets[0][1]
    for at, after in turns:
        if at < begin:
            fresh = max(at + offset, begin + after)
        elif at < end:
            if at > start:
                spans.append(Span(start, at, offset, fresh))
            start, fresh = at, at + offset
        else:
            break
        offset = after
    spans.append(Span(start, end, offset, fresh))
    return tuple(spans)


def _turns(here: zoneinfo.ZoneInfo, low: tuple[int, int], high: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Yield (first second of the new offset, new offset) for every change between two probes, by bisection."""
    if low[1] == high[1]:
        return
    if high[0] - low[0] == 1:
        yield high
        return
    at = (low[0] + high[0]) // 2
    middle = (at, _offset(here, at))
    yield from _turns(here, low, middle)
    yield from _turns(here, middle, high)


def _offset(here: zoneinfo.ZoneInfo, instant: int) -> int:
    offset = datetime.fromtimestamp(instant, here).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())
