"""Claims on runs: made by one claimer at a time, kept by leases, fenced by claim numbers (X-04, X-05).

Every write to a running run names the number of its claim. When another worker took the run over, the number has
changed and the write changes nothing.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, select, update
from sqlalchemy.sql.dml import ReturningUpdate

from revisions.ids import TriggerKey
from revisions.outcomes import RunStatus
from revisions.store.columns import list_elements, update_many
from revisions.store.queue import current_bound
from revisions.store.run_tables import runs
from revisions.store.runs import Run, from_row, in_status, run_of
from revisions.store.sessions import Write, fetch
from revisions.store.tables import tasks, trigger_revisions, trigger_states, trigger_status, triggers

_STANDING = (runs.c.id, runs.c.claim, runs.c.cancel_requested_at, runs.c.cancel_forced)
_RELEASE = update(runs).where(
    in_status(RunStatus.RUNNING), runs.c.id == bindparam("where_run"), runs.c.claim == bindparam("where_claim")
)
_RUN = tuple(column.label(f"run_{column.name}") for column in runs.c)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claimed run with everything that its launch needs; texts are canonical JSON.

    `task_spec` is None when the task version does not exist. `trigger_spec` and `scopes` (of its author) are those of
    the revision that made the run. `state` is the state that the trigger's earlier runs stored.
    """

    run: Run
    task_spec: str | None
    trigger: TriggerKey | None
    trigger_spec: str | None
    scopes: str | None
    last_success_at: datetime | None
    state: str | None


@dataclass(frozen=True, slots=True)
class ClaimState:
    """State of a claim; `cancel_forced` ends the work without asking it to end."""

    held: bool
    cancel_requested: bool
    cancel_forced: bool = False


class AttemptResult(NamedTuple):
    """Result of an attempt that the run stores: its output, its error, and the cost of all attempts so far."""

    output: str | None = None
    error: str | None = None
    cost: float | None = None


ClaimStates = dict[tuple[str, int], ClaimState]
"""Claim states by run id and claim number: a worker may hold a new claim on a run whose lost claim it has not noticed.
"""


def claim(
    connection: Connection, ids: Sequence[str], now: datetime, *, claimed_by: str, lease: timedelta
) -> list[Claimed]:
    """Claim pending runs and return them, longest waiting first.

    The caller holds `runs.lock_queue` and chose the runs under it, so that the limits it checked still hold.
    """
    if not ids:
        return []
    on_postgresql, chosen = connection.dialect.name == "postgresql", json.dumps([*ids])
    taken = {"chosen": chosen, "by_worker": claimed_by, "now_at": now, "until_at": now + lease}
    mine = {"chosen": chosen, "by_worker": claimed_by}
    _, rows = fetch(connection, (_take(on_postgresql), taken), (_mine(on_postgresql), mine))
    return [_claimed_row(row) for row in rows]


def renew(connection: Connection, held: Collection[Run], now: datetime, lease: timedelta) -> ClaimStates:
    """Extend the leases of held claims, also of lapsed ones that nobody took over, and return the state of each."""
    if not held:
        return {}
    # By worker, not by number: thousands of pairs make a slow plan. What is prolonged is this worker's in any case.
    still = (
        update(runs)
        .where(_among(held), runs.c.claimed_by.in_({run.claimed_by for run in held}))
        .values(lease_until=now + lease)
        .returning(*_STANDING)
    )
    return _standings(held, connection.execute(still))


def claim_states(connection: Connection, held: Collection[Run]) -> ClaimStates:
    """Return the state of each claim without extending its lease."""
    found = select(*_STANDING).where(_among(held))
    return _standings(held, connection.execute(found)) if held else {}


def lapsed(connection: Connection, now: datetime, limit: int) -> list[Run]:
    """Return running runs whose lease has ended, longest ago first."""
    statement = (
        select(runs)
        .where(in_status(RunStatus.RUNNING), runs.c.lease_until <= now)
        .order_by(runs.c.lease_until, runs.c.id)
        .limit(limit)
    )
    return [from_row(row) for row in connection.execute(statement)]


def running_of(connection: Connection, workers: Collection[str]) -> list[Run]:
    """Return the running runs that these workers claimed."""
    statement = (
        select(runs).where(in_status(RunStatus.RUNNING), runs.c.claimed_by.in_(list(workers))).order_by(runs.c.id)
    )
    return [from_row(row) for row in connection.execute(statement)] if workers else []


def get(connection: Connection, run_ids: Collection[str]) -> list[Claimed]:
    """Return runs with what belongs to them, whoever claimed them."""
    return _claimed(connection, runs.c.id.in_(list(run_ids))) if run_ids else []


def set_token_hashes(connection: Connection, hashes: Mapping[str, str]) -> None:
    """Store the hashes of the tokens of claimed runs; a token ends with its claim (X-13)."""
    update_many(connection, runs, "id", [{"id": run_id, "token_hash": hash} for run_id, hash in hashes.items()])


def by_token(connection: Connection, hash: str) -> Claimed | None:
    """Return the running run that has this token."""
    return next(iter(_claimed(connection, and_(runs.c.token_hash == hash, in_status(RunStatus.RUNNING)))), None)


def take_over(
    connection: Connection, found: Collection[Run], now: datetime, *, claimed_by: str, lease: timedelta
) -> list[Claimed]:
    """Claim runs of other workers under a new claim number; a run whose claim has changed since is left out.

    The attempt goes on: the same work is watched by another worker.
    """
    if not found:
        return []
    # Skipping what is locked: a worker that renews its lease just now locks many rows, in another order.
    rows = connection.execute(
        select(runs.c.id, runs.c.claim, runs.c.lease_until).where(_among(found)).with_for_update(skip_locked=True)
    )
    unchanged = {(run.id, run.claim, run.lease_until) for run in found}
    ids = [row.id for row in rows if tuple(row) in unchanged]
    if not ids:
        return []
    taken = {"claim": runs.c.claim + 1, "claimed_by": claimed_by, "lease_until": now + lease}
    connection.execute(update(runs).where(runs.c.id.in_(ids)).values(taken))
    return _claimed(connection, runs.c.id.in_(ids))


