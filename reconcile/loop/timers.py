"""APScheduler as an alarm clock: one job per trigger, which says "trigger T is due" and nothing else.

What is due, and whether, the due pass reads from the database; so a lost, late or doubled alarm is harmless.
"""

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from apscheduler.executors.debug import DebugExecutor
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger

SHORTEST = timedelta(milliseconds=10)
"""No alarm is set nearer than this, so that a host clock beside the server's cannot make the loop spin."""
LONGEST = timedelta(days=3650)


class Alarm(BaseTrigger):  # type: ignore[misc]  # ships no types
    """After it rang, the job stays and would ring again an interval later: it computes nothing and cannot raise."""

    def __init__(self, again: timedelta) -> None:
        self._again = again

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        return now + self._again


class Timers:
    """The jobs, each for one revision of one trigger; `ring` is called in the scheduler's thread with the trigger's id.

    Spans are given, never the server's instants: only differences are true on another host's clock.
    """

    def __init__(self, ring: Callable[[str], None], again: timedelta) -> None:
        self._ring = ring
        self._alarm = Alarm(again)
        self._revisions: dict[str, int] = {}
        self._scheduler = BackgroundScheduler(
            jobstores={"default": MemoryJobStore()},
            executors={"default": DebugExecutor()},
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
            timezone=UTC,
        )

    def jobs(self) -> Mapping[str, int]:
        """Trigger → revision of the jobs there are."""
        return self._revisions

    def next_ring(self, trigger_id: str) -> datetime | None:
        """When a job will ring by this host's clock, None when there is no such job."""
        job = self._scheduler.get_job(trigger_id)
        return job.next_run_time if job else None

    def set(self, trigger_id: str, revision: int, delay: timedelta) -> None:
        """Adds a job, or moves its alarm to `delay` from now."""
        at = datetime.now(UTC) + min(max(delay, SHORTEST), LONGEST)  # APScheduler runs by the host's clock
        if trigger_id in self._revisions:
            self._scheduler.modify_job(trigger_id, next_run_time=at)
        else:
            self._scheduler.add_job(self._ring, self._alarm, args=(trigger_id,), id=trigger_id, next_run_time=at)
        self._revisions[trigger_id] = revision

    def remove(self, trigger_id: str) -> None:
        """Removes a job; harmless when there is none."""
        if self._revisions.pop(trigger_id, None) is not None:
            self._scheduler.remove_job(trigger_id)

    def start(self) -> None:
        self._scheduler.start()

    def stop(self) -> None:
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)


class Bell:
    """Rings and wakes are only hints: a lost or doubled one is harmless, for the pass reads the truth again."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: set[str] = set()
        self._woken = False
        self.open = True

    def ring(self, trigger_id: str) -> None:
        """A trigger is due."""
        with self._changed:
            self._due.add(trigger_id)
            self._changed.notify()

    def wake(self) -> None:
        """Something changed."""
        with self._changed:
            self._woken = True
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self.open = False
            self._changed.notify()

    def woken(self) -> bool:
        """Whether something changed since the last time this was asked."""
        with self._changed:
            woken, self._woken = self._woken, False
        return woken

    def take(self) -> list[str]:
        """The triggers that rang since the last time."""
        with self._changed:
            due, self._due = self._due, set()
        return sorted(due)

    def wait(self, seconds: float, *, patiently: bool) -> None:
        """Until something is due or changed, at most `seconds`; patiently, nothing but the close cuts it short."""
        with self._changed:
            self._changed.wait_for(lambda: not self.open or (not patiently and (self._due or self._woken)), seconds)
