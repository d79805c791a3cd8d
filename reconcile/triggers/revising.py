"""How a revision comes to be: locks in the order that holds everywhere, the rules' answer, one append (invariant 1)."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from reconcile.decide import changes
from reconcile.decide.authority import UNLIMITED, CausingRun
from reconcile.decide.changes import NextRevision
from reconcile.observe import Observations
from reconcile.schedule.definition import Closed
from reconcile.schedule.ranges import Range
from reconcile.triggers import budgets
from reconcile.triggers import closed_days as calendars
from revisions import ids
from revisions.errors import Conflict, Fault, TriggerctlError
from revisions.history import chain
from revisions.history.triggers import SYSTEM, Action, Revision, StopReason, Trigger, apply
from revisions.ids import TaskKey, TriggerKey
from revisions.spec.stored import readable_trigger
from revisions.store import backlogs as backlog_store
from revisions.store import revisions as revision_store
from revisions.store import status as status_store
from revisions.store import tasks as task_store
from revisions.store import triggers as store
from revisions.store.database import Connection, Database
from revisions.store.occurrences import Skip
from revisions.store.status import Baseline, StatusRow
from revisions.store.tasks import TaskRow

NEW_KEY = "send another key with another request"
"""The way out for who used an idempotency key twice."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, why, and under which key a retry is recognised (invariant 7, R-04).

    `scopes` is the text that a deploy keeps of its author (X-15), `traceparent` what the request is part of (O-04).
    `cause` is the run that asks, where one does (X-02).
    """

    actor: str = SYSTEM
    reason: str = ""
    idempotency_key: str | None = None
    scopes: str = UNLIMITED
    traceparent: str | None = None
    cause: CausingRun | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """The trigger after a request; `changed` is False when nothing had to be appended (R-06, R-08).

    `before` is the revision it stood at, None when it was created; `warnings` are what whoever asked is to know.
    """

    trigger: Trigger
    changed: bool
    created: bool = False
    before: int | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Locked:
    """What a change finds once it holds its locks; `trigger` is None for a name that was never used."""

    connection: Connection
    key: TriggerKey
    trigger: Trigger | None
    status: StatusRow | None
    tasks: Mapping[TaskKey, TaskRow]
    now: datetime


@dataclass(frozen=True, slots=True)
class Request:
    """A change that is wanted: `propose` answers the next revision, or None when it stands so already, or raises.

    `is_retry` tells whether a revision is what this same request made before; `resumed_at` is when a pause was to end.
    """

    caller: Caller
    propose: Callable[[Locked], NextRevision | None]
    is_retry: Callable[[Revision], bool] = lambda _: False
    resumed_at: datetime | None = None


class _Moved(Exception):
    """Locks were taken on something that is no longer what is to be changed."""


class Revising:
    """One transaction a call; a trigger that moved while its locks were being taken is begun anew."""

    def __init__(self, database: Database, observations: Observations) -> None:
        self._database = database
        self._observations = observations

    def one(self, key: TriggerKey, request: Request, *, task: TaskKey | None = None) -> Changed:
        """Changes one trigger; `task` is the version it is to be bound to, where that may be a new one.

        Raises what the request's proposal raises, and Conflict for an idempotency key of another request.
        """
        begun = self._database.clock.monotonic()
        wanted = {task} if task else set()
        tasks = set(wanted)
        while True:
            try:
                with self._database.write() as connection:
                    if not tasks and (seen := store.get(connection, key)):
                        tasks = {store.task_key(seen)}
                    found = store.lock(connection, tasks, key, self._database.clock)
                    if found.trigger and (bound := store.task_key(found.trigger)) not in tasks:
                        tasks = wanted | {bound}
                        raise _Moved
                    locked = Locked(connection, key, found.trigger, found.status, found.tasks, found.now)
                    changed = _retried(locked, request) or self.append(locked, request, is_last=True)
            except (_Moved, store.AlreadyThere):
                continue
            self._tell(changed, request.caller, begun)
            return changed

    def all(self, choose: Callable[[Connection], Collection[TriggerKey]], request: Request) -> list[Changed]:
        """Changes every chosen trigger, or none of them (R-16); what is chosen is asked again under the locks.

        Raises Conflict with a fault for each trigger that refuses.
        """
        begun = self._database.clock.monotonic()
        while True:
            with self._database.write() as connection:
                chosen = sorted(choose(connection))
                seen = [store.get(connection, key) for key in chosen]
                tasks = {store.task_key(trigger) for trigger in seen if trigger}
                rows = task_store.lock(connection, tasks)
                triggers = {trigger.key: trigger for trigger in store.lock_all(connection, chosen)}
                statuses = _by_id(status_store.lock(connection, [t.trigger_id for t in triggers.values()]))
                moved = {store.task_key(trigger) for trigger in triggers.values()} - tasks
                meant = sorted(choose(connection))
                if moved or not set(meant) <= set(chosen):
                    continue
                now = self._database.clock.now(connection)
                locked = []
                for key in meant:
                    trigger = triggers.get(key)
                    status = statuses[trigger.trigger_id] if trigger else None
                    locked.append(Locked(connection, key, trigger, status, rows, now))
                changed = self._append_all(locked, request)
            for one in changed:
                self._tell(one, request.caller, begun)
            return changed

    def append(self, locked: Locked, request: Request, *, is_last: bool = False) -> Changed:
        """The revision a request proposes, appended in the caller's transaction under the caller's locks.

        With `is_last` nothing follows in the transaction, so that its end is not waited for statement by statement.
        """
        current, following = locked.trigger, request.propose(locked)
        if following is None:
            assert current is not None
            return Changed(current, changed=False, before=current.revision)
        revision = _revision(locked, following, request.caller)
        baseline = _baseline(locked, following, request.resumed_at)
        trigger = store.append(
            locked.connection,
            current,
            revision,
            baseline,
            is_last=is_last,
            traceparent=request.caller.traceparent,
            over_budget_until=_over_budget_until(locked, following, request.caller),
        )
        created = current is None or current.deleted
        return Changed(trigger, changed=True, created=created, before=current.revision if current else None)

    def _append_all(self, locked: Sequence[Locked], request: Request) -> list[Changed]:
        changed, faults = [], []
        for one in locked:
            try:
                changed.append(_retried(one, request) or self.append(one, request))
            except TriggerctlError as error:
                faults.append(_fault(one.key, error))
        if faults:
            raise Conflict(f"nothing was changed: {faults[0].path}: {faults[0].message}", errors=faults)
        return changed

    def _tell(self, changed: Changed, caller: Caller, begun: float) -> None:
        if changed.changed:
            trigger, seconds = changed.trigger, self._database.clock.monotonic() - begun
            told = {"trigger": str(trigger.key), "revision": trigger.revision, "actor": trigger.changed_by}
            self._observations.emit("trigger.changed", **told)
            self._observations.emit("change.made", trigger=trigger, caller=caller, seconds=seconds)


def closed_days(locked: Locked, spec: str) -> Closed:
    """The days of the calendars that a spec names (S-13)."""
    return calendars.closed(locked.connection, locked.key.project, readable_trigger(spec).schedule.calendars)


def skip_of(trigger_id: str, revision: int, decided_at: datetime, left: Range) -> Skip:
    """The ledger's row for occurrences that became no run."""
    return Skip(
        trigger_id=trigger_id,
        occurrence_id=left.first.id,
        scheduled_at=left.first.at,
        scheduled_until=left.until,
        decided_at=decided_at,
        outcome=left.outcome,
        reason=left.reason,
        revision=revision,
        count=left.count,
    )