def holds_claim(current: Run | None, ours: Run) -> bool:
    """Return True while a locked run is running under our claim."""
    return current is not None and current.status == RunStatus.RUNNING and current.claim == ours.claim


def holds_attempt(current: Run | None, ours: Run) -> bool:
    """Return True while a locked run is running in our attempt, whichever worker watches it.

    A worker that takes the run over continues the same attempt under another claim (X-05).
    """
    return current is not None and current.status == RunStatus.RUNNING and current.attempt == ours.attempt


def extend_lease(connection: Connection, current: Run, until: datetime) -> None:
    """Extend the lease of a locked run for outside work; a lease is never shortened."""
    if current.lease_until is not None and current.lease_until < until:
        connection.execute(update(runs).where(runs.c.id == current.id).values(lease_until=until))


def finish_write(ours: Run, now: datetime, status: RunStatus, result: AttemptResult) -> Write:
    """Return the statement that ends a run for good and releases its claim, on success and on failure (X-06)."""
    return _releasing(ours, status=status, finished_at=now, **result._asdict())


def retry_write(ours: Run, at: datetime, result: AttemptResult) -> Write:
    """Return the statement that makes a run pending for its next attempt; its key is free until then (X-07)."""
    return _releasing(ours, status=RunStatus.PENDING, available_at=at, **result._asdict())


def hand_back_write(ours: Run, at: datetime) -> Write:
    """Return the statement that makes a run pending as if this attempt had not begun (X-07)."""
    return _releasing(ours, status=RunStatus.PENDING, available_at=at, attempt=ours.attempt - 1, started_at=None)


def _releasing(ours: Run, **values: Any) -> Write:
    released = {"claimed_by": None, "lease_until": None, "token_hash": None}
    return _RELEASE, {**values, **released, "where_run": ours.id, "where_claim": ours.claim}


def _among(claimed: Collection[Run]) -> ColumnElement[bool]:
    return and_(in_status(RunStatus.RUNNING), runs.c.id.in_({run.id for run in claimed}))


def _standings(held: Collection[Run], rows: Any) -> ClaimStates:
    found = {
        (row.id, row.claim): ClaimState(True, row.cancel_requested_at is not None, row.cancel_forced) for row in rows
    }
    return {key: found.get(key, ClaimState(False, False)) for key in ((run.id, run.claim) for run in held)}


@cache
def _take(on_postgresql: bool) -> ReturningUpdate[Any]:
    return (
        update(runs)
        .where(
            runs.c.id.in_(list_elements(on_postgresql, "chosen")), in_status(RunStatus.PENDING)
        )  # a cancellation may come between
        .values(
            status=RunStatus.RUNNING,
            attempt=runs.c.attempt + 1,
            claim=runs.c.claim + 1,
            claimed_by=bindparam("by_worker", type_=runs.c.claimed_by.type),
            lease_until=bindparam("until_at", type_=runs.c.lease_until.type),
            started_at=bindparam("now_at", type_=runs.c.started_at.type),
            serialize_key=current_bound("serialize_key"),
            output=None,
            error=None,
        )
        .returning(runs.c.id)
    )


@cache
def _mine(on_postgresql: bool) -> Select[Any]:
    by_worker = bindparam("by_worker", type_=runs.c.claimed_by.type)
    return _with_all(
        and_(
            runs.c.id.in_(list_elements(on_postgresql, "chosen")),
            runs.c.claimed_by == by_worker,
            in_status(RunStatus.RUNNING),
        )
    )


def _claimed(connection: Connection, which: ColumnElement[bool]) -> list[Claimed]:
    return [_claimed_row(row) for row in connection.execute(_with_all(which))]


def _with_all(which: ColumnElement[bool]) -> Select[Any]:
    """Return a SELECT of runs with everything that their launch needs, longest waiting first."""
    return (
        select(
            *_RUN,
            tasks.c.spec.label("task_spec"),
            triggers.c.name.label("trigger_name"),
            trigger_revisions.c.spec.label("trigger_spec"),
            trigger_revisions.c.scopes,
            trigger_status.c.last_success_at,
            trigger_states.c.state,
        )
        .select_from(runs)
        .outerjoin(
            tasks,
            and_(
                tasks.c.project == runs.c.project,
                tasks.c.domain == runs.c.domain,
                tasks.c.name == runs.c.task,
                tasks.c.version == runs.c.task_version,
            ),
        )
        .outerjoin(triggers, triggers.c.trigger_id == runs.c.trigger_id)
        .outerjoin(
            trigger_revisions,
            and_(trigger_revisions.c.trigger_id == runs.c.trigger_id, trigger_revisions.c.revision == runs.c.revision),
        )
        .outerjoin(trigger_status, trigger_status.c.trigger_id == runs.c.trigger_id)
        .outerjoin(trigger_states, trigger_states.c.trigger_id == runs.c.trigger_id)
        .where(which)
        .order_by(runs.c.available_at, runs.c.id)
    )


def _claimed_row(row: Any) -> Claimed:
    run = run_of({name: getattr(row, f"run_{name}") for name in Run.__slots__})
    key = TriggerKey(run.project, run.domain, run.task, row.trigger_name) if row.trigger_name else None
    return Claimed(run, row.task_spec, key, row.trigger_spec, row.scopes, row.last_success_at, row.state)
