"""Settle attempts that ended: write their end to the database exactly once, and emit what happened.

The runner settles the attempts that it watches; a service that accepted a run reports its end by callback (X-10).

The crash window: a runner settles an attempt, the database commits, and the confirmation is lost. The runner settles
again and finds the run no longer claimed, which looks exactly as if somebody else had settled it. It would then not
emit the observations of its own end, and a deactivation that follows from it would wait for the scanner. So the runner
remembers what it wrote until a later transaction shows whether that was committed. A runner that is killed forgets it;
only observations are lost then, for everything else is in the database (invariant 5).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from reconcile.decide import attempt_ends
from reconcile.decide.attempt_ends import AnotherAttempt, AttemptOutcome, HandBack, ProducedState, RunEnd
from reconcile.decide.automatic_stops import Stop
from reconcile.decide.secret_masks import Mask
from reconcile.observations.observation import Observations
from reconcile.observations.runs import (
    AttemptEnded,
    AttemptOver,
    ClaimLost,
    DeactivationFailed,
    FireRequested,
    RunCompleted,
    RunHandedBack,
    RunRetried,
    RunSettled,
)
from reconcile.plugins import LaunchError
from reconcile.runs import attempt_secrets, launch, workspace
from reconcile.runs.attempt import ClaimKey, Ended
from reconcile.runs.attempt_secrets import Vault
from reconcile.runs.endings import EndedAttempt, Endings, Settled
from reconcile.triggers.activation import stop_trigger
from revisions.errors import Conflict, NotFound, TriggerctlError, Unavailable
from revisions.ids import TriggerKey
from revisions.outcomes import RunStatus
from revisions.store import claims, logs, runs
from revisions.store.claims import Claimed
from revisions.store.database import Connection, Database
from revisions.store.runs import Run


@dataclass(frozen=True, slots=True)
class WrittenEnd:
    """End of an attempt as it was written at an instant: its result, and the decision that followed."""

    attempt: EndedAttempt
    ended: Ended
    settled: Settled
    at: datetime

    def was_committed(self, run: Run | None) -> bool:
        """Return whether a locked run is in the state that this write left; `at` tells it from another worker's."""
        if run is None or run.claim != self.attempt.run.claim:
            return False
        match self.settled.decision:
            case None:
                return False
            case RunEnd(status):
                return (run.status, run.finished_at) == (status, self.at)
            case pending_again:
                return (run.status, run.available_at) == (RunStatus.PENDING, pending_again.at)


class UnconfirmedEnds:
    """Ends that one worker wrote and whose commit is not confirmed."""

    def __init__(self) -> None:
        self._written: dict[ClaimKey, WrittenEnd] = {}

    @property
    def attempts(self) -> list[EndedAttempt]:
        """Attempts to settle again, in order to learn whether their end was committed."""
        return [written.attempt for written in self._written.values()]

    def committed(self, run: Run | None, attempted: Run) -> WrittenEnd | None:
        """Return the earlier write for an attempt if its locked run shows that it was committed."""
        written = self._written.get(_key(attempted))
        return written if written and written.was_committed(run) else None

    def add(self, written: Iterable[WrittenEnd]) -> None:
        """Remember ends that are about to be committed."""
        self._written |= {_key(end.attempt.run): end for end in written}

    def remove(self, attempts: Iterable[EndedAttempt]) -> None:
        """Forget ends of which it is known whether they were committed."""
        for attempt in attempts:
            self._written.pop(_key(attempt.run), None)


def settle(
    database: Database, observations: Observations, run: Run, ended: Ended, printed: Sequence[logs.LogPiece] = ()
) -> Settled:
    """Settle one attempt of a run as it was claimed; see `settle_all`."""
    return settle_all(database, observations, [EndedAttempt(run, ended, printed)])[0]


def settle_all(
    database: Database,
    observations: Observations,
    attempts: Sequence[EndedAttempt],
    unconfirmed: UnconfirmedEnds | None = None,
) -> list[Settled]:
    """Write how attempts ended, all in one transaction; an attempt whose claim is lost changes nothing (X-05, X-06).

    The log is stored also for an attempt that somebody else settled under the same claim. A state that the attempt
    produced is stored whatever the outcome, also between two attempts, because it says how far the task came. A state
    that is too large ends the run: another attempt would do the same work and produce it again.

    Raises Unavailable, after which it is unknown whether the ends were committed. Call it again with the same
    `unconfirmed`: ends that were committed the first time are returned and observed then.
    """
    unconfirmed = unconfirmed or UnconfirmedEnds()
    # Before the transaction, which holds locks: an output can be large.
    states = [attempt_ends.produced_state(attempt.ended.output) for attempt in attempts]
    is_known = True
    try:
        with database.write() as connection:
            endings = Endings(connection, database.clock, [attempt.run for attempt in attempts])
            begun = database.clock.monotonic()
            written = [
                _write_end(endings, attempt, state, unconfirmed)
                for attempt, state in zip(attempts, states, strict=True)
            ]
            unconfirmed.add(written)
            endings.write()
    except Unavailable:
        is_known = False
        raise
    finally:
        if is_known:
            unconfirmed.remove(attempts)
    seconds = database.clock.monotonic() - begun
    for end in written:
        _emit(observations, end, endings.run(end.attempt.run), seconds)
    return [end.settled for end in written]


def apply_stop(
    database: Database, observations: Observations, run: Run, stop: Stop, trigger: TriggerKey | None = None
) -> None:
    """Deactivate a trigger because of its runs; when it fails, the scanner tries again (L-16)."""
    try:
        stop_trigger(database, observations, run.trigger_id, stop)
    except TriggerctlError as error:
        observations.emit(DeactivationFailed(run, trigger, error.detail))


