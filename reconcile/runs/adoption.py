"""What other workers left: attempts found again by those who come after them, and those that are lost.

A worker of this machine that is no more is known by its lock, at once; any other by its lease, when that has lapsed.
Only the first one's attempts can be adopted: their work is here, and nobody else watches it. What a launcher finds
anywhere by its name is started again under that name, and so found.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from reconcile.decide.retry import AttemptOutcome
from reconcile.decide.secret_masks import Mask
from reconcile.launchers.shared import attempt_folder
from reconcile.protocols import Launcher, LaunchError
from reconcile.runs import attempt_secrets, launch
from reconcile.runs.attempt import Attempt, Ended, Key
from reconcile.runs.workspace import WorkPlace
from revisions.ids import TriggerKey
from revisions.outcomes import RunStatus
from revisions.store import claims, logs
from revisions.store.claims import Claimed
from revisions.store.database import Database
from revisions.store.runs import Run

REAPED_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class UnseenAttempt:
    """Work that may go on, and that starting it again finds; of its log `stored` bytes are known."""

    claimed: Claimed
    now: datetime
    stored: int


@dataclass(frozen=True, slots=True)
class AdoptedClaim:
    """A claim that is ours now: work that goes on, or how it ended."""

    run: Run
    trigger: TriggerKey | None
    found: Attempt | Ended | UnseenAttempt


class Adoption:
    """Takes claims over for one worker. Each method raises Unavailable; what was taken until then is ours, unknown."""

    def __init__(
        self, database: Database, launchers: Mapping[str, Launcher], place: WorkPlace, lease: timedelta
    ) -> None:
        self._database = database
        self._launchers = launchers
        self.place = place
        self._lease = lease
        self._seen: tuple[datetime, float] | None = None
        self._spared_until = float("-inf")

    def of_the_dead(self) -> list[AdoptedClaim]:
        """Takes up what workers of this place, who are no more, had claimed, and forgets these workers."""
        dead = self.place.dead()
        found, taken = self._of_workers(dead, ())
        got = {one.run.id for one in taken}
        self.place.remove([name for name in dead if all(run.id in got for run in found if run.claimed_by == name)])
        return taken

    def of_mine(self, known: Collection[Key]) -> list[AdoptedClaim]:
        """Takes up claims of this very worker that it does not know of: their commit's answer was lost."""
        return self._of_workers([self.place.instance], known)[1]

    def of_the_lapsed(self, known: Collection[Key]) -> list[AdoptedClaim]:
        """Takes claims whose leases have lapsed; unless their worker was here and is no more, they are lost (X-05)."""
        with self._database.read() as connection:
            now = self._database.clock.now(connection)
            found = claims.lapsed(connection, now, REAPED_AT_ONCE)
        if self._was_set_ahead(now):
            self.spare()
        if self._database.clock.monotonic() < self._spared_until:
            return []
        return self._take([run for run in found if (run.id, run.claim) not in known])

    def spare(self) -> None:
        """Gives others a lease's time to renew what lapsed through no fault of theirs: database gone, clock set."""
        self._spared_until = self._database.clock.monotonic() + self._lease.total_seconds()

    def _was_set_ahead(self, now: datetime) -> bool:
        before, self._seen = self._seen, (now, self._database.clock.monotonic())
        if before is None:
            return False
        return now - before[0] > timedelta(seconds=self._seen[1] - before[1]) + self._lease / 2

    def clear(self) -> None:
        """Ends and removes attempts here that are nobody's any more: settled before a kill, or given up elsewhere."""
        found = self.place.attempts()
        with self._database.read() as connection:
            known = {one.run.id: one for one in claims.get(connection, {run_id for run_id, _ in found})}
        for run_id, attempt in found:
            one = known.get(run_id)
            if one is not None and not (one.run.status == RunStatus.RUNNING and one.run.attempt == attempt):
                self._discard(one, attempt)

    def _discard(self, one: Claimed, attempt: int) -> None:
        folder = self.place.folder(one.run.id, attempt)
        with suppress(Exception):  # what one launcher does wrong must not keep the others
            if work := launch.launcher_of(one, self._launchers).adopt(folder):
                work.cancel(force=True)
                work.forget()
        _remove(folder)

    def _of_workers(self, workers: Sequence[str], known: Collection[Key]) -> tuple[list[Run], list[AdoptedClaim]]:
        with self._database.read() as connection:
            found = claims.running_of(connection, workers)
        return found, self._take([run for run in found if (run.id, run.claim) not in known])

    def _take(self, found: Sequence[Run]) -> list[AdoptedClaim]:
        if not found:
            return []
        place = self.place
        here = {run.id for run in found if run.claimed_by == place.instance or place.is_dead(run.claimed_by)}
        with self._database.write() as connection:
            now = self._database.clock.now(connection)
            taken = claims.take_over(connection, found, now, claimed_by=place.instance, lease=self._lease)
            stored = logs.sizes(connection, [(one.run.id, one.run.attempt) for one in taken])
        results = []
        for one in taken:
            find = self._find if one.run.id in here else self._find_elsewhere
            result = find(one, now, stored.get((one.run.id, one.run.attempt), 0))
            results.append(AdoptedClaim(one.run, one.trigger, result))
        return results

    def _find_elsewhere(self, one: Claimed, now: datetime, stored: int) -> UnseenAttempt | Ended:
        with suppress(LaunchError):
            if launch.launcher_of(one, self._launchers).finds_anywhere:
                return UnseenAttempt(one, now, stored)
        return Ended(AttemptOutcome.LOST, "its worker stopped renewing the lease")

    def _find(self, one: Claimed, now: datetime, stored: int) -> Attempt | Ended:
        folder = self.place.folder(one.run.id, one.run.attempt)
        try:
            timeout = launch.timeout_of(one)
            work = launch.launcher_of(one, self._launchers).adopt(folder)
        except Exception as error:  # noqa: BLE001 - what one launcher does wrong must not keep the others
            return Ended(AttemptOutcome.LOST, f"cannot be adopted: {str(error) or repr(error)}")
        if work is None:
            # The attempt will begin anew in this folder. Whoever might have started it is no more (or is us).
            _remove(folder)
            return Ended(AttemptOutcome.HANDED_BACK)
        spent = max(timedelta(0), now - (one.run.started_at or now))
        deadline = self._database.clock.monotonic() + (timeout - spent).total_seconds()
        mask = Mask(attempt_secrets.recall(folder))
        return Attempt(one.run, one.trigger, work, deadline, folder=folder, mask=mask, stored=stored)


def _remove(folder: Path) -> None:
    """What can be removed of an attempt's folder, and what it was handed."""
    with suppress(OSError):
        attempt_folder.remove(folder)
    attempt_secrets.forget(folder)
