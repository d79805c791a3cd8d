"""Runner: the thread that claims runs, launches them, and settles them when they end.

A pass settles attempts that ended, renews leases and stores logs, adopts claims whose worker is gone, and claims
pending runs. All that a runner knows beside the database is which attempts it watches, and their folders in the
workspace let the next runner find them. So a runner can be killed between any two lines (invariant 5).
"""

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from reconcile.decide.attempt_ends import AttemptOutcome
from reconcile.observations.observation import Observations, RunnerFailed, RunnerUnavailable
from reconcile.observations.runs import LaunchTried, RunAdopted, RunLost, RunStarted
from reconcile.plugins import Launcher
from reconcile.runs.adoption import AdoptedClaim, Adoption, RemoteAttempt
from reconcile.runs.attempt import SECONDS_TO_END, Attempt, Ended
from reconcile.runs.attempt_secrets import Vault
from reconcile.runs.claim import claim_runs
from reconcile.runs.endings import EndedAttempt
from reconcile.runs.launch import start_attempt
from reconcile.runs.live_attempts import LiveAttempts
from reconcile.runs.workspace import Workspace
from revisions.errors import Unavailable
from revisions.ids import TriggerKey, fresh
from revisions.store import installations
from revisions.store.claims import Claimed
from revisions.store.database import Database
from revisions.store.runs import Run

BUSY_SECONDS = 0.05
"""Pause between passes while attempts are under way."""
IDLE_SECONDS = 1.0
LONGEST_BACKOFF_SECONDS = 5.0
SYNC_SECONDS = 1.0
"""Time between two reads of what the database wants of attempts under way, such as a cancellation."""
SECONDS_TO_HAND_BACK = 10.0
"""Time to store the last ends after a drain; when the database is away for longer, the next runner finds the claims."""
_BUSY_PASSES_PER_CLAIM = round(IDLE_SECONDS / BUSY_SECONDS)
_NEVER, _AT_ONCE = float("inf"), float("-inf")


def stored_traceparent(run: Run) -> str | None:
    """Return the trace context of the request that made the run; used when this process records no traces."""
    return run.traceparent


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """Settings of a runner.

    `work_dir` holds the attempts of one installation; `task_root` is the folder to which paths in tasks are relative.
    `url` is the address of the API for tasks, empty for none. `traceparent` returns the trace context that an attempt
    passes to its task. `max_running` limits the runs of all runners together, `capacity` those of this one (None: the
    same). With `guarded` runs get tokens although the database holds no credential.
    """

    work_dir: Path
    task_root: Path = field(default_factory=Path.cwd)
    url: str = ""
    vault: Vault = field(default_factory=Vault)
    traceparent: Callable[[Run], str | None] = stored_traceparent
    max_running: int = 20
    capacity: int | None = None
    lease: timedelta = timedelta(seconds=60)
    guarded: bool = False


@dataclass(frozen=True, slots=True)
class PassReport:
    """Number of runs that a pass claimed, adopted, found lost and settled; `live` attempts are under way after it."""

    claimed: int
    adopted: int
    lost: int
    settled: int
    live: int


