"""Runtime facts of triggers: watermark, next fire, last outcome, failures.

The row's lock is what a firing and a deploy contend for. The row carries the revision, so that the holder of the lock
knows that its facts are current (L-15).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, exists, insert, or_, select, true, update

from revisions.history.triggers import Action, Revision
from revisions.outcomes import OccurrenceOutcome
from revisions.store import backlogs
from revisions.store.columns import in_list, update_many
from revisions.store.occurrences import Skip
from revisions.store.run_tables import catchup_backlogs, quarantines
from revisions.store.sessions import Query, Write
from revisions.store.tables import trigger_status, triggers


@dataclass(frozen=True, slots=True)
class StatusRow:
    """Runtime facts of a trigger. Every occurrence up to `watermark` is decided or in a backlog (L-06).

    `started_count`: scheduled occurrences started since the baseline (S-07). `asked_fire_at`: next fire requested by a
    run, instead of the schedule's (S-08). `traceparent`: trace of the request that made the revision (O-04).
    `over_budget_until`: until then none of its runs may be claimed, active or not (X-08).
    """

    trigger_id: str
    revision: int
    watermark: datetime
    next_fire_at: datetime | None
    rate_waiting_since: datetime | None
    last_fired_at: datetime | None
    last_success_at: datetime | None
    last_outcome: OccurrenceOutcome | None
    last_outcome_at: datetime | None
    last_run_id: str | None
    last_error: str | None
    run_count: int
    consecutive_failures: int
    started_count: int
    asked_fire_at: datetime | None
    asked_by_run_id: str | None
    success_count: int
    traceparent: str | None
    over_budget_until: datetime | None


@dataclass(frozen=True, slots=True)
class Baseline:
    """Restart of a trigger's occurrences (R-21): new watermark, next fire, and the range that was undecided.

    With `goes_on` only the next fire changes: watermark and backlogs stay.
    """

    watermark: datetime
    next_fire_at: datetime | None
    superseded: Skip | None = None
    goes_on: bool = False


_INSERT = insert(trigger_status)
_LOCK = select(trigger_status).where(trigger_status.c.trigger_id == bindparam("where_trigger")).with_for_update()
_UPDATE = update(trigger_status).where(trigger_status.c.trigger_id == bindparam("where_trigger"))

LABELLED = tuple(column.label(f"status_{column.name}") for column in trigger_status.c)
"""Status columns with labels, to be selected after those of another table."""


def labelled(row: Any) -> StatusRow:
    """Return the status at the end of a row that selects `LABELLED`."""
    return StatusRow(*row[-len(LABELLED) :])


def get(connection: Connection, trigger_id: str) -> StatusRow | None:
    row = connection.execute(select(trigger_status).where(trigger_status.c.trigger_id == trigger_id)).one_or_none()
    return StatusRow(**row._mapping) if row else None


def lock(connection: Connection, ids: Sequence[str], *, skip_locked: bool = False) -> list[StatusRow]:
    """Lock the status rows of triggers and return them; `skip_locked` leaves out those that others hold.

    Lock order: after triggers, by id (invariant 1).
    """
    statement = (
        select(trigger_status)
        .where(in_list(connection, trigger_status.c.trigger_id, ids))
        .order_by(trigger_status.c.trigger_id)
        .with_for_update(skip_locked=skip_locked)
    )
    return [StatusRow(*row) for row in connection.execute(statement)]


def change_writes(
    revision: Revision,
    baseline: Baseline | None,
    *,
    created: bool,
    counts_anew: bool = False,
    traceparent: str | None = None,
    over_budget_until: datetime | None = None,
) -> Iterator[Write]:
    """Yield the writes that bring a trigger's status to a new revision; its row is new, or the caller holds its lock.

    `counts_anew` sets the number of successes to zero (X-08).
    """
    values: dict[str, Any] = {
        "revision": revision.revision,
        "traceparent": traceparent,
        "over_budget_until": over_budget_until,
    }
    if baseline:
        values |= {"watermark": baseline.watermark, "next_fire_at": baseline.next_fire_at, "rate_waiting_since": None}
        if not baseline.goes_on:
            values |= {"asked_fire_at": None, "asked_by_run_id": None}
        if not baseline.goes_on and revision.active:
            values["started_count"] = 0
    if counts_anew:
        values["success_count"] = 0
    if created:
        yield _INSERT, values | {"trigger_id": revision.trigger_id, "run_count": 0, "consecutive_failures": 0}
        return
    if revision.action in (Action.DEPLOY, Action.ACTIVATE):
        values["consecutive_failures"] = 0
    yield _UPDATE, values | {"where_trigger": revision.trigger_id}
    if baseline and not baseline.goes_on:
        yield backlogs.delete_write(revision.trigger_id)


def desired_alarms(connection: Connection, ids: Sequence[str] | None = None) -> list[tuple[str, int, datetime | None]]:
    """Return (trigger id, revision, next fire) of active triggers, of all or of those in `ids` (L-01)."""
    statement = (
        select(trigger_status.c.trigger_id, trigger_status.c.revision, trigger_status.c.next_fire_at)
        .join(triggers, triggers.c.trigger_id == trigger_status.c.trigger_id)
        .where(triggers.c.active == true())
    )
    if ids is not None:
        statement = statement.where(in_list(connection, trigger_status.c.trigger_id, ids))
    return [(row[0], row[1], row[2]) for row in connection.execute(statement)]


def due(connection: Connection, now: datetime, frozen: Collection[str] = ()) -> list[str]:
    """Return triggers whose next fire has come, oldest first; it finds those whose alarm was lost (L-03).

    Triggers that wait for a token, those in quarantine and those of frozen projects are left out.
    """
    apart = exists().where(quarantines.c.trigger_id == trigger_status.c.trigger_id, quarantines.c.until_at > now)
    statement = (
        select(trigger_status.c.trigger_id)
        .where(trigger_status.c.next_fire_at <= now, trigger_status.c.rate_waiting_since.is_(None), ~apart)
        .order_by(trigger_status.c.next_fire_at)
    )
    if frozen:
        is_frozen = exists().where(triggers.c.trigger_id == trigger_status.c.trigger_id, triggers.c.project.in_(frozen))
        statement = statement.where(~is_frozen)
    return list(connection.execute(statement).scalars())


def set_requested_fire(connection: Connection, trigger_id: str, at: datetime, run_id: str) -> None:
    """Store the next fire that a run requested; it replaces the schedule's and an earlier request (S-08)."""
    values = {"asked_fire_at": at, "asked_by_run_id": run_id, "next_fire_at": at}
    connection.execute(_UPDATE, values | {"where_trigger": trigger_id})


