"""Folder in which the workers of one machine keep their attempts, and see which of the other workers still live.

    <run>-<attempt>/           one attempt; its content belongs to the launcher
    <run>-<attempt>.secrets    secret values that the attempt was given, while it lasts
    instances/<instance>.lock  locked by a worker for as long as it lives
    installation               id of the installation to which the attempts belong

The operating system releases a lock when its process dies, however that happens. A worker that starts therefore knows
at once which workers were killed, and adopts their attempts without waiting for the leases to lapse.
"""

import re
from contextlib import ExitStack, suppress
from pathlib import Path

from reconcile.launchers.shared import attempt_folder
from reconcile.runs import attempt_secrets
from revisions.errors import Conflict

_ATTEMPT = re.compile(r"([0-9A-Z]{26})-([0-9]+)")


def folder_of(root: Path, run_id: str, attempt: int) -> Path:
    """Return the folder of an attempt."""
    return root.absolute() / f"{run_id}-{attempt}"


class Workspace:
    """One worker's view of the folder; `occupy` marks it as alive for other workers."""

    def __init__(self, root: Path, instance: str, installation: str) -> None:
        self.root = root.absolute()
        self.instance = instance
        self.installation = installation
        self._instances = self.root / "instances"
        self._held = ExitStack()

    def folder(self, run_id: str, attempt: int) -> Path:
        """Return the folder of an attempt."""
        return folder_of(self.root, run_id, attempt)

    def occupy(self) -> None:
        """Take this worker's lock.

        Raises OSError when the folder cannot be used, and Conflict when it holds attempts of another installation. In a
        copy of a disk this worker would end those as if they were its own.
        """
        self._instances.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._claim_for_installation()
        # Between making the file and locking it, another worker may take it for a dead one's and remove it.
        while True:
            with suppress(BlockingIOError):
                self._held.enter_context(attempt_folder.locked(self._lock(self.instance)))
                if self._lock(self.instance).exists():
                    return
            self._held.close()

    def leave(self, *, holds_claims: bool) -> None:
        """Give the lock up. With `holds_claims` its file stays, so that the next worker adopts the claims."""
        if not holds_claims:
            self._lock(self.instance).unlink(missing_ok=True)
        self._held.close()

    def dead(self) -> list[str]:
        """Return the workers that were here and do not live any more."""
        return sorted(name for name in self._others() if self.is_dead(name))

    def is_dead(self, instance: str | None) -> bool:
        """Return whether a worker was here and is gone; a worker that never was here may live elsewhere."""
        return (
            instance is not None
            and self._lock(instance).exists()
            and not attempt_folder.is_locked(self._lock(instance))
        )

    def is_shared(self) -> bool:
        """Return whether another live worker uses the folder."""
        return any(not self.is_dead(name) for name in self._others())

    def remove(self, instances: list[str]) -> None:
        """Remove the locks of dead workers that hold no claims."""
        for instance in instances:
            with suppress(BlockingIOError), attempt_folder.locked(self._lock(instance)):
                self._lock(instance).unlink(missing_ok=True)

    def attempts(self) -> list[tuple[str, int]]:
        """Return run id and number of each attempt that has a folder or stored secrets here."""
        names = {path.name for path in (*self.root.iterdir(), *attempt_secrets.folders(self.root))}
        matches = (_ATTEMPT.fullmatch(name) for name in names)
        return sorted((match[1], int(match[2])) for match in matches if match)

    def _claim_for_installation(self) -> None:
        path = self.root / "installation"
        owner = attempt_folder.read(path)
        if owner == self.installation:
            return
        if owner and self.attempts():
            detail = f"{self.root} holds attempts of another installation, {owner}; this one is {self.installation}"
            way = "give it a folder of its own, or empty this one once nothing of theirs runs here any more"
            raise Conflict.hinted("work_dir", f"{detail}: {way}", way)
        attempt_folder.write(path, self.installation)

    def _others(self) -> list[str]:
        return [path.stem for path in self._instances.glob("*.lock") if path.stem != self.instance]

    def _lock(self, instance: str) -> Path:
        return self._instances / f"{instance}.lock"
