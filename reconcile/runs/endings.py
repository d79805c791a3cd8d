"""What is kept of how attempts ended: their runs, their logs' rest, costs, states, and what their triggers keep."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from reconcile.decide import retry, task_output
from reconcile.decide.automatic_stops import Stop, worn_out
from reconcile.decide.budget import budget_of, cost_of
from reconcile.decide.retry import AnotherAttempt, Decision, HandBack
from reconcile.decide.task_output import ProducedState, RequestedFire
from reconcile.runs.attempt import Ended
from reconcile.triggers import budgets
from revisions.clock import Clock
from revisions.history.triggers import SYSTEM, StopReason, Trigger
from revisions.ids import TriggerKey, utc_text
from revisions.outcomes import RunStatus
from revisions.spec.stored import readable_trigger
from revisions.store import claims, costs, expectations, logs, notices, runs, states, status, triggers
from revisions.store.claims import AttemptResult
from revisions.store.columns import storable
from revisions.store.database import Connection, fetch_with_time
from revisions.store.pipeline import Write, commit_with, write
from revisions.store.runs import Run
from revisions.store.status import StatusRow

LONGEST_ERROR = 4_000
"""Characters kept of an error."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended, and what it printed that is not stored; `trigger` is what observations call it."""

    run: Run
    ended: Ended
    printed: Sequence[logs.LogPiece] = ()
    trigger: TriggerKey | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of an attempt. `decision` is None when the claim was no longer held, and then nothing was changed.

    `stop`: the trigger is to be deactivated for what its runs came to, in a transaction of its own.
    `asked` is the next fire that the run asked for.
    """

    decision: Decision | None
    stop: Stop | None = None
    asked: RequestedFire | None = None


class Endings:
    """Attempts that ended together, in one transaction; each finds what those before it left of their trigger.

    Locks the triggers' status rows, then the runs, each in order and all in one turn; `now` is the time after that.
    """

    def __init__(self, connection: Connection, clock: Clock, ours: Collection[Run]) -> None:
        trigger_ids, run_ids = sorted({run.trigger_id for run in ours}), sorted({run.id for run in ours})
        questions = (
            *map(status.lock_query, trigger_ids),
            *map(runs.lock_query, run_ids),
            *map(triggers.read_query, trigger_ids),
        )
        answers, self.now = fetch_with_time(clock, connection, *questions)
        rows = [rows[0] if rows else None for rows in answers]
        of_status, of_runs = len(trigger_ids), len(trigger_ids) + len(run_ids)
        self._connection = connection
        self._status = {row[0]: StatusRow(*row) for row in rows[:of_status] if row}
        self._runs = {row.id: runs.from_row(row) for row in rows[of_status:of_runs] if row}
        self._triggers = {row.trigger_id: triggers.from_row(row) for row in rows[of_runs:] if row}
        self._stopped: set[str] = set()
        self._writes: list[Write] = []

    def run(self, ours: Run) -> Run | None:
        """The locked run of an attempt."""
        return self._runs.get(ours.id)

    def keep_rest(self, ours: Run, printed: Sequence[logs.LogPiece]) -> None:
        """What an attempt printed that somebody else settled, as far as it is not stored."""
        key = (ours.id, ours.attempt)
        stored = logs.sizes(self._connection, [key]).get(key, 0)
        logs.append(self._connection, {key: [piece for piece in printed if piece.position >= stored]})

    def keep(self, run: Run, ended: Ended, made: ProducedState | None, printed: Sequence[logs.LogPiece]) -> Settled:
        """Decides what follows and writes it, `run` being the locked one."""
        connection, now = self._connection, self.now
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
            self._writes.append(claims.hand_back_write(run, decision.at))
            return Settled(decision)
        logs.append(connection, {(run.id, run.attempt): printed})
        if made and not made.fault:
            states.put(connection, states.StoredState(run.trigger_id, made.text, now, SYSTEM, run.id))
        amount, said = cost_of(ended.output), _said(run, ended)
        if amount is not None:
            costs.record(connection, run, now, amount)
        if isinstance(decision, AnotherAttempt):
            self._writes.append(claims.retry_write(run, decision.at, said))
            return Settled(decision, self._stop(run, self._over_budget(run) if amount else None))
        self._writes.append(claims.finish_write(run, now, decision.status, said))
        kept = self._kept(run, decision.status, said.error, is_counted=ended.is_counted)
        asked = _ask(connection, run, self._active(run), task_output.requested_fire(ended.output, now), now)
        over_budget = self._over_budget(run)
        return Settled(decision, self._stop(run, self._worn_out(run, kept) or over_budget), asked)

    def write(self) -> None:
        """Writes what is decided and not written yet, with the transaction's end."""
        commit_with(self._connection, *self._writes)

    def _kept(self, run: Run, ended_as: RunStatus, error: str | None, *, is_counted: bool) -> StatusRow | None:
        """What the trigger's status keeps of a run that is over."""
        row = self._status.get(run.trigger_id)
        if row is None:
            return None
        failed = row.consecutive_failures
        if is_counted:
            failed = retry.failures(failed, ended_as, run_revision=run.revision, current_revision=row.revision)
        kept: dict[str, Any] = {"consecutive_failures": failed, "success_count": row.success_count}
        match ended_as:
            case RunStatus.SUCCEEDED:
                kept |= {"success_count": row.success_count + 1, "last_success_at": self.now, "last_error": None}
            case RunStatus.FAILED | RunStatus.TIMED_OUT:
                kept |= {"last_error": error or ended_as.replace("_", " ")}
        self._writes.append(status.update_write(row.trigger_id, kept))
        self._status[row.trigger_id] = after = replace(row, **kept)
        return after

    def _active(self, run: Run) -> Trigger | None:
        """The run's trigger, None where it is not active, or is to stop for what a run before this one came to."""
        trigger = self._triggers.get(run.trigger_id)
        return trigger if trigger and trigger.active and trigger.trigger_id not in self._stopped else None

    def _stop(self, run: Run, why: Stop | None) -> Stop | None:
        """Why the run's trigger is to stop; once it is, nothing more is asked of it."""
        if why is None or self._active(run) is None:
            return None
        self._stopped.add(run.trigger_id)
        return why

    def _worn_out(self, run: Run, kept: StatusRow | None) -> Stop | None:
        trigger = self._active(run)
        if trigger is None or kept is None:
            return None
        return worn_out(readable_trigger(trigger.spec), kept.consecutive_failures, kept.success_count)

    def _over_budget(self, run: Run) -> Stop | None:
        """Holds back what waits once the budget is used up, also of a trigger that rests."""
        trigger = self._triggers.get(run.trigger_id)
        if trigger is None or budget_of(readable_trigger(trigger.spec)) is None:
            return None
        write(self._connection, *self._writes)  # what is set aside for runs that are over is free
        self._writes.clear()
        until = budgets.used_up_until(self._connection, trigger.trigger_id, trigger.spec, self.now)
        if until is None:
            return None
        self._writes.append(status.update_write(trigger.trigger_id, {"over_budget_until": until}))
        return Stop(StopReason.BUDGET, until)


