"""Due pass and catch-up pass, each in one transaction: lock status rows, read facts, decide, write rows.

Rate tokens are shared by all replicas: live occurrences come first, a tenth is kept for backlogs (L-09, L-10).
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from reconcile.decide import admission, catchup
from reconcile.decide.admission import CATCHUP_SHARE, Pace
from reconcile.decide.automatic_stops import Stop
from reconcile.decide.catchup import CatchupPlan
from reconcile.loop import facts
from reconcile.loop.decision_rows import DecisionRows
from reconcile.loop.facts import CaseBatch, TriggerCase
from reconcile.loop.replica import ClockGuard
from reconcile.observations.observation import Observations
from reconcile.observations.passes import PassDecided, PassKind
from reconcile.observations.runs import WaitEnded
from reconcile.schedule.definition import EPOCH
from reconcile.schedule.fires import fires
from revisions.store import backlogs as backlog_store
from revisions.store import quarantines, rates
from revisions.store import status as status_store
from revisions.store.backlogs import Backlog
from revisions.store.database import Connection, Database

STARTS = "starts"
"""Bucket that every scheduled or caught-up start takes a token from."""
CATCHUP = "catchup"
"""Bucket that measures the share kept for backlogs; their starts take a token from both."""
OPEN_FREEZE_DELAY = timedelta(days=1)
"""Time until a trigger is due again whose freeze has no end; lifting the freeze makes it due at once."""
Wants = Sequence[tuple[str, CatchupPlan]]
"""Plans, each with the project of its trigger."""


class NextAlarm(NamedTuple):
    """Time until a trigger is due again, None when no fire is left; valid for this revision of the trigger only."""

    trigger_id: str
    revision: int
    delay: timedelta | None


@dataclass(slots=True)
class PassResult:
    """Result of a pass, for the loop to act on. If it is lost, resync and scan find the same in the database.

    `busy` are triggers whose status row was locked by another transaction. `stops` has the reason to deactivate a
    trigger, `unreadable` the error of one that could not be decided, both by trigger id. `started` counts the starts
    decided. `rate_limited`: at least one start is waiting for a rate token.
    """

    alarms: list[NextAlarm] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)
    stops: dict[str, Stop] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    started: int = 0
    rate_limited: bool = False

    def joined(self, other: "PassResult") -> "PassResult":
        """Return one result for both passes."""
        return PassResult(
            alarms=self.alarms + other.alarms,
            busy=self.busy + other.busy,
            stops=self.stops | other.stops,
            unreadable=self.unreadable | other.unreadable,
            started=self.started + other.started,
            rate_limited=self.rate_limited or other.rate_limited,
        )


def take_for_live(
    connection: Connection, pace: Pace, wants: Wants, now: datetime, *, in_turn: bool, waiting: int
) -> list[int]:
    """Take tokens for the starts of a due pass, and return the number for each plan.

    While triggers outside this batch wait for a token, only a pass with `in_turn` gets any, because it serves the head
    of their queue; other triggers would overtake them. `waiting` is the number of triggers of this batch that wait.
    While there is a backlog, its share is left in the bucket. The caller holds the status rows.
    """
    wanted = sum(len(plan.starts) for _, plan in wants)
    if wanted == 0 or pace.execution_qps == 0:
        return [len(plan.starts) for _, plan in wants]
    if not in_turn and rates.more_waiting_than(connection, waiting):
        return [0] * len(wants)
    reserve = _backlogs_share(connection, pace, now) if backlog_store.any_open(connection) else 0
    tokens = _take(connection, STARTS, wanted, now, pace.execution_qps, pace.execution_burst, reserve)
    granted = admission.share_tokens([(project, plan.starts) for project, plan in wants], tokens)
    if in_turn or tokens < wanted:
        served = {project for (project, _), number in zip(wants, granted, strict=True) if number}
        rates.record_turns(connection, served, now)
    return granted


def take_for_backlogs(connection: Connection, pace: Pace, wants: Wants, now: datetime) -> list[int]:
    """Take tokens for the starts of a catch-up pass, and return the number for each plan.

    While live occurrences wait for a token, backlogs get no more than their share.
    """
    wanted = sum(len(plan.starts) for _, plan in wants)
    if wanted == 0 or pace.execution_qps == 0:
        return [len(plan.starts) for _, plan in wants]
    if rates.more_waiting_than(connection, 0):
        wanted = min(wanted, _backlogs_share(connection, pace, now))
    # Starts before backlogs: every replica locks the two buckets in this order.
    tokens = _take(connection, STARTS, wanted, now, pace.execution_qps, pace.execution_burst)
    _take(connection, CATCHUP, tokens, now, *_catchup_bucket(pace))
    return admission.share_tokens([(project, plan.starts) for project, plan in wants], tokens)


def available(connection: Connection, pace: Pace, now: datetime) -> int:
    """Return the tokens in the bucket of starts, read without a lock: others may take them first."""
    if pace.execution_qps == 0:
        return sys.maxsize
    empty_until = rates.empty_until(connection, STARTS)
    return admission.available(empty_until, now, per_second=pace.execution_qps, burst=pace.execution_burst)


def _catchup_bucket(pace: Pace) -> tuple[float, int]:
    """Return rate per second and burst of the bucket of backlogs."""
    return pace.execution_qps / CATCHUP_SHARE, max(1, pace.execution_burst // CATCHUP_SHARE)


def _backlogs_share(connection: Connection, pace: Pace, now: datetime) -> int:
    per_second, burst = _catchup_bucket(pace)
    return admission.available(rates.empty_until(connection, CATCHUP), now, per_second=per_second, burst=burst)


def _take(
    connection: Connection, name: str, wanted: int, now: datetime, per_second: float, burst: int, reserve: int = 0
) -> int:
    def decide(empty_until: datetime) -> tuple[int, datetime]:
        return admission.bucket(empty_until, now, wanted, per_second=per_second, burst=burst, reserve=reserve)

    return rates.take_tokens(connection, name, now, decide)


def run_due_pass(
    database: Database,
    observations: Observations,
    pace: Pace,
    clock_guard: ClockGuard,
    ids: Sequence[str],
    *,
    in_turn: bool = False,
) -> PassResult:
    """Decide all undecided occurrences of these triggers up to now.

    `in_turn` says that the triggers are the head of the queue for rate tokens. Raises Unavailable, and whatever the
    data of one trigger makes the database or the rules raise; then nothing of the batch is stored.
    """
    begun = database.clock.monotonic()
    with database.write() as connection:
        # The status row carries the revision, and a deploy locks it too: until this commits, the revision read below
        # stays the one in force (L-15). A locked row belongs to a deploy, a settle or another replica's pass; waiting
        # for it would hold up the other triggers of the batch, so the loop asks again soon.
        rows = status_store.lock(connection, ids, skip_locked=True)
        # After the locks: a transaction that waited would otherwise decide up to an instant that lies in the past.
        now = database.clock.now(connection)
        if not clock_guard.accepts(now, database.clock.monotonic()):
            return PassResult(busy=list(ids))
        # All replicas are woken for every trigger, so most find it decided already.
        due = [row for row in rows if row.next_fire_at is None or row.next_fire_at <= now]
        # In a later statement than the lock, so that it sees what the lock's former holder committed.
        batch = facts.read_batch(connection, due, now, pace.grace)
        plans = [catchup.plan(case.terms, case.status.watermark, case.situation) for case in batch.cases]
        wants = [(case.facts.project, plan) for case, plan in zip(batch.cases, plans, strict=True)]
        tokens = take_for_live(connection, pace, wants, now, in_turn=in_turn, waiting=batch.waiting)
        result = _undecided(batch, now)
        result.busy = sorted(set(ids) - {row.trigger_id for row in rows})
        result.alarms += [
            NextAlarm(row.trigger_id, row.revision, row.next_fire_at - now)
            for row in rows
            if row.next_fire_at is not None and row.next_fire_at > now
        ]
        decisions = DecisionRows(now)
        for case, plan, number in zip(batch.cases, plans, tokens, strict=True):
            granted = plan.granted(number)
            is_waiting = len(granted.starts) < len(plan.starts)
            next_fire_at = _next_fire_at(case, granted)
            waiting_since = (case.status.rate_waiting_since or now) if is_waiting else None
            decisions.add_due(case, granted, next_fire_at, waiting_since)
            delay = next_fire_at - now if next_fire_at else None
            if is_waiting:  # the queue for tokens brings its turn; the alarm is only a net under it
                result.rate_limited, delay = True, pace.resync_interval
            result.alarms.append(NextAlarm(case.status.trigger_id, case.status.revision, delay))
        decisions.store(connection)
        if batch.retried:
            quarantines.lift(connection, batch.retried)
        # A held trigger leaves the queue for tokens, or it would keep those behind it waiting.
        rates.stop_waiting(connection, [held.status.trigger_id for held in batch.held])
    result.started = len(decisions.runs)
    _emit(observations, PassKind.DUE, decisions, database.clock.monotonic() - begun)
    return result


def run_catchup_pass(
    database: Database, observations: Observations, pace: Pace, clock_guard: ClockGuard, ids: Sequence[str]
) -> PassResult:
    """Start the next part of these triggers' backlogs, within the cap of the interval and the rate (L-06, L-07).

    `ids` come least recently served first; those beyond the cap are not served. Raises as `run_due_pass` does.
    """
    begun = database.clock.monotonic()
    with database.write() as connection:
        # Sorted: every transaction locks status rows in key order (invariant 1).
        rows = status_store.lock(connection, sorted(ids), skip_locked=True)
        backlogs = _oldest_backlogs(connection, [row.trigger_id for row in rows])
        now = database.clock.now(connection)
        if not clock_guard.accepts(now, database.clock.monotonic()):
            return PassResult()
        # The cap holds for all replicas together: its row is locked until this commits, so they serve one by one.
        slot = (now - EPOCH) // pace.resync_interval
        used = rates.lock_catchup_use(connection, slot)
        cap = max(0, pace.max_catchup_runs_per_loop - used)
        batch = facts.read_batch(connection, [row for row in rows if row.trigger_id in backlogs], now, pace.grace)
        served = _in_order(ids, batch.cases)[:cap]
        plans = _plan_parts(served, backlogs, cap)
        wants = [(case.facts.project, plan) for case, plan in zip(served, plans, strict=True)]
        tokens = take_for_backlogs(connection, pace, wants, now)
        decisions = DecisionRows(now)
        for case, plan, number in zip(served, plans, tokens, strict=True):
            granted = plan.granted(number)
            decisions.add_backlog_part(case, granted)
            backlog_store.serve(connection, backlogs[case.status.trigger_id], granted.watermark, now)
        rates.set_catchup_use(connection, slot, used + len(decisions.runs))
        decisions.store(connection)
        rates.stop_waiting(connection, [held.status.trigger_id for held in batch.held])
    result = _undecided(batch, now)
    result.started = len(decisions.runs)
    result.rate_limited = sum(len(plan.starts) for plan in plans) > len(decisions.runs)
    _emit(observations, PassKind.CATCH_UP, decisions, database.clock.monotonic() - begun)
    return result


def _undecided(batch: CaseBatch, now: datetime) -> PassResult:
    """Return the result for triggers that are held, unreadable or to be stopped, a used up budget among the stops."""
    used_up = {case.status.trigger_id: stop for case in batch.cases if (stop := case.budget_stop(now))}
    alarms = [
        NextAlarm(status.trigger_id, status.revision, until_at - now if until_at else OPEN_FREEZE_DELAY)
        for status, until_at in batch.held
    ]
    return PassResult(alarms=alarms, stops=batch.stops | used_up, unreadable=batch.unreadable)


def _next_fire_at(case: TriggerCase, granted: CatchupPlan) -> datetime | None:
    """Return the instant, by the clock, at which a pass must decide the trigger again; None when no fire is left."""
    if granted.held_until:
        return granted.held_until + case.delay
    remaining = case.situation.remaining
    if remaining is not None and len(granted.starts) >= remaining:
        return None
    requested = None if granted.is_asked else case.situation.asked
    ahead = requested or granted.ahead
    if ahead is None:
        ahead = next(iter(fires(case.terms.schedule, granted.watermark, None, 1)), None)
    if ahead:
        return ahead.at + case.delay
    # No fire before the expiry: the trigger is due once more at the expiry, and only then has no fire left.
    expires_at = case.terms.expires_at
    return expires_at if expires_at and granted.watermark < expires_at - case.delay else None


def _oldest_backlogs(connection: Connection, ids: Sequence[str]) -> dict[str, Backlog]:
    """Return the oldest backlog of each trigger that has one."""
    oldest: dict[str, Backlog] = {}
    for backlog in backlog_store.get(connection, ids):
        oldest.setdefault(backlog.trigger_id, backlog)
    return oldest


def _in_order(ids: Sequence[str], cases: Sequence[TriggerCase]) -> list[TriggerCase]:
    by_id = {case.status.trigger_id: case for case in cases}
    return [by_id[trigger_id] for trigger_id in ids if trigger_id in by_id]


def _plan_parts(served: Sequence[TriggerCase], backlogs: Mapping[str, Backlog], cap: int) -> list[CatchupPlan]:
    """Return what starts next of each trigger's backlog, the cap divided among them."""
    plans = []
    for case, share in zip(served, admission.share_cap(len(served), cap), strict=True):
        backlog = backlogs[case.status.trigger_id]
        plans.append(catchup.drain(case.terms, backlog.cursor_at, backlog.until_at, share, case.situation))
    return plans


def _emit(observations: Observations, kind: PassKind, decisions: DecisionRows, seconds: float) -> None:
    observations.emit(
        PassDecided(
            kind=kind,
            at=decisions.now,
            seconds=seconds,
            made=decisions.made,
            changes=decisions.changes,
            started=len(decisions.runs),
            lateness=[(decisions.now - run.scheduled_at).total_seconds() for run in decisions.runs],
            waited=decisions.waited,
            skips=decisions.skips,
            backlogs=decisions.backlogs,
        )
    )
    for run, trigger in decisions.cancelled:
        observations.emit(WaitEnded(run, trigger, decisions.now))
