"""The current tables made again from the revisions: what would differ, and making it so (R-11).

It is no revision itself: it changes nothing that is true, only rows that are derived from what is. A revision of its
own would put a change into the history that nobody asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reconcile.observations.observation import Observations, Progress
from reconcile.observations.specs import TriggersRebuilt
from reconcile.triggers.history.verify import untrusted, walk_all
from revisions.errors import Conflict, Unavailable
from revisions.history.chain_breaks import BreakKind, ChainBreak, Walk, current_row, key_of
from revisions.ids import TaskKey
from revisions.store import history_rows
from revisions.store import status as status_store
from revisions.store import tasks as task_store
from revisions.store.database import Connection, Database

Summary = tuple[int, int, str | None, str | None]
_ATTEMPTS = 5
_REFUSED = "nothing was rebuilt"


@dataclass(frozen=True, slots=True)
class RowDifference:
    """One field of a derived row that is not what the revisions say; without a field, the row itself."""

    table: str
    name: str
    field: str | None
    expected: Any
    found: Any


@dataclass(slots=True)
class Replay:
    """What replaying the revisions from empty yields, beside what stands."""

    triggers: int = 0
    revisions: int = 0
    differences: list[RowDifference] = field(default_factory=list)
    breaks: list[ChainBreak] = field(default_factory=list)
    wrong: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    """The current rows to be written anew, by trigger id; None for one that no revision stands behind."""
    tasks: set[TaskKey] = field(default_factory=set)
    """Task versions whose summary is wrong, or is touched by those rows."""


class Rebuilding:
    """Replays revisions; the lock order of every change holds here too: tasks, triggers, status."""

    def __init__(self, database: Database, observations: Observations) -> None:
        self._database = database
        self._observations = observations

    def compare(self, progress: Progress = lambda done, total: None) -> Replay:
        """What differs, without changing anything."""
        with self._database.read() as connection:
            history_rows.snapshot(connection)
            return _replay(connection, progress)

    def apply(self, actor: str, progress: Progress = lambda done, total: None) -> Replay:
        """Makes the current tables what the revisions say, in one transaction, and answers what differed.

        Raises Conflict where a chain is broken: what cannot be trusted is not made current.
        """
        for _ in range(_ATTEMPTS):
            seen = self.compare(progress)
            if seen.breaks:
                raise untrusted(_REFUSED, seen.breaks[0])
            if not seen.differences or self._write(seen):
                names = sorted({difference.name for difference in seen.differences})
                self._observations.emit(TriggersRebuilt(actor, names))
                return seen
        raise Unavailable("the triggers that differ are being changed all the time; try again")

    def _write(self, seen: Replay) -> bool:
        """False when a trigger was bound to another task version meanwhile, whose row is not locked."""
        ids = sorted(seen.wrong)
        with self._database.write() as connection:
            history_rows.lift_transaction_timeout(connection)
            task_store.lock(connection, seen.tasks)
            history_rows.lock_triggers(connection, ids)
            status_store.lock(connection, ids)
            now = self._database.clock.now(connection)
            locked = _replay(connection, lambda done, total: None, ids)
            if locked.breaks:
                raise untrusted(_REFUSED, locked.breaks[0])
            if not locked.tasks <= seen.tasks:
                return False
            wrong = sorted(locked.wrong)
            rows = [row for row in locked.wrong.values() if row]
            history_rows.remove_current_rows(connection, wrong)
            history_rows.remove_status(connection, [one for one in wrong if locked.wrong[one] is None])
            if history_rows.insert_rows(connection, rows) != len(rows):
                detail = "two triggers claim one name, by their revisions"
                raise Conflict.hinted("history", detail, "`triggerctl verify` shows more")
            history_rows.restore_status(connection, wrong, now)
            history_rows.announce(connection, [(row["trigger_id"], row["revision"]) for row in rows])
            history_rows.summarise(connection, seen.tasks)
        return True


def _replay(connection: Connection, progress: Progress, ids: Sequence[str] | None = None) -> Replay:
    """Replays all triggers, or some; the summaries of tasks are compared only where all are."""
    replay = Replay()
    status = history_rows.status_revisions(connection, ids)
    counted: dict[TaskKey, list[dict[str, Any]]] = {}

    def ended(walk: Walk, found: ChainBreak | None, standing: Mapping[str, Any] | None) -> None:
        replay.triggers += 1
        replay.revisions += walk.revision
        if found and found.what is not BreakKind.CURRENT:
            replay.breaks.append(found)
            return
        current = walk.current
        assert current is not None
        row = current_row(current)
        _compare_row(replay, row, standing, status.pop(walk.trigger_id, None))
        if not row["deleted"]:
            counted.setdefault(_task_of(row), []).append({name: row[name] for name in ("name", "active", "automation")})

    walk_all(connection, ended, ids=ids, progress=progress)
    for standing in history_rows.rows_without_history(connection, ids):
        status.pop(standing["trigger_id"], None)
        _wrong(replay, None, standing, [RowDifference("triggers", str(key_of(standing)), None, None, standing["hash"])])
    for trigger_id, revision in status.items():
        if not any(one.trigger_id == trigger_id for one in replay.breaks):
            replay.wrong[trigger_id] = None
            replay.differences.append(RowDifference("trigger_status", trigger_id, None, None, revision))
    if ids is None and not replay.breaks:
        _compare_summaries(replay, history_rows.summaries(connection), counted)
    return replay


def _compare_row(
    replay: Replay, row: dict[str, Any], standing: Mapping[str, Any] | None, status_revision: int | None
) -> None:
    name = str(key_of(row))
    if standing is None:
        differing = [RowDifference("triggers", name, None, row["hash"], None)]
    else:
        differing = [
            RowDifference("triggers", name, field, value, standing[field])
            for field, value in row.items()
            if standing[field] != value
        ]
    if status_revision != row["revision"]:
        differing.append(RowDifference("trigger_status", name, "revision", row["revision"], status_revision))
    if differing:
        _wrong(replay, row, standing, differing)


def _wrong(
    replay: Replay, row: dict[str, Any] | None, standing: Mapping[str, Any] | None, differing: list[RowDifference]
) -> None:
    replay.differences += differing
    for one in (row, standing):
        if one is not None:
            replay.wrong[one["trigger_id"]] = row
            replay.tasks.add(_task_of(one))


def _compare_summaries(
    replay: Replay, said: Mapping[TaskKey, Summary], counted: Mapping[TaskKey, list[dict[str, Any]]]
) -> None:
    """R-12: name and automation only where exactly one trigger is attached."""
    names = ("total_triggers", "active_triggers", "trigger_name", "trigger_automation")
    for key, summary in said.items():
        bound = counted.get(key, [])
        only = bound[0] if len(bound) == 1 else {"name": None, "automation": None}
        expected = (len(bound), sum(one["active"] for one in bound), only["name"], only["automation"])
        for name, wanted, found in zip(names, expected, summary, strict=True):
            if wanted != found:
                replay.tasks.add(key)
                replay.differences.append(RowDifference("tasks", str(key), name, wanted, found))


def _task_of(row: Mapping[str, Any]) -> TaskKey:
    return TaskKey(row["project"], row["domain"], row["task"], row["task_version"])
