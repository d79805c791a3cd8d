"""Counts of an installation for metrics and `doctor`: triggers, late ones by cause, live and waiting runs (O-02).

Metrics take two round trips, so that a scrape stays short when the database is far away.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, and_, bindparam, case, exists, false, func, null, or_, select, true

from revisions.clock import Clock
from revisions.history.triggers import StopReason
from revisions.outcomes import RunStatus
from revisions.store import holds
from revisions.store.database import fetch_with_time
from revisions.store.run_tables import catchup_backlogs, quarantines, runs
from revisions.store.runs import LIVE, in_status
from revisions.store.sessions import fetch
from revisions.store.tables import trigger_status, triggers

BY_HAND = "by_hand"
"""Reason of a trigger that a person deactivated, whatever reason the person gave."""


class WaitingCount(NamedTuple):
    """Number of waiting runs, and since when the longest waits."""

    number: int
    oldest_at: datetime | None


class DelayCause(StrEnum):
    """Cause that keeps a due trigger undecided; UNDECIDED: no pass has come to it yet."""

    FREEZE = "freeze"
    QUARANTINE = "quarantine"
    RATE = "rate"
    UNDECIDED = "undecided"


class TriggerCount(NamedTuple):
    """Number of a project's triggers that are active (`reason` None) or inactive for a reason."""

    project: str
    reason: str | None
    number: int


class LateTriggers(NamedTuple):
    """Number of a project's triggers that are due and undecided for one cause, and the earliest due time."""

    project: str
    cause: DelayCause
    number: int
    since: datetime


class Budgeted(NamedTuple):
    """Trigger whose spec may have a budget."""

    trigger_id: str
    project: str
    spec: str


@dataclass(frozen=True, slots=True)
class InstallationCounts:
    """Counts at `now`.

    `live` holds live runs by status; `waiting_since` is when the longest waiting run became available; `standings` are
    triggers that are not deleted; `backlogs` is the number of missed ranges and `missed_since` where the oldest begins,
    frozen projects left out; `frozen` are the frozen projects, None for all.
    """

    now: datetime
    live: Mapping[str, int]
    waiting_since: datetime | None
    standings: Sequence[TriggerCount]
    late: Sequence[LateTriggers]
    quarantined: int
    backlogs: int
    missed_since: datetime | None
    frozen: Collection[str] | None


def count_installation(connection: Connection, clock: Clock) -> InstallationCounts:
    """Return the counts. The cost grows with the number of triggers, live runs and late triggers."""
    questions = (_LIVE, _WAITING_SINCE, _STANDINGS, _QUARANTINED, _BACKLOGS)
    (live, [(waiting_since,)], standings, [(quarantined,)], backlogs), now = fetch_with_time(
        clock, connection, *((question, {}) for question in questions)
    )
    late, freezes = fetch(connection, (_LATE, {"at": now}), holds.freezes_query(now))
    frozen = holds.frozen_projects_of(freezes, now)
    return InstallationCounts(
        now=now,
        live={row[0]: row[1] for row in live},
        waiting_since=waiting_since,
        standings=[TriggerCount(*row) for row in standings],
        late=_apart(late, frozen),
        quarantined=quarantined,
        backlogs=sum(row.number for row in backlogs),
        missed_since=min((row.since for row in backlogs if _moves(row, frozen)), default=None),
        frozen=frozen,
    )


def pending_since(connection: Connection, at: datetime) -> WaitingCount:
    """Count pending runs that have been available since `at` or earlier."""
    counted = select(func.count(), func.min(runs.c.available_at)).where(
        in_status(RunStatus.PENDING), runs.c.available_at <= at
    )
    return WaitingCount(*connection.execute(counted).one())


def parked_since(connection: Connection, at: datetime) -> WaitingCount:
    """Count runs made at `at` or earlier that wait for an approval."""
    counted = select(func.count(), func.min(runs.c.created_at)).where(
        in_status(RunStatus.PARKED), runs.c.created_at <= at
    )
    return WaitingCount(*connection.execute(counted).one())


