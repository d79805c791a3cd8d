"""Removes what is older than it is to be kept, a page in each transaction, one replica at a time (O-07)."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from reconcile.decide.budget import RECENT
from reconcile.decide.retention import Needs, Old, Retention, gone_until, runs_to_go, skips_to_go
from reconcile.loop.deadlines import BEFORE
from reconcile.observations.observation import Observations
from reconcile.observations.passes import RecordsPruned
from revisions.spec.stored import readable_trigger
from revisions.store import retention as store
from revisions.store.database import Connection, Database
from revisions.store.retention import Record, RetentionFacts

EVERY = timedelta(hours=6)
"""Between two sweeps of one kind of record."""

Removed = tuple[int, str]
"""How many records, and where the sweep goes on, "" at its end."""


class Pruning:
    """Sweeps are kept in the database: whoever asks first goes on where the last one was."""

    def __init__(self, database: Database, observations: Observations, retention: Retention) -> None:
        self._database = database
        self._observations = observations
        kinds: Mapping[str, tuple[timedelta, Callable[[Connection, str, datetime], Removed]]] = {
            "runs": (retention.runs, _runs),
            "logs": (retention.logs, store.remove_logs),
            "occurrences": (retention.occurrences, _occurrences),
            "costs": (retention.costs, store.remove_costs),
            "changes": (retention.changes, store.remove_changes),
        }
        self._kinds = {name: kind for name, kind in kinds.items() if kind[0]}

    def step(self) -> bool:
        """Looks at one page; False when nothing is to be looked at just now. Raises Unavailable."""
        if not self._kinds:
            return False
        with self._database.write() as connection:
            now = self._database.clock.now(connection)
            sweep = store.take_sweep(connection, self._kinds.keys(), now)
            if sweep is None:
                return False
            span, remove = self._kinds[sweep.name]
            number, position = remove(connection, sweep.position, now - span)
            store.move_sweep(connection, sweep.name, position, now if position else now + EVERY)
        if number:
            self._observations.emit(RecordsPruned(sweep.name, number))
        return True


def _runs(connection: Connection, position: str, before: datetime) -> Removed:
    records, position = store.old_runs(connection, position, before)
    gone = runs_to_go(_old(records), _needs(connection, records))
    number = store.remove_runs(connection, [run.id for run in gone], before)
    store.forget(connection, gone_until(gone))
    return number, position


def _occurrences(connection: Connection, position: str, before: datetime) -> Removed:
    """Skips, and the missed deadlines, which are as much a record of what did not happen."""
    records, position = store.old_skips(connection, position, before)
    gone = skips_to_go(_old(records), _needs(connection, records))
    number = store.remove_skips(connection, [(skip.trigger_id, skip.occurrence_id) for skip in gone])
    store.forget(connection, gone_until(gone))
    return number + store.remove_deadlines(connection, before), position


def _old(records: Sequence[Record]) -> list[Old]:
    return [Old(*record) for record in records]


def _needs(connection: Connection, records: Sequence[Record]) -> dict[str, Needs]:
    keepers = store.retention_facts(connection, {record.trigger_id for record in records}, RECENT) if records else []
    return {keeper.trigger_id: _need(keeper) for keeper in keepers}


def _need(keeper: RetentionFacts) -> Needs:
    return Needs(
        decided_until=min(keeper.watermark, keeper.cursor_at or keeper.watermark),
        judged_from=keeper.judged_until - BEFORE if keeper.judged_until else None,
        newest_from=keeper.nth_newest_ended_run_id,
        named=frozenset(run_id for run_id in (keeper.last_run_id, keeper.asked_by_run_id) if run_id),
        counts=readable_trigger(keeper.spec).schedule.count is not None,
    )
