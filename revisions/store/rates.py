"""Limits that hold for all replicas together: one row each, locked by whoever takes from it."""

from collections.abc import Callable, Collection
from datetime import datetime

from sqlalchemy import Connection, select, update

from revisions.store.batches import insert_if_absent, update_many
from revisions.store.run_tables import catchup_loops
from revisions.store.run_tables import project_turns
from revisions.store.run_tables import rate_buckets


def take_tokens(
    connection: Connection, name: str, now: datetime, decide: Callable[[datetime], tuple[int, datetime]]
) -> int:
    """Locks a bucket, lets `decide` (its instant → tokens, new instant) take from it, and answers the tokens (L-10)."""
    statement = select(rate_buckets.c.empty_until).where(rate_buckets.c.name == name).with_for_update()
    if (empty_until := connection.execute(statement).scalar()) is None:
        insert_if_absent(connection, rate_buckets, {"name": name, "empty_until": now})
        empty_until = connection.execute(statement).scalar_one()
    granted, empty_until = decide(empty_until)
    connection.execute(update(rate_buckets).where(rate_buckets.c.name == name).values(empty_until=empty_until))
    return granted


def empty_until(connection: Connection, name: str) -> datetime | None:
    """A bucket's instant, without a lock; None for one that nobody took from yet."""
    return connection.execute(select(rate_buckets.c.empty_until).where(rate_buckets.c.name == name)).scalar()


def record_turns(connection: Connection, projects: Collection[str], now: datetime) -> None:
    """Notes that these projects had their turn (L-09); the bucket that the tokens came from is locked."""
    turns = [{"project": project, "served_at": now} for project in projects]
    if turns:
        update_many(connection, project_turns, "project", turns)
        insert_if_absent(connection, project_turns, *turns)


def lock_catchup_use(connection: Connection, slot: int) -> int:
    """Locks the catch-up loop's row and answers how much of the slot's cap is used (L-06)."""
    statement = select(catchup_loops).where(catchup_loops.c.name == CATCHUP).with_for_update()
    row = connection.execute(statement).one_or_none()
    if row is None:
        insert_if_absent(connection, catchup_loops, {"name": CATCHUP, "slot": slot, "used": 0})
        row = connection.execute(statement).one()
    return int(row.used) if row.slot == slot else 0


def set_catchup_use(connection: Connection, slot: int, used: int) -> None:
    """Writes how much of the slot's cap is used; the row is locked."""
    connection.execute(update(catchup_loops).where(catchup_loops.c.name == CATCHUP).values(slot=slot, used=used))


CATCHUP = "catchup"
