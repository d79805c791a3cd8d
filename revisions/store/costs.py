"""Costs of runs: one row per attempt that reported a cost, kept after the run is pruned (X-08)."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, insert, select

from revisions.outcomes import RunStatus
from revisions.store.columns import in_list
from revisions.store.run_tables import costs, runs
from revisions.store.runs import LIVE, Run, in_status


class Reservation(NamedTuple):
    """Cost that is reserved for a trigger's live runs, and their number."""

    reserved: float
    live: int


class Spent(NamedTuple):
    """Cost of a trigger's attempts in a span of time."""

    trigger_id: str
    project: str
    amount: float
    runs: int


def record(connection: Connection, run: Run, at: datetime, amount: float) -> None:
    """Store the cost of an attempt. The caller holds the claim, so that each attempt is recorded once."""
    of = {"run_id": run.id, "attempt": run.attempt, "trigger_id": run.trigger_id, "project": run.project}
    connection.execute(insert(costs).values(**of, at=at, amount=amount))


def since(connection: Connection, ids: Sequence[str], at: datetime) -> dict[str, float]:
    """Return the cost of attempts that ended at `at` or later, by trigger; triggers without any are left out."""
    statement = (
        select(costs.c.trigger_id, func.sum(costs.c.amount))
        .where(in_list(connection, costs.c.trigger_id, ids), costs.c.at >= at)
        .group_by(costs.c.trigger_id)
    )
    return {row[0]: row[1] for row in connection.execute(statement)}


def reservations(connection: Connection, ids: Sequence[str]) -> Mapping[str, Reservation]:
    """Return the reservations for live runs, by trigger; triggers without live runs are left out."""
    statement = (
        select(runs.c.trigger_id, func.coalesce(func.sum(runs.c.reserved), 0.0), func.count())
        .where(in_list(connection, runs.c.trigger_id, ids), in_status(*LIVE))
        .group_by(runs.c.trigger_id)
    )
    return {row[0]: Reservation(row[1], row[2]) for row in connection.execute(statement)}


def highest_recent(connection: Connection, trigger_id: str, number: int) -> float | None:
    """Return the highest cost among a trigger's `number` newest ended runs; None when none has ended."""
    ended = (
        select(func.coalesce(runs.c.cost, 0.0).label("cost"))
        .where(
            runs.c.trigger_id == trigger_id,
            runs.c.status.in_((RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.TIMED_OUT)),
        )
        .order_by(runs.c.id.desc())
        .limit(number)
        .subquery()
    )
    highest: float | None = connection.execute(select(func.max(ended.c.cost))).scalar()
    return highest


def spent_within(
    connection: Connection, from_at: datetime | None, to_at: datetime | None, *, projects: Collection[str] | None = None
) -> list[Spent]:
    """Return the cost of each trigger's attempts that ended in [from_at, to_at), within `projects` (None: all)."""
    statement = select(
        costs.c.trigger_id, costs.c.project, func.sum(costs.c.amount), func.count(costs.c.run_id.distinct())
    ).group_by(costs.c.trigger_id, costs.c.project)
    if from_at is not None:
        statement = statement.where(costs.c.at >= from_at)
    if to_at is not None:
        statement = statement.where(costs.c.at < to_at)
    if projects is not None:
        statement = statement.where(costs.c.project.in_(list(projects)))
    return [Spent(*row) for row in connection.execute(statement.order_by(costs.c.trigger_id))]
