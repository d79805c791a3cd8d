"""Keep one alarm for each active trigger, by comparing the jobs with the database (L-01, L-03)."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from reconcile.decide.job_changes import JobChanges, diff
from reconcile.loop.timers import Timers
from reconcile.observations.observation import Observations
from reconcile.observations.passes import FeedRead
from revisions.store import feed, status
from revisions.store.database import Database

StoredAlarm = tuple[str, int, datetime | None]
"""Trigger id, revision and next fire of an active trigger."""

PAGE = 1_000
"""Entries of the change feed that are read at once."""


class Alarms:
    """Follows the change feed, so that a comparison costs as much as there are changes, not triggers.

    State: the position in the feed, and the newest change that was seen.
    """

    def __init__(self, database: Database, timers: Timers, observations: Observations, interval: timedelta) -> None:
        self._database = database
        self._timers = timers
        self._observations = observations
        self._interval = interval
        self._position: feed.Position | None = None
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
            position = feed.end(connection)
            alarms = status.desired_alarms(connection)
            now = self._database.clock.now(connection)
        changes = _job_changes(alarms, self._timers.jobs())
        differing = {*changes.added, *changes.replaced}
        self._apply(changes, [alarm for alarm in alarms if alarm[0] in differing], now)
        self._position = position
        return changes

    def _update_changed(self, position: feed.Position) -> JobChanges:
        changed: dict[str, datetime] = {}
        more = True
        with self._database.read() as connection:
            now = self._database.clock.now(connection)
            while more:
                page = feed.read(connection, position, PAGE)
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
