"""The folder of one attempt: made once, private, telling whether the attempt began, removed whole.

`started` in it is made exclusively, as a file by whoever begins the attempt, as a directory by a controller that finds
no trace of a beginning: whoever comes second gives way (invariant 5).
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path

GIVEN_UP = "this attempt was given up before it started"


def make(folder: Path) -> bool:
    """False when it was there before; then another call made it, and starts in it or did."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True


def rule_out(folder: Path) -> bool:
    """Rules out that the attempt ever begins; False when it has begun."""
    make(folder)
    with suppress(FileExistsError):
        (folder / "started").mkdir()
    return (folder / "started").is_dir()


def write_new(path: Path, text: str) -> None:
    """A private file that was not there before. Raises FileExistsError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def keep(folder: Path) -> None:
    """Returns when what was made in the folder will be there after a power cut, too."""
    for path in (folder, folder.parent):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read(path: Path) -> str:
    """A file's text, "" when it is not there."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def read_log(folder: Path, start: int, limit: int) -> bytes:
    try:
        with (folder / "log").open("rb") as file:
            file.seek(start)
            return file.read(limit)
    except FileNotFoundError:
        return b""


def log_size(folder: Path) -> int:
    try:
        return (folder / "log").stat().st_size
    except FileNotFoundError:
        return 0


def remove(folder: Path) -> None:
    """Raises OSError for files that cannot be removed."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():  # a task left folders without write permission, as Go's module cache does
        for below, _, _ in os.walk(folder):
            os.chmod(below, 0o700)
        shutil.rmtree(folder)