def _revision(locked: Locked, following: NextRevision, caller: Caller) -> Revision:
    current = locked.trigger
    revision = Revision(
        trigger_id=current.trigger_id if current else ids.fresh(locked.now),
        key=following.key or locked.key,
        revision=current.revision + 1 if current else 1,
        action=following.action,
        actor=caller.actor,
        reason=following.reason,
        at=locked.now,
        active=following.active,
        tags=following.tags,
        until=following.until,
        origin=following.origin,
        idempotency_key=caller.idempotency_key,
        resolved=following.resolved,
        scopes=following.scopes,
        spec=following.spec,
        previous_hash=current.hash if current else chain.ORIGIN,
        hash="",
    )
    return replace(revision, hash=chain.link(revision))


def _baseline(locked: Locked, following: NextRevision, resumed_at: datetime | None) -> Baseline | None:
    """Where the trigger stands from this revision on; None when it stands where it stood (R-21)."""
    current, status = locked.trigger, locked.status
    if status is not None and changes.keeps_watermark(current, following):
        if current is not None and following.active == current.active and not changes.moves_end(current, following):
            return None
        ahead = changes.next_fire(locked.key, following, status.watermark, closed_days(locked, following.spec))
        return Baseline(status.watermark, ahead, goes_on=True)
    counts = current is not None and changes.has_occurrences(current)
    backlogs = backlog_store.get(locked.connection, [current.trigger_id]) if current and counts else []
    beginning = changes.new_baseline(
        locked.key,
        current,
        following,
        locked.now,
        watermark=status.watermark if status else None,
        backlogs=[(backlog.cursor_at, backlog.until_at) for backlog in backlogs],
        resumed_at=resumed_at,
        calendars=(closed_days(locked, current.spec) if current else (), closed_days(locked, following.spec)),
    )
    left = beginning.superseded
    skip = skip_of(current.trigger_id, current.revision, locked.now, left) if current and left else None
    return Baseline(beginning.watermark, beginning.next_fire_at, skip)


def _over_budget_until(locked: Locked, following: NextRevision, caller: Caller) -> datetime | None:
    """Until when what waits is held back (X-08): while its budget is used up, by the limits that it has from now on."""
    if caller.actor == SYSTEM and following.reason == StopReason.BUDGET:
        return following.until
    current = locked.trigger
    if current is None or locked.status is None:
        return None
    if locked.status.over_budget_until is None and not changes.moves_budget(current, following):
        return None
    return budgets.used_up_until(locked.connection, current.trigger_id, following.spec, locked.now)


def _retried(locked: Locked, request: Request) -> Changed | None:
    """What an earlier request with the same idempotency key made (R-04). Raises Conflict for another body."""
    key, current = request.caller.idempotency_key, locked.trigger
    if key is None or current is None:
        return None
    made = revision_store.by_idempotency_key(locked.connection, current.trigger_id, key)
    if made is None:
        return None
    if not request.is_retry(made):
        detail = f"Idempotency-Key {key!r} was used for another request, revision {made.revision}"
        raise Conflict(
            detail,
            errors=[Fault("Idempotency-Key", detail, NEW_KEY)],
            current_revision=current.revision,
            changed_by=current.changed_by,
            changed_at=current.changed_at,
        )
    before = revision_store.get(locked.connection, made.trigger_id, made.revision - 1)
    created = before is None or before.action is Action.DELETE
    return Changed(apply(None, made), changed=True, created=created, before=before.revision if before else None)


def _fault(key: TriggerKey, error: TriggerctlError) -> Fault:
    """Why one of many refuses; of a conflict whose change came between, too (R-04)."""
    by = f", changed by {error.changed_by}" if isinstance(error, Conflict) and error.changed_by else ""
    return Fault(str(key), error.detail + by, "read it again")


def _by_id(rows: Sequence[StatusRow]) -> dict[str, StatusRow]:
    return {row.trigger_id: row for row in rows}
