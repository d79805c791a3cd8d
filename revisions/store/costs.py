"""What runs cost: one row for each attempt that named a cost, kept when the run itself is gone (X-08)."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, insert, select

from revisions.outcomes import RunStatus
from revisions.store.batches import in_list
from revisions.store.run_tables import costs, runs
from revisions.store.runs import LIVE, Run, in_status


class Reservation(NamedTuple):
    """What the runs of a trigger that go on are expected to cost, and how many they are."""

    reserved: float
    live: int


class Spent(NamedTuple):
    """What attempts in a time cost together; a trigger that is gone is named by its id."""

    trigger_id: str
    project: str
    amount: float
    runs: int


def record(connection: Connection, run: Run, at: datetime, amount: float) -> None:
    """Notes what an attempt cost; a second word about the same attempt would be a second claim, and there is none."""
    of = {"run_id": run.id, "attempt": run.attempt, "trigger_id": run.trigger_id, "project": run.project}
    connection.execute(insert(costs).values(**of, at=at, amount=amount))


def since(connection: Connection, ids: Sequence[str], at: datetime) -> dict[str, float]:
    """What the attempts of these triggers cost that ended at an instant or after it; nothing is left out."""
    statement = (
        select(costs.c.trigger_id, func.sum(costs.c.amount))
        .where(in_list(connection, costs.c.trigger_id, ids), costs.c.at >= at)
        .group_by(costs.c.trigger_id)
    )
    return {row[0]: row[1] for row in connection.execute(statement)}


def reservations(connection: Connection, ids: Sequence[str]) -> Mapping[str, Reservation]:
    """What is set aside for the runs of these triggers that go on; one without such runs is left out."""
    statement = (
        select(runs.c.trigger_id, func.coalesce(func.sum(runs.c.reserved), 0.0), func.count())
        .where(in_list(connection, runs.c.trigger_id, ids), in_status(*LIVE))
        .group_by(runs.c.trigger_id)
    )
    return {row[0]: Reservation(row[1], row[2]) for row in connection.execute(statement)}


def highest_recent(connection: Connection, trigger_id: str, number: int) -> float | None:
    """What the dearest of the newest so many ended runs of a trigger cost; None where none has ended."""
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
    found: float | None = connection.execute(select(func.max(ended.c.cost))).scalar()
    return found


def spent_within(
    connection: Connection, from_at: datetime | None, to_at: datetime | None, *, projects: Collection[str] | None = None
) -> list[Spent]:
    """What each trigger's attempts that ended in [from, to) cost, in some projects alone where they are named."""
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
