"""Queue of pending runs, read past those that cannot start (X-04, X-09)."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache, partial
from typing import Any

from sqlalchemy import Connection, Integer, Label, Select, bindparam, func, literal_column, or_, select, tuple_

from revisions.outcomes import RunStatus
from revisions.run_limits import FullLimits, RunLimits, RunningRun, WaitingRun
from revisions.store.columns import list_elements
from revisions.store.run_tables import runs
from revisions.store.runs import LIVE, Run, in_status
from revisions.store.sessions import Query, fetch
from revisions.store.tables import trigger_status, triggers

_PAGE, _SPARE = 500, 20
"""Runs read at once when looking for what may go; the first time, so many beyond what is wanted."""
_UNDER_WAY = (RunStatus.RUNNING, RunStatus.WAITING)
"""Statuses that keep a whole queue waiting; a parked run keeps only those behind it waiting (X-14)."""
_BESIDE = ("allow", "skip")
"""Overlap policies whose runs may run at once; runs of all others start one at a time."""


RUNNING: Query = (select(*(runs.c[name] for name in RunningRun._fields)).where(in_status(RunStatus.RUNNING)), {})
"""Query for all running runs."""


def running(connection: Connection) -> list[RunningRun]:
    """Return all running runs."""
    return [RunningRun(*row) for row in fetch(connection, RUNNING)[0]]


def first_page_query(now: datetime, wanted: int) -> Query:
    """Return the query for the first page of pending runs, enough for `wanted` starts."""
    return _PAGES, {"now_at": now, "size": min(wanted + _SPARE, _PAGE) if wanted > 0 else 0}


def waiting(connection: Connection, now: datetime, page: Sequence[Any], full: FullLimits) -> Iterator[list[WaitingRun]]:
    """Yield pages of available pending runs, longest waiting first, past the limits in `full`, which may grow.

    `page` holds the rows of `first_page_query`. A trigger whose runs start one at a time appears with its first run
    only, and only while none of its runs is under way; each such queue is examined once, because it can hold thousands
    of runs. Runs held back by a budget are left out.
    """
    judged: set[str] = set()
    while page:
        found = [
            (row.available_at, row.id, WaitingRun(*row[: len(_WAITING)])) for row in page if row.overlap in _BESIDE
        ]
        queues = {row.trigger_id for row in page if row.overlap not in _BESIDE}
        found += _heads(connection, queues, now) if queues else []
        judged |= queues
        yield [one for _, _, one in sorted(found)]
        if len(page) < _SPARE:
            return
        (page,) = fetch(connection, _asking(connection, now, judged, page[-1], full))


def current_bound(bound: str) -> Label[Any]:
    """Return a column with a bound of the run's trigger as it is now, whichever revision made the run."""
    of = select(triggers.c[bound]).where(triggers.c.trigger_id == runs.c.trigger_id)
    return of.scalar_subquery().label(bound)


_WAITING = [current_bound(name) if name in RunLimits._fields else runs.c[name] for name in WaitingRun._fields]
_NOW = bindparam("now_at", type_=runs.c.available_at.type)
_OVER_BUDGET = select(trigger_status.c.trigger_id).where(trigger_status.c.over_budget_until > _NOW)
_PAGES = (
    select(*_WAITING, runs.c.overlap, runs.c.available_at)
    .where(in_status(RunStatus.PENDING), runs.c.available_at <= _NOW, runs.c.trigger_id.not_in(_OVER_BUDGET))
    .order_by(runs.c.available_at, runs.c.id)
    .limit(bindparam("size", type_=Integer))
)


def _asking(connection: Connection, now: datetime, judged: Collection[str], last: Any, full: FullLimits) -> Query:
    lists: dict[str, Iterable[object]] = {
        "projects": full.projects,
        "triggers": full.triggers,
        "tasks": full.tasks,
        "keys": full.keys,
        "judged": judged,
    }
    place = {"now_at": now, "last_at": last.available_at, "last_id": last.id, "size": _PAGE}
    sent = {name: json.dumps(list(values)) for name, values in lists.items()}
    return _pages_past(connection.dialect.name == "postgresql"), place | sent


@cache
def _pages_past(on_postgresql: bool) -> Select[Any]:
    last = tuple_(bindparam("last_at", type_=_NOW.type), bindparam("last_id", type_=runs.c.id.type))
    task = tuple_(runs.c.project, runs.c.domain, runs.c.task)
    beside = runs.c.overlap.in_([literal_column(f"'{policy}'") for policy in _BESIDE])
    of = partial(list_elements, on_postgresql)
    key = tuple_(triggers.c.project, triggers.c.serialize_key)
    keyed = select(triggers.c.trigger_id).where(triggers.c.serialize_key.is_not(None), key.in_(of("keys", 2)))
    return _PAGES.where(
        tuple_(runs.c.available_at, runs.c.id) > last,
        runs.c.project.not_in(of("projects")),
        runs.c.trigger_id.not_in(of("triggers")),
        runs.c.trigger_id.not_in(keyed),
        or_(runs.c.task_limit.is_(None), task.not_in(of("tasks", 3))),
        or_(beside, runs.c.trigger_id.not_in(of("judged"))),
    )


def _heads(connection: Connection, queues: Collection[str], now: datetime) -> list[tuple[datetime, str, WaitingRun]]:
    """Return the first run of each queue without a run under way, where it is available."""
    live = select(runs.c.trigger_id).where(in_status(*LIVE), runs.c.trigger_id.in_(queues))
    taken = set(connection.execute(live.where(in_status(*_UNDER_WAY)).distinct()).scalars())
    free = [trigger_id for trigger_id in queues if trigger_id not in taken]
    if not free:
        return []
    place = func.row_number().over(partition_by=runs.c.trigger_id, order_by=(runs.c.scheduled_at, runs.c.id))
    ranked = (
        select(*_WAITING, runs.c.status, runs.c.overlap, runs.c.available_at, place.label("place"))
        .where(in_status(RunStatus.PENDING, RunStatus.PARKED), in_status(*LIVE), runs.c.trigger_id.in_(free))
        .subquery()
    )
    heads = select(ranked).where(
        ranked.c.place == 1,
        in_status(RunStatus.PENDING, of=ranked),
        ranked.c.overlap.not_in(_BESIDE),
        ranked.c.available_at <= now,
    )
    return [(row.available_at, row.id, WaitingRun(*row[: len(_WAITING)])) for row in connection.execute(heads)]


def earlier_run_id(connection: Connection, run: Run) -> str | None:
    """Return the id of the run that this one waits for within its trigger, None without one."""
    of = select(runs.c.id).where(runs.c.trigger_id == run.trigger_id, runs.c.id != run.id)
    under_way = connection.execute(of.where(in_status(*_UNDER_WAY)).limit(1)).scalar()
    if under_way:
        return str(under_way)
    place = tuple_(runs.c.scheduled_at, runs.c.id) < (run.scheduled_at, run.id)
    first_page_query = (
        of.where(in_status(RunStatus.PENDING, RunStatus.PARKED), place)
        .order_by(runs.c.scheduled_at, runs.c.id)
        .limit(1)
    )
    found: str | None = connection.execute(first_page_query).scalar()
    return found


def key_holder_id(connection: Connection, project: str, key: str) -> str | None:
    """Return the id of the run that holds a serialize key."""
    held = select(runs.c.id).where(in_status(RunStatus.RUNNING), runs.c.project == project, runs.c.serialize_key == key)
    found: str | None = connection.execute(held).scalar()
    return found