def _said(run: Run, ended: Ended) -> AttemptResult:
    """What the run keeps of what its attempt said; what all its attempts cost together."""
    amount = cost_of(ended.output)
    cost = run.cost if amount is None else (run.cost or 0.0) + amount
    error = None if ended.error is None else storable(ended.error, LONGEST_ERROR)
    return AttemptResult(_json(ended.output), error, cost)


def _ask(
    connection: Connection, run: Run, trigger: Trigger | None, asked: RequestedFire | None, now: datetime
) -> RequestedFire | None:
    """Keeps the next fire that a run asked for, and has the loops move the alarm; a pause leaves nothing to ask for."""
    if asked is None or asked.at is None:
        return asked
    if trigger is None:
        return RequestedFire(None, f"{task_output.NEXT_FIRE_KEY}: the trigger is not active any more")
    expires_at = readable_trigger(trigger.spec).limits.expires_at
    if expires_at and asked.at >= expires_at:
        return RequestedFire(
            None, f"{task_output.NEXT_FIRE_KEY}: the trigger expires before that, at {utc_text(expires_at)}"
        )
    status.set_requested_fire(connection, run.trigger_id, asked.at, run.id)
    expectations.recompute(connection, run.trigger_id, now)
    triggers.announce_again(connection, trigger.trigger_id, trigger.revision)
    return asked


def _json(output: Mapping[str, Any] | None) -> str | None:
    return None if output is None else json.dumps(output, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