class Runner:
    """Runs passes in a thread between `start` and `stop`; tests run them by hand with `run_pass` instead."""

    def __init__(
        self,
        database: Database,
        observations: Observations,
        launchers: Mapping[str, Launcher],
        *,
        settings: RunnerSettings,
    ) -> None:
        self._database = database
        self._observations = observations
        self._launchers = launchers
        self._settings = settings
        self._attempts = LiveAttempts(database, observations, settings.lease)
        self._adoption: Adoption | None = None
        self._is_state_unknown = True
        self._next_sync = _AT_ONCE
        self._drain_at = _NEVER
        self._counted: Counter[str] = Counter()
        self._changed = threading.Condition()
        self._is_woken = True
        self._give_up_at: float | None = None
        self._thread: threading.Thread | None = None

    @property
    def live(self) -> int:
        """Number of attempts under way in this process."""
        return len(self._attempts)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="runner", daemon=True)
        self._thread.start()

    def lives(self) -> bool:
        """Return whether the thread is running."""
        return self._thread is not None and self._thread.is_alive()

    def wake(self) -> None:
        """Say that there may be a run to claim or to cancel; harmless when it is repeated or lost."""
        with self._changed:
            self._is_woken = True
            self._changed.notify()

    def drain(self, grace: timedelta) -> None:
        """Claim nothing more, and let attempts end within the grace period (X-07). Returns at once.

        The passes after the grace period end what still runs and hand it back to the queue. Work that goes on in
        another system without this process is left to the next runner, with its claim.
        """
        self._drain_at = self._monotonic() + grace.total_seconds()
        self._give_up_at = self._drain_at + SECONDS_TO_END + SECONDS_TO_HAND_BACK
        self.wake()

    def stop(self, grace: timedelta) -> None:
        """Drain, unless that was done before, wait for the attempts to end, and leave the workspace (X-07)."""
        if self._give_up_at is None:
            self.drain(grace)
        if self._thread is None:
            self._run()
        else:
            self._thread.join()
        self._attempts.remove_all()
        if self._adoption is not None:
            self._adoption.workspace.leave(holds_claims=not self._attempts.is_empty)

    def run_pass(self, *, with_database: bool = True) -> PassReport:
        """Settle the attempts that ended; then, with the database, do all that is due.

        Without `with_database` a pass only polls the attempts, as long as none of them ended. Raises Unavailable when
        the database cannot be reached. The work goes on then, and the next pass finds out what was committed.
        """
        self._counted.clear()
        try:
            self._counted["settled"] = self._attempts.settle_ended(self._drain_at)
            if with_database or self._counted["settled"]:
                self._act_on_database()
        except Exception as error:
            self._is_state_unknown = True
            self._next_sync = _AT_ONCE
            self._attempts.renew_at_next_sync()
            if isinstance(error, Unavailable) and self._adoption:
                # Other runners could not renew their leases either.
                self._adoption.spare_lapsed()
            raise
        counted = self._counted
        return PassReport(counted["claimed"], counted["adopted"], counted["lost"], counted["settled"], self.live)

    def _run(self) -> None:
        failures = passes = 0
        while not self._is_over():
            is_woken = self._take_wake()
            try:
                self.run_pass(with_database=is_woken or failures > 0 or passes % _BUSY_PASSES_PER_CLAIM == 0)
                failures = 0
            except Unavailable as error:
                failures += 1
                self._observations.emit(RunnerUnavailable(error.detail))
            except Exception as error:  # noqa: BLE001 - nothing may end this thread; the next pass reads the truth again
                failures += 1
                self._observations.emit(RunnerFailed(repr(error)))
            passes = passes + 1 if self.live else 0
            self._wait(self._pause(failures))

    def _is_over(self) -> bool:
        return self._give_up_at is not None and (not self.live or self._monotonic() >= self._give_up_at)

    def _pause(self, failures: int) -> float:
        if failures:
            return min(BUSY_SECONDS * (1 << min(failures, 10)), LONGEST_BACKOFF_SECONDS)
        return BUSY_SECONDS if self.live else IDLE_SECONDS

    def _wait(self, seconds: float) -> None:
        with self._changed:
            if not (self._is_woken or self._is_over()):
                self._changed.wait(seconds)

    def _take_wake(self) -> bool:
        with self._changed:
            is_woken, self._is_woken = self._is_woken, False
            return is_woken

    def _act_on_database(self) -> None:
        adoption = self._adoption or self._occupy_workspace()
        if self._is_state_unknown:
            self._find_own_state(adoption)
        if self._monotonic() >= self._next_sync:
            self._counted["settled"] += self._attempts.sync()
            self._continue(adoption.workspace, adoption.adopt_lapsed(self._attempts.keys))
            self._next_sync = self._monotonic() + SYNC_SECONDS
        if self._drain_at == _NEVER:
            self._claim(adoption.workspace)

    def _occupy_workspace(self) -> Adoption:
        with self._database.read() as connection:
            instance = fresh(self._database.clock.now(connection))
            workspace = Workspace(self._settings.work_dir, instance, installations.current(connection))
        workspace.occupy()
        self._adoption = Adoption(self._database, self._launchers, workspace, self._settings.lease)
        return self._adoption

    def _find_own_state(self, adoption: Adoption) -> None:
        """Find out which ends and claims were committed: at the start, and after a commit that was not confirmed."""
        self._counted["settled"] += self._attempts.settle_unconfirmed()
        self._continue(adoption.workspace, adoption.adopt_own(self._attempts.keys))
        self._continue(adoption.workspace, adoption.adopt_dead())
        if not adoption.workspace.is_shared():
            adoption.remove_leftovers()
        self._is_state_unknown = False

    def _continue(self, workspace: Workspace, adopted: Sequence[AdoptedClaim]) -> None:
        """Watch adopted attempts that go on, and settle those that ended."""
        for claim in adopted:
            match claim.result:
                case Attempt() as attempt:
                    self._attempts.add(attempt)
                    self._counted["adopted"] += 1
                    self._observations.emit(RunAdopted(claim.run, claim.trigger))
                case RemoteAttempt() as remote:
                    self._counted["adopted"] += 1
                    result = self._start(workspace, remote.claimed, remote.now, remote.now, stored=remote.stored)
                    if self._watch_or_settle(claim.run, claim.trigger, result):
                        self._observations.emit(RunAdopted(claim.run, claim.trigger))
                case ended:
                    if ended.outcome is AttemptOutcome.LOST:
                        self._counted["lost"] += 1
                        self._observations.emit(RunLost(claim.run, claim.trigger))
                    self._watch_or_settle(claim.run, claim.trigger, ended)

    def _claim(self, workspace: Workspace) -> None:
        settings = self._settings
        capacity = settings.max_running if settings.capacity is None else settings.capacity
        begun = self._monotonic()
        batch = claim_runs(
            self._database,
            self._observations,
            claimed_by=workspace.instance,
            lease=settings.lease,
            limit=capacity - self.live,
            max_running=settings.max_running,
            guarded=settings.guarded,
        )
        self._counted["claimed"] += len(batch.claimed)
        claimed_at = self._monotonic()
        for claimed in batch.claimed:
            run, trigger = claimed.run, claimed.trigger
            if self._monotonic() - begun > settings.lease.total_seconds() / 2:
                # The process stalled: another worker may take the claim over at any moment.
                self._watch_or_settle(run, trigger, Ended(AttemptOutcome.HANDED_BACK))
                continue
            at = batch.now + timedelta(seconds=self._monotonic() - claimed_at)
            result = self._start(workspace, claimed, batch.now, at, batch.tokens.get(run.id))
            if self._watch_or_settle(run, trigger, result):
                self._observations.emit(RunStarted(run, trigger))

    def _start(
        self,
        workspace: Workspace,
        claimed: Claimed,
        now: datetime,
        at: datetime,
        token: str | None = None,
        stored: int = 0,
    ) -> Attempt | Ended:
        """Start the work of a claim that was taken at `now`.

        Runs that are claimed together are launched one after the other: `at` is when this launch begins.
        """
        begun = self._monotonic()
        result = start_attempt(
            claimed,
            self._launchers,
            workspace,
            vault=self._settings.vault,
            task_root=self._settings.task_root,
            url=self._settings.url,
            token=token,
            traceparent=self._settings.traceparent(claimed.run),
            now=now,
            monotonic=begun,
            stored=stored,
        )
        error = result.error if isinstance(result, Ended) else None
        self._observations.emit(LaunchTried(claimed.run, claimed.trigger, at, self._monotonic() - begun, error))
        return result

    def _watch_or_settle(self, run: Run, trigger: TriggerKey | None, result: Attempt | Ended) -> bool:
        """Watch an attempt that is under way and return True; settle one that ended and return False."""
        if isinstance(result, Attempt):
            self._attempts.add(result)
            return True
        self._counted["settled"] += self._attempts.settle(EndedAttempt(run, result, trigger=trigger))
        return False

    def _monotonic(self) -> float:
        return self._database.clock.monotonic()