def complete_run(
    database: Database,
    observations: Observations,
    run_id: str,
    attempt: int,
    ended: Ended,
    *,
    vault: Vault,
    work_dir: Path,
) -> Run:
    """Settle an attempt that is under way, and return its run; the worker finds it settled (X-10).

    Secrets in the answer are hidden: the values in `vault`, and those that the attempt was given if it is one of this
    machine's, whose folders are in `work_dir`. Raises NotFound, and Conflict when the attempt is over.
    """
    with database.read() as connection:
        claimed = _read(connection, run_id)
    reported = replace(claimed.run, attempt=attempt)
    given = attempt_secrets.read(workspace.folder_of(work_dir, run_id, attempt))
    ended = ended.masked(Mask((*vault.readable_values(claimed), *given)))
    completed = EndedAttempt(reported, ended, trigger=claimed.trigger, is_reported=True)
    (settled,) = settle_all(database, observations, [completed])
    if settled.stop:
        apply_stop(database, observations, reported, settled.stop, claimed.trigger)
    with database.read() as connection:
        run = _read(connection, run_id).run
    if settled.decision is None:
        raise _over(run, attempt)
    observations.emit(RunCompleted(reported, claimed.trigger))
    return run


def record_heartbeat(
    database: Database, observations: Observations, run_id: str, attempt: int, *, lease: timedelta
) -> Run:
    """Prolong the lease of an attempt that is under way to `lease` from now, and return its run (X-05).

    After the attempt's timeout the lease stays as it is, so that a run whose worker is gone can be taken over.
    Raises NotFound, and Conflict when the attempt is over.
    """
    with database.write() as connection:
        runs.lock(connection, run_id)
        claimed = _read(connection, run_id)
        now = database.clock.now(connection)
        reported = replace(claimed.run, attempt=attempt)
        is_under_way = claims.holds_attempt(claimed.run, reported)
        if is_under_way and now - (claimed.run.started_at or now) < _timeout(claimed):
            claims.extend_lease(connection, claimed.run, now + lease)
    if not is_under_way:
        observations.emit(ClaimLost(reported, claimed.trigger, reported.claim))
        raise _over(claimed.run, attempt)
    return claimed.run


def _key(run: Run) -> ClaimKey:
    return run.id, run.claim


def _write_end(
    endings: Endings, attempt: EndedAttempt, state: ProducedState | None, unconfirmed: UnconfirmedEnds
) -> WrittenEnd:
    run = endings.run(attempt.run)
    ended = _with_state_fault(attempt.ended, state)
    if run is not None and attempt.may_settle(run):
        return WrittenEnd(attempt, ended, endings.add(run, ended, state, attempt.printed), endings.now)
    if committed := unconfirmed.committed(run, attempt.run):
        return committed
    if _was_settled(run, attempt.run):
        endings.add_log(attempt.run, attempt.printed)
    return WrittenEnd(attempt, ended, Settled(None), endings.now)


def _was_settled(run: Run | None, attempted: Run) -> bool:
    """Return whether this claim was settled (by a callback, the scanner, this worker) and nobody claimed since."""
    if run is None or run.status == RunStatus.RUNNING:
        return False
    return (run.claim, run.attempt) == (attempted.claim, attempted.attempt)


def _with_state_fault(ended: Ended, state: ProducedState | None) -> Ended:
    """Add the fault of a state that cannot be stored to the result; a success becomes a failure."""
    if state is None or not state.fault:
        return ended
    error = f"{attempt_ends.STATE_KEY} {state.fault}"
    outcome = AttemptOutcome.FAILED if ended.outcome is AttemptOutcome.SUCCEEDED else ended.outcome
    return replace(ended, outcome=outcome, error="; ".join(filter(None, (ended.error, error))))


def _emit(observations: Observations, end: WrittenEnd, current: Run | None, seconds: float) -> None:
    """Emit the consequence of one attempt's end; `current` is its run as it was locked."""
    run, trigger, ended, settled = end.attempt.run, end.attempt.trigger, end.ended, end.settled
    if settled.decision is None:
        too_late = AttemptOver if _was_settled(current, run) else ClaimLost
        observations.emit(too_late(run, trigger, run.claim))
        return
    observations.emit(AttemptEnded(run, trigger, ended.outcome, ended.error, settled.decision, end.at, seconds))
    match settled.decision:
        case AnotherAttempt(at):
            observations.emit(RunRetried(run, trigger, ended.outcome, ended.error, at))
        case HandBack():
            observations.emit(RunHandedBack(run, trigger))
        case RunEnd(status):
            duration = max(0.0, (end.at - (run.started_at or end.at)).total_seconds())
            observations.emit(RunSettled(run, trigger, status, ended.error, duration))
    if settled.requested_fire:
        observations.emit(FireRequested(run, trigger, settled.requested_fire.at, settled.requested_fire.note))


def _read(connection: Connection, run_id: str) -> Claimed:
    for claimed in claims.get(connection, [run_id]):
        return claimed
    raise NotFound.run(run_id)


def _timeout(claimed: Claimed) -> timedelta:
    """Return the attempt's timeout, zero when its task cannot be read any more."""
    try:
        return launch.timeout_of(claimed)
    except (LaunchError, ValueError):
        return timedelta(0)


def _over(run: Run, attempt: int) -> Conflict:
    state = f"the run is {run.status} in attempt {run.attempt}"
    hint = "stop working on it: what this attempt says changes nothing any more"
    return Conflict.hinted("attempt", f"attempt {attempt} of run {run.id} does not go on: {state}", hint)
