"""Changes that an attacker with full access to the database makes to the history."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import delete, insert, select, text, update

from revisions.history import chain
from revisions.store import schema
from revisions.store.database import Connection, Database
from revisions.store.tables import trigger_changes, trigger_revisions, trigger_status, triggers

R = trigger_revisions.c


@contextmanager
def unguarded(database: Database) -> Iterator[Connection]:
    """Open a transaction without the triggers that protect the history; they are created again at its end."""
    with database.write() as connection:
        schema.drop_guards(connection, "trigger_revisions")
        yield connection
        schema.create_guards(connection, "trigger_revisions")


def edit(database: Database, revision: int, **values: Any) -> None:
    with unguarded(database) as connection:
        connection.execute(update(trigger_revisions).where(R.revision == revision).values(**values))


def remove(database: Database, *revisions: int) -> None:
    with unguarded(database) as connection:
        connection.execute(delete(trigger_revisions).where(R.revision.in_(revisions)))


def swap(database: Database, first: int, second: int) -> None:
    """Exchange the numbers of two revisions and leave their contents alone."""
    with unguarded(database) as connection:
        for before, after in ((first, 99), (second, first), (99, second)):
            connection.execute(update(trigger_revisions).where(R.revision == before).values(revision=after))


def slip_in(database: Database, *, chained: bool = True) -> None:
    """Append a revision with a correct hash, bypassing the product."""
    with database.write() as connection:
        row = _rows(connection)[-1]
        row |= {"revision": row["revision"] + 1, "actor": "mallory", "idempotency_key": None}
        row |= {"previous_hash": row["hash"] if chained else chain.ORIGIN}
        connection.execute(insert(trigger_revisions), _hashed(connection, row))


def make_again(database: Database, **values: Any) -> None:
    """Rewrite the whole history of the only trigger with other values, with correct hashes, and its current row."""
    with unguarded(database) as connection:
        previous = chain.ORIGIN
        for row in _rows(connection):
            hashed_row = _hashed(connection, row | values | {"previous_hash": previous})
            previous = hashed_row["hash"]
            same = (R.trigger_id == hashed_row["trigger_id"], R.revision == hashed_row["revision"])
            connection.execute(update(trigger_revisions).where(*same).values(**hashed_row))
        changed = {"hash": previous} | ({"changed_by": values["actor"]} if "actor" in values else {})
        connection.execute(update(triggers).values(**changed))


def cut_tail(database: Database, last: int) -> None:
    """Delete all revisions after `last` and make every other row agree with it."""
    with unguarded(database) as connection:
        connection.execute(delete(trigger_revisions).where(R.revision > last))
        row = _rows(connection)[-1]
        current = {name: row[name] for name in ("revision", "active", "tags", "until", "origin", "spec", "hash")}
        current |= {"changed_at": row["at"], "changed_by": row["actor"], "deactivated_reason": None, "deleted": False}
        connection.execute(update(triggers).values(**current))
        connection.execute(update(trigger_status).values(revision=last))


def make_vanish(database: Database, trigger_id: str) -> None:
    """Delete every row of a trigger."""
    with unguarded(database) as connection:
        for table in (trigger_revisions, triggers, trigger_status, trigger_changes):
            connection.execute(delete(table).where(table.c.trigger_id == trigger_id))


def execute(database: Database, statement: str) -> None:
    with unguarded(database) as connection:
        connection.execute(text(statement))


def _rows(connection: Connection) -> list[dict[str, Any]]:
    result = connection.execute(select(trigger_revisions).order_by(R.trigger_id, R.revision))
    return [dict(row._mapping) for row in result]


def _hashed(connection: Connection, row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with the hash that the product would compute for it."""
    from revisions.ids import utc_text

    written = [utc_text(value) if hasattr(value, "tzinfo") else value for value in row.values()]
    return row | {"hash": chain.digest(chain.text_of(tuple(written)))}
