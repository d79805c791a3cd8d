"""One alarm for each active trigger, kept in line with the database through its change feed (L-01, L-03)."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from reconcile.decide.job_changes import JobChanges, diff
from reconcile.loop.timers import Timers
from reconcile.observations.observation import Observations
from reconcile.observations.passes import FeedRead
from revisions.store import feed, status
from revisions.store.database import Database

PAGE = 1_000
"""Changes read from the feed at once."""


class Alarms:
    """Follows the active triggers: what it costs goes with what changed, not with how many there are."""

    def __init__(self, database: Database, timers: Timers, observations: Observations, interval: timedelta) -> None:
        self._database = database
        self._timers = timers
        self._observations = observations
        self._interval = interval
        self._position: feed.Position | None = None
        self._told_until = datetime.min.replace(tzinfo=UTC)

    def follow(self, *, full: bool = False) -> JobChanges:
        """Brings the jobs to what the database says: what changed, or everything on start and when asked to."""
        if full or self._position is None:
            return self._compare_all()
        return self._compare_changed(self._position)

    def _compare_all(self) -> JobChanges:
        with self._database.read() as connection:
            position = feed.end(connection)
            alarms = status.desired_alarms(connection)
            now = self._database.clock.now(connection)
        changes = self._set(alarms, self._timers.jobs(), now)
        self._position = position
        return changes

    def _compare_changed(self, position: feed.Position) -> JobChanges:
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
        changes = self._set(alarms, {trigger: jobs[trigger] for trigger in changed if trigger in jobs}, now)
        for trigger, revision, at in alarms:  # the same revision told again: when it fires next was moved
            self._timers.set(trigger, revision, at - now if at else self._interval)
        self._position = position
        self._tell_lag(changed, now)
        return changes

    def _set(
        self, alarms: Sequence[tuple[str, int, datetime | None]], jobs: Mapping[str, int], now: datetime
    ) -> JobChanges:
        changes = diff({trigger: revision for trigger, revision, _ in alarms}, jobs)
        touched = {*changes.added, *changes.replaced}
        for trigger, revision, at in alarms:
            if trigger in touched:
                self._timers.set(trigger, revision, at - now if at else self._interval)
        for trigger in changes.removed:
            self._timers.remove(trigger)
        return changes

    def _tell_lag(self, changed: Mapping[str, datetime], now: datetime) -> None:
        """How long the oldest change that was not known yet had waited; the feed may repeat the others."""
        new = [at for at in changed.values() if at > self._told_until]
        self._told_until = max([self._told_until, *new])
        self._observations.emit(FeedRead((now - min(new)).total_seconds() if new else 0.0))
