"""Rebuild the current tables from the revisions, or show what a rebuild would change (R-11).

A rebuild appends no revision. It corrects only rows that are derived from revisions, and a revision of its own would
put a change into the history that nobody asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reconcile.observations.observation import Observations, Progress
from reconcile.observations.specs import TriggersRebuilt
from reconcile.triggers.history.verify import untrusted_history, walk_histories
from revisions.errors import Conflict, Unavailable
from revisions.history.chain_breaks import BreakKind, ChainBreak, current_row, key_of
from revisions.ids import TaskKey
from revisions.store import history_rows
from revisions.store import status as status_store
from revisions.store import tasks as task_store
from revisions.store.database import Connection, Database

TaskSummary = tuple[int, int, str | None, str | None]
"""Triggers of a task version in all and active, and the name and automation of a single one (R-12)."""
_ATTEMPTS = 5
_REFUSAL = "nothing was rebuilt"


@dataclass(frozen=True, slots=True)
class RowDifference:
    """A field of a derived row that differs from the revisions; without a field, the whole row is missing or extra."""

    table: str
    name: str
    field: str | None
    expected: Any
    found: Any


@dataclass(slots=True)
class Replay:
    """Result of replaying the revisions from empty, compared with the current tables."""

    triggers: int = 0
    revisions: int = 0
    differences: list[RowDifference] = field(default_factory=list)
    breaks: list[ChainBreak] = field(default_factory=list)
    rows: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    """Current rows to be written anew, by trigger id; None for a row to be removed because it has no revisions."""
    tasks: set[TaskKey] = field(default_factory=set)
    """Task versions whose summary is wrong, or changes with those rows."""

    def add_row(
        self,
        row: dict[str, Any] | None,
        found: Mapping[str, Any] | None,
        differences: Sequence[RowDifference],
    ) -> None:
        """Add a current row that must be replaced: `row` is the right one, `found` the one in the table."""
        self.differences += differences
        for either in (row, found):
            if either is not None:
                self.rows[either["trigger_id"]] = row
                self.tasks.add(_task_of(either))


def compare_tables(database: Database, progress: Progress = lambda done, total: None) -> Replay:
    """Return the differences between the current tables and the revisions; changes nothing."""
    with database.read() as connection:
        history_rows.snapshot(connection)
        return _replay(connection, progress)


def rebuild_tables(
    database: Database, observations: Observations, actor: str, progress: Progress = lambda done, total: None
) -> Replay:
    """Make the current tables what the revisions say, in one transaction, and return what differed.

    Raises Conflict for a broken chain, on which nothing can be built, and Unavailable when the triggers that differ
    are being changed all the time.
    """
    for _ in range(_ATTEMPTS):
        replay = compare_tables(database, progress)
        if replay.breaks:
            raise untrusted_history(_REFUSAL, replay.breaks[0])
        if not replay.differences or _write_rows(database, replay):
            names = sorted({difference.name for difference in replay.differences})
            observations.emit(TriggersRebuilt(actor, names))
            return replay
    raise Unavailable("the triggers that differ are being changed all the time; try again")


def _write_rows(database: Database, seen: Replay) -> bool:
    """Replay the triggers that differed under the locks of a change, and write their rows.

    Return False when one was bound to another task version since it was read: that version's row is not locked.
    """
    ids = sorted(seen.rows)
    with database.write() as connection:
        history_rows.lift_transaction_timeout(connection)
        # The order of every change: tasks, triggers, status (invariant 1).
        task_store.lock(connection, seen.tasks)
        history_rows.lock_triggers(connection, ids)
        status_store.lock(connection, ids)
        now = database.clock.now(connection)
        locked = _replay(connection, lambda done, total: None, ids)
        if locked.breaks:
            raise untrusted_history(_REFUSAL, locked.breaks[0])
        if not locked.tasks <= seen.tasks:
            return False
        replaced = sorted(locked.rows)
        rows = [row for row in locked.rows.values() if row]
        # All rows are removed before any is inserted: names may have changed places, and each name is unique.
        history_rows.remove_current_rows(connection, replaced)
        history_rows.remove_status(
            connection, [trigger_id for trigger_id in replaced if locked.rows[trigger_id] is None]
        )
        if history_rows.insert_rows(connection, rows) != len(rows):
            detail = "two triggers claim one name, by their revisions"
            raise Conflict.hinted("history", detail, "`triggerctl verify` shows more")
        history_rows.restore_status(connection, replaced, now)
        history_rows.announce(connection, [(row["trigger_id"], row["revision"]) for row in rows])
        history_rows.summarise(connection, seen.tasks)
    return True


def _replay(connection: Connection, progress: Progress, ids: Sequence[str] | None = None) -> Replay:
    """Replay all triggers, or some; the summaries of tasks are compared only when all triggers are replayed."""
    replay = Replay()
    status = history_rows.status_revisions(connection, ids)
    rows_by_task: dict[TaskKey, list[Mapping[str, Any]]] = {}
    for walk, chain_break, found in walk_histories(connection, ids=ids, progress=progress):
        replay.triggers += 1
        replay.revisions += walk.revision
        if chain_break and chain_break.what is not BreakKind.CURRENT:
            replay.breaks.append(chain_break)
            continue
        assert walk.current is not None
        row = current_row(walk.current)
        _compare_row(replay, row, found, status.pop(walk.trigger_id, None))
        if not row["deleted"]:
            rows_by_task.setdefault(_task_of(row), []).append(
                {name: row[name] for name in ("name", "active", "automation")}
            )
    for found in history_rows.rows_without_history(connection, ids):
        status.pop(found["trigger_id"], None)
        extra = RowDifference("triggers", str(key_of(found)), None, None, found["hash"])
        replay.add_row(None, found, [extra])
    broken = {chain_break.trigger_id for chain_break in replay.breaks}
    for trigger_id, revision in status.items():
        if trigger_id not in broken:
            replay.rows[trigger_id] = None
            replay.differences.append(RowDifference("trigger_status", trigger_id, None, None, revision))
    if ids is None and not replay.breaks:
        _compare_summaries(replay, history_rows.summaries(connection), rows_by_task)
    return replay


def _compare_row(
    replay: Replay, row: dict[str, Any], found: Mapping[str, Any] | None, status_revision: int | None
) -> None:
    name = str(key_of(row))
    if found is None:
        differences = [RowDifference("triggers", name, None, row["hash"], None)]
    else:
        differences = [
            RowDifference("triggers", name, field, value, found[field])
            for field, value in row.items()
            if found[field] != value
        ]
    if status_revision != row["revision"]:
        differences.append(RowDifference("trigger_status", name, "revision", row["revision"], status_revision))
    if differences:
        replay.add_row(row, found, differences)


def _compare_summaries(
    replay: Replay,
    summaries: Mapping[TaskKey, TaskSummary],
    rows_by_task: Mapping[TaskKey, Sequence[Mapping[str, Any]]],
) -> None:
    """Compare the summaries of tasks; name and automation are set only where exactly one trigger is attached (R-12)."""
    fields = ("total_triggers", "active_triggers", "trigger_name", "trigger_automation")
    for key, summary in summaries.items():
        rows = rows_by_task.get(key, [])
        single = rows[0] if len(rows) == 1 else {"name": None, "automation": None}
        right = (len(rows), sum(row["active"] for row in rows), single["name"], single["automation"])
        for field_name, expected, found in zip(fields, right, summary, strict=True):
            if expected != found:
                replay.tasks.add(key)
                replay.differences.append(RowDifference("tasks", str(key), field_name, expected, found))


def _task_of(row: Mapping[str, Any]) -> TaskKey:
    return TaskKey(row["project"], row["domain"], row["task"], row["task_version"])
