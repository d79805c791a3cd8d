"""Whole histories, read as rows in pages, and the rows derived from them, written anew."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

import psycopg
from sqlalchemy import ColumnElement, Connection, Select, delete, exists, func, select, text, tuple_
from sqlalchemy.sql.selectable import FromClause

from revisions.history.chain import Row
from revisions.history.chain_breaks import ChainHead
from revisions.ids import TaskKey, TriggerKey
from revisions.store import tasks as task_store
from revisions.store.columns import Instant, in_list, insert_if_absent, update_many
from revisions.store.run_tables import catchup_backlogs
from revisions.store.tables import tasks, trigger_changes, trigger_revisions, trigger_status, triggers

PAGE = 5_000
"""Revisions that one statement reads; other work can run between two statements."""
PART = 100
"""Revisions held in memory at once; the server prepares the next ones meanwhile."""


def snapshot(connection: Connection, *, patience_seconds: int = 10) -> None:
    """Make a read transaction see one state of the database throughout; call it before any other statement.

    It holds no row locks, so its duration delays nobody. `patience_seconds` bounds how long it may sit idle.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
        connection.execute(text(f"SET LOCAL idle_in_transaction_session_timeout = '{patience_seconds}s'"))
        lift_transaction_timeout(connection)


def lift_transaction_timeout(connection: Connection) -> None:
    """Let the transaction take longer than `transaction_timeout` (PostgreSQL 17 and later)."""
    if connection.dialect.name == "postgresql":
        connection.execute(
            text(
                "SELECT set_config('transaction_timeout', '0', true)"
                " WHERE current_setting('server_version_num')::int >= 170000"
            )
        )


class RevisionPages:
    """Revisions in parts; read them all before another statement uses the connection."""

    def __init__(self, parts: Iterator[list[Row]]) -> None:
        self._parts = parts
        self.size = 0
        self.last: Row = ()

    def __iter__(self) -> Iterator[list[Row]]:
        for part in self._parts:
            self.size += len(part)
            self.last = part[-1]
            yield part


def pages(connection: Connection, trigger_ids: Sequence[str] | None = None) -> Iterator[RevisionPages]:
    """Yield all revisions, or those of some triggers, by trigger and number."""
    place = tuple_(trigger_revisions.c.trigger_id, trigger_revisions.c.revision)
    statement = _as_written(connection, trigger_revisions).order_by(*place.clauses).limit(PAGE)
    if trigger_ids is not None:
        statement = statement.where(in_list(connection, trigger_revisions.c.trigger_id, trigger_ids))
    after: tuple[str, int] | None = None
    while True:
        page = RevisionPages(_parts(connection, statement if after is None else statement.where(place > after)))
        yield page
        if page.size < PAGE:
            return
        after = page.last[0], page.last[1]


