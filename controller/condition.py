"""How this process is, as its parts show it: what probes are told (O-05)."""

from collections.abc import Callable
from datetime import timedelta

from reconcile.observations.observation import Observation
from reconcile.observations.passes import LoopResynced
from revisions.errors import Unavailable

MISSED_RESYNCS = 3
LEAST_PATIENCE = timedelta(minutes=1)


class Condition:
    """Lives as long as its parts do, and is ready while its loop looks at the database and nobody has told it to stop.

    `monotonic` is in seconds, `interval` that between two resyncs.
    """

    def __init__(self, monotonic: Callable[[], float], interval: timedelta) -> None:
        self._monotonic = monotonic
        self._patience = max(MISSED_RESYNCS * interval, LEAST_PATIENCE).total_seconds()
        self._parts: dict[str, Callable[[], bool]] = {}
        self._resynced_at: float | None = None
        self._is_leaving = False

    def begin(self, parts: dict[str, Callable[[], bool]]) -> None:
        """The parts that run from now on, and how to ask each whether it still does."""
        self._parts = parts
        self._resynced_at = self._monotonic() if "loop" in parts else None

    def leave(self) -> None:
        """From now on it is not ready, and its parts may end."""
        self._is_leaving = True

    def note_resync(self, observation: Observation) -> None:
        """Note the time of each resync; other observations change nothing."""
        if isinstance(observation, LoopResynced):
            self._resynced_at = self._monotonic()

    def check_alive(self) -> None:
        """Raises Unavailable when a part has ended that should run: only a restart brings it back."""
        ended = [part for part, lives in self._parts.items() if not lives()]
        if ended and not self._is_leaving:
            raise Unavailable.hinted("process", f"has ended by itself: {', '.join(ended)}", "restart it")

    def check_ready(self) -> None:
        """Raises Unavailable when nothing new should be brought here."""
        if self._is_leaving:
            raise Unavailable.hinted("process", "is stopping", "ask another replica")
        self.check_alive()
        if self._resynced_at is not None and (since := self._monotonic() - self._resynced_at) > self._patience:
            detail = f"the loop has not looked at the database for {since:.0f} s"
            raise Unavailable.hinted("process", detail, "see what it logs; `loop.failed` says why a pass failed")
