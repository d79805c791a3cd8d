"""The end of attempts into the database, once: their runs, their logs' rest, and what their triggers keep of it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from reconcile.decide import task_output
from reconcile.decide.automatic_stops import Stop
from reconcile.decide.retry import AnotherAttempt, AttemptOutcome, HandBack, RunEnd
from reconcile.decide.task_output import ProducedState
from reconcile.observations.observation import Observations
from reconcile.observations.runs import (
    AttemptEnded,
    AttemptOver,
    ClaimLost,
    DeactivationFailed,
    FireRequested,
    RunHandedBack,
    RunRetried,
    RunSettled,
)
from reconcile.runs.attempt import Ended
from reconcile.runs.endings import Ending, Endings, Settled
from reconcile.runs.unconfirmed_ends import Unheard, Written
from reconcile.triggers.activation import stop_trigger
from revisions.errors import TriggerctlError
from revisions.ids import TriggerKey
from revisions.outcomes import RunStatus
from revisions.store import claims, logs
from revisions.store.database import Database
from revisions.store.runs import Run

Fence = Callable[[Run | None, Run], bool]
"""Whether the run, locked, is still that of whoever settles."""


def settle(
    database: Database,
    observations: Observations,
    ours: Run,
    ended: Ended,
    printed: Sequence[logs.LogPiece] = (),
    *,
    trigger: TriggerKey | None = None,
    fence: Fence = claims.holds_claim,
) -> Settled:
    """Writes how one attempt ended: see `settle_all`."""
    return settle_all(database, observations, [Ending(ours, ended, printed, trigger)], fence=fence)[0]


def settle_all(
    database: Database,
    observations: Observations,
    some: Sequence[Ending],
    *,
    fence: Fence = claims.holds_claim,
    unheard: Unheard | None = None,
) -> list[Settled]:
    """Writes how attempts ended, each if its claim is still held; a claim that is not changes nothing (X-05, X-06).

    But what an attempt printed is kept whoever settled it under this very claim. A state that it produced is kept
    whatever the end, between two attempts too: who sends one says how far it came. One that is too large ends the run,
    for the work is done and would produce it again. All or none: raises Unavailable, after which it may be called
    again, and whatever else one of them cannot be written for. Called again with the same `unheard`, it answers and
    tells of what the first call did write.
    """
    unheard = unheard or Unheard()
    produced = [task_output.produced_state(one.ended.output) for one in some]
    judged = [_judged(one.ended, made) for one, made in zip(some, produced, strict=True)]
    with unheard.listening(some), database.write() as connection:
        endings = Endings(connection, database.clock, [one.run for one in some])
        begun = database.clock.monotonic()
        written = []
        for one, ended, made in zip(some, judged, produced, strict=True):
            run, result = endings.run(one.run), Settled(None)
            if run is not None and fence(run, one.run):
                result = endings.keep(run, ended, made, one.printed)
            elif earlier := unheard.earlier(run, one.run):
                written.append(earlier)
                continue
            elif _is_over(run, one.run):
                endings.keep_rest(one.run, one.printed)
            written.append(Written(one, ended, result, endings.now))
        unheard.keep(written)
        endings.write()
    seconds = database.clock.monotonic() - begun
    for end in written:
        _tell(observations, end, endings.run(end.ending.run), seconds)
    return [end.settled for end in written]


def stop(
    database: Database, observations: Observations, run: Run, reason: Stop, trigger: TriggerKey | None = None
) -> None:
    """Deactivate a trigger because of its runs; the scanner repeats it when it fails (L-16)."""
    try:
        stop_trigger(database, observations, run.trigger_id, reason)
    except TriggerctlError as error:
        observations.emit(DeactivationFailed(run, trigger, error.detail))


def _is_over(current: Run | None, ours: Run) -> bool:
    """Whether this very claim was settled (by a callback, the scanner, us), and nobody has claimed the run since."""
    if current is None or current.status == RunStatus.RUNNING:
        return False
    return (current.claim, current.attempt) == (ours.claim, ours.attempt)


def _judged(ended: Ended, made: ProducedState | None) -> Ended:
    """The end, with one more thing that is wrong where its state cannot be kept; a success is none then."""
    if made is None or not made.fault:
        return ended
    error = f"{task_output.STATE_KEY} {made.fault}"
    outcome = AttemptOutcome.FAILED if ended.outcome is AttemptOutcome.SUCCEEDED else ended.outcome
    return replace(ended, outcome=outcome, error="; ".join(filter(None, (ended.error, error))))


def _tell(observations: Observations, end: Written, current: Run | None, seconds: float) -> None:
    """What became of one attempt; `current` is its run as it was found."""
    run, trigger, ended, settled = end.ending.run, end.ending.trigger, end.ended, end.settled
    if settled.decision is None:
        too_late = AttemptOver if _is_over(current, run) else ClaimLost
        observations.emit(too_late(run, trigger, run.claim))
        return
    observations.emit(AttemptEnded(run, trigger, ended.outcome, ended.error, settled.decision, end.at, seconds))
    match settled.decision:
        case AnotherAttempt(at):
            observations.emit(RunRetried(run, trigger, ended.outcome, ended.error, at))
        case HandBack():
            observations.emit(RunHandedBack(run, trigger))
        case RunEnd(status):
            lasted = max(0.0, (end.at - (run.started_at or end.at)).total_seconds())
            observations.emit(RunSettled(run, trigger, status, ended.error, lasted))
    if settled.asked:
        observations.emit(FireRequested(run, trigger, settled.asked.at, settled.asked.note))
