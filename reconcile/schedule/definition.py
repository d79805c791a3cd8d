"""The `schedule` block of a manifest: what it says, checked and made into a schedule, bounded or not (S-01, S-07)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, Literal

from reconcile.schedule import bounds, cron, zones
from reconcile.schedule.notation import ScheduleError, duration, instant, shown

Gap = Literal["skip", "shift"]
Fold = Literal["auto", "first", "both"]

KINDS: Final = ("cron", "every", "at", "in")
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Cron:
    """Wall times of a zone; `gap` and `fold` say what becomes of those that do not exist or happen twice."""

    expression: str
    timezone: str = "UTC"
    gap: Gap = "skip"
    fold: Fold = "auto"


@dataclass(frozen=True, slots=True)
class Every:
    """The instants `anchor + k·every` for k from 0 on, in elapsed time (S-06); both are whole seconds."""

    every: timedelta
    anchor: datetime = EPOCH


@dataclass(frozen=True, slots=True)
class Once:
    """A single instant, a whole second."""

    at: datetime


Beat = Cron | Every | Once

Closed = tuple[tuple[str, frozenset[date]], ...]
"""Days on which nothing fires, under the name of what closes them: `exclude`, or a calendar."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """A beat from `start` to `until`, both included, but for closed days: dates of its zone, for intervals of UTC."""

    beat: Cron | Every
    start: datetime | None = None
    until: datetime | None = None
    closed: Closed = ()


Schedule = Beat | Bounded


def parse(
    block: Mapping[str, Any], at: datetime | None = None, calendars: Closed = (), expires_at: datetime | None = None
) -> Schedule:
    """Makes a schedule of the block as written.

    `at` is the instant to which its deploy resolved an `in` (S-15), `calendars` are the days of those the block names
    (S-13). From `expires_at` on nothing fires (X-08). A key that is null counts as absent. Raises ScheduleError at the
    key that is wrong (S-02). Whether anything is still to come depends on the time: see `never_fires`.
    """
    given = {key: value for key, value in block.items() if value is not None}
    beat = _beat(given, at)
    for key in ("start", "until", "count", "exclude", "calendars"):
        if key in given and isinstance(beat, Once):
            raise ScheduleError(key, f"{key} means something only beside cron and every", f"remove {key}")
    bounds.count(given)
    bounds.spread(given)
    start, until = bounds.ends(given)
    excluded = bounds.excluded(given)
    closed = ((("exclude", excluded),) if excluded else ()) + calendars
    if isinstance(beat, Once):
        return beat
    if expires_at:
        final = expires_at - SECOND
        until = min(until, final) if until else final
    if (start, until, closed) == (None, None, ()):
        return beat
    return Bounded(beat, start, until, closed)


def _beat(given: Mapping[str, Any], at: datetime | None) -> Beat:
    kinds = [kind for kind in KINDS if kind in given]
    if len(kinds) != 1:
        said = "none of them stands here" if not kinds else f"here stand {' and '.join(kinds)}"
        raise ScheduleError(kinds[1] if kinds else "", f"exactly one of cron, every, at, in is needed; {said}")
    kind = kinds[0]
    for key, owner in (("timezone", "cron"), ("gap", "cron"), ("fold", "cron"), ("anchor", "every")):
        if key in given and kind != owner:
            raise ScheduleError(key, f"{key} means something only beside {owner}", f"remove {key}")
    match kind:
        case "cron":
            return _cron(given)
        case "every":
            return _every(given)
        case "at":
            return Once(instant(given["at"], "at", whole=True))
        case _:
            return _in(given["in"], at)


def _cron(given: Mapping[str, Any]) -> Cron:
    text, name = given["cron"], given.get("timezone", "UTC")
    gap, fold = given.get("gap", "skip"), given.get("fold", "auto")
    if not isinstance(text, str):
        raise ScheduleError("cron", f"{shown(text)} is not an expression", 'write a text such as "0 8 * * 1-5"')
    cron.expression(text)
    zones.zone(name)
    if gap not in ("skip", "shift"):
        raise ScheduleError("gap", f"{shown(gap)} is not a way to treat a gap", "write skip or shift")
    if fold not in ("auto", "first", "both"):
        raise ScheduleError("fold", f"{shown(fold)} is not a way to treat a fold", "write auto, first or both")
    return Cron(text, name, gap, fold)


def _every(given: Mapping[str, Any]) -> Every:
    every = _whole(given["every"], "every")
    anchor = instant(given["anchor"], "anchor", whole=True) if "anchor" in given else EPOCH
    return Every(every, anchor)


def _in(text: object, at: datetime | None) -> Once:
    _whole(text, "in")
    if at is None:
        raise ScheduleError("in", f"{shown(text)} has not been resolved to an instant", "a deploy resolves it")
    if at.tzinfo is None or at.microsecond:
        raise ScheduleError("in", f"{at.isoformat()} is not a whole second with a zone")
    return Once(at.astimezone(UTC))


def _whole(text: object, path: str) -> timedelta:
    """A span of at least one second and of whole seconds."""
    span = duration(text, path)
    if span < SECOND:
        raise ScheduleError(path, f"{shown(text)} is shorter than a second", "write 1s or more")
    if span % SECOND:
        raise ScheduleError(path, f"{shown(text)} is not a number of whole seconds", "leave the fraction out")
    return span
