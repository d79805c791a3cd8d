"""Which installation a database is: an id by which what runs elsewhere is known to be its own (X-10).

A copy of the database has the same one until it is given another.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select

from revisions.ids import fresh
from revisions.store.batches import insert_if_absent, update_many
from revisions.store.tables import installation, replicas


def current(connection: Connection) -> str:
    """Its id."""
    found: str = connection.execute(select(installation.c.installation_id)).scalar_one()
    return found


def renew(connection: Connection, now: datetime) -> str:
    """Makes it another installation, and answers its id."""
    remove(connection)
    made = fresh(now)
    connection.execute(insert(installation).values(installation_id=made))
    return made


def remove(connection: Connection) -> None:
    """Removes the id, for another that follows in the same transaction."""
    connection.execute(delete(installation))


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """One process that runs the loop, and when it was last seen."""

    replica_id: str
    started_at: datetime
    seen_at: datetime
    version: str
    tzdata: str


def record_replica(connection: Connection, row: ReplicaRow) -> None:
    """Notes that a replica is there."""
    columns = {name: getattr(row, name) for name in ReplicaRow.__slots__}
    if insert_if_absent(connection, replicas, columns) == 0:
        update_many(connection, replicas, "replica_id", [columns])


def newest_replica(connection: Connection) -> ReplicaRow | None:
    """The one that was seen last."""
    row = connection.execute(select(replicas).order_by(replicas.c.seen_at.desc()).limit(1)).one_or_none()
    return ReplicaRow(**row._mapping) if row else None


def replicas_seen_since(connection: Connection, at: datetime) -> list[ReplicaRow]:
    """Those that were seen since an instant, oldest first."""
    statement = select(replicas).where(replicas.c.seen_at >= at).order_by(replicas.c.started_at, replicas.c.replica_id)
    return [ReplicaRow(**row._mapping) for row in connection.execute(statement)]


def remove_replica(connection: Connection, replica_id: str) -> None:
    """One has stopped."""
    connection.execute(delete(replicas).where(replicas.c.replica_id == replica_id))


def remove_replicas_before(connection: Connection, at: datetime) -> None:
    """Those that nobody saw since."""
    connection.execute(delete(replicas).where(replicas.c.seen_at < at))
