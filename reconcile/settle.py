"""The end of an attempt into the database, once: the run, its log's rest, and what the trigger keeps of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from reconcile.attempts import endings
from reconcile.attempts.attempt import Ended, facts_of
from reconcile.attempts.endings import LONGEST_ERROR, Settled
from reconcile.observe import Observations
from reconcile.rules import state
from reconcile.rules.retry import Final, HandBack, Outcome, Retry
from reconcile.rules.stopping import Stop
from revisions.errors import TriggerctlError
from revisions.ids import TriggerKey
from revisions.store import claims, logs
from revisions.store.database import Database
from revisions.store.runs import Run

__all__ = ["LONGEST_ERROR", "Deactivate", "Settled", "settle", "stop"]

Deactivate = Callable[[str, Stop], object]
"""Deactivates a trigger (its id, why) as the system."""
Fence = Callable[[Run | None, Run], bool]
"""Whether the run, locked, is still that of whoever settles."""


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
        found = endings.find(connection, database.clock, ours)
        begun = database.clock.monotonic()
        is_over = _is_over(found.run, ours)
        if found.run is not None and fence(found.run, ours):
            settled = endings.keep(connection, found, found.run, ended, made, printed)
        else:
            settled = Settled(None)
            if is_over:
                endings.keep_rest(connection, ours, printed)
    if settled.decision is None:
        observations.emit("attempt.over" if is_over else "claim.lost", **facts_of(ours, trigger), claim=ours.claim)
    else:
        facts = {"at": found.now, "seconds": database.clock.monotonic() - begun}
        observations.emit("attempt.ended", run=ours, trigger=trigger, ended=ended, decision=settled.decision, **facts)
        _tell(observations, facts_of(ours, trigger), ours, ended, settled, found.now)
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


def _failed(ended: Ended, error: str) -> Ended:
    """The end with one more thing that is wrong; a success is none then."""
    outcome = Outcome.FAILED if ended.outcome is Outcome.SUCCEEDED else ended.outcome
    return replace(ended, outcome=outcome, error="; ".join(filter(None, (ended.error, error))))


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
