"""Removal of records that were kept long enough, one page in each transaction (O-07)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from reconcile.decide.budget import RECENT
from reconcile.decide.retention import Needs, Old, Retention, gone_until, runs_to_go, skips_to_go
from reconcile.loop.deadlines import LOOKBACK
from reconcile.observations.observation import Observations
from reconcile.observations.passes import RecordsPruned
from revisions.spec.stored import readable_trigger
from revisions.store import retention as store
from revisions.store.database import Connection, Database
from revisions.store.retention import Record, RetentionFacts

SWEEP_INTERVAL = timedelta(hours=6)
"""Time from the end of a sweep over one kind of record to the next one."""


class PrunedPage(NamedTuple):
    """Number of records removed, and the position at which the sweep goes on, "" at its end."""

    number: int
    position: str


def prune_page(database: Database, observations: Observations, retention: Retention) -> bool:
    """Sweep one page of records, and return False when no sweep is due.

    The position of each sweep is in the database, so any replica continues where the last one stopped.
    Raises Unavailable.
    """
    spans = {
        "runs": retention.runs,
        "logs": retention.logs,
        "occurrences": retention.occurrences,
        "costs": retention.costs,
        "changes": retention.changes,
    }
    limited = {kind: span for kind, span in spans.items() if span}
    if not limited:
        return False
    with database.write() as connection:
        now = database.clock.now(connection)
        # Takes the lock of the sweep until this commits; a sweep that another replica holds is left to it.
        sweep = store.take_sweep(connection, limited.keys(), now)
        if sweep is None:
            return False
        page = _prune(connection, sweep.name, sweep.position, now - limited[sweep.name])
        store.move_sweep(connection, sweep.name, page.position, now if page.position else now + SWEEP_INTERVAL)
    if page.number:
        observations.emit(RecordsPruned(sweep.name, page.number))
    return True


def _prune(connection: Connection, kind: str, position: str, before: datetime) -> PrunedPage:
    match kind:
        case "runs":
            return _prune_runs(connection, position, before)
        case "logs":
            return PrunedPage(*store.remove_logs(connection, position, before))
        case "occurrences":
            return _prune_occurrences(connection, position, before)
        case "costs":
            return PrunedPage(*store.remove_costs(connection, position, before))
        case _:
            return PrunedPage(*store.remove_changes(connection, position, before))


def _prune_runs(connection: Connection, position: str, before: datetime) -> PrunedPage:
    records, position = store.old_runs(connection, position, before)
    gone = runs_to_go(_old(records), _needs(connection, records))
    number = store.remove_runs(connection, [run.id for run in gone], before)
    store.forget(connection, gone_until(gone))
    return PrunedPage(number, position)


def _prune_occurrences(connection: Connection, position: str, before: datetime) -> PrunedPage:
    """Remove skips and missed deadlines: both record something that did not happen."""
    records, position = store.old_skips(connection, position, before)
    gone = skips_to_go(_old(records), _needs(connection, records))
    number = store.remove_skips(connection, [(skip.trigger_id, skip.occurrence_id) for skip in gone])
    store.forget(connection, gone_until(gone))
    return PrunedPage(number + store.remove_deadlines(connection, before), position)


def _old(records: Sequence[Record]) -> list[Old]:
    return [Old(*record) for record in records]


def _needs(connection: Connection, records: Sequence[Record]) -> dict[str, Needs]:
    keepers = store.retention_facts(connection, {record.trigger_id for record in records}, RECENT) if records else []
    return {keeper.trigger_id: _needs_of(keeper) for keeper in keepers}


def _needs_of(keeper: RetentionFacts) -> Needs:
    return Needs(
        decided_until=min(keeper.watermark, keeper.cursor_at or keeper.watermark),
        judged_from=keeper.judged_until - LOOKBACK if keeper.judged_until else None,
        newest_from=keeper.nth_newest_ended_run_id,
        named=frozenset(run_id for run_id in (keeper.last_run_id, keeper.asked_by_run_id) if run_id),
        counts=readable_trigger(keeper.spec).schedule.count is not None,
    )
