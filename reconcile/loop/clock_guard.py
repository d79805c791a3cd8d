"""Guard against a database clock that jumps ahead: acted on only after two resyncs saw it (L-12, invariant 6)."""

import threading
from datetime import datetime, timedelta
from typing import Final, NamedTuple

TOLERANCE: Final = timedelta(minutes=5)
"""How far `now` may run ahead of the time that went by on the monotonic clock."""


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
