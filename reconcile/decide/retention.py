"""How long what has happened is kept, and what of it may go: pure (O-07)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reconcile.schedule.fires import SCHEDULED_PREFIXES

ASKED: Final = "next/"
"""How the ids of fires begin that runs asked for; like scheduled ones they are judged by their instant."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long records are kept from their end on; a span of 0 keeps them for ever."""

    runs: timedelta = timedelta(days=90)
    logs: timedelta = timedelta(days=30)
    occurrences: timedelta = timedelta(days=365)
    costs: timedelta = timedelta(days=3 * 365)
    changes: timedelta = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Old:
    """A run or a skip that ended long enough ago; `until` is the instant, of a range the last, that it is about."""

    id: str
    trigger_id: str
    occurrence_id: str
    until: datetime


@dataclass(frozen=True, slots=True)
class Needs:
    """What a trigger still needs of its past.

    All up to `decided_until` is decided for good. From `judged_from` on its deadlines are still to be judged, None
    where it has none (X-16). `newest_from` is the oldest of its newest runs, which say what one more may cost (X-08),
    None while it has fewer; `named` are runs that its status names; with `counts` its schedule counts starts (S-07).
    """

    decided_until: datetime
    judged_from: datetime | None = None
    newest_from: str | None = None
    named: frozenset[str] = frozenset()
    counts: bool = False


def runs_to_go(old: Sequence[Old], needs: Mapping[str, Needs]) -> list[Old]:
    """Of runs that ended long ago those that nothing needs: their keys keep an undecided occurrence from a second run
    (X-01), the newest are the budget's measure, and those of a schedule that counts are no more than it counts."""
    return [run for run in old if _may_go(run, needs.get(run.trigger_id), is_run=True)]


def skips_to_go(old: Sequence[Old], needs: Mapping[str, Needs]) -> list[Old]:
    """Of skips decided long ago those that nothing needs."""
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
    """Up to where nothing is sure to be kept any more of what schedules named, by trigger."""
    until: dict[str, datetime] = {}
    for one in gone:
        if one.occurrence_id.startswith((*SCHEDULED_PREFIXES, ASKED)):
            until[one.trigger_id] = max(one.until, until.get(one.trigger_id, one.until))
    return until
