"""A launcher whose work does what the test says, with an attempt's folder on disk as the real ones have."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reconcile.protocols import Failed, Launch, LaunchError, Running, Succeeded, System, WorkProgress


class ScriptedLog:
    """A log in memory."""

    def __init__(self) -> None:
        self.data = b""
        self.dropped: tuple[int, int] | None = None

    def read(self, start: int, limit: int) -> bytes:
        return self.data[start : start + limit]

    def size(self) -> int:
        return len(self.data)

    def drop(self, start: int, end: int) -> None:
        self.data = self.data[:start] + bytes(end - start) + self.data[end:]
        self.dropped = (start, end)


class ScriptedWork:
    """Runs until told otherwise; by default a first request ends it."""

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
    """Keeps what it started, newest last."""

    finds_anywhere = False

    def __init__(self) -> None:
        self.works: list[ScriptedWork] = []
        self.refuses: Exception | None = None

    @property
    def last(self) -> ScriptedWork:
        return self.works[-1]

    def read(self, written: Any) -> Any:
        return written

    def system(self, block: Any) -> System | None:
        return None

    def start(self, launch: Launch) -> ScriptedWork:
        if self.refuses is not None:
            raise self.refuses
        self.works.append(ScriptedWork(launch))
        return self.last

    def adopt(self, folder: Path) -> ScriptedWork | None:
        return next((work for work in self.works if work.launch.folder == folder and not work.forgotten), None)

    @contextmanager
    def refusing(self, error: Exception | None = None) -> Iterator[None]:
        self.refuses = error or LaunchError("no such command")
        yield
        self.refuses = None