def _is_frozen(project: str, frozen: Collection[str] | None) -> bool:
    return frozen is None or project in frozen


def _moves(backlog: Any, frozen: Collection[str] | None) -> bool:
    return backlog.active and not _is_frozen(backlog.project, frozen)


def _apart(rows: Iterable[Any], frozen: Collection[str] | None) -> list[LateTriggers]:
    """Group late triggers by cause. A freeze outranks other causes: no other can be resolved before it ends."""
    found: dict[tuple[str, DelayCause], LateTriggers] = {}
    for project, cause, number, since in rows:
        key = (project, DelayCause.FREEZE if _is_frozen(project, frozen) else DelayCause(cause))
        before = found.get(key, LateTriggers(*key, 0, since))
        found[key] = LateTriggers(*key, before.number + number, min(before.since, since))
    return list(found.values())


def budgeted(connection: Connection, after: str, limit: int) -> list[Budgeted]:
    """Return triggers after an id, in order, that may have a budget and are active or stopped because it is used up.

    The search in the spec's text only leaves out most of the others; the caller reads the spec.
    """
    used_up = triggers.c.stopped_for == StopReason.BUDGET.value
    statement = select(triggers.c.trigger_id, triggers.c.project, triggers.c.spec).where(
        triggers.c.trigger_id > after,
        or_(triggers.c.active == true(), used_up),
        triggers.c.spec.contains('"max_cost":'),
    )
    return [Budgeted(*row) for row in connection.execute(statement.order_by(triggers.c.trigger_id).limit(limit))]


def _standings() -> Select[Any]:
    reason = case((triggers.c.active == true(), null()), else_=func.coalesce(triggers.c.stopped_for, BY_HAND))
    each = select(triggers.c.project, reason.label("reason")).where(triggers.c.deleted == false()).subquery()
    counted = select(each.c.project, each.c.reason, func.count().label("number"))
    return counted.group_by(each.c.project, each.c.reason)


def _late() -> Select[Any]:
    at = bindparam("at", type_=trigger_status.c.next_fire_at.type)
    apart = exists().where(quarantines.c.trigger_id == trigger_status.c.trigger_id, quarantines.c.until_at > at)
    waits = trigger_status.c.rate_waiting_since.is_not(None)
    cause = case((apart, DelayCause.QUARANTINE.value), (waits, DelayCause.RATE.value), else_=DelayCause.UNDECIDED.value)
    each = (
        select(triggers.c.project, cause.label("cause"), trigger_status.c.next_fire_at)
        .join(triggers, triggers.c.trigger_id == trigger_status.c.trigger_id)
        .where(trigger_status.c.next_fire_at <= at, triggers.c.active == true())
        .subquery()
    )
    since = func.min(each.c.next_fire_at, type_=trigger_status.c.next_fire_at.type).label("since")
    counted = select(each.c.project, each.c.cause, func.count().label("number"), since)
    return counted.group_by(each.c.project, each.c.cause)


_LIVE = select(runs.c.status, func.count().label("number")).where(in_status(*LIVE)).group_by(runs.c.status)
_WAITING_SINCE = select(func.min(runs.c.available_at).label("since")).where(in_status(RunStatus.PENDING))
_STANDINGS = _standings()
_QUARANTINED = (
    select(func.count().label("number"))
    .select_from(quarantines)
    .join(triggers, and_(triggers.c.trigger_id == quarantines.c.trigger_id, triggers.c.active == true()))
)
_BACKLOGS = (
    select(
        triggers.c.project,
        triggers.c.active,
        func.count().label("number"),
        func.min(catchup_backlogs.c.cursor_at).label("since"),
    )
    .join(triggers, triggers.c.trigger_id == catchup_backlogs.c.trigger_id)
    .group_by(triggers.c.project, triggers.c.active)
)
_LATE = _late()
