"""The worker's thread: one pass after another, quick while work is under way, never spinning, never dying."""

import threading
from collections.abc import Mapping
from datetime import timedelta

from reconcile.observations.observation import Observations
from reconcile.observations.process import RunnerFailed, RunnerUnavailable
from reconcile.protocols import Launcher
from reconcile.runs.attempt import SECONDS_TO_END
from reconcile.runs.worker import PassReport, RunnerSettings, Worker
from revisions.clock import Clock
from revisions.errors import Unavailable
from revisions.store.database import Database

__all__ = ["PassReport", "Runner", "RunnerSettings"]

BUSY_SECONDS = 0.05
IDLE_SECONDS = 1.0
LONGEST_BACKOFF_SECONDS = 5.0
SECONDS_TO_HAND_BACK = 10.0
"""Beyond the grace and the time to end; with the database gone for longer, the next worker finds the claims."""
_BUSY_PASSES_PER_LOOK = round(IDLE_SECONDS / BUSY_SECONDS)


class Runner:
    """Runs passes in a thread between `start` and `stop`, or by hand with `run_pass`."""

    def __init__(
        self,
        database: Database,
        observations: Observations,
        launchers: Mapping[str, Launcher],
        *,
        settings: RunnerSettings,
    ) -> None:
        self._worker = Worker(database, observations, launchers, settings=settings)
        self._clock: Clock = database.clock
        self._observations = observations
        self._changed = threading.Condition()
        self._woken = True
        self._give_up_at: float | None = None
        self._thread: threading.Thread | None = None

    @property
    def live(self) -> int:
        """How many attempts are under way here."""
        return self._worker.live

    def run_pass(self) -> PassReport:
        """One pass by hand. Raises Unavailable."""
        return self._worker.run_pass()

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="runner", daemon=True)
        self._thread.start()

    def lives(self) -> bool:
        """Whether the thread is there."""
        return self._thread is not None and self._thread.is_alive()

    def wake(self) -> None:
        """Says that there may be something to claim or to cancel; lost or doubled, it is harmless."""
        with self._changed:
            self._woken = True
            self._changed.notify()

    def drain(self, grace: timedelta) -> None:
        """From now on nothing is claimed; what runs may end within the grace (X-07). Answers at once."""
        self._worker.drain(grace.total_seconds())
        spare = SECONDS_TO_END + SECONDS_TO_HAND_BACK
        self._give_up_at = self._clock.monotonic() + grace.total_seconds() + spare
        self.wake()

    def stop(self, grace: timedelta) -> None:
        """Drains, unless that is done already, and waits; what has not ended is ended and handed back (X-07)."""
        if self._give_up_at is None:
            self.drain(grace)
        if self._thread is None:
            self._run()
        else:
            self._thread.join()
        self._worker.leave()

    def _run(self) -> None:
        failures = passes = 0
        while not self._is_over():
            woken = self._take_wake()
            try:
                self._worker.run_pass(look=woken or failures > 0 or passes % _BUSY_PASSES_PER_LOOK == 0)
                failures = 0
            except Unavailable as error:
                failures += 1
                self._observations.emit(RunnerUnavailable(error.detail))
            except Exception as error:  # noqa: BLE001 - nothing may end this thread; the next pass reads the truth again
                failures += 1
                self._observations.emit(RunnerFailed(repr(error)))
            passes = passes + 1 if self.live else 0
            self._wait(self._pause(failures))

    def _is_over(self) -> bool:
        if self._give_up_at is None:
            return False
        return not self.live or self._clock.monotonic() >= self._give_up_at

    def _pause(self, failures: int) -> float:
        if failures:
            return min(BUSY_SECONDS * (1 << min(failures, 10)), LONGEST_BACKOFF_SECONDS)
        return BUSY_SECONDS if self.live else IDLE_SECONDS

    def _wait(self, seconds: float) -> None:
        with self._changed:
            if not (self._woken or self._is_over()):
                self._changed.wait(seconds)

    def _take_wake(self) -> bool:
        with self._changed:
            woken, self._woken = self._woken, False
            return woken
