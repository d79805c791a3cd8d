"""Records past their retention, found and deleted page by page, and until when records may be gone (O-07)."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, Text, delete, func, literal, or_, select, tuple_, update

from revisions import ids
from revisions.outcomes import RunStatus
from revisions.store.columns import Instant, in_list, insert_if_absent
from revisions.store.run_tables import (
    catchup_backlogs,
    costs,
    expectations,
    forgotten,
    missed_deadlines,
    occurrences,
    run_logs,
    runs,
    sweeps,
)
from revisions.store.runs import LIVE
from revisions.store.tables import trigger_changes, trigger_revisions, trigger_status, triggers

PAGE = 500
"""Most rows that one transaction examines and deletes."""
LOGS = 25
"""Most runs whose logs one transaction deletes: a log can be a megabyte, and on SQLite nothing fires meanwhile."""
ENDED = (RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.TIMED_OUT)
"""Statuses of runs that count for the estimate of the next run's cost."""


class Sweep(NamedTuple):
    """Deletion of one kind of record, and the position at which it continues."""

    name: str
    position: str


class Record(NamedTuple):
    """A run or a skip; `until` is its instant, of a range the last."""

    id: str
    trigger_id: str
    occurrence_id: str
    until: datetime


class RetentionFacts(NamedTuple):
    """Facts that keep a trigger's records; `nth_newest_ended_run_id` is the oldest run the cost estimate reads."""

    trigger_id: str
    watermark: datetime
    cursor_at: datetime | None
    judged_until: datetime | None
    nth_newest_ended_run_id: str | None
    last_run_id: str | None
    asked_by_run_id: str | None
    spec: str


def take_sweep(connection: Connection, names: Collection[str], now: datetime) -> Sweep | None:
    """Lock and return the sweep that is longest due; None when none is due or another replica runs it."""
    insert_if_absent(connection, sweeps, *({"name": name, "position": "", "due_at": now} for name in sorted(names)))
    due = select(sweeps.c.name, sweeps.c.position).where(sweeps.c.name.in_(sorted(names)), sweeps.c.due_at <= now)
    longest = due.order_by(sweeps.c.due_at, sweeps.c.name).limit(1).with_for_update(skip_locked=True)
    row = connection.execute(longest).one_or_none()
    return Sweep(*row) if row else None


def move_sweep(connection: Connection, name: str, position: str, due_at: datetime) -> None:
    """Store where a sweep continues, and when."""
    connection.execute(update(sweeps).where(sweeps.c.name == name).values(position=position, due_at=due_at))


def old_runs(connection: Connection, position: str, before: datetime) -> tuple[list[Record], str]:
    """Return the runs of the next page that ended before an instant, and the position after it ("" at the end)."""
    of = runs.c
    page = _page(connection, select(of.id).where(of.id > position, of.id < ids.floor(before)).order_by(of.id), PAGE)
    ended = (of.finished_at < before, of.status.not_in(LIVE))
    found = select(of.id, of.trigger_id, of.occurrence_id, of.scheduled_at).where(
        in_list(connection, of.id, page), *ended
    )
    return [Record(*row) for row in connection.execute(found)], _next(page, PAGE)


def old_skips(connection: Connection, position: str, before: datetime) -> tuple[list[Record], str]:
    """Return the next page of skips decided before an instant, and the position after it ("" at the end)."""
    of = occurrences.c
    place = (of.decided_at, of.trigger_id, of.occurrence_id)
    found = select(of.decided_at, of.occurrence_id, of.trigger_id, of.occurrence_id, of.scheduled_until)
    found = found.where(of.decided_at < before).order_by(*place).limit(PAGE)
    if position:
        at, trigger_id, occurrence_id = position.split(" ", 2)
        after = tuple_(
            literal(datetime.fromisoformat(at), Instant), literal(trigger_id, Text), literal(occurrence_id, Text)
        )
        found = found.where(tuple_(*place) > after)
    page = connection.execute(found).all()
    last = page[-1] if len(page) == PAGE else None
    records = [Record(*row[1:]) for row in page]
    return records, f"{ids.utc_text(last[0])} {last[2]} {last[1]}" if last else ""


def retention_facts(connection: Connection, trigger_ids: Collection[str], newest: int) -> list[RetentionFacts]:
    """Return the facts that keep records of triggers, and their specs."""
    of = trigger_status.c
    cursor = select(func.min(catchup_backlogs.c.cursor_at)).where(catchup_backlogs.c.trigger_id == of.trigger_id)
    judged = select(expectations.c.judged_until).where(
        expectations.c.trigger_id == of.trigger_id, expectations.c.look_at.is_not(None)
    )
    ended = select(runs.c.id).where(runs.c.trigger_id == of.trigger_id, runs.c.status.in_(ENDED))
    nth = ended.order_by(runs.c.id.desc()).offset(newest - 1).limit(1)
    statement = (
        select(
            of.trigger_id,
            of.watermark,
            cursor.scalar_subquery(),
            judged.scalar_subquery(),
            nth.scalar_subquery(),
            of.last_run_id,
            of.asked_by_run_id,
            triggers.c.spec,
        )
        .join(triggers, triggers.c.trigger_id == of.trigger_id)
        .where(in_list(connection, of.trigger_id, sorted(trigger_ids)))
    )
    return [RetentionFacts(*row) for row in connection.execute(statement)]


