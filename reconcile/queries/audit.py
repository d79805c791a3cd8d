"""Audit of a trigger: expected occurrences against recorded runs and skips (U-07)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from reconcile.decide import in_force
from reconcile.decide.in_force import RevisionPeriod
from reconcile.report import audit
from reconcile.report.audit import FAULTS, AuditLine, AuditSummary, DecidedSpan, RecordedRun, RecordedSkip
from reconcile.schedule.ranges import MOMENT
from reconcile.triggers.trigger_calendars import eras_with_calendars
from revisions.errors import Invalid, NotFound
from revisions.history.triggers import Trigger
from revisions.ids import TriggerKey
from revisions.outcomes import RunSource
from revisions.store import backlogs as backlog_store
from revisions.store import history_rows, occurrences, retention
from revisions.store import revisions as revision_store
from revisions.store import runs as run_store
from revisions.store import status as status_store
from revisions.store import triggers as trigger_store
from revisions.store.database import Connection, Database
from revisions.store.occurrences import Skip
from revisions.store.runs import Run, RunMade
from revisions.store.status import StatusRow

MOST = 1_000_000
"""Maximum number of occurrences judged in one call."""


class Place(NamedTuple):
    """Position after which a list of lines continues."""

    at: datetime
    occurrence_id: str


@dataclass(frozen=True, slots=True)
class TriggerPast:
    """State, revision periods and decided span of a trigger, from one snapshot of the database."""

    trigger: Trigger
    periods: list[RevisionPeriod]
    status: StatusRow
    standing: DecidedSpan
    now: datetime


@dataclass(frozen=True, slots=True)
class Audited:
    """Lines of [since, until), or a page of them; only the first page has the summary, which covers all lines.

    `until` is never later than the time of the query, because future occurrences cannot be judged.
    """

    since: datetime
    until: datetime
    lines: list[AuditLine]
    summary: AuditSummary | None


def audit_trigger(
    database: Database,
    grace: timedelta,
    key: TriggerKey,
    since: datetime,
    until: datetime | None,
    limit: int,
    place: Place | None = None,
) -> Audited:
    """Return the first `limit` lines of [since, until) after `place`; without a place also the summary of all.

    `grace` is the delay up to which a run counts as on time. Raises NotFound, and Invalid for an empty or too long time
    or for a spec that cannot be read.
    """
    with database.read() as connection:
        past = past_of(database, connection, key)
        until = min(until or past.now, past.now)
        if since >= until:
            raise Invalid.at("from", "lies not before `to` and now", "name a time that has passed")
        if place is None:
            return _whole(connection, grace, past, since, until, limit)
        return Audited(since, until, _part(connection, grace, past, place, until - MOMENT, limit), None)


def audit_faults(database: Database, grace: timedelta, key: TriggerKey) -> list[AuditLine]:
    """Return the missing, duplicate and unexplained occurrences in the whole life of a trigger.

    Raises NotFound, and Invalid as `audit_trigger` does.
    """
    with database.read() as connection:
        past = past_of(database, connection, key)
        found = _lines(connection, grace, past, past.periods[0].after, past.now)
        return [line for line in found if line.kind in FAULTS]


def _whole(
    connection: Connection, grace: timedelta, past: TriggerPast, since: datetime, until: datetime, limit: int
) -> Audited:
    if in_force.size(past.periods, since - MOMENT, until - MOMENT, MOST + 1) > MOST:
        raise Invalid.at("from", f"more than {MOST:,} occurrences lie between it and `to`", "name a shorter time")
    summary, first = AuditSummary(), list[AuditLine]()
    for line in _lines(connection, grace, past, since - MOMENT, until - MOMENT):
        summary.add(line)
        if len(first) < limit:
            first.append(line)
    return Audited(since, until, first, summary)


def _part(
    connection: Connection, grace: timedelta, past: TriggerPast, place: Place, until: datetime, limit: int
) -> list[AuditLine]:
    """The lines after a place; a few fires are looked at at once, however many lie beyond."""
    found = _in_steps(connection, grace, past, place.at - MOMENT, until, limit)
    return list(islice((line for line in found if (line.at, line.occurrence_id) > place), limit))


def _in_steps(
    connection: Connection, grace: timedelta, past: TriggerPast, after: datetime, until: datetime, step: int
) -> Iterator[AuditLine]:
    while after < until:
        ahead = next(islice(in_force.named(past.periods, after, until), step, None), None)
        high = ahead.at if ahead else until
        yield from _lines(connection, grace, past, after, high)
        after = high


def _lines(
    connection: Connection, grace: timedelta, past: TriggerPast, after: datetime, until: datetime
) -> Iterator[AuditLine]:
    runs = run_store.scheduled_within(connection, past.trigger.trigger_id, after, until)
    skips = occurrences.skips_within(connection, past.trigger.trigger_id, after, until)
    return audit.lines(
        past.periods,
        past.standing,
        after,
        until,
        map(started, runs),
        [left(skip) for skip in skips],
        grace=grace,
        started=started_before(connection, past, after),
    )


def past_of(database: Database, connection: Connection, key: TriggerKey) -> TriggerPast:
    """Read everything except runs and skips in a new snapshot. Raises NotFound for a name that was never used."""
    history_rows.snapshot(connection)
    trigger = trigger_store.get(connection, key)
    status = status_store.get(connection, trigger.trigger_id) if trigger else None
    if trigger is None or status is None:
        raise NotFound(f"there is no trigger {key}")
    backlogs = backlog_store.get(connection, [trigger.trigger_id])
    revisions = revision_store.whole(connection, trigger.trigger_id)
    return TriggerPast(
        trigger=trigger,
        periods=eras_with_calendars(connection, key.project, in_force.periods(revisions)),
        status=status,
        standing=DecidedSpan(
            status.watermark,
            [(backlog.cursor_at, backlog.until_at) for backlog in backlogs],
            retention.forgotten_until(connection, trigger.trigger_id),
        ),
        now=database.clock.now(connection),
    )


def started_before(connection: Connection, past: TriggerPast, after: datetime) -> int:
    """Return the number of scheduled starts between the baseline and `after`; read only for schedules with `count`
    (S-07).
    """
    period = in_force.period_at(past.periods, after + MOMENT)
    if period is None or period.terms.count is None:
        return 0
    return run_store.count_scheduled(
        connection, past.trigger.trigger_id, period.baseline, after, source=RunSource.SCHEDULE
    )


def started(run: Run | RunMade) -> RecordedRun:
    """Convert a run to its form in `report`."""
    by_hand = run.source != RunSource.SCHEDULE
    return RecordedRun(run.scheduled_at, run.occurrence_id, run.created_at, run.revision, run.id, by_hand)


def left(skip: Skip) -> RecordedSkip:
    """Convert a skip to its form in `report`."""
    return RecordedSkip(
        at=skip.scheduled_at,
        occurrence_id=skip.occurrence_id,
        until=skip.scheduled_until,
        decided_at=skip.decided_at,
        revision=skip.revision,
        outcome=skip.outcome,
        reason=skip.reason,
    )
