"""First start after a restore, and copies of a database that become an installation of their own (O-07, X-10)."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from reconcile.decide.attempt_ends import AttemptOutcome
from reconcile.decide.changes import has_occurrences
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
from reconcile.triggers.trigger_calendars import read_terms
from revisions.errors import Conflict
from revisions.history.triggers import SYSTEM, Trigger
from revisions.outcomes import OccurrenceOutcome, SkipReason
from revisions.store import backlogs as backlog_store
from revisions.store import claims, installations, notices, occurrences, revisions, run_orders
from revisions.store import runs as run_store
from revisions.store import status as status_store
from revisions.store import triggers as trigger_store
from revisions.store.database import Connection, Database
from revisions.store.occurrences import Skip
from revisions.store.status import StatusRow

BATCH = 500
"""Triggers of one transaction."""
ALL_RUNS = 1_000_000
"""Limit of a query that is to return all running runs."""
LOST = "the database was restored from a backup: nobody knows what became of it"


def declare_baseline(database: Database, observations: Observations, interval: timedelta) -> BaselineDeclared:
    """Let a restored database begin anew: the time since the backup is recorded instead of fired (O-07).

    Every occurrence up to now is decided as superseded with the reason `restore`, and the runs of the backup end. A
    call that was cut off can be repeated. `interval` is the resync interval.
    Raises Unavailable, and Conflict when a controller was seen within the last intervals: then the database was not
    just restored, and its runs are being worked on.
    """
    hint = "start the others without --baseline"
    refuse_running_controllers(database, interval, "baseline", "it was not just restored", hint)
    with database.write() as connection:
        # A dump brings transaction ids that its new server has not reached, which the feed would repeat until then.
        revisions.renumber(connection)
    resume_paused(database, observations)
    with database.read() as connection:
        ids = status_store.all_trigger_ids(connection)
    skips, unreadable = 0, list[str]()
    for start in range(0, len(ids), BATCH):
        recorded, unread = _supersede(database, ids[start : start + BATCH])
        skips, unreadable = skips + recorded, unreadable + unread
    runs = _end_running_runs(database, observations) + _end_pending_runs(database, observations)
    declared = BaselineDeclared(skips, runs, unreadable)
    observations.emit(declared)
    return declared


def separate_installation(database: Database, interval: timedelta) -> str:
    """Give a copy of a database an installation id of its own, and return it (X-10).

    Work in other systems is found by the id; under the old one a copy would take the original's for its own.
    Raises Conflict when a controller was seen within the last resync intervals, since its work is known by the old id.
    """
    hint = "do this to a copy before anything runs on it"
    refuse_running_controllers(database, interval, "separate", "their work would be another's", hint)
    with database.write() as connection:
        return installations.renew(connection, database.clock.now(connection))


def refuse_running_controllers(
    database: Database, interval: timedelta, path: str, consequence: str, alternative: str
) -> None:
    """Raise Conflict when a controller with a loop was seen on a database within the last resync intervals.

    `path`, `consequence` and `alternative` are parts of the message.
    """
    recently = MISSED_BEATS * interval
    with database.read() as connection:
        number = len(installations.replicas_seen_since(connection, database.clock.now(connection) - recently))
    if number:
        running = "1 controller runs" if number == 1 else f"{number} controllers run"
        later = f"try again {span(recently.total_seconds())} later, for a copy of this very moment looks the same"
        detail = f"{running} on this database, or did a moment ago: {consequence}"
        raise Conflict.hinted(path, detail, f"stop them all, and {later}; {alternative}")


def _supersede(database: Database, ids: Sequence[str]) -> tuple[int, list[str]]:
    """Move the watermarks of these triggers to now, and record what was undecided until then (invariant 4).

    Returns the number of skips, and the names of triggers whose spec cannot be read; those stay as they are.
    """
    skips, moved, unreadable = list[Skip](), list[str](), list[str]()
    with database.write() as connection:
        # All of it under the locks of the status rows: a watermark moves only with the record of what it passes.
        rows = status_store.lock(connection, ids)
        now = database.clock.now(connection)
        for row in rows:
            trigger = trigger_store.by_id(connection, row.trigger_id)
            if trigger is None or not has_occurrences(trigger):
                continue
            try:
                skips += _lost_occurrences(connection, trigger, row, now)
            except ValueError:
                unreadable.append(str(trigger.key))
                continue
            moved.append(row.trigger_id)
            backlog_store.delete_all(connection, row.trigger_id)
        occurrences.record(connection, skips)
        status_store.move_watermarks(connection, [row for row in rows if row.trigger_id in set(moved)], now)
        notices.changed(connection)
    return len(skips), unreadable


def _lost_occurrences(connection: Connection, trigger: Trigger, row: StatusRow, now: datetime) -> Iterator[Skip]:
    """Yield the skips of all that would have fired up to now: the schedule's as one range, and a fire asked for."""
    spans = [(backlog.cursor_at, backlog.until_at) for backlog in backlog_store.get(connection, [row.trigger_id])]
    schedule = read_terms(connection, trigger.key.project, trigger.spec, trigger.resolved).schedule
    lost = ranges.joined(schedule, [*spans, (row.watermark, now)], OccurrenceOutcome.SUPERSEDED, SkipReason.RESTORE)
    if lost:
        yield skip_of(row.trigger_id, row.revision, now, lost)
    if row.asked_fire_at is not None and row.asked_fire_at <= now:
        yield Skip(
            trigger_id=row.trigger_id,
            occurrence_id=f"next/{row.asked_by_run_id}",
            scheduled_at=row.asked_fire_at,
            scheduled_until=row.asked_fire_at,
            decided_at=now,
            outcome=OccurrenceOutcome.SUPERSEDED,
            reason=SkipReason.RESTORE,
            revision=row.revision,
            count=1,
        )


def _end_running_runs(database: Database, observations: Observations) -> int:
    """Settle the runs that were running in the backup as lost, and return their number."""
    ended = 0
    with database.read() as connection:
        running = claims.lapsed(connection, datetime.max.replace(tzinfo=UTC), ALL_RUNS)
    for run in running:
        lost = Ended(AttemptOutcome.LOST, LOST, is_final=True, is_counted=False)
        ended += settle(database, observations, run, lost).decision is not None
    return ended


def _end_pending_runs(database: Database, observations: Observations) -> int:
    """Cancel the runs that were waiting in the backup, because they may have run since; return their number.

    Parked runs stay: a person decides about them.
    """
    with database.write() as connection:
        run_store.lock_queue(connection)
        now = database.clock.now(connection)
        cancelled = run_orders.cancel_all_pending(connection, now, SYSTEM, LOST)
        names = trigger_store.keys(connection, {run.trigger_id for run in cancelled})
    for run in cancelled:
        observations.emit(WaitEnded(run, names.get(run.trigger_id), now))
    return len(cancelled)