def recompute_next_fire(connection: Connection, ids: Sequence[str], now: datetime) -> None:
    """Have the next pass compute when these triggers fire, after a change that it depends on."""
    statement = update(trigger_status).where(in_list(connection, trigger_status.c.trigger_id, ids))
    connection.execute(statement.where(trigger_status.c.next_fire_at.is_not(None)).values(next_fire_at=now))


def lock_query(trigger_id: str) -> Query:
    """Return the query that locks and returns a status row."""
    return _LOCK, {"where_trigger": trigger_id}


def update_write(trigger_id: str, values: Mapping[str, Any]) -> Write:
    """Return the write of some columns of a locked row."""
    return _UPDATE, {**values, "where_trigger": trigger_id}


def save(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Store decided rows in one statement; each has `trigger_id` and the same columns."""
    update_many(connection, trigger_status, "trigger_id", rows)


def record_manual_fires(
    connection: Connection, row: StatusRow, run_id: str, now: datetime, number: int = 1, *, outcome: OccurrenceOutcome
) -> None:
    """Record runs made by hand in a locked row: the newest of them and its outcome."""
    values = {"last_fired_at": now, "last_outcome": outcome, "last_outcome_at": now, "last_run_id": run_id}
    this = update(trigger_status).where(trigger_status.c.trigger_id == row.trigger_id)
    connection.execute(this.values(**values, run_count=row.run_count + number))


def without_next_fire(connection: Connection) -> list[tuple[str, str]]:
    """Return (trigger id, spec) of active triggers without a next fire and without a backlog (S-15)."""
    backlog = exists().where(catchup_backlogs.c.trigger_id == trigger_status.c.trigger_id)
    statement = (
        select(triggers.c.trigger_id, triggers.c.spec)
        .join(trigger_status, triggers.c.trigger_id == trigger_status.c.trigger_id)
        .where(triggers.c.active == true(), trigger_status.c.next_fire_at.is_(None), ~backlog)
    )
    return [(row[0], row[1]) for row in connection.execute(statement)]


def recompute_every_next_fire(connection: Connection, now: datetime) -> None:
    """Have the next passes compute when every trigger fires."""
    connection.execute(update(trigger_status).where(trigger_status.c.next_fire_at > now).values(next_fire_at=now))


def watermarks_after(connection: Connection, at: datetime) -> list[tuple[str, datetime]]:
    """Return (trigger id, watermark) of active triggers whose watermark is after an instant."""
    statement = (
        select(trigger_status.c.trigger_id, trigger_status.c.watermark)
        .join(triggers, triggers.c.trigger_id == trigger_status.c.trigger_id)
        .where(triggers.c.active == true(), trigger_status.c.watermark > at)
        .order_by(trigger_status.c.trigger_id)
    )
    return [(row[0], row[1]) for row in connection.execute(statement)]


def stop_candidates(connection: Connection) -> list[tuple[str, int, int]]:
    """Return (trigger id, failures in a row, successes) of active triggers that may have to stop.

    The search in the spec's text only leaves out triggers without `max_runs`; the caller reads the spec.
    """
    statement = (
        select(trigger_status.c.trigger_id, trigger_status.c.consecutive_failures, trigger_status.c.success_count)
        .join(triggers, triggers.c.trigger_id == trigger_status.c.trigger_id)
        .where(
            triggers.c.active == true(),
            or_(trigger_status.c.consecutive_failures > 0, triggers.c.spec.contains('"max_runs":')),
        )
        .order_by(trigger_status.c.trigger_id)
    )
    return [(row[0], row[1], row[2]) for row in connection.execute(statement)]


def all_trigger_ids(connection: Connection) -> list[str]:
    """Return the ids of all triggers, deleted ones included."""
    return list(connection.execute(select(trigger_status.c.trigger_id).order_by(trigger_status.c.trigger_id)).scalars())


def move_watermarks(connection: Connection, rows: Sequence[StatusRow], now: datetime) -> None:
    """Move the watermarks of locked rows to now, never back, and have the next pass compute their next fire.

    A fire that a run requested stays if it is still ahead.
    """
    for row in rows:
        is_ahead = row.asked_fire_at is not None and row.asked_fire_at > now
        values = {"watermark": max(row.watermark, now), "next_fire_at": now, "rate_waiting_since": None}
        values |= {} if is_ahead else {"asked_fire_at": None, "asked_by_run_id": None}
        connection.execute(_UPDATE, values | {"where_trigger": row.trigger_id})


def active_ids(connection: Connection) -> list[str]:
    """Return the ids of active triggers."""
    statement = select(triggers.c.trigger_id).where(triggers.c.active == true()).order_by(triggers.c.trigger_id)
    return list(connection.execute(statement).scalars())


def due_at(connection: Connection, at: datetime) -> list[str]:
    """Return triggers whose next fire is exactly this instant: those that a blackout holds until then."""
    return list(
        connection.execute(select(trigger_status.c.trigger_id).where(trigger_status.c.next_fire_at == at)).scalars()
    )
