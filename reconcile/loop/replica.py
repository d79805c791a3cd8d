"""This process among the others: that it is there, and with which tz database it plans (L-14, S-14)."""

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
"""A replica that was not seen for so many resync intervals is not counted."""
FORGOTTEN_AFTER = timedelta(days=7)


class Replica:
    """One beat at each resync. Nothing is owned by a replica, so nothing hangs on its being seen."""

    def __init__(self, database: Database, observations: Observations, version: str) -> None:
        self._database = database
        self._observations = observations
        self._version = version
        self._row: ReplicaRow | None = None
        self._told: frozenset[str] = frozenset()

    def beat(self, interval: timedelta) -> None:
        """Notes that this replica is there, and tells when others plan with another tz database.

        The first beat after an update of the tz database has everything planned anew.
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
            there = store.replicas_seen_since(connection, now - MISSED_BEATS * interval)
        others = frozenset(row.tzdata for row in there) - {TZDATA_VERSION}
        if others != self._told:
            self._told = others
            self._observations.emit(TzdataDiffers(TZDATA_VERSION, sorted(others)))
        self._observations.emit(ReplicasCounted(len(there)))

    def leave(self) -> None:
        """This replica stops."""
        if self._row is not None:
            with self._database.write() as connection:
                store.remove_replica(connection, self._row.replica_id)
