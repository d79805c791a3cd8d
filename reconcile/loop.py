"""The reconcile loop: resync compares jobs with the database, the due pass decides; one thread does both."""

import threading
from collections.abc import Sequence
from datetime import timedelta

from reconcile.alarms import Alarms
from reconcile.deciding import Decided, Deciding
from reconcile.deploying import Deploying
from reconcile.observe import Observations
from reconcile.rules.diff import Difference
from reconcile.timers import Timers
from revisions.errors import Unavailable
from revisions.store import status as status_store
from revisions.store import triggers as trigger_store
from revisions.store.database import Database

BATCH = 500
"""Triggers decided in one transaction, at most."""
ASKED_AGAIN = timedelta(milliseconds=500)
"""A row that somebody else held is asked again within a second."""
POLL_SECONDS = 1.0
"""How often the feed is looked at where nobody notifies."""
LONGEST_BACKOFF_SECONDS = 30.0


class Loop:
    """Passes can be called by hand (`resync`, `due`, `catch_up`); `start` has a thread call them when it is time."""

    def __init__(
        self, database: Database, deploying: Deploying, deciding: Deciding, observations: Observations
    ) -> None:
        self._database = database
        self._deploying = deploying
        self._deciding = deciding
        self._observations = observations
        self._interval = deciding.pace.resync_interval
        self._bell = _Bell()
        self.timers = Timers(self._bell.ring, self._interval)
        self._alarms = Alarms(database, self.timers, observations, self._interval)
        self._thread: threading.Thread | None = None

    def resync(self, *, full: bool = False) -> Difference:
        """Makes the jobs what the database says, and decides what is overdue, whatever became of its alarm (L-03).

        With `full` everything is compared, not only what changed since the last time.
        """
        began = self._database.clock.monotonic()
        self._deploying.resume_paused()
        changes = self._alarms.follow(full=full)
        with self._database.read() as connection:
            overdue = status_store.due(connection, self._database.clock.now(connection))
        self.due(overdue)
        self.catch_up()
        self._stop_finished()
        seconds = self._database.clock.monotonic() - began
        self._observations.emit("loop.resynced", changes=changes, jobs=len(self.timers.jobs()), seconds=seconds)
        return changes

    def due(self, ids: Sequence[str]) -> int:
        """Decides these triggers in batches and moves their alarms; answers how many runs were made."""
        started = 0
        for start in range(0, len(ids), BATCH):
            decided = self._decide(sorted(ids[start : start + BATCH]))
            started += decided.started
            self._follow(decided)
        return started

    def catch_up(self) -> bool:
        """Serves the backlogs within this loop's cap; True when more of them waits for nothing but tokens."""
        while True:
            decided = self._deciding.catch_up()
            self._follow(decided)
            if decided.started == 0 or decided.waiting:
                return decided.waiting

    def wake(self) -> None:
        """Something changed: resync soon. Any thread may call it, and a lost or doubled call is harmless."""
        self._bell.wake()

    def start(self) -> None:
        """Runs the passes in a thread of the loop's own."""
        self.timers.start()
        self._thread = threading.Thread(target=self._run, name="loop", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after the pass it is in."""
        self._bell.close()
        if self._thread:
            self._thread.join()
        self.timers.stop()  # last: the pass that was under way still sets alarms

    def _decide(self, ids: Sequence[str]) -> Decided:
        """One batch; where data makes it fail it is halved until the culprit stands alone, and is left for later."""
        try:
            return self._deciding.due(ids)
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001  # whatever one row's data did, the others go on
            if len(ids) == 1:
                self._observations.emit("trigger.undecidable", trigger_id=ids[0], error=repr(error))
                return Decided(unreadable=list(ids))
        middle = len(ids) // 2
        first, second = self._decide(ids[:middle]), self._decide(ids[middle:])
        return first.joined(second)

    def _follow(self, decided: Decided) -> None:
        jobs = self.timers.jobs()
        for trigger, revision, span in decided.alarms:
            if jobs.get(trigger) == revision:
                self.timers.set(trigger, revision, span if span is not None else self._interval)
        for trigger in decided.busy:
            if trigger in jobs:
                self.timers.set(trigger, jobs[trigger], ASKED_AGAIN)
        for trigger in decided.failing:
            self._deploying.stop(trigger, "failures")
        if any(span is None for _, _, span in decided.alarms):
            self._stop_finished()

    def _stop_finished(self) -> None:
        with self._database.read() as connection:
            finished = status_store.finished(connection)
        for trigger in finished:
            self._deploying.stop(trigger, "completed")

    def _run(self) -> None:
        clock = self._database.clock
        failures, seen, waiting = 0, -1, False
        next_resync = next_poll = clock.monotonic()
        while self._bell.open:
            try:
                if self._bell.woken() or clock.monotonic() >= next_resync:
                    next_resync = clock.monotonic() + self._interval.total_seconds()
                    self.resync()
                elif waiting:
                    waiting = self.catch_up()
                if clock.monotonic() >= next_poll:
                    next_poll = clock.monotonic() + POLL_SECONDS
                    seen, before = self._newest_change(), seen
                    if before not in (-1, seen):
                        self._bell.wake()
                self.due(self._bell.take())
                failures = 0
            except Exception as error:  # noqa: BLE001  # the loop outlives whatever a pass ran into (L-11)
                failures += 1
                self._observations.emit("loop.failed", error=str(error), unexpected=not isinstance(error, Unavailable))
                self._bell.wake()
            pause = min(2.0**failures, LONGEST_BACKOFF_SECONDS) / 2 if failures else POLL_SECONDS
            self._bell.wait(pause, patiently=failures > 0)

    def _newest_change(self) -> int:
        with self._database.read() as connection:
            return trigger_store.newest_change(connection)


class _Bell:
    """Ids that are due and whether to resync, from any thread to the loop's."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: set[str] = set()
        self._woken = False
        self.open = True

    def ring(self, trigger_id: str) -> None:
        with self._changed:
            self._due.add(trigger_id)
            self._changed.notify()

    def wake(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self.open = False
            self._changed.notify()

    def woken(self) -> bool:
        with self._changed:
            woken, self._woken = self._woken, False
        return woken

    def take(self) -> list[str]:
        with self._changed:
            due, self._due = self._due, set()
        return sorted(due)

    def wait(self, seconds: float, *, patiently: bool) -> None:
        """Until something is due or changed, at most `seconds`; patiently, nothing but the close cuts it short."""
        with self._changed:
            self._changed.wait_for(lambda: not self.open or (not patiently and (self._due or self._woken)), seconds)
