"""Rate tokens, shared by all replicas, and the triggers that wait for one (L-09, L-10).

Each bucket is one row; its lock serialises the replicas.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from sqlalchemy import Connection, and_, case, func, select, true, update

from revisions.store.columns import in_list, insert_if_absent, update_many
from revisions.store.run_tables import catchup_loops, project_turns, rate_buckets
from revisions.store.tables import trigger_status, triggers

CATCHUP = "catchup"


def take_tokens(
    connection: Connection, name: str, now: datetime, decide: Callable[[datetime], tuple[int, datetime]]
) -> int:
    """Lock a bucket, take tokens by `decide` (empty-until instant → tokens, new instant), and return their number
    (L-10).
    """
    statement = select(rate_buckets.c.empty_until).where(rate_buckets.c.name == name).with_for_update()
    if (empty_until := connection.execute(statement).scalar()) is None:
        insert_if_absent(connection, rate_buckets, {"name": name, "empty_until": now})
        empty_until = connection.execute(statement).scalar_one()
    granted, empty_until = decide(empty_until)
    connection.execute(update(rate_buckets).where(rate_buckets.c.name == name).values(empty_until=empty_until))
    return granted


def empty_until(connection: Connection, name: str) -> datetime | None:
    """Return a bucket's instant without a lock; None when no token was ever taken."""
    return connection.execute(select(rate_buckets.c.empty_until).where(rate_buckets.c.name == name)).scalar()


def record_turns(connection: Connection, projects: Collection[str], now: datetime) -> None:
    """Record that projects had their turn (L-09). The caller holds the lock of the tokens' bucket."""
    turns = [{"project": project, "served_at": now} for project in projects]
    if turns:
        update_many(connection, project_turns, "project", turns)
        insert_if_absent(connection, project_turns, *turns)


def lock_catchup_use(connection: Connection, slot: int) -> int:
    """Lock the catch-up row and return how much of the slot's limit is used (L-06)."""
    statement = select(catchup_loops).where(catchup_loops.c.name == CATCHUP).with_for_update()
    row = connection.execute(statement).one_or_none()
    if row is None:
        insert_if_absent(connection, catchup_loops, {"name": CATCHUP, "slot": slot, "used": 0})
        row = connection.execute(statement).one()
    return int(row.used) if row.slot == slot else 0


def set_catchup_use(connection: Connection, slot: int, used: int) -> None:
    """Store how much of the slot's limit is used; the caller holds the row's lock."""
    connection.execute(update(catchup_loops).where(catchup_loops.c.name == CATCHUP).values(slot=slot, used=used))


_WAITING = (
    select(trigger_status.c.trigger_id)
    .join(triggers, and_(triggers.c.trigger_id == trigger_status.c.trigger_id, triggers.c.active == true()))
    .where(trigger_status.c.rate_waiting_since.is_not(None))
)


def more_waiting_than(connection: Connection, number: int) -> bool:
    """Return True when more than `number` triggers wait for a token."""
    return len(connection.execute(_WAITING.limit(number + 1)).all()) > number


def next_in_turn(connection: Connection, limit: int) -> list[str]:
    """Return triggers that wait for a token, in the order in which they get one (L-09).

    Projects take turns, the one served longest ago first. Within a project the trigger that waited longest comes first.
    """
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
    """Remove triggers from those that wait for a token."""
    if ids:
        statement = update(trigger_status).where(in_list(connection, trigger_status.c.trigger_id, ids))
        connection.execute(statement.values(rate_waiting_since=None))
