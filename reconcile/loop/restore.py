"""After a restore: what the lost time would have fired is recorded instead of fired, and nothing runs twice (O-07)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from reconcile.decide.changes import has_occurrences
from reconcile.decide.retry import AttemptOutcome
from reconcile.loop.replica import MISSED_BEATS
from reconcile.observations.observation import Observations
from reconcile.observations.runs import WaitEnded
from reconcile.observations.specs import BaselineDeclared
from reconcile.report.installation_checks import span
from reconcile.runs.attempt import Ended
from reconcile.runs.settle import settle
from reconcile.schedule import ranges
from reconcile.triggers.activation import resume_paused
from reconcile.triggers.append import skip_of
from reconcile.triggers.closed_days import read_terms
from revisions.errors import Conflict
from revisions.history.triggers import SYSTEM, Trigger
from revisions.outcomes import OccurrenceOutcome, SkipReason
from revisions.store import backlogs as backlog_store
from revisions.store import claims, feed, installations, notices, occurrences, run_orders
from revisions.store import runs as run_store
from revisions.store import status as status_store
from revisions.store import triggers as trigger_store
from revisions.store.database import Connection, Database
from revisions.store.occurrences import Skip
from revisions.store.status import StatusRow

BATCH = 500
"""Triggers of one transaction."""
LOST = "the database was restored from a backup: nobody knows what became of it"


@dataclass(frozen=True, slots=True)
class Restored:
    """How many ranges of occurrences were recorded, how many runs ended, and the triggers that could not be read."""

    ranges: int
    runs: int
    unreadable: Sequence[str]


class Restoring:
    """Done once, by the first controller after a restore; cut off anywhere, it can be done again."""

    def __init__(self, database: Database, observations: Observations) -> None:
        self._database = database
        self._observations = observations

    def begin_anew(self, interval: timedelta) -> Restored:
        """Decides everything up to now as superseded, for the reason `restore`, and ends the runs of the backup.

        A replica that was seen within the last resync intervals is none of the backup's. Raises Conflict when there is
        one, for then this is no database that was just restored, and Unavailable.
        """
        way = "start the others without --baseline"
        refuse_company(self._database, interval, "baseline", "it was not just restored", way)
        with self._database.write() as connection:
            feed.renumber(connection)
        resume_paused(self._database, self._observations)
        with self._database.read() as connection:
            ids = status_store.all_trigger_ids(connection)
        skips, unreadable = 0, list[str]()
        for start in range(0, len(ids), BATCH):
            recorded, unread = self._give_up(ids[start : start + BATCH])
            skips, unreadable = skips + recorded, unreadable + unread
        restored = Restored(skips, self._end_running() + self._end_pending(), unreadable)
        self._observations.emit(BaselineDeclared(restored.ranges, restored.runs, restored.unreadable))
        return restored

    def _give_up(self, ids: Sequence[str]) -> tuple[int, list[str]]:
        """Moves the watermarks to now, under their locks, with the record of what that leaves out (invariant 4)."""
        skips, moved, unreadable = list[Skip](), list[str](), list[str]()
        with self._database.write() as connection:
            rows = status_store.lock(connection, ids)
            now = self._database.clock.now(connection)
            for row in rows:
                trigger = trigger_store.by_id(connection, row.trigger_id)
                if trigger is None or not has_occurrences(trigger):
                    continue
                try:
                    skips += _lost(connection, trigger, row, now)
                except ValueError:
                    unreadable.append(str(trigger.key))
                    continue
                moved.append(row.trigger_id)
                backlog_store.delete_all(connection, row.trigger_id)
            occurrences.record(connection, skips)
            status_store.move_watermarks(connection, [row for row in rows if row.trigger_id in set(moved)], now)
            notices.changed(connection)
        return len(skips), unreadable

    def _end_running(self) -> int:
        """Runs that were worked on when the backup was made; what is left of their work is nobody's."""
        ended = 0
        with self._database.read() as connection:
            running = claims.lapsed(connection, datetime.max.replace(tzinfo=UTC), 1_000_000)
        for run in running:
            lost = Ended(AttemptOutcome.LOST, LOST, is_final=True, is_counted=False)
            ended += settle(self._database, self._observations, run, lost).decision is not None
        return ended

    def _end_pending(self) -> int:
        """Runs that waited then: since then they were done. What is parked is still for somebody to approve."""
        with self._database.write() as connection:
            run_store.lock_queue(connection)
            now = self._database.clock.now(connection)
            over = run_orders.cancel_all_pending(connection, now, SYSTEM, LOST)
            names = trigger_store.keys(connection, {run.trigger_id for run in over})
        for run in over:
            self._observations.emit(WaitEnded(run, names.get(run.trigger_id), now))
        return len(over)


def refuse_company(database: Database, interval: timedelta, path: str, so: str, way: str) -> None:
    """Raises Conflict when a controller with a loop was seen on a database within the last resync intervals.

    `so` says what follows from that; `way` is the way out beside stopping them.
    """
    lately = MISSED_BEATS * interval
    with database.read() as connection:
        there = len(installations.replicas_seen_since(connection, database.clock.now(connection) - lately))
    if there:
        run = "1 controller runs" if there == 1 else f"{there} controllers run"
        later = f"try again {span(lately.total_seconds())} later, for a copy of this very moment looks the same"
        detail = f"{run} on this database, or did a moment ago: {so}"
        raise Conflict.hinted(path, detail, f"stop them all, and {later}; {way}")


def _lost(connection: Connection, trigger: Trigger, row: StatusRow, now: datetime) -> Iterator[Skip]:
    """What would have fired: by the schedule as one range, and as a run asked for it."""
    spans = [(one.cursor_at, one.until_at) for one in backlog_store.get(connection, [row.trigger_id])]
    schedule = read_terms(connection, trigger.key.project, trigger.spec, trigger.resolved).schedule
    left = ranges.joined(schedule, [*spans, (row.watermark, now)], OccurrenceOutcome.SUPERSEDED, SkipReason.RESTORE)
    if left:
        yield skip_of(row.trigger_id, row.revision, now, left)
    if row.asked_fire_at is not None and row.asked_fire_at <= now:
        asked_id, at = f"next/{row.asked_by_run_id}", row.asked_fire_at
        yield Skip(
            row.trigger_id, asked_id, at, at, now, OccurrenceOutcome.SUPERSEDED, SkipReason.RESTORE, row.revision, 1
        )


def separate(database: Database, interval: timedelta) -> str:
    """Gives it another id, and answers that.

    Raises Conflict when a controller was seen within the last resync intervals, for its work is known by the old one.
    """
    way = "do this to a copy before anything runs on it"
    refuse_company(database, interval, "separate", "their work would be another's", way)
    with database.write() as connection:
        return installations.renew(connection, database.clock.now(connection))
