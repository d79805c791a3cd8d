"""Runs for a time that has passed: one for each occurrence the schedule names there, under its own id (X-11)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from reconcile.decide.changes import has_occurrences
from reconcile.observations.observation import Observations, Progress
from reconcile.observations.runs import RunsBackfilled
from reconcile.report.audit import DecidedSpan
from reconcile.runs.creation import outcome_of
from reconcile.runs.manual import targets
from reconcile.runs.manual.targets import Target
from reconcile.schedule.fires import Fire, count, fires
from reconcile.schedule.ranges import MOMENT
from reconcile.triggers.append import NEW_KEY
from reconcile.triggers.caller import Caller
from revisions import ids
from revisions.errors import Conflict, Invalid
from revisions.ids import TriggerKey, utc_text
from revisions.outcomes import RunSource
from revisions.spec import documents
from revisions.store import backlogs as backlog_store
from revisions.store import notices, retention
from revisions.store import runs as run_store
from revisions.store import status as status_store
from revisions.store.database import Connection, Database
from revisions.store.runs import NewRun

MOST = 10_000
"""Occurrences that one call may name."""
BATCH = 500
"""Occurrences of one transaction, so that the loop and deploys get their turn at the trigger in between."""
OVERLAPS = ("allow", "queue_all")


@dataclass(frozen=True, slots=True)
class BackfillRequest:
    """What is to be backfilled: [since, until), and how. `force` makes new runs also where there are some."""

    since: datetime
    until: datetime
    force: bool = False
    overlap: str | None = None
    input: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Backfilled:
    """What came of it: each fire that got a run with that run's id, None where nothing was to be made; in order.

    `until` is never later than the time of asking. `existing` occurrences had their run already; `undecided` ones were
    left to a schedule that counts its starts (S-07).
    """

    trigger_id: str
    since: datetime
    until: datetime
    made: list[tuple[Fire, str | None]] = field(default_factory=list)
    existing: int = 0
    undecided: int = 0


@dataclass(frozen=True, slots=True)
class _Order:
    """A wish that can be done: of so many occurrences, in the nominal time (after, high], under these ids."""

    key: TriggerKey
    trigger_id: str
    wish: BackfillRequest
    caller: Caller
    prefix: str
    after: datetime
    high: datetime
    until: datetime
    number: int


class Backfilling:
    """Makes runs of past occurrences; neither rate nor activation holds them back, and the unique key says which exist.

    The schedule that counts is the one in force when a batch is made (L-15).
    """

    def __init__(self, database: Database, observations: Observations) -> None:
        self._database = database
        self._observations = observations

    def backfill(self, key: TriggerKey, wish: BackfillRequest, caller: Caller, progress: Progress) -> Backfilled:
        """Makes what is not there yet, batch by batch; broken off anywhere, it can be asked for again.

        Raises NotFound (also for a deleted trigger), Invalid for a time that is none or holds too much and for an input
        that the task does not declare, Forbidden where its author may start nothing (X-15), and Conflict under a
        freeze, for more than the budget buys, and for an idempotency key with another input.
        """
        order = self._order(key, wish, caller)
        made: list[tuple[Fire, str | None]] = []
        after, seen, undecided = order.after, 0, 0
        while after < order.high:
            named, wanted, found = self._batch(order, after)
            made += found
            seen, undecided = seen + len(named), undecided + len(named) - len(wanted)
            after = named[-1].at if len(named) == BATCH else order.high
            progress(seen, max(seen, order.number))
        return Backfilled(order.trigger_id, wish.since, order.until, made, seen - undecided - len(made), undecided)

    def preview(self, key: TriggerKey, wish: BackfillRequest, caller: Caller) -> Backfilled:
        """What `backfill` would make now, and makes nothing. Raises as it does, but for freezes and used keys."""
        order = self._order(key, wish, caller)
        with self._database.read() as connection:
            target = targets.read(self._database, connection, key)
            named = fires(target.terms.schedule, order.after, order.high, MOST)
            wanted = _wanted(connection, target, wish, named)
            names = [order.prefix + fire.id for fire in wanted]
            there = run_store.by_occurrence(connection, target.trigger.trigger_id, names)
        made: list[tuple[Fire, str | None]] = [(fire, None) for fire in wanted if order.prefix + fire.id not in there]
        return Backfilled(order.trigger_id, wish.since, order.until, made, len(there), len(named) - len(wanted))

    def _order(self, key: TriggerKey, wish: BackfillRequest, caller: Caller) -> _Order:
        """Refuses what cannot be done, and says how much there is to do."""
        if wish.overlap not in (None, *OVERLAPS):
            raise Invalid.at("overlap", f"{wish.overlap!r} is not for backfills", f"one of {', '.join(OVERLAPS)}")
        documents.check(wish.input or {}, "input")
        if wish.since >= wish.until:
            raise Invalid.at("from", "lies not before `to`", "name a time that ends after it begins")
        with self._database.read() as connection:
            target = targets.read(self._database, connection, key)
            targets.check_input(target, wish.input)
            _refuse_forgotten(connection, target, wish)
        schedule, late = target.terms.schedule, target.terms.delay(str(key))
        after, high = wish.since - MOMENT, min(wish.until - MOMENT, target.now - late)
        number = count(schedule, after, high, MOST + 1)
        if number > MOST:
            edge = utc_text(fires(schedule, after, high, MOST + 1)[-1].at)
            detail = f"more than {MOST:,} occurrences lie between `from` and it"
            raise Invalid.at("to", detail, f"go up to {edge} first, then on from there")
        prefix = f"forced/{caller.idempotency_key or ids.fresh(target.now)}/" if wish.force else ""
        of, until = target.trigger.trigger_id, min(wish.until, target.now)
        return _Order(key, of, wish, caller, prefix, after, high, until, number)

    def _batch(self, order: _Order, after: datetime) -> tuple[list[Fire], list[Fire], list[tuple[Fire, str]]]:
        """The next occurrences after an instant, those of them that were to have a run, and those that got one."""
        with self._database.write() as connection:
            target = targets.locked(self._database, connection, order.key)
            targets.refuse_frozen(connection, order.key.project, target.now)
            targets.refuse_denied(connection, target.trigger, target.now)
            targets.check_input(target, order.wish.input)
            named = fires(target.terms.schedule, after, order.high, BATCH)
            wanted = _wanted(connection, target, order.wish, named)
            new = [_run(target, order, fire) for fire in wanted]
            made = _insert(connection, target, order, new)
            _refuse_forgotten(connection, target, order.wish)  # after it, for it waits for whoever removes such runs
        if made:
            self._observations.emit(RunsBackfilled(order.key, order.caller.actor, len(made)))
        return named, wanted, [(fire, run.id) for fire, run in zip(wanted, new, strict=True) if run.id in made]


def _refuse_forgotten(connection: Connection, target: Target, wish: BackfillRequest) -> None:
    """Raises Invalid where it is not known any more what ran (O-07)."""
    forgotten = retention.forgotten_until(connection, target.trigger.trigger_id)
    if forgotten is not None and wish.since <= forgotten and not wish.force:
        detail = f"records up to {utc_text(forgotten)} were removed: what ran until then might run a second time"
        raise Invalid.at("from", detail, "name a later time, or say that all are to run anew, with --force")


def _wanted(connection: Connection, target: Target, wish: BackfillRequest, named: list[Fire]) -> list[Fire]:
    """What of these is to have a run: all, but where starts are counted what is undecided is left to the loop.

    It takes an occurrence that has a run for one that it started, so the number would be neither its nor the audit's.
    """
    if wish.force or target.terms.count is None or not has_occurrences(target.trigger):
        return named
    backlogs = backlog_store.get(connection, [target.trigger.trigger_id])
    standing = DecidedSpan(target.status.watermark, [(one.cursor_at, one.until_at) for one in backlogs])
    return [fire for fire in named if standing.decided(fire.at)]


def _run(target: Target, order: _Order, fire: Fire) -> NewRun:
    return target.run(
        order.prefix + fire.id,
        fire.at,
        source=RunSource.BACKFILL,
        overlap=order.wish.overlap or "queue_all",
        caller=order.caller,
        input=order.wish.input,
    )


def _insert(connection: Connection, target: Target, order: _Order, new: Sequence[NewRun]) -> set[str]:
    """The ids of those that came to be: the insert decides that, not a look before it (X-01)."""
    names = [run.occurrence_id for run in new]
    if target.terms.budget:
        existing = run_store.by_occurrence(connection, target.trigger.trigger_id, names)
        target.refuse_beyond(len(new) - len(existing))
    run_store.create(connection, new)
    there = run_store.by_occurrence(connection, target.trigger.trigger_id, names)
    for run in new if order.prefix else ():
        if there[run.occurrence_id].input != run.input:
            used = f"run {there[run.occurrence_id].id}"
            detail = f"Idempotency-Key {order.caller.idempotency_key!r} was used for another backfill, {used}"
            raise Conflict.hinted("Idempotency-Key", detail, NEW_KEY)
    made = [run.id for run in new if there[run.occurrence_id].id == run.id]
    if made:
        status_store.record_manual_fires(
            connection, target.status, made[-1], target.now, len(made), outcome=outcome_of(new[-1])
        )
        notices.runs_pending(connection)
    return set(made)
