"""The folder where workers of one machine keep their attempts, and where they see which of them are still alive.

<run>-<attempt>/           one attempt; the launcher's
<run>-<attempt>.secrets    what it was handed, while it lasts
instances/<instance>.lock  locked by a worker as long as it lives
installation               whose attempts they are
"""

import re
from contextlib import ExitStack, suppress
from pathlib import Path

from reconcile.launchers.shared import attempt_folder
from reconcile.runs import attempt_secrets
from revisions.errors import Conflict

_ATTEMPT = re.compile(r"([0-9A-Z]{26})-([0-9]+)")


def folder(root: Path, run_id: str, attempt: int) -> Path:
    """Where an attempt lives, known from its run and number alone."""
    return root.absolute() / f"{run_id}-{attempt}"


class WorkPlace:
    """One worker's view of the folder; `occupy` shows it alive to those who come after it."""

    def __init__(self, root: Path, instance: str, installation: str) -> None:
        self.root = root.absolute()
        self.instance = instance
        self.installation = installation
        self._instances = self.root / "instances"
        self._held = ExitStack()

    def folder(self, run_id: str, attempt: int) -> Path:
        """Where an attempt lives."""
        return folder(self.root, run_id, attempt)

    def occupy(self) -> None:
        """Takes this worker's lock.

        Raises OSError when the folder cannot be used, Conflict where it holds attempts of another installation: as in a
        copy of a disk, they would be ended as if they were ours.
        """
        self._instances.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._belong()
        while True:  # until nobody takes the file, made but not locked yet, for a dead one's
            with suppress(BlockingIOError):
                self._held.enter_context(attempt_folder.locked(self._lock(self.instance)))
                if self._lock(self.instance).exists():
                    return
            self._held.close()

    def leave(self, *, forgotten: bool) -> None:
        """Gives the lock up; `forgotten`: no run is claimed by this worker any more."""
        if forgotten:
            self._lock(self.instance).unlink(missing_ok=True)
        self._held.close()

    def dead(self) -> list[str]:
        """Workers that were here and are no more."""
        return sorted(name for name in self._others() if self.is_dead(name))

    def is_dead(self, instance: str | None) -> bool:
        """Whether a worker was here and is no more; one that never was here may live elsewhere."""
        return (
            instance is not None
            and self._lock(instance).exists()
            and not attempt_folder.is_locked(self._lock(instance))
        )

    def is_shared(self) -> bool:
        """Whether another worker lives here too."""
        return any(not self.is_dead(name) for name in self._others())

    def remove(self, instances: list[str]) -> None:
        """Forgets workers to which nothing refers any more."""
        for instance in instances:
            with suppress(BlockingIOError), attempt_folder.locked(self._lock(instance)):
                self._lock(instance).unlink(missing_ok=True)

    def attempts(self) -> list[tuple[str, int]]:
        """(run, attempt) of every folder there is, and of each for which something is kept."""
        names = {path.name for path in (*self.root.iterdir(), *attempt_secrets.left(self.root))}
        found = (_ATTEMPT.fullmatch(name) for name in names)
        return sorted((parts[1], int(parts[2])) for parts in found if parts)

    def _belong(self) -> None:
        path = self.root / "installation"
        found = attempt_folder.read(path)
        if found == self.installation:
            return
        if found and self.attempts():
            detail = f"{self.root} holds attempts of another installation, {found}; this one is {self.installation}"
            way = "give it a folder of its own, or empty this one once nothing of theirs runs here any more"
            raise Conflict.hinted("work_dir", f"{detail}: {way}", way)
        attempt_folder.write(path, self.installation)

    def _others(self) -> list[str]:
        return [path.stem for path in self._instances.glob("*.lock") if path.stem != self.instance]

    def _lock(self, instance: str) -> Path:
        return self._instances / f"{instance}.lock"
