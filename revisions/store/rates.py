"""Limits that hold for all replicas together: one row each, locked by whoever takes from it."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from sqlalchemy import Connection, and_, case, func, select, true, update

from revisions.store.batches import in_list, insert_if_absent, update_many
from revisions.store.run_tables import catchup_loops, project_turns, rate_buckets
from revisions.store.tables import trigger_status, triggers

CATCHUP = "catchup"


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


_WAITING = (
    select(trigger_status.c.trigger_id)
    .join(triggers, and_(triggers.c.trigger_id == trigger_status.c.trigger_id, triggers.c.active == true()))
    .where(trigger_status.c.rate_waiting_since.is_not(None))
)


def more_waiting_than(connection: Connection, number: int) -> bool:
    """Whether more triggers than these wait for a token."""
    return len(connection.execute(_WAITING.limit(number + 1)).all()) > number


def next_in_turn(connection: Connection, limit: int) -> list[str]:
    """Those that wait for a token (L-09): the projects take turns, the one whose last is longest ago first, and in each
    the trigger that has waited longest, since it first had to or last got one."""
    refused_at, fired_at = trigger_status.c.rate_waiting_since, trigger_status.c.last_fired_at
    since = case((fired_at > refused_at, fired_at), else_=refused_at).label("since")
    order = (since, trigger_status.c.next_fire_at, trigger_status.c.trigger_id)
    turn = func.row_number().over(partition_by=triggers.c.project, order_by=order).label("turn")
    queue = _WAITING.add_columns(triggers.c.project, since, turn).subquery()
    statement = select(queue.c.trigger_id).outerjoin(project_turns, project_turns.c.project == queue.c.project)
    last = project_turns.c.served_at.nulls_first()
    statement = statement.order_by(queue.c.turn, last, queue.c.since, queue.c.trigger_id)
    return list(connection.execute(statement.limit(limit)).scalars())


def stop_waiting(connection: Connection, ids: Sequence[str]) -> None:
    """Takes triggers out of the queue for tokens."""
    if ids:
        statement = update(trigger_status).where(in_list(connection, trigger_status.c.trigger_id, ids))
        connection.execute(statement.values(rate_waiting_since=None))
