"""The end of an attempt into the database, once: the run, its log's rest, and what the trigger keeps of it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from reconcile import budgets
from reconcile.attempts import Ended, facts_of
from reconcile.observe import Observations
from reconcile.rules import asking, bounds, retry, state
from reconcile.rules.asking import Asked
from reconcile.rules.budget import budget_of, is_used_up
from reconcile.rules.retry import Decision, Final, HandBack, Outcome, Retry
from reconcile.rules.state import State
from reconcile.rules.stopping import Stop, worn_out
from revisions.errors import TriggerctlError
from revisions.ids import TriggerKey, utc_text
from revisions.store import claims, costs, logs, notices, runs, states, status, triggers
from revisions.store.database import Connection, Database
from revisions.store.runs import Run
from revisions.store.status import StatusRow
from revisions.triggers import SYSTEM, StopReason, Trigger, spec_of

LONGEST_ERROR = 4_000
"""Characters kept of an error."""

Deactivate = Callable[[str, Stop], object]
"""Deactivates a trigger (its id, why) as the system."""
Fence = Callable[[Run | None, Run], bool]
"""Whether the run, locked, is still that of whoever settles."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of an attempt. `decision` is None when the claim was no longer held, and then nothing was changed.

    `stop`: the trigger is to be deactivated for what its runs came to, in a transaction of its own.
    `asked` is the next fire that the run asked for.
    """

    decision: Decision | None
    stop: Stop | None = None
    asked: Asked | None = None


def settle(
    database: Database,
    observations: Observations,
    ours: Run,
    ended: Ended,
    printed: Sequence[logs.Piece] = (),
    *,
    trigger: TriggerKey | None = None,
    fence: Fence = claims.holds,
) -> Settled:
    """Writes how an attempt ended, if its claim is still held; a claim that is not changes nothing (X-05, X-06).

    But what an attempt printed is kept whoever settled it under this very claim. A state that it produced is kept
    whatever the end, between two attempts too: who sends one says how far it came. One that is too large ends the run,
    for the work is done and would produce it again. `trigger` is what observations call it. Locks the trigger's status,
    then the run. Raises Unavailable, after which it may be called again.
    """
    made = state.produced(ended.output)
    if made and made.fault:
        ended = _failed(ended, f"{state.KEY} {made.fault}")
    with database.write() as connection:
        locked = status.lock(connection, [ours.trigger_id])
        current = runs.lock(connection, ours.id)
        now = database.clock.now(connection)
        is_over = _is_over(current, ours)
        if current is not None and fence(current, ours):
            settled = _write(connection, current, locked, ended, made, printed, now)
        else:
            settled = Settled(None)
            if is_over:
                _keep_rest(connection, ours, printed)
    if settled.decision is None:
        observations.emit("attempt.over" if is_over else "claim.lost", **facts_of(ours, trigger), claim=ours.claim)
    else:
        _tell(observations, facts_of(ours, trigger), ours, ended, settled, now)
    return settled


def stop(
    observations: Observations, deactivate: Deactivate, run: Run, why: Stop, trigger: TriggerKey | None = None
) -> None:
    """Deactivates a trigger for what its runs came to; the scanner finishes what is left open (L-16)."""
    try:
        deactivate(run.trigger_id, why)
    except TriggerctlError as error:
        observations.emit("deactivation.failed", **facts_of(run, trigger), error=error.detail)


def _is_over(current: Run | None, ours: Run) -> bool:
    """Whether this very claim was settled (by a callback, the scanner, us), and nobody has claimed the run since."""
    if current is None or current.status == "running":
        return False
    return (current.claim, current.attempt) == (ours.claim, ours.attempt)


def _keep_rest(connection: Connection, ours: Run, printed: Sequence[logs.Piece]) -> None:
    key = (ours.id, ours.attempt)
    stored = logs.sizes(connection, [key]).get(key, 0)
    logs.append(connection, {key: [piece for piece in printed if piece.position >= stored]})


def _write(
    connection: Connection,
    run: Run,
    locked: Sequence[StatusRow],
    ended: Ended,
    made: State | None,
    printed: Sequence[logs.Piece],
    now: datetime,
) -> Settled:
    decision = retry.decide(
        ended.outcome,
        attempt=run.attempt,
        max_attempts=run.attempt if ended.is_final or (made and made.fault) else run.max_attempts,
        cancel_requested=run.cancel_requested_at is not None,
        now=now,
    )
    if isinstance(decision, HandBack):
        logs.discard(connection, run.id, run.attempt)  # it will be begun anew, under the same number
        claims.hand_back(connection, run, decision.at)
        notices.runs_pending(connection)
        return Settled(decision)
    logs.append(connection, {(run.id, run.attempt): printed})
    if made and not made.fault:
        states.put(connection, states.State(run.trigger_id, made.text, now, SYSTEM, run.id))
    output, error, amount = _json(ended.output), _text(ended.error), _cost(ended.output)
    if amount is not None:
        costs.record(connection, run, now, amount)
    cost = run.cost if amount is None else (run.cost or 0.0) + amount
    if isinstance(decision, Retry):
        claims.retry(connection, run, decision.at, output=output, error=error, cost=cost)
        return Settled(decision, _spent(connection, run.trigger_id, now) if amount else None)
    claims.finish(connection, run, now, decision.status, output=output, error=error, cost=cost)
    stops = [_keep(connection, row, run, decision.status, error, now) for row in locked]
    return Settled(decision, next(filter(None, stops), None), _ask(connection, run, asking.asked(ended.output, now)))


def _failed(ended: Ended, error: str) -> Ended:
    """The end with one more thing that is wrong; a success is none then."""
    outcome = Outcome.FAILED if ended.outcome is Outcome.SUCCEEDED else ended.outcome
    return replace(ended, outcome=outcome, error="; ".join(filter(None, (ended.error, error))))


def _ask(connection: Connection, run: Run, asked: Asked | None) -> Asked | None:
    """Keeps the next fire that a run asked for, and has the loops move the alarm; a pause leaves nothing to ask for."""
    if asked is None or asked.at is None:
        return asked
    trigger = triggers.by_id(connection, run.trigger_id)
    if trigger is None or not trigger.active:
        return Asked(None, f"{asking.KEY}: the trigger is not active any more")
    expires_at = bounds.expires_at(spec_of(trigger.spec))
    if expires_at and asked.at >= expires_at:
        return Asked(None, f"{asking.KEY}: the trigger expires before that, at {utc_text(expires_at)}")
    status.ask(connection, run.trigger_id, asked.at, run.id)
    triggers.announce_again(connection, trigger.trigger_id, trigger.revision)
    return asked


def _keep(
    connection: Connection, row: StatusRow, run: Run, ended_as: str, error: str | None, now: datetime
) -> Stop | None:
    """Writes what the trigger's status keeps; answers whether it is to stop for that."""
    failed = retry.failures(
        row.consecutive_failures, ended_as, run_revision=run.revision, current_revision=row.revision
    )
    succeeded = row.success_count + (ended_as == "succeeded")
    kept: dict[str, Any] = {"trigger_id": row.trigger_id, "consecutive_failures": failed, "success_count": succeeded}
    match ended_as:
        case "succeeded":
            kept |= {"last_success_at": now, "last_error": None}
        case "failed" | "timed_out":
            kept |= {"last_error": error or ended_as.replace("_", " ")}
    status.save(connection, [kept])
    trigger = triggers.by_id(connection, row.trigger_id)
    if trigger is None or not trigger.active:
        return None
    return _over_budget(connection, trigger, now) or worn_out(spec_of(trigger.spec), failed, succeeded)


