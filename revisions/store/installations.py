"""Identity of the installation, and its replicas with the tz database of each (L-14, S-14, X-10).

Remote work is recognised by the installation's id. A copy of the database has the same id until `renew`.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select

from revisions.ids import fresh
from revisions.store.columns import insert_if_absent, update_many
from revisions.store.tables import installation, replicas


def current(connection: Connection) -> str:
    """Return the installation's id."""
    installation_id: str = connection.execute(select(installation.c.installation_id)).scalar_one()
    return installation_id


def renew(connection: Connection, now: datetime) -> str:
    """Give the installation a new id, and return it."""
    remove(connection)
    made = fresh(now)
    connection.execute(insert(installation).values(installation_id=made))
    return made


def remove(connection: Connection) -> None:
    """Delete the id; another must be stored in the same transaction."""
    connection.execute(delete(installation))


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """A process that runs the loop, and when it last reported."""

    replica_id: str
    started_at: datetime
    seen_at: datetime
    version: str
    tzdata: str


def record_replica(connection: Connection, row: ReplicaRow) -> None:
    """Record that a replica is alive."""
    columns = {name: getattr(row, name) for name in ReplicaRow.__slots__}
    if insert_if_absent(connection, replicas, columns) == 0:
        update_many(connection, replicas, "replica_id", [columns])


def newest_replica(connection: Connection) -> ReplicaRow | None:
    """Return the replica that reported last."""
    row = connection.execute(select(replicas).order_by(replicas.c.seen_at.desc()).limit(1)).one_or_none()
    return ReplicaRow(**row._mapping) if row else None


def replicas_seen_since(connection: Connection, at: datetime) -> list[ReplicaRow]:
    """Return the replicas that reported since an instant, oldest first."""
    statement = select(replicas).where(replicas.c.seen_at >= at).order_by(replicas.c.started_at, replicas.c.replica_id)
    return [ReplicaRow(**row._mapping) for row in connection.execute(statement)]


def remove_replica(connection: Connection, replica_id: str) -> None:
    """Delete a replica that has stopped."""
    connection.execute(delete(replicas).where(replicas.c.replica_id == replica_id))


def remove_replicas_before(connection: Connection, at: datetime) -> None:
    """Delete replicas that have not reported since an instant."""
    connection.execute(delete(replicas).where(replicas.c.seen_at < at))
