"""What is kept of how an attempt ended: the run, its log's rest, its cost, its state, and what its trigger keeps."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from reconcile import budgets
from reconcile.attempts.attempt import Ended
from reconcile.rules import asking, bounds, retry
from reconcile.rules.asking import Asked
from reconcile.rules.budget import budget_of
from reconcile.rules.retry import Decision, HandBack, Retry
from reconcile.rules.state import State
from reconcile.rules.stopping import Stop, worn_out
from revisions.clock import Clock
from revisions.ids import utc_text
from revisions.store import claims, costs, expectations, logs, notices, runs, states, status, triggers
from revisions.store.claims import Said
from revisions.store.database import Connection, ask_and_look_at
from revisions.store.pipeline import Write, write
from revisions.store.runs import Run
from revisions.store.status import StatusRow
from revisions.triggers import SYSTEM, StopReason, Trigger, spec_of

LONGEST_ERROR = 4_000
"""Characters kept of an error."""


@dataclass(frozen=True, slots=True)
class Found:
    """The run of an attempt, its trigger's status, both locked, its trigger, and the time after that."""

    run: Run | None
    status: StatusRow | None
    trigger: Trigger | None
    now: datetime


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of an attempt. `decision` is None when the claim was no longer held, and then nothing was changed.

    `stop`: the trigger is to be deactivated for what its runs came to, in a transaction of its own.
    `asked` is the next fire that the run asked for.
    """

    decision: Decision | None
    stop: Stop | None = None
    asked: Asked | None = None


def find(connection: Connection, clock: Clock, ours: Run) -> Found:
    """Locks the trigger's status, then the run, in one turn."""
    questions = (status.locking(ours.trigger_id), runs.locking(ours.id), triggers.reading(ours.trigger_id))
    (rows, found, of), now = ask_and_look_at(clock, connection, *questions)
    return Found(
        run=runs.from_row(found[0]) if found else None,
        status=StatusRow(*rows[0]) if rows else None,
        trigger=triggers.from_row(of[0]) if of else None,
        now=now,
    )


def keep_rest(connection: Connection, ours: Run, printed: Sequence[logs.Piece]) -> None:
    """What an attempt printed that somebody else settled, as far as it is not stored."""
    key = (ours.id, ours.attempt)
    stored = logs.sizes(connection, [key]).get(key, 0)
    logs.append(connection, {key: [piece for piece in printed if piece.position >= stored]})


def keep(
    connection: Connection,
    found: Found,
    run: Run,
    ended: Ended,
    made: State | None,
    printed: Sequence[logs.Piece],
) -> Settled:
    """Decides what follows and writes it, `run` being the locked one."""
    now = found.now
    decision = retry.decide(
        ended.outcome,
        attempt=run.attempt,
        max_attempts=run.attempt if ended.is_final or (made and made.fault) else run.max_attempts,
        cancel_requested=run.cancel_requested_at is not None,
        now=now,
    )
    if isinstance(decision, HandBack):
        logs.discard(connection, run.id, run.attempt)  # it will be begun anew, under the same number
        notices.runs_pending(connection)
        write(connection, claims.handing_back(run, decision.at), is_last=True)
        return Settled(decision)
    logs.append(connection, {(run.id, run.attempt): printed})
    if made and not made.fault:
        states.put(connection, states.State(run.trigger_id, made.text, now, SYSTEM, run.id))
    amount, said = _cost(ended.output), _said(run, ended)
    if amount is not None:
        costs.record(connection, run, now, amount)
    trigger = found.trigger if found.trigger and found.trigger.active else None
    if isinstance(decision, Retry):
        write(connection, claims.retrying(run, decision.at, said))
        return Settled(decision, _over_budget(connection, found) if amount else None)
    asked = asking.asked(ended.output, now)
    kept = _kept(found, run, decision.status, said.error)
    is_last = asked is None and not (found.trigger and budget_of(spec_of(found.trigger.spec)))
    write(connection, claims.finishing(run, now, decision.status, said), *kept, is_last=is_last)
    return Settled(decision, _stop(connection, found, kept), _ask(connection, run, trigger, asked, now))


def _said(run: Run, ended: Ended) -> Said:
    """What the run keeps of what its attempt said; what all its attempts cost together."""
    amount = _cost(ended.output)
    cost = run.cost if amount is None else (run.cost or 0.0) + amount
    return Said(_json(ended.output), _text(ended.error), cost)


def _kept(found: Found, run: Run, ended_as: str, error: str | None) -> list[Write]:
    """What the trigger's status keeps of a run that is over."""
    row = found.status
    if row is None:
        return []
    failed = retry.failures(
        row.consecutive_failures, ended_as, run_revision=run.revision, current_revision=row.revision
    )
    kept: dict[str, Any] = {"consecutive_failures": failed, "success_count": row.success_count}
    match ended_as:
        case "succeeded":
            kept |= {"success_count": row.success_count + 1, "last_success_at": found.now, "last_error": None}
        case "failed" | "timed_out":
            kept |= {"last_error": error or ended_as.replace("_", " ")}
    return [status.saving(row.trigger_id, kept)]


def _stop(connection: Connection, found: Found, kept: Sequence[Write]) -> Stop | None:
    """Whether the trigger is to stop for what its runs came to."""
    over_budget, trigger = _over_budget(connection, found), found.trigger
    if trigger is None or not trigger.active:
        return None
    for _, values in kept:
        if worn := worn_out(spec_of(trigger.spec), values["consecutive_failures"], values["success_count"]):
            return worn
    return over_budget


def _over_budget(connection: Connection, found: Found) -> Stop | None:
    """Holds back what waits once the budget is used up, also of a trigger that rests, and has an active one stop."""
    trigger = found.trigger
    until = budgets.used_up_until(connection, trigger.trigger_id, trigger.spec, found.now) if trigger else None
    if trigger is None or until is None:
        return None
    write(connection, status.saving(trigger.trigger_id, {"over_budget_until": until}))
    return Stop(StopReason.BUDGET, until) if trigger.active else None


def _ask(connection: Connection, run: Run, trigger: Trigger | None, asked: Asked | None, now: datetime) -> Asked | None:
    """Keeps the next fire that a run asked for, and has the loops move the alarm; a pause leaves nothing to ask for."""
    if asked is None or asked.at is None:
        return asked
    if trigger is None:
        return Asked(None, f"{asking.KEY}: the trigger is not active any more")
    expires_at = bounds.expires_at(spec_of(trigger.spec))
    if expires_at and asked.at >= expires_at:
        return Asked(None, f"{asking.KEY}: the trigger expires before that, at {utc_text(expires_at)}")
    status.ask(connection, run.trigger_id, asked.at, run.id)
    expectations.look(connection, run.trigger_id, now)
    triggers.announce_again(connection, trigger.trigger_id, trigger.revision)
    return asked


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
