"""Rows that change when attempts end: runs, the rest of their logs, costs, states, and their triggers' status.

All of it is one transaction, so a kill at any line leaves an attempt either still claimed or completely settled. A
deactivation that follows is a second transaction (`settle.apply_stop`): it locks a task before the trigger, and this
one holds a status row already. The scanner makes up for it when the process is killed between the two.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from reconcile.decide import attempt_ends
from reconcile.decide.attempt_ends import AnotherAttempt, Decision, HandBack, ProducedState, RequestedFire
from reconcile.decide.automatic_stops import Stop, worn_out
from reconcile.decide.budget import budget_of, cost_of
from reconcile.runs.attempt import Ended
from reconcile.triggers import spending
from revisions.clock import Clock
from revisions.history.triggers import SYSTEM, StopReason, Trigger
from revisions.ids import TriggerKey, utc_text
from revisions.outcomes import RunStatus
from revisions.spec.stored import readable_trigger
from revisions.store import claims, costs, expectations, logs, notices, runs, states, status, triggers
from revisions.store.claims import AttemptResult
from revisions.store.columns import storable
from revisions.store.database import Connection, fetch_with_time
from revisions.store.runs import Run
from revisions.store.sessions import Write, commit_with, write
from revisions.store.status import StatusRow

LONGEST_ERROR = 4_000
"""Characters of an error that are stored."""


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """An attempt to settle: its run as it was claimed, its result, and the rest of its log.

    `trigger` names the trigger in observations. `is_reported` says that the service which works on the attempt reported
    its end. A service knows the attempt's number and not the claim's, which changes when another worker takes over.
    """

    run: Run
    ended: Ended
    printed: Sequence[logs.LogPiece] = ()
    trigger: TriggerKey | None = None
    is_reported: bool = False

    def may_settle(self, run: Run | None) -> bool:
        """Return whether a locked run still belongs to whoever settles this attempt (X-05)."""
        return claims.holds_attempt(run, self.run) if self.is_reported else claims.holds_claim(run, self.run)


@dataclass(frozen=True, slots=True)
class Settled:
    """Consequence of an attempt's end. `decision` is None when the claim was not held any more: nothing was changed.

    `stop` says that the trigger is to be deactivated, in a transaction of its own. `requested_fire` is the next fire
    that the run asked for (S-08).
    """

    decision: Decision | None
    stop: Stop | None = None
    requested_fire: RequestedFire | None = None


class Endings:
    """Writes the ends of several attempts in one transaction; each sees what the ones before it changed.

    The constructor locks the triggers' status rows, then the runs, each sorted by id, which is the lock order that
    holds everywhere (invariant 1). `now` is read after the last lock.
    """

    def __init__(self, connection: Connection, clock: Clock, attempted: Collection[Run]) -> None:
        trigger_ids, run_ids = sorted({run.trigger_id for run in attempted}), sorted({run.id for run in attempted})
        questions = (
            *map(status.lock_query, trigger_ids),
            *map(runs.lock_query, run_ids),
            *map(triggers.read_query, trigger_ids),
        )
        answers, self.now = fetch_with_time(clock, connection, *questions)
        rows = [rows[0] if rows else None for rows in answers]
        first_run, first_trigger = len(trigger_ids), len(trigger_ids) + len(run_ids)
        self._connection = connection
        self._status = {row[0]: StatusRow(*row) for row in rows[:first_run] if row}
        self._runs = {row.id: runs.from_row(row) for row in rows[first_run:first_trigger] if row}
        self._triggers = {row.trigger_id: triggers.from_row(row) for row in rows[first_trigger:] if row}
        self._stopped: set[str] = set()
        self._writes: list[Write] = []

    def run(self, attempted: Run) -> Run | None:
        """Return the locked run of an attempt, None when it was pruned."""
        return self._runs.get(attempted.id)

    def add_log(self, attempted: Run, printed: Sequence[logs.LogPiece]) -> None:
        """Store the part of a log that is not stored yet, for an attempt that somebody else settled."""
        key = (attempted.id, attempted.attempt)
        stored = logs.sizes(self._connection, [key]).get(key, 0)
        logs.append(self._connection, {key: [piece for piece in printed if piece.position >= stored]})

    def add(self, run: Run, ended: Ended, state: ProducedState | None, printed: Sequence[logs.LogPiece]) -> Settled:
        """Decide what follows the end of an attempt and write it; `run` is the locked run."""
        connection, now = self._connection, self.now
        decision = attempt_ends.decide(
            ended.outcome,
            attempt=run.attempt,
            max_attempts=run.attempt if ended.is_final or (state and state.fault) else run.max_attempts,
            cancel_requested=run.cancel_requested_at is not None,
            now=now,
        )
        if isinstance(decision, HandBack):
            logs.discard(connection, run.id, run.attempt)  # the attempt begins anew under the same number
            notices.runs_pending(connection)
            self._writes.append(claims.hand_back_write(run, decision.at))
            return Settled(decision)
        logs.append(connection, {(run.id, run.attempt): printed})
        if state and not state.fault:
            states.put(connection, states.StoredState(run.trigger_id, state.text, now, SYSTEM, run.id))
        cost, result = cost_of(ended.output), _result(run, ended)
        if cost is not None:
            costs.record(connection, run, now, cost)
        if isinstance(decision, AnotherAttempt):
            self._writes.append(claims.retry_write(run, decision.at, result))
            return Settled(decision, self._stop_once(run, self._budget_stop(run) if cost else None))
        self._writes.append(claims.finish_write(run, now, decision.status, result))
        row = self._update_status(run, decision.status, result.error, is_counted=ended.is_counted)
        requested = attempt_ends.requested_fire(ended.output, now)
        requested = _store_requested_fire(connection, run, self._active_trigger(run), requested, now)
        budget_stop = self._budget_stop(run)
        return Settled(decision, self._stop_once(run, self._worn_out_stop(run, row) or budget_stop), requested)

    def write(self) -> None:
        """Send the writes that were collected, together with the commit."""
        commit_with(self._connection, *self._writes)

    def _update_status(
        self, run: Run, run_status: RunStatus, error: str | None, *, is_counted: bool
    ) -> StatusRow | None:
        """Count a run that is over in its trigger's status, and return the row as it is then."""
        row = self._status.get(run.trigger_id)
        if row is None:
            return None
        failures = row.consecutive_failures
        if is_counted:
            failures = attempt_ends.failures(
                failures, run_status, run_revision=run.revision, current_revision=row.revision
            )
        values: dict[str, Any] = {"consecutive_failures": failures, "success_count": row.success_count}
        match run_status:
            case RunStatus.SUCCEEDED:
                values |= {"success_count": row.success_count + 1, "last_success_at": self.now, "last_error": None}
            case RunStatus.FAILED | RunStatus.TIMED_OUT:
                values |= {"last_error": error or run_status.replace("_", " ")}
        self._writes.append(status.update_write(row.trigger_id, values))
        self._status[row.trigger_id] = updated = replace(row, **values)
        return updated

    def _active_trigger(self, run: Run) -> Trigger | None:
        """Return the run's trigger; None when it is inactive, or to be stopped for an earlier run of this batch."""
        trigger = self._triggers.get(run.trigger_id)
        return trigger if trigger and trigger.active and trigger.trigger_id not in self._stopped else None

    def _stop_once(self, run: Run, stop: Stop | None) -> Stop | None:
        """Return the stop unless the trigger is inactive or already to be stopped."""
        if stop is None or self._active_trigger(run) is None:
            return None
        self._stopped.add(run.trigger_id)
        return stop

    def _worn_out_stop(self, run: Run, row: StatusRow | None) -> Stop | None:
        trigger = self._active_trigger(run)
        if trigger is None or row is None:
            return None
        return worn_out(readable_trigger(trigger.spec), row.consecutive_failures, row.success_count)

    def _budget_stop(self, run: Run) -> Stop | None:
        """Hold pending runs back once the budget is used up, also those of an inactive trigger (X-08)."""
        trigger = self._triggers.get(run.trigger_id)
        if trigger is None or budget_of(readable_trigger(trigger.spec)) is None:
            return None
        # Written before the budget is read: a run that is over reserves nothing any more.
        write(self._connection, *self._writes)
        self._writes.clear()
        until = spending.used_up_until(self._connection, trigger.trigger_id, trigger.spec, self.now)
        if until is None:
            return None
        self._writes.append(status.update_write(trigger.trigger_id, {"over_budget_until": until}))
        return Stop(StopReason.BUDGET, until)


