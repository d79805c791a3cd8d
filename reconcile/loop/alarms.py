"""One alarm in memory for each active trigger, and the queue of due triggers (L-01, L-03).

This is the only module that uses APScheduler. The alarms are kept in line with the database by comparing jobs and
active triggers. An alarm carries the id of a trigger and nothing else. Whether the trigger really is due is read from
the database by the due pass, so a lost, late or doubled alarm is harmless.
"""

import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from apscheduler.executors.debug import DebugExecutor
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger

from reconcile.decide.job_changes import JobChanges, diff
from reconcile.observations.observation import Observations
from reconcile.observations.passes import FeedRead
from revisions.store import revisions, status
from revisions.store.database import Database

SHORTEST_DELAY = timedelta(milliseconds=10)
"""Alarms are set no nearer than this, so that a host clock ahead of the server's cannot make the loop spin."""
LONGEST_DELAY = timedelta(days=3650)
"""Alarms are set no farther than this; the due pass sets one that goes off too early again."""
StoredAlarm = tuple[str, int, datetime | None]
"""Trigger id, revision and next fire of an active trigger."""
PAGE = 1_000
"""Entries of the change feed that are read at once."""


class DueQueue:
    """Triggers whose alarm went off, and the request to resync: what wakes the loop's thread.

    Any thread may add to it. Entries are only hints, because the loop reads the database before it acts on one.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: set[str] = set()
        self._resync_requested = False
        self.is_open = True

    def add(self, trigger_id: str) -> None:
        """Add a trigger that is due."""
        with self._changed:
            self._due.add(trigger_id)
            self._changed.notify()

    def request_resync(self) -> None:
        """Ask for a resync, because something changed."""
        with self._changed:
            self._resync_requested = True
            self._changed.notify()

    def close(self) -> None:
        """Ask the loop's thread to end."""
        with self._changed:
            self.is_open = False
            self._changed.notify()

    def pop_resync_request(self) -> bool:
        """Return True if a resync was requested since the last call."""
        with self._changed:
            requested, self._resync_requested = self._resync_requested, False
        return requested

    def pop_due(self) -> list[str]:
        """Return the triggers added since the last call, sorted by id."""
        with self._changed:
            due, self._due = self._due, set()
        return sorted(due)

    def wait(self, seconds: float) -> None:
        """Block until the queue is closed or has an entry, for at most `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: not self.is_open or self._due or self._resync_requested, seconds)

    def wait_for_close(self, seconds: float) -> None:
        """Block until the queue is closed, for at most `seconds`; entries do not shorten the wait."""
        with self._changed:
            self._changed.wait_for(lambda: not self.is_open, seconds)


class Alarm(BaseTrigger):  # type: ignore[misc]  # ships no types
    """APScheduler trigger that keeps a job after its alarm: the next one is due an interval later.

    It must not raise, since an exception here ends APScheduler's thread. So it computes nothing from a schedule.
    """

    def __init__(self, interval: timedelta) -> None:
        self._interval = interval

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        return now + self._interval


class Timers:
    """One job for each active trigger; when its alarm goes off, the trigger's id is put into the due queue.

    Delays are given, never instants of the server's clock, because only differences hold on another host's clock.
    """

    def __init__(self, due_queue: DueQueue, interval: timedelta) -> None:
        self._due_queue = due_queue
        self._alarm = Alarm(interval)
        self._revisions: dict[str, int] = {}
        self._scheduler = BackgroundScheduler(
            jobstores={"default": MemoryJobStore()},
            executors={"default": DebugExecutor()},  # runs the job in the scheduler's thread: it only fills the queue
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
            timezone=UTC,
        )

    def jobs(self) -> Mapping[str, int]:
        """Return the revision that each job was set for, by trigger id."""
        return self._revisions

    def next_alarm(self, trigger_id: str) -> datetime | None:
        """Return the instant of a job's next alarm on this host's clock, None without a job."""
        job = self._scheduler.get_job(trigger_id)
        return job.next_run_time if job else None

    def set(self, trigger_id: str, revision: int, delay: timedelta) -> None:
        """Add a job, or move its alarm, to `delay` from now."""
        at = datetime.now(UTC) + min(max(delay, SHORTEST_DELAY), LONGEST_DELAY)  # APScheduler uses the host's clock
        if trigger_id in self._revisions:
            self._scheduler.modify_job(trigger_id, next_run_time=at)
        else:
            self._scheduler.add_job(
                self._due_queue.add, self._alarm, args=(trigger_id,), id=trigger_id, next_run_time=at
            )
        self._revisions[trigger_id] = revision

    def remove(self, trigger_id: str) -> None:
        """Remove a job; does nothing without one."""
        if self._revisions.pop(trigger_id, None) is not None:
            self._scheduler.remove_job(trigger_id)

    def start(self) -> None:
        self._scheduler.start()

    def stop(self) -> None:
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)


class Alarms:
    """Follows the change feed, so that a comparison costs as much as there are changes, not triggers.

    State: the position in the feed, and the newest change that was seen.
    """

    def __init__(self, database: Database, timers: Timers, observations: Observations, interval: timedelta) -> None:
        self._database = database
        self._timers = timers
        self._observations = observations
        self._interval = interval
        self._position: revisions.Position | None = None
        self._newest_change_at = datetime.min.replace(tzinfo=UTC)

    def update(self, *, full: bool = False) -> JobChanges:
        """Set and remove jobs so that they are those of the database, and return what was changed.

        Compares the triggers that changed since the last call; with `full`, and at the first call, all of them.
        """
        if full or self._position is None:
            return self._update_all()
        return self._update_changed(self._position)

    def _update_all(self) -> JobChanges:
        with self._database.read() as connection:
            # The position comes before the triggers: what commits in between is read again, and not missed.
            position = revisions.end(connection)
            alarms = status.desired_alarms(connection)
            now = self._database.clock.now(connection)
        changes = _job_changes(alarms, self._timers.jobs())
        differing = {*changes.added, *changes.replaced}
        self._apply(changes, [alarm for alarm in alarms if alarm[0] in differing], now)
        self._position = position
        return changes

    def _update_changed(self, position: revisions.Position) -> JobChanges:
        changed: dict[str, datetime] = {}
        more = True
        with self._database.read() as connection:
            now = self._database.clock.now(connection)
            while more:
                page = revisions.read(connection, position, PAGE)
                changed |= {change.trigger_id: change.at for change in page.items}
                position, more = page.position, page.more
            alarms = status.desired_alarms(connection, sorted(changed)) if changed else []
        jobs = self._timers.jobs()
        changes = _job_changes(alarms, {trigger: jobs[trigger] for trigger in changed if trigger in jobs})
        # All of them, also those whose job has this revision already: a rebuild announces revisions again.
        self._apply(changes, alarms, now)
        self._position = position
        self._emit_lag(changed, now)
        return changes

    def _apply(self, changes: JobChanges, alarms: Sequence[StoredAlarm], now: datetime) -> None:
        for trigger_id, revision, next_fire_at in alarms:
            self._timers.set(trigger_id, revision, next_fire_at - now if next_fire_at else self._interval)
        for trigger_id in changes.removed:
            self._timers.remove(trigger_id)

    def _emit_lag(self, changed: Mapping[str, datetime], now: datetime) -> None:
        """Report the age of the oldest change that is new; the feed may repeat changes that were seen before."""
        new = [at for at in changed.values() if at > self._newest_change_at]
        self._newest_change_at = max([self._newest_change_at, *new])
        self._observations.emit(FeedRead((now - min(new)).total_seconds() if new else 0.0))


def _job_changes(alarms: Sequence[StoredAlarm], jobs: Mapping[str, int]) -> JobChanges:
    return diff({trigger_id: revision for trigger_id, revision, _ in alarms}, jobs)
