"""Whether the clock can be believed: a step forward is acted on only once it was seen twice (L-12, invariant 6)."""

import threading
from datetime import datetime, timedelta
from typing import Final

LONGEST: Final = timedelta(minutes=5)
"""How far `now` may run ahead of the time that went by on the monotonic clock."""


class Jumps:
    """Compares each `now` with the one before and the monotonic time between; a step back is believed at once.

    What was decided under a later time stays decided, so going back fires nothing twice.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._believed: tuple[datetime, float] | None = None
        self._doubted: tuple[datetime, float] | None = None

    def believes(self, now: datetime, monotonic: float) -> bool:
        """Whether a pass may act on this time."""
        with self._lock:
            if _ran_ahead(self._believed, now, monotonic):
                return False
            self._believed, self._doubted = (now, monotonic), None
            return True

    def confirms(self, now: datetime, monotonic: float) -> bool:
        """As `believes`, for a resync: the second one that sees the same step believes it."""
        if self.believes(now, monotonic):
            return True
        with self._lock:
            seen_before = self._doubted is not None and not _ran_ahead(self._doubted, now, monotonic)
            self._doubted = (now, monotonic)
            if seen_before:
                self._believed, self._doubted = (now, monotonic), None
        return seen_before


def _ran_ahead(since: tuple[datetime, float] | None, now: datetime, monotonic: float) -> bool:
    if since is None:
        return False
    before, then = since
    return now - before > timedelta(seconds=monotonic - then) + LONGEST
