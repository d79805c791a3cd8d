"""Adoption of claims whose worker is gone: their work goes on under a new claim number, or is settled as lost.

A dead worker of this machine is known at once by its released lock (`workspace`). A worker elsewhere is known by its
lease only, once that has lapsed. Only the attempts of the former can be adopted from their folders: the work is on this
machine, and nobody else watches it. Work that its launcher finds by name on any machine (`Launcher.finds_anywhere`) is
started again under the same name, which returns the work that already runs.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from reconcile.decide.attempt_ends import AttemptOutcome
from reconcile.decide.secret_masks import Mask
from reconcile.launchers.shared import attempt_folder
from reconcile.plugins import Launcher, LaunchError
from reconcile.runs import attempt_secrets, launch
from reconcile.runs.attempt import Attempt, ClaimKey, Ended
from reconcile.runs.workspace import Workspace
from revisions.ids import TriggerKey
from revisions.outcomes import RunStatus
from revisions.store import claims, logs
from revisions.store.claims import Claimed
from revisions.store.database import Database
from revisions.store.runs import Run

REAPED_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class RemoteAttempt:
    """Attempt whose work may still run elsewhere: starting it again finds it. `stored` bytes of its log are stored."""

    claimed: Claimed
    now: datetime
    stored: int


@dataclass(frozen=True, slots=True)
class AdoptedClaim:
    """A claim that this worker took over: the work that goes on, or how it ended."""

    run: Run
    trigger: TriggerKey | None
    result: Attempt | RemoteAttempt | Ended


class Adoption:
    """Takes claims over for one worker.

    Each `adopt_*` method raises Unavailable. Claims that were taken over before that belong to this worker in the
    database while it does not know of them: `adopt_own` finds them.
    """

    def __init__(
        self, database: Database, launchers: Mapping[str, Launcher], workspace: Workspace, lease: timedelta
    ) -> None:
        self._database = database
        self._launchers = launchers
        self.workspace = workspace
        self._lease = lease
        self._last_look: tuple[datetime, float] | None = None
        self._spared_until = float("-inf")

    def adopt_dead(self) -> list[AdoptedClaim]:
        """Adopt the claims of dead workers of this workspace, and remove the locks of workers without claims."""
        dead = self.workspace.dead()
        runs, adopted = self._adopt_from(dead, ())
        adopted_ids = {claim.run.id for claim in adopted}
        self.workspace.remove(
            [name for name in dead if all(run.id in adopted_ids for run in runs if run.claimed_by == name)]
        )
        return adopted

    def adopt_own(self, known: Collection[ClaimKey]) -> list[AdoptedClaim]:
        """Adopt claims of this very worker that it does not know of, because their commit was not confirmed."""
        return self._adopt_from([self.workspace.instance], known)[1]

    def adopt_lapsed(self, known: Collection[ClaimKey]) -> list[AdoptedClaim]:
        """Take over claims whose leases have lapsed; unless their work is found, it counts as lost (X-05)."""
        with self._database.read() as connection:
            now = self._database.clock.now(connection)
            lapsed = claims.lapsed(connection, now, REAPED_AT_ONCE)
        if self._was_clock_set_ahead(now):
            self.spare_lapsed()
        if self._database.clock.monotonic() < self._spared_until:
            return []
        return self._take_over([run for run in lapsed if (run.id, run.claim) not in known])

    def spare_lapsed(self) -> None:
        """Leave lapsed claims alone for one lease, so that live workers can renew them.

        Their leases lapsed through no fault of theirs: the database was away, or its clock was set ahead.
        """
        self._spared_until = self._database.clock.monotonic() + self._lease.total_seconds()

    def _was_clock_set_ahead(self, now: datetime) -> bool:
        before, self._last_look = self._last_look, (now, self._database.clock.monotonic())
        if before is None:
            return False
        return now - before[0] > timedelta(seconds=self._last_look[1] - before[1]) + self._lease / 2

    def remove_leftovers(self) -> None:
        """End and remove attempts in the workspace that belong to no claim.

        They were settled just before their worker was killed, or taken over and given up elsewhere. Call it only while
        no other worker uses the workspace: that one may be about to start an attempt.
        """
        attempts = self.workspace.attempts()
        with self._database.read() as connection:
            known = {claim.run.id: claim for claim in claims.get(connection, {run_id for run_id, _ in attempts})}
        for run_id, attempt in attempts:
            claimed = known.get(run_id)
            if claimed and not (claimed.run.status == RunStatus.RUNNING and claimed.run.attempt == attempt):
                self._remove_work(claimed, attempt)

    def _remove_work(self, claimed: Claimed, attempt: int) -> None:
        folder = self.workspace.folder(claimed.run.id, attempt)
        with suppress(Exception):  # a launcher that raises must not hold up other attempts
            if work := launch.launcher_of(claimed, self._launchers).adopt(folder):
                work.cancel(force=True)
                work.forget()
        _remove_files(folder)

    def _adopt_from(self, workers: Sequence[str], known: Collection[ClaimKey]) -> tuple[list[Run], list[AdoptedClaim]]:
        """Return the running runs of these workers, and the claims that were taken over of them."""
        with self._database.read() as connection:
            runs = claims.running_of(connection, workers)
        return runs, self._take_over([run for run in runs if (run.id, run.claim) not in known])

    def _take_over(self, runs: Sequence[Run]) -> list[AdoptedClaim]:
        if not runs:
            return []
        workspace = self.workspace
        local_ids = {
            run.id for run in runs if run.claimed_by == workspace.instance or workspace.is_dead(run.claimed_by)
        }
        with self._database.write() as connection:
            now = self._database.clock.now(connection)
            taken = claims.take_over(connection, runs, now, claimed_by=workspace.instance, lease=self._lease)
            stored = logs.sizes(connection, [(claim.run.id, claim.run.attempt) for claim in taken])
        adopted = []
        for claimed in taken:
            find = self._find_local if claimed.run.id in local_ids else self._find_remote
            result = find(claimed, now, stored.get((claimed.run.id, claimed.run.attempt), 0))
            adopted.append(AdoptedClaim(claimed.run, claimed.trigger, result))
        return adopted

    def _find_remote(self, claimed: Claimed, now: datetime, stored: int) -> RemoteAttempt | Ended:
        with suppress(LaunchError):
            if launch.launcher_of(claimed, self._launchers).finds_anywhere:
                return RemoteAttempt(claimed, now, stored)
        return Ended(AttemptOutcome.LOST, "its worker stopped renewing the lease")

    def _find_local(self, claimed: Claimed, now: datetime, stored: int) -> Attempt | Ended:
        folder = self.workspace.folder(claimed.run.id, claimed.run.attempt)
        try:
            timeout = launch.timeout_of(claimed)
            work = launch.launcher_of(claimed, self._launchers).adopt(folder)
        except Exception as error:  # noqa: BLE001 - a launcher that raises must not hold up other attempts
            return Ended(AttemptOutcome.LOST, f"cannot be adopted: {str(error) or repr(error)}")
        if work is None:
            # The attempt never started, and cannot any more: whoever might have started it is dead, or is this worker.
            # It will begin anew in this folder.
            _remove_files(folder)
            return Ended(AttemptOutcome.HANDED_BACK)
        elapsed = max(timedelta(0), now - (claimed.run.started_at or now))
        deadline = self._database.clock.monotonic() + (timeout - elapsed).total_seconds()
        mask = Mask(attempt_secrets.read(folder))
        return Attempt(claimed.run, claimed.trigger, work, deadline, folder=folder, mask=mask, stored=stored)


def _remove_files(folder: Path) -> None:
    """Remove an attempt's folder, as far as that is possible, and its secrets."""
    with suppress(OSError):
        attempt_folder.remove(folder)
    attempt_secrets.remove(folder)