def _spent(connection: Connection, trigger_id: str, now: datetime) -> Stop | None:
    """Whether an attempt that is followed by another one leaves nothing for that."""
    trigger = triggers.by_id(connection, trigger_id)
    return _over_budget(connection, trigger, now) if trigger and trigger.active else None


def _over_budget(connection: Connection, trigger: Trigger, now: datetime) -> Stop | None:
    budget = budget_of(spec_of(trigger.spec))
    if budget is None:
        return None
    spending = budgets.read(connection, {trigger.trigger_id: budget}, now)[trigger.trigger_id]
    return Stop(StopReason.BUDGET, budget.until(now)) if is_used_up(budget, spending) else None


def _tell(
    observations: Observations, named: Mapping[str, Any], ours: Run, ended: Ended, settled: Settled, now: datetime
) -> None:
    facts = {**named, "source": ours.source}
    match settled.decision:
        case Retry(at):
            observations.emit("run.retried", **facts, outcome=ended.outcome.value, error=ended.error, at=at)
        case HandBack():
            observations.emit("run.handed_back", **facts)
        case Final(ended_as):
            seconds = max(0.0, (now - (ours.started_at or now)).total_seconds())
            observations.emit("run.settled", **facts, status=ended_as, error=ended.error, seconds=seconds)
    if settled.asked:
        observations.emit("fire.asked", **named, at=settled.asked.at, note=settled.asked.note)


def _json(output: Mapping[str, Any] | None) -> str | None:
    return None if output is None else json.dumps(output, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _text(error: str | None) -> str | None:
    """What the database takes and people read: no NUL, no half characters, not endless."""
    if error is None:
        return None
    return error[:LONGEST_ERROR].replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def _cost(output: Mapping[str, Any] | None) -> float | None:
    """What the attempt says it cost, None where it does not say."""
    match (output or {}).get("cost"):
        case bool():
            return None
        case int() | float() as cost if cost >= 0:
            return float(cost)
    return None