def current_rows(connection: Connection, ids: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """Return the current rows of triggers, by id."""
    statement = select(triggers).where(in_list(connection, triggers.c.trigger_id, sorted(set(ids))))
    return {row.trigger_id: dict(row._mapping) for row in connection.execute(statement)}


def rows_without_history(connection: Connection, ids: Sequence[str] | None = None) -> list[Mapping[str, Any]]:
    """Return current rows that have no revision."""
    behind = exists().where(trigger_revisions.c.trigger_id == triggers.c.trigger_id)
    statement = select(triggers).where(~behind).order_by(triggers.c.trigger_id)
    if ids is not None:
        statement = statement.where(in_list(connection, triggers.c.trigger_id, ids))
    return [dict(row._mapping) for row in connection.execute(statement)]


def ids_named(connection: Connection, key: TriggerKey) -> set[str]:
    """Return the ids of triggers that ever had a name; reads all revisions."""
    named = (trigger_revisions.c[field] == part for field, part in key._asdict().items())
    return set(connection.execute(select(trigger_revisions.c.trigger_id).where(*named).distinct()).scalars())


def heads(connection: Connection) -> list[ChainHead]:
    """Return the newest revision of every trigger, deleted ones included, by id."""
    newest = (
        select(trigger_revisions.c.trigger_id, func.max(trigger_revisions.c.revision).label("revision"))
        .group_by(trigger_revisions.c.trigger_id)
        .subquery()
    )
    key = (trigger_revisions.c[name] for name in TriggerKey._fields)
    statement = select(
        trigger_revisions.c.trigger_id, *key, trigger_revisions.c.revision, trigger_revisions.c.hash
    ).join(
        newest,
        (newest.c.trigger_id == trigger_revisions.c.trigger_id) & (newest.c.revision == trigger_revisions.c.revision),
    )
    heads = (ChainHead(row[0], TriggerKey(*row[1:5]), row[5], row[6]) for row in connection.execute(statement))
    return sorted(heads)


def count(connection: Connection) -> int:
    """Return the number of revisions."""
    number: int = connection.execute(select(func.count()).select_from(trigger_revisions)).scalar_one()
    return number


def status_revisions(connection: Connection, ids: Sequence[str] | None = None) -> dict[str, int]:
    """Return the revision in each status row, by trigger id."""
    statement = select(trigger_status.c.trigger_id, trigger_status.c.revision)
    if ids is not None:
        statement = statement.where(in_list(connection, trigger_status.c.trigger_id, ids))
    return {row[0]: row[1] for row in connection.execute(statement)}


def summaries(connection: Connection) -> dict[TaskKey, tuple[int, int, str | None, str | None]]:
    """Return the summary of each task version: total, active, name and automation of a single trigger (R-12)."""
    key = (tasks.c[name] for name in TaskKey._fields)
    summary = (tasks.c.total_triggers, tasks.c.active_triggers, tasks.c.trigger_name, tasks.c.trigger_automation)
    rows = connection.execute(select(*key, *summary))
    return {TaskKey(*row[:4]): (row[4], row[5], row[6], row[7]) for row in rows}


def lock_triggers(connection: Connection, ids: Sequence[str]) -> None:
    """Lock the current rows of triggers in key order. Lock order: the task rows are locked already (invariant 1)."""
    order = (triggers.c[name] for name in TriggerKey._fields)
    statement = select(triggers.c.trigger_id).where(in_list(connection, triggers.c.trigger_id, ids)).order_by(*order)
    connection.execute(statement.with_for_update(key_share=True)).all()


def remove_current_rows(connection: Connection, ids: Sequence[str]) -> None:
    """Delete current rows; their revisions stay."""
    connection.execute(delete(triggers).where(in_list(connection, triggers.c.trigger_id, ids)))


def remove_status(connection: Connection, ids: Sequence[str]) -> None:
    """Delete the status and the backlogs of triggers that have no history."""
    for table in (catchup_backlogs, trigger_status):
        connection.execute(delete(table).where(in_list(connection, table.c.trigger_id, ids)))


def insert_rows(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> int:
    """Insert current rows and return their number; a row whose name or id exists is left out."""
    return insert_if_absent(connection, triggers, *rows) if rows else 0


def restore_status(connection: Connection, ids: Sequence[str], now: datetime) -> None:
    """Bring status rows to the revisions of their current rows, and have the next pass decide them anew.

    The watermark stays. A lost status row gets `now`, because nothing tells which occurrences were decided (L-05).
    """
    statement = select(triggers.c.trigger_id, triggers.c.revision, triggers.c.active)
    rows = connection.execute(statement.where(in_list(connection, triggers.c.trigger_id, ids))).all()
    restored = [
        {"trigger_id": row.trigger_id, "revision": row.revision, "next_fire_at": now if row.active else None}
        for row in rows
    ]
    if restored:
        initial = {"watermark": now, "run_count": 0, "consecutive_failures": 0}
        insert_if_absent(connection, trigger_status, *(row | initial for row in restored))
        update_many(connection, trigger_status, "trigger_id", restored)


def summarise(connection: Connection, keys: Iterable[TaskKey]) -> None:
    """Recompute the summaries of locked task versions."""
    for statement, parameters in task_store.summary_writes(keys):
        connection.execute(statement, dict(parameters))


def announce(connection: Connection, revisions: Sequence[tuple[str, int]]) -> None:
    """Add revisions (trigger id, number) to the change feed."""
    if revisions:
        rows = [{"trigger_id": trigger_id, "revision": revision} for trigger_id, revision in revisions]
        connection.execute(trigger_changes.insert().inline(), rows)


def _as_written(connection: Connection, table: FromClause) -> Select[Any]:
    return select(*(_as_text(connection, column) if isinstance(column.type, Instant) else column for column in table.c))


def _as_text(connection: Connection, at: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return an instant as the text that `ids.utc_text` makes."""
    if connection.dialect.name == "postgresql":
        at = func.to_char(func.timezone("UTC", at), text("'YYYY-MM-DD\"T\"HH24:MI:SS.US'"))
    else:
        at = func.rtrim(at, "Z")
    return func.rtrim(func.rtrim(at, "0"), ".").op("||")("Z")


def _parts(connection: Connection, statement: Select[Any]) -> Iterator[list[Row]]:
    """Yield the driver's own tuples: making SQLAlchemy rows would take half the time of a large history."""
    driver = connection.connection.driver_connection
    if isinstance(driver, psycopg.Connection):
        compiled = statement.compile(dialect=connection.dialect)
        rows = driver.cursor().stream(str(compiled), compiled.params, size=PART)
        while part := list(islice(rows, PART)):
            yield part
    else:
        with connection.execute(statement) as result:
            assert result.cursor is not None
            while part := list(result.cursor.fetchmany(PART)):
                yield part
