"""The end of attempts into the database, once: their runs, their logs' rest, and what their triggers keep of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from reconcile.attempts.attempt import Ended, facts_of
from reconcile.attempts.endings import Ending, Endings, Settled
from reconcile.observe import Observations
from reconcile.rules import state
from reconcile.rules.retry import Final, HandBack, Outcome, Retry
from reconcile.rules.state import State
from reconcile.rules.stopping import Stop
from revisions.errors import TriggerctlError
from revisions.ids import TriggerKey
from revisions.store import claims, logs
from revisions.store.database import Database
from revisions.store.runs import Run

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
    """Writes how one attempt ended: see `settle_all`."""
    return settle_all(database, observations, [Ending(ours, ended, printed, trigger)], fence=fence)[0]


def settle_all(
    database: Database, observations: Observations, some: Sequence[Ending], *, fence: Fence = claims.holds
) -> list[Settled]:
    """Writes how attempts ended, each if its claim is still held; a claim that is not changes nothing (X-05, X-06).

    But what an attempt printed is kept whoever settled it under this very claim. A state that it produced is kept
    whatever the end, between two attempts too: who sends one says how far it came. One that is too large ends the run,
    for the work is done and would produce it again. All or none: raises Unavailable, after which it may be called
    again, and whatever else one of them cannot be written for.
    """
    produced = [state.produced(one.ended.output) for one in some]
    judged = [_judged(one.ended, made) for one, made in zip(some, produced, strict=True)]
    with database.write() as connection:
        endings = Endings(connection, database.clock, [one.run for one in some])
        begun = database.clock.monotonic()
        settled = []
        for one, ended, made in zip(some, judged, produced, strict=True):
            run = endings.run(one.run)
            if run is not None and fence(run, one.run):
                settled.append(endings.keep(run, ended, made, one.printed))
            else:
                settled.append(Settled(None))
                if _is_over(run, one.run):
                    endings.keep_rest(one.run, one.printed)
        endings.write()
    facts = {"at": endings.now, "seconds": database.clock.monotonic() - begun}
    for one, ended, result in zip(some, judged, settled, strict=True):
        if result.decision is None:
            lost = "attempt.over" if _is_over(endings.run(one.run), one.run) else "claim.lost"
            observations.emit(lost, **facts_of(one.run, one.trigger), claim=one.run.claim)
        else:
            said = {"run": one.run, "trigger": one.trigger, "ended": ended, "decision": result.decision}
            observations.emit("attempt.ended", **said, **facts)
            _tell(observations, facts_of(one.run, one.trigger), one.run, ended, result, endings.now)
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


def _judged(ended: Ended, made: State | None) -> Ended:
    """The end, with one more thing that is wrong where its state cannot be kept; a success is none then."""
    if made is None or not made.fault:
        return ended
    error = f"{state.KEY} {made.fault}"
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