def remove_runs(connection: Connection, gone: Sequence[str], before: datetime) -> int:
    """Delete runs with their logs, except those that began again since, and return the number deleted."""
    of = runs.c
    ended = (of.finished_at < before, of.status.not_in(LIVE))
    removed = list(connection.execute(delete(runs).where(in_list(connection, of.id, gone), *ended).returning(of.id)))
    connection.execute(delete(run_logs).where(in_list(connection, run_logs.c.run_id, [row[0] for row in removed])))
    return len(removed)


def remove_skips(connection: Connection, gone: Sequence[tuple[str, str]]) -> int:
    """Delete skips by (trigger id, occurrence id), and return the number deleted."""
    if not gone:
        return 0
    key = tuple_(occurrences.c.trigger_id, occurrences.c.occurrence_id)
    return connection.execute(delete(occurrences).where(key.in_(gone))).rowcount


def remove_logs(connection: Connection, position: str, before: datetime) -> tuple[int, str]:
    """Delete logs of the next runs that ended before an instant; return the number of runs and the next position."""
    of = run_logs.c
    few = select(of.run_id).where(of.run_id > position, of.run_id < ids.floor(before)).distinct().order_by(of.run_id)
    page = _page(connection, few, LOGS)
    going_on = or_(runs.c.status.in_(LIVE), runs.c.finished_at >= before)
    stays = set(connection.execute(select(runs.c.id).where(in_list(connection, runs.c.id, page), going_on)).scalars())
    gone = [run_id for run_id in page if run_id not in stays]
    connection.execute(delete(run_logs).where(in_list(connection, of.run_id, gone)))
    return len(gone), _next(page, LOGS)


def remove_costs(connection: Connection, position: str, before: datetime) -> tuple[int, str]:
    """Delete the next costs recorded before an instant; return the number deleted and the next position."""
    of = costs.c
    few = select(of.run_id).where(of.run_id > position, of.run_id < ids.floor(before)).distinct().order_by(of.run_id)
    page = _page(connection, few, PAGE)
    gone = connection.execute(delete(costs).where(in_list(connection, of.run_id, page), of.at < before)).rowcount
    return gone, _next(page, PAGE)


def remove_deadlines(connection: Connection, before: datetime) -> int:
    """Delete missed deadlines noticed before an instant; they are few."""
    return connection.execute(delete(missed_deadlines).where(missed_deadlines.c.noticed_at < before)).rowcount


def remove_changes(connection: Connection, position: str, before: datetime) -> tuple[int, str]:
    """Delete from the next page of the feed what is older than an instant and not its trigger's newest.

    The newest change of each trigger stays, so that any reader learns of every trigger that changed.
    """
    of, made = trigger_changes.c, trigger_revisions.c
    few = select(of.position, of.trigger_id, made.at).join(
        trigger_revisions, (made.trigger_id == of.trigger_id) & (made.revision == of.revision)
    )
    page = connection.execute(few.where(of.position > int(position or 0)).order_by(of.position).limit(PAGE)).all()
    named = {row.trigger_id for row in page}
    newest = select(of.trigger_id, func.max(of.position)).where(in_list(connection, of.trigger_id, sorted(named)))
    last = {row[0]: row[1] for row in connection.execute(newest.group_by(of.trigger_id))}
    gone = [row.position for row in page if row.at < before and row.position < last[row.trigger_id]]
    if gone:
        connection.execute(delete(trigger_changes).where(of.position.in_(gone)))
    return len(gone), str(page[-1].position) if len(page) == PAGE else ""


def forget(connection: Connection, until: Mapping[str, datetime]) -> None:
    """Store the instant up to which records of triggers may be gone; it never moves back."""
    if not until:
        return
    known = select(forgotten).where(in_list(connection, forgotten.c.trigger_id, sorted(until)))
    for trigger_id, at in [tuple(row) for row in connection.execute(known)]:
        later = max(at, until[trigger_id])
        connection.execute(update(forgotten).where(forgotten.c.trigger_id == trigger_id).values(until_at=later))
    rows = ({"trigger_id": trigger_id, "until_at": at} for trigger_id, at in sorted(until.items()))
    insert_if_absent(connection, forgotten, *rows)


def forgotten_until(connection: Connection, trigger_id: str) -> datetime | None:
    """Return the instant up to which a trigger's records may be gone; None while all are kept."""
    found: datetime | None = connection.execute(
        select(forgotten.c.until_at).where(forgotten.c.trigger_id == trigger_id)
    ).scalar_one_or_none()
    return found


def _page(connection: Connection, ordered: Select[Any], size: int) -> list[str]:
    return list(connection.execute(ordered.limit(size)).scalars())


def _next(page: Sequence[str], size: int) -> str:
    return page[-1] if len(page) == size else ""
