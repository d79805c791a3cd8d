"""Retention of runs, skips and other records (O-07)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reconcile.schedule.fires import SCHEDULED_PREFIXES

ASKED: Final = "next/"
"""How the ids of fires begin that runs asked for; like scheduled ones they are judged by their instant."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Retention periods of records, counted from their end; 0 keeps them for ever."""

    runs: timedelta = timedelta(days=90)
    logs: timedelta = timedelta(days=30)
    occurrences: timedelta = timedelta(days=365)
    costs: timedelta = timedelta(days=3 * 365)
    changes: timedelta = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Old:
    """Run or skip that ended before the retention limit; `until` is the (last) instant it is about."""

    id: str
    trigger_id: str
    occurrence_id: str
    until: datetime


@dataclass(frozen=True, slots=True)
class Needs:
    """Records of the past that a trigger still needs.

    Everything up to `decided_until` is decided. Deadlines from `judged_from` on are still to be judged, None without
    deadlines (X-16). `newest_from` is the oldest of its newest runs, used to estimate costs, None while there are too
    few (X-08). `named` are the runs that its status refers to. `counts` is true when its schedule limits the number of
    starts (S-07).
    """

    decided_until: datetime
    judged_from: datetime | None = None
    newest_from: str | None = None
    named: frozenset[str] = frozenset()
    counts: bool = False


def runs_to_go(old: Sequence[Old], needs: Mapping[str, Needs]) -> list[Old]:
    """Return the old runs that may be removed.

    Kept are runs whose keys prevent a second run of an undecided occurrence (X-01), the newest runs, which estimate
    costs, and all runs of schedules with a `count`.
    """
    return [run for run in old if _may_go(run, needs.get(run.trigger_id), is_run=True)]


def skips_to_go(old: Sequence[Old], needs: Mapping[str, Needs]) -> list[Old]:
    """Return the old skips that may be removed."""
    return [skip for skip in old if _may_go(skip, needs.get(skip.trigger_id), is_run=False)]


def _may_go(old: Old, needs: Needs | None, *, is_run: bool) -> bool:
    if needs is None:
        return True
    if old.until > needs.decided_until or (needs.judged_from is not None and old.until >= needs.judged_from):
        return False
    if not is_run:
        return True
    return not (needs.counts or needs.newest_from is None or old.id >= needs.newest_from or old.id in needs.named)


def gone_until(gone: Sequence[Old]) -> dict[str, datetime]:
    """Return, by trigger, the instant up to which records of scheduled occurrences may be missing."""
    until: dict[str, datetime] = {}
    for one in gone:
        if one.occurrence_id.startswith((*SCHEDULED_PREFIXES, ASKED)):
            until[one.trigger_id] = max(one.until, until.get(one.trigger_id, one.until))
    return until
