"""Which replicas there are, and with which tz database each plans (L-14, S-14)."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, delete, select

from revisions.store.batches import insert_if_absent, update_many
from revisions.store.tables import replicas


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """One process that runs the loop, and when it was last seen."""

    replica_id: str
    started_at: datetime
    seen_at: datetime
    version: str
    tzdata: str


def see(connection: Connection, row: ReplicaRow) -> None:
    """Notes that a replica is there."""
    columns = {name: getattr(row, name) for name in ReplicaRow.__slots__}
    if insert_if_absent(connection, replicas, columns) == 0:
        update_many(connection, replicas, "replica_id", [columns])


def newest(connection: Connection) -> ReplicaRow | None:
    """The one that was seen last."""
    row = connection.execute(select(replicas).order_by(replicas.c.seen_at.desc()).limit(1)).one_or_none()
    return ReplicaRow(**row._mapping) if row else None


def seen_since(connection: Connection, at: datetime) -> list[ReplicaRow]:
    """Those that were seen since an instant, oldest first."""
    statement = select(replicas).where(replicas.c.seen_at >= at).order_by(replicas.c.started_at, replicas.c.replica_id)
    return [ReplicaRow(**row._mapping) for row in connection.execute(statement)]


def forget(connection: Connection, replica_id: str) -> None:
    """One has stopped."""
    connection.execute(delete(replicas).where(replicas.c.replica_id == replica_id))


def forget_before(connection: Connection, at: datetime) -> None:
    """Those that nobody saw since."""
    connection.execute(delete(replicas).where(replicas.c.seen_at < at))
