"""What a trigger does, apart from what it is: watermark, next fire, last outcome, failures, backlogs.

The row's lock is what a firing and a deploy contend for; it carries the revision, so that whoever holds it knows that
what it decides from is still current (L-15).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, exists, insert, or_, select, true, update

from revisions.history.triggers import Action, Revision
from revisions.outcomes import OccurrenceOutcome
from revisions.store import backlogs
from revisions.store.batches import in_list, update_many
from revisions.store.occurrences import Skip
from revisions.store.pipeline import Query, Write
from revisions.store.run_tables import catchup_backlogs, quarantines
from revisions.store.tables import trigger_status, triggers


@dataclass(frozen=True, slots=True)
class StatusRow:
    """One trigger's runtime facts. `watermark`: up to there every occurrence is decided (L-06).

    `started_count`: scheduled occurrences that started since the baseline (S-07). `asked_fire_at`: the next fire that
    a run asked for, in place of the schedule's (S-08). `traceparent`: what the request that made the revision was part
    of (O-04). `over_budget_until`: until then none of its runs may be claimed, active or not (X-08).
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
    """A new beginning (R-21): where the watermark goes, the next fire, and what was undecided until then.

    With `goes_on` it is none: the watermark is the old one, backlogs stay, and only the next fire is another.
    """

    watermark: datetime
    next_fire_at: datetime | None
    superseded: Skip | None = None
    goes_on: bool = False


_INSERT = insert(trigger_status)
_LOCK = select(trigger_status).where(trigger_status.c.trigger_id == bindparam("of_trigger")).with_for_update()
_UPDATE = update(trigger_status).where(trigger_status.c.trigger_id == bindparam("of_trigger"))

LABELLED = tuple(column.label(f"status_{column.name}") for column in trigger_status.c)
"""The status columns under names that stand beside those of another table, after them."""


def labelled(row: Any) -> StatusRow:
    return StatusRow(*row[-len(LABELLED) :])


def get(connection: Connection, trigger_id: str) -> StatusRow | None:
    row = connection.execute(select(trigger_status).where(trigger_status.c.trigger_id == trigger_id)).one_or_none()
    return StatusRow(**row._mapping) if row else None


def lock(connection: Connection, ids: Sequence[str], *, skip_locked: bool = False) -> list[StatusRow]:
    """The status rows of these triggers, locked in order; with `skip_locked` those that nobody else holds."""
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
    """What brings the status row of a changed trigger to its new revision; the row is locked by the caller, or new.

    `counts_anew`: its successes so far no longer count (X-08).
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
    yield _UPDATE, values | {"of_trigger": revision.trigger_id}
    if baseline and not baseline.goes_on:
        yield backlogs.delete_write(revision.trigger_id)


def desired_alarms(connection: Connection, ids: Sequence[str] | None = None) -> list[tuple[str, int, datetime | None]]:
    """(trigger, revision, next fire) of every active trigger, or of those among `ids`: what jobs should be (L-01)."""
    statement = (
        select(trigger_status.c.trigger_id, trigger_status.c.revision, trigger_status.c.next_fire_at)
        .join(triggers, triggers.c.trigger_id == trigger_status.c.trigger_id)
        .where(triggers.c.active == true())
    )
    if ids is not None:
        statement = statement.where(in_list(connection, trigger_status.c.trigger_id, ids))
    return [(row[0], row[1], row[2]) for row in connection.execute(statement)]


def due(connection: Connection, now: datetime, frozen: Collection[str] = ()) -> list[str]:
    """Triggers whose next fire has come, oldest first: the net under lost alarms (L-03).

    Without those that wait for a token, those in quarantine, and those of frozen projects.
    """
    apart = exists().where(quarantines.c.trigger_id == trigger_status.c.trigger_id, quarantines.c.until_at > now)
    statement = (
        select(trigger_status.c.trigger_id)
        .where(trigger_status.c.next_fire_at <= now, trigger_status.c.rate_waiting_since.is_(None), ~apart)
        .order_by(trigger_status.c.next_fire_at)
    )
    if frozen:
        of = exists().where(triggers.c.trigger_id == trigger_status.c.trigger_id, triggers.c.project.in_(frozen))
        statement = statement.where(~of)
    return list(connection.execute(statement).scalars())


def set_requested_fire(connection: Connection, trigger_id: str, at: datetime, run_id: str) -> None:
    """Keeps the next fire that a run asked for, in place of the schedule's and of one asked for before (S-08)."""
    asked = {"asked_fire_at": at, "asked_by_run_id": run_id, "next_fire_at": at}
    connection.execute(_UPDATE, asked | {"of_trigger": trigger_id})


