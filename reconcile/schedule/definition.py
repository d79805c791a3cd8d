"""Typed schedules made from the `schedule` block of a spec (S-01, S-07)."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from reconcile.schedule import cron, zones
from revisions.ids import utc_text
from revisions.spec.notation import ScheduleError
from revisions.spec.trigger import Fold, Gap, ScheduleSpec

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Cron:
    """Wall times of a zone; `gap` and `fold` apply to times that do not exist or occur twice."""

    expression: str
    timezone: str = "UTC"
    gap: Gap = Gap.SKIP
    fold: Fold = Fold.AUTO


@dataclass(frozen=True, slots=True)
class Every:
    """Instants `anchor + k·every` for k ≥ 0, in elapsed time (S-06); both are whole seconds."""

    every: timedelta
    anchor: datetime = EPOCH


@dataclass(frozen=True, slots=True)
class Once:
    """Single instant, a whole second."""

    at: datetime


Beat = Cron | Every | Once

Closed = tuple[tuple[str, frozenset[date]], ...]
"""Closed days under the name of their source: `exclude`, or a calendar."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """Schedule limited to [start, until], without its closed days, which are dates of its zone (UTC for intervals)."""

    beat: Cron | Every
    start: datetime | None = None
    until: datetime | None = None
    closed: Closed = ()


Schedule = Beat | Bounded


def parse(
    block: ScheduleSpec, at: datetime | None = None, calendars: Closed = (), expires_at: datetime | None = None
) -> Schedule:
    """Make a schedule of a block.

    `at` is the instant to which the deploy resolved an `in` (S-15), `calendars` are the closed days of the calendars
    named in the block (S-13). Nothing fires from `expires_at` on (X-08). Raises ScheduleError at the wrong field
    (S-02). A schedule without a future fire is accepted: see `never_fires`.
    """
    beat = _beat(block, at)
    if isinstance(beat, Once):
        _refuse_bounds(block)
        return beat
    until = block.until
    if block.start and until and until < block.start:
        detail = f"{utc_text(until)} lies before start, {utc_text(block.start)}"
        raise ScheduleError("until", detail, "swap them")
    closed = ((("exclude", block.exclude),) if block.exclude else ()) + calendars
    if expires_at:
        final = expires_at - SECOND
        until = min(until, final) if until else final
    if (block.start, until, closed) == (None, None, ()):
        return beat
    return Bounded(beat, block.start, until, closed)


def _refuse_bounds(block: ScheduleSpec) -> None:
    bounds = {
        "start": block.start,
        "until": block.until,
        "count": block.count,
        "exclude": block.exclude,
        "calendars": block.calendars,
    }
    for field, value in bounds.items():
        if value:
            raise ScheduleError(field, f"{field} means something only beside cron and every", f"remove {field}")


def _beat(block: ScheduleSpec, at: datetime | None) -> Beat:
    kinds = block.kinds
    if len(kinds) != 1:
        written = "none of them stands here" if not kinds else f"here stand {' and '.join(kinds)}"
        raise ScheduleError(kinds[1] if kinds else "", f"exactly one of cron, every, at, in is needed; {written}")
    beside = {
        "timezone": (block.timezone, "cron"),
        "gap": (block.gap, "cron"),
        "fold": (block.fold, "cron"),
        "anchor": (block.anchor, "every"),
    }
    for field, (value, owner) in beside.items():
        if value is not None and owner != kinds[0]:
            raise ScheduleError(field, f"{field} means something only beside {owner}", f"remove {field}")
    if block.cron is not None:
        return _cron(block, block.cron)
    if block.every is not None:
        return Every(block.every, block.anchor or EPOCH)
    return Once(block.at) if block.at is not None else _in(at)


def _cron(block: ScheduleSpec, text: str) -> Cron:
    cron.expression(text)
    name = "UTC" if block.timezone is None else block.timezone
    zones.zone(name)
    return Cron(text, name, block.gap or Gap.SKIP, block.fold or Fold.AUTO)


def _in(at: datetime | None) -> Once:
    if at is None:
        raise ScheduleError("in", "it has not been resolved to an instant", "a deploy resolves it")
    if at.tzinfo is None or at.microsecond:
        raise ScheduleError("in", f"{at.isoformat()} is not a whole second with a zone")
    return Once(at.astimezone(UTC))
