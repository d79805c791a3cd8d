"""Heartbeat of this process among the replicas, with the tz database that it plans with (L-14, S-14)."""

from datetime import timedelta

from reconcile.observations.observation import Observations
from reconcile.observations.passes import ReplicasCounted, TzdataChanged, TzdataDiffers
from reconcile.schedule.zones import TZDATA_VERSION
from revisions.ids import fresh
from revisions.store import installations as store
from revisions.store import status as status_store
from revisions.store.database import Database
from revisions.store.installations import ReplicaRow

MISSED_BEATS = 3
"""Resync intervals without a beat after which a replica is not counted any more."""
FORGOTTEN_AFTER = timedelta(days=7)
"""Time without a beat after which the row of a replica is deleted."""


class Replica:
    """Writes the row of this process at each resync.

    The row is for people and metrics only: no work is owned by a replica, so none waits when a beat is missed. State:
    the row's id and start, and the differing tz databases that were reported last.
    """

    def __init__(self, database: Database, observations: Observations, version: str) -> None:
        self._database = database
        self._observations = observations
        self._version = version
        self._row: ReplicaRow | None = None
        self._reported: frozenset[str] = frozenset()

    def beat(self, interval: timedelta) -> None:
        """Write the row, count the replicas, and report when others plan with another tz database.

        The first beat with a new tz database has every trigger's next fire computed anew. Raises Unavailable.
        """
        with self._database.write() as connection:
            now = self._database.clock.now(connection)
            if self._row is None:
                before = store.newest_replica(connection)
                if before is not None and before.tzdata != TZDATA_VERSION:
                    status_store.recompute_every_next_fire(connection, now)
                    self._observations.emit(TzdataChanged(before.tzdata, TZDATA_VERSION))
                self._row = ReplicaRow(fresh(now), now, now, self._version, TZDATA_VERSION)
            self._row = ReplicaRow(self._row.replica_id, self._row.started_at, now, self._version, TZDATA_VERSION)
            store.record_replica(connection, self._row)
            store.remove_replicas_before(connection, now - FORGOTTEN_AFTER)
            present = store.replicas_seen_since(connection, now - MISSED_BEATS * interval)
        others = frozenset(row.tzdata for row in present) - {TZDATA_VERSION}
        if others != self._reported:
            self._reported = others
            self._observations.emit(TzdataDiffers(TZDATA_VERSION, sorted(others)))
        self._observations.emit(ReplicasCounted(len(present)))

    def leave(self) -> None:
        """Delete the row, because this process stops. Raises Unavailable."""
        if self._row is not None:
            with self._database.write() as connection:
                store.remove_replica(connection, self._row.replica_id)