def recompute_next_fire(connection: Connection, ids: Sequence[str], now: datetime) -> None:
    """Has the next pass work out anew when these triggers fire, for what that hangs on has changed."""
    statement = update(trigger_status).where(in_list(connection, trigger_status.c.trigger_id, ids))
    connection.execute(statement.where(trigger_status.c.next_fire_at.is_not(None)).values(next_fire_at=now))


def lock_query(trigger_id: str) -> Query:
    """Asks for the status row of one trigger, locked."""
    return _LOCK, {"of_trigger": trigger_id}


def update_write(trigger_id: str, values: Mapping[str, Any]) -> Write:
    """Writes some columns of one trigger's locked row."""
    return _UPDATE, {**values, "of_trigger": trigger_id}


def save(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Writes decided status rows (each with `trigger_id` and the same columns) in one statement."""
    update_many(connection, trigger_status, "trigger_id", rows)


def record_manual_fires(
    connection: Connection, row: StatusRow, run_id: str, now: datetime, number: int = 1, *, outcome: OccurrenceOutcome
) -> None:
    """Notes on a locked row that runs were made by hand, the newest of them, and what became of it."""
    values = {"last_fired_at": now, "last_outcome": outcome, "last_outcome_at": now, "last_run_id": run_id}
    this = update(trigger_status).where(trigger_status.c.trigger_id == row.trigger_id)
    connection.execute(this.values(**values, run_count=row.run_count + number))


def without_next_fire(connection: Connection) -> list[tuple[str, str]]:
    """Active triggers that have no fire left and no backlog, with their spec: everything is decided (S-15)."""
    backlog = exists().where(catchup_backlogs.c.trigger_id == trigger_status.c.trigger_id)
    statement = (
        select(triggers.c.trigger_id, triggers.c.spec)
        .join(trigger_status, triggers.c.trigger_id == trigger_status.c.trigger_id)
        .where(triggers.c.active == true(), trigger_status.c.next_fire_at.is_(None), ~backlog)
    )
    return [(row[0], row[1]) for row in connection.execute(statement)]


def recompute_every_next_fire(connection: Connection, now: datetime) -> None:
    """Has the passes work out anew when every trigger fires."""
    connection.execute(update(trigger_status).where(trigger_status.c.next_fire_at > now).values(next_fire_at=now))


def watermarks_after(connection: Connection, of: datetime) -> list[tuple[str, datetime]]:
    """Active triggers whose watermark lies after an instant, and where it is."""
    statement = (
        select(trigger_status.c.trigger_id, trigger_status.c.watermark)
        .join(triggers, triggers.c.trigger_id == trigger_status.c.trigger_id)
        .where(triggers.c.active == true(), trigger_status.c.watermark > of)
        .order_by(trigger_status.c.trigger_id)
    )
    return [(row[0], row[1]) for row in connection.execute(statement)]


def stop_candidates(connection: Connection) -> list[tuple[str, int, int]]:
    """Active triggers that may have to stop: failures in a row, and successes.

    Their specs say whether they do: the text is searched only to leave out those that bound no successes.
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
    """All triggers, deleted ones too."""
    return list(connection.execute(select(trigger_status.c.trigger_id).order_by(trigger_status.c.trigger_id)).scalars())


def move_watermarks(connection: Connection, rows: Sequence[StatusRow], now: datetime) -> None:
    """Moves the watermarks of these locked rows to now, never back, and has the next pass work out when they fire.

    A fire that a run asked for stays where it is still ahead.
    """
    for row in rows:
        is_ahead = row.asked_fire_at is not None and row.asked_fire_at > now
        values = {"watermark": max(row.watermark, now), "next_fire_at": now, "rate_waiting_since": None}
        values |= {} if is_ahead else {"asked_fire_at": None, "asked_by_run_id": None}
        connection.execute(_UPDATE, values | {"of_trigger": row.trigger_id})


def active_ids(connection: Connection) -> list[str]:
    """The triggers that are active."""
    statement = select(triggers.c.trigger_id).where(triggers.c.active == true()).order_by(triggers.c.trigger_id)
    return list(connection.execute(statement).scalars())


def due_at(connection: Connection, at: datetime) -> list[str]:
    """Triggers that are looked at again at exactly this instant: those that a blackout holds until then."""
    return list(
        connection.execute(select(trigger_status.c.trigger_id).where(trigger_status.c.next_fire_at == at)).scalars()
    )
