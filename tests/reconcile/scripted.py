"""A launcher whose work does what the test says; attempts have a folder on disk, as with the real launchers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reconcile.plugins import Failed, Launch, Launcher, LaunchError, Running, Succeeded, System, WorkProgress


class ScriptedLog:
    """A log in memory; `refuses_to_drop` is raised instead of dropping a part of it."""

    def __init__(self) -> None:
        self.data = b""
        self.dropped: tuple[int, int] | None = None
        self.refuses_to_drop: OSError | None = None

    def read(self, start: int, limit: int) -> bytes:
        return self.data[start : start + limit]

    def size(self) -> int:
        return len(self.data)

    def drop(self, start: int, end: int) -> None:
        if self.refuses_to_drop is not None:
            raise self.refuses_to_drop
        self.data = self.data[:start] + bytes(end - start) + self.data[end:]
        self.dropped = (start, end)


class ScriptedWork:
    """Work that runs until the test ends it, or until it is asked to end unless it is `stubborn`."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.progress: WorkProgress = Running()
        self.log = ScriptedLog()
        self.cancelled: list[bool] = []
        self.stubborn = False
        self.forgotten = False

    def succeed(self, **output: Any) -> None:
        self.progress = Succeeded(output)

    def fail(self, error: str = "broken", **output: Any) -> None:
        self.progress = Failed(error, output or None)

    def poll(self) -> WorkProgress:
        return self.progress

    def cancel(self, *, force: bool = False) -> None:
        if isinstance(self.progress, Running):
            self.cancelled.append(force)
            if force or not self.stubborn:
                self.fail("killed")

    def forget(self) -> None:
        self.forgotten = True


class ScriptedLauncher:
    """Launcher of scripted work; `works` are the works it started, newest last.

    `reader` is another launcher whose `read` it uses, None for any block.
    """

    finds_anywhere = False

    def __init__(self) -> None:
        self.works: list[ScriptedWork] = []
        self.refuses: Exception | None = None
        self.reader: Launcher | None = None
        self._work_class = ScriptedWork

    @property
    def last(self) -> ScriptedWork:
        return self.works[-1]

    def read(self, written: Any) -> Any:
        return written if self.reader is None else self.reader.read(written)

    def system(self, block: Any) -> System | None:
        return None

    def start(self, launch: Launch) -> ScriptedWork:
        if self.refuses is not None:
            raise self.refuses
        self.works.append(self._work_class(launch))
        return self.last

    def adopt(self, folder: Path) -> ScriptedWork | None:
        return next((work for work in self.works if work.launch.folder == folder and not work.forgotten), None)

    @contextmanager
    def refusing(self, error: Exception | None = None) -> Iterator[None]:
        """Raise the error for every start inside the block."""
        self.refuses = error or LaunchError("no such command")
        yield
        self.refuses = None

    @contextmanager
    def starting(self, work_class: type[ScriptedWork]) -> Iterator[None]:
        """Start work of another class inside the block."""
        self._work_class = work_class
        yield
        self._work_class = ScriptedWork
