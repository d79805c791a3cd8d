"""The runs that wait to be claimed, read past what cannot go anyway (X-04, X-09)."""

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, func, not_, or_, select, tuple_

from revisions.places import Full, Running, Waiting
from revisions.store import holds
from revisions.store.pipeline import Question, ask
from revisions.store.runs import LIVE, Run, in_status
from revisions.store.tables import runs, trigger_status

_PAGE, _SPARE = 500, 20
"""Runs read at once when looking for what may go; the first time, no more beyond what is wanted than these."""
_UNDER_WAY = ("running", "waiting")
"""What keeps a whole queue waiting; what is parked holds its own place in it, and those behind it (X-14)."""
_BESIDE = ("allow", "skip")
"""Overlap policies whose runs go beside others of their trigger; all others wait for their turn."""


_RUNNING: Question = (select(*(runs.c[name] for name in Running._fields)).where(in_status("running")), {})


def running(connection: Connection) -> list[Running]:
    """All that runs."""
    return [Running(*row) for row in ask(connection, _RUNNING)[0]]


def running_and_freezes(connection: Connection, now: datetime) -> tuple[list[Running], list[Any]]:
    """All that runs, and the freezes that are not over, in one turn."""
    found, freezes = ask(connection, _RUNNING, holds.asking_freezes(now))
    return [Running(*row) for row in found], freezes


def waiting(connection: Connection, now: datetime, wanted: int, full: Full) -> Iterator[list[Waiting]]:
    """Pending runs whose time has come, longest waiting first, a page at a time, past what is full, which may grow.

    Of a trigger whose runs go one at a time only the first stands there, and only while nothing else of it is under
    way: each such queue is judged once, for it may be thousands of runs deep. What waits for its budget is left out.
    """
    judged: set[str] = set()
    last: tuple[datetime, str] | None = None
    size = min(wanted + _SPARE, _PAGE)
    while True:
        page = connection.execute(_page(now, judged, last, size, full)).all()
        found = [(row.available_at, row.id, Waiting(*row[: len(_WAITING)])) for row in page if row.overlap in _BESIDE]
        queues = {row.trigger_id for row in page if row.overlap not in _BESIDE}
        found += _heads(connection, queues, now) if queues else []
        judged |= queues
        yield [one for _, _, one in sorted(found)]
        if len(page) < size:
            return
        last, size = (page[-1].available_at, page[-1].id), _PAGE


_WAITING = [runs.c[name] for name in Waiting._fields]


def _page(
    now: datetime, judged: Collection[str], last: tuple[datetime, str] | None, size: int, full: Full
) -> Select[Any]:
    over_budget = select(trigger_status.c.trigger_id).where(trigger_status.c.over_budget_until > now)
    statement = (
        select(*_WAITING, runs.c.overlap, runs.c.available_at)
        .where(in_status("pending"), runs.c.available_at <= now, runs.c.trigger_id.not_in(over_budget))
        .order_by(runs.c.available_at, runs.c.id)
        .limit(size)
    )
    if full.projects:
        statement = statement.where(runs.c.project.not_in(list(full.projects)))
    if full.triggers:
        statement = statement.where(or_(runs.c.trigger_limit.is_(None), runs.c.trigger_id.not_in(list(full.triggers))))
    if full.tasks:
        among = tuple_(runs.c.project, runs.c.domain, runs.c.task).in_(list(full.tasks))
        statement = statement.where(or_(runs.c.task_limit.is_(None), not_(among)))
    if full.keys:
        held = tuple_(runs.c.project, runs.c.serialize_key).in_(list(full.keys))
        statement = statement.where(or_(runs.c.serialize_key.is_(None), not_(held)))
    if judged:
        statement = statement.where(or_(runs.c.overlap.in_(_BESIDE), runs.c.trigger_id.not_in(judged)))
    if last:
        statement = statement.where(tuple_(runs.c.available_at, runs.c.id) > last)
    return statement


def _heads(connection: Connection, queues: Collection[str], now: datetime) -> list[tuple[datetime, str, Waiting]]:
    """The first of each queue whose trigger has nothing under way, where it is a queued run and its time has come."""
    live = select(runs.c.trigger_id).where(in_status(*LIVE), runs.c.trigger_id.in_(queues))
    taken = set(connection.execute(live.where(in_status(*_UNDER_WAY)).distinct()).scalars())
    free = [trigger_id for trigger_id in queues if trigger_id not in taken]
    if not free:
        return []
    place = func.row_number().over(partition_by=runs.c.trigger_id, order_by=(runs.c.scheduled_at, runs.c.id))
    ranked = (
        select(*_WAITING, runs.c.status, runs.c.overlap, runs.c.available_at, place.label("place"))
        .where(in_status("pending", "parked"), in_status(*LIVE), runs.c.trigger_id.in_(free))
        .subquery()
    )
    heads = select(ranked).where(
        ranked.c.place == 1,
        in_status("pending", of=ranked),
        ranked.c.overlap.not_in(_BESIDE),
        ranked.c.available_at <= now,
    )
    return [(row.available_at, row.id, Waiting(*row[: len(_WAITING)])) for row in connection.execute(heads)]


def before(connection: Connection, run: Run) -> str | None:
    """The run of the same trigger that goes on, or is to go on first; None when there is none."""
    of = select(runs.c.id).where(runs.c.trigger_id == run.trigger_id, runs.c.id != run.id)
    under_way = connection.execute(of.where(in_status(*_UNDER_WAY)).limit(1)).scalar()
    if under_way:
        return str(under_way)
    place = tuple_(runs.c.scheduled_at, runs.c.id) < (run.scheduled_at, run.id)
    first = of.where(in_status("pending", "parked"), place).order_by(runs.c.scheduled_at, runs.c.id).limit(1)
    found: str | None = connection.execute(first).scalar()
    return found


def holder(connection: Connection, run: Run) -> str | None:
    """The run that holds this one's key."""
    held = select(runs.c.id).where(
        in_status("running"), runs.c.project == run.project, runs.c.serialize_key == run.serialize_key
    )
    found: str | None = connection.execute(held).scalar() if run.serialize_key is not None else None
    return found
