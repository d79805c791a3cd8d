"""Keep one alarm for each active trigger, by comparing the jobs with the database (L-01, L-03)."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from reconcile.decide.job_changes import JobChanges, diff
from reconcile.loop.timers import Timers
from reconcile.observations.observation import Observations
from reconcile.observations.passes import FeedRead
from revisions.store import feed, status
from revisions.store.database import Database

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
        changes = self._replace_jobs(alarms, self._timers.jobs(), now)
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
        changes = self._replace_jobs(alarms, {trigger: jobs[trigger] for trigger in changed if trigger in jobs}, now)
        # Also where the job has this revision already: the next fire moves without a revision when a calendar or a
        # hold changes.
        for trigger, revision, at in alarms:
            self._set(trigger, revision, at, now)
        self._position = position
        self._emit_lag(changed, now)
        return changes

    def _replace_jobs(
        self, alarms: Sequence[tuple[str, int, datetime | None]], jobs: Mapping[str, int], now: datetime
    ) -> JobChanges:
        changes = diff({trigger: revision for trigger, revision, _ in alarms}, jobs)
        differing = {*changes.added, *changes.replaced}
        for trigger, revision, at in alarms:
            if trigger in differing:
                self._set(trigger, revision, at, now)
        for trigger in changes.removed:
            self._timers.remove(trigger)
        return changes

    def _set(self, trigger_id: str, revision: int, next_fire_at: datetime | None, now: datetime) -> None:
        self._timers.set(trigger_id, revision, next_fire_at - now if next_fire_at else self._interval)

    def _emit_lag(self, changed: Mapping[str, datetime], now: datetime) -> None:
        """Report the age of the oldest change that is new; the feed may repeat changes that were seen before."""
        new = [at for at in changed.values() if at > self._newest_change_at]
        self._newest_change_at = max([self._newest_change_at, *new])
        self._observations.emit(FeedRead((now - min(new)).total_seconds() if new else 0.0))
