"""This process among the replicas: its heartbeat with the tz database it plans with, and its guard against clock jumps.

L-14, S-14; a database clock that jumps ahead is acted on only after two resyncs saw it (L-12, invariant 6).
"""

import threading
from datetime import datetime, timedelta
from typing import Final, NamedTuple

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
TOLERANCE: Final = timedelta(minutes=5)
"""How far `now` may run ahead of the time that went by on the monotonic clock."""


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


class ClockReading(NamedTuple):
    """Both clocks at one moment; `monotonic` in seconds."""

    now: datetime
    monotonic: float

    def is_jump_after(self, earlier: "ClockReading | None") -> bool:
        """Return True if `now` moved on by more than the monotonic time and the tolerance."""
        if earlier is None:
            return False
        return self.now - earlier.now > timedelta(seconds=self.monotonic - earlier.monotonic) + TOLERANCE


class ClockGuard:
    """Compares each reading of the clock with the last accepted one.

    A step back is accepted at once: watermarks do not move back with it, so nothing fires twice. State: the last
    accepted reading and the last refused one. Threads may share it, because batches are decided in several.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._accepted: ClockReading | None = None
        self._refused: ClockReading | None = None

    def accepts(self, now: datetime, monotonic: float) -> bool:
        """Return True if a pass may act on this time."""
        reading = ClockReading(now, monotonic)
        with self._lock:
            if reading.is_jump_after(self._accepted):
                return False
            self._accepted, self._refused = reading, None
            return True

    def accepts_at_resync(self, now: datetime, monotonic: float) -> bool:
        """Return True as `accepts` does, and for a jump that the resync before this one saw too."""
        if self.accepts(now, monotonic):
            return True
        reading = ClockReading(now, monotonic)
        with self._lock:
            if self._refused is None or reading.is_jump_after(self._refused):
                self._refused = reading
                return False
            self._accepted, self._refused = reading, None
            return True