def _result(run: Run, ended: Ended) -> AttemptResult:
    """Return the columns that a run keeps of its attempt; `cost` is the sum over all its attempts."""
    cost = cost_of(ended.output)
    total = run.cost if cost is None else (run.cost or 0.0) + cost
    error = None if ended.error is None else storable(ended.error, LONGEST_ERROR)
    return AttemptResult(_json(ended.output), error, total)


def _store_requested_fire(
    connection: Connection, run: Run, trigger: Trigger | None, requested: RequestedFire | None, now: datetime
) -> RequestedFire | None:
    """Store the next fire that a run asked for and have the loops move their alarms.

    Returns it without an instant and with a note when `trigger` is None (not active) or expires before.
    """
    if requested is None or requested.at is None:
        return requested
    if trigger is None:
        return RequestedFire(None, f"{attempt_ends.NEXT_FIRE_KEY}: the trigger is not active any more")
    expires_at = readable_trigger(trigger.spec).limits.expires_at
    if expires_at and requested.at >= expires_at:
        return RequestedFire(
            None, f"{attempt_ends.NEXT_FIRE_KEY}: the trigger expires before that, at {utc_text(expires_at)}"
        )
    status.set_requested_fire(connection, run.trigger_id, requested.at, run.id)
    expectations.recompute(connection, run.trigger_id, now)
    triggers.announce_again(connection, trigger.trigger_id, trigger.revision)
    return requested


def _json(output: Mapping[str, Any] | None) -> str | None:
    return None if output is None else json.dumps(output, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
