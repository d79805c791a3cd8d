"""The folder of one attempt: made once, private, telling whether the attempt began, removed whole.

`started` in it is made exclusively, as a file by whoever begins the attempt, as a directory by a controller that finds
no trace of a beginning: whoever comes second gives way (invariant 5).
"""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

GIVEN_UP = "this attempt was given up before it started"


class NotRegular(OSError):
    """Something else stands where a file belongs: a folder, a pipe, a device."""


def make(folder: Path) -> bool:
    """False when it was there before; then another call made it, and starts in it or did."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True


def rule_out(folder: Path) -> bool:
    """Rules out that the attempt ever begins; False when it has begun.

    Raises NotADirectoryError where its task has put something else in the folder's place: a link leads into another's.
    """
    make(folder)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with suppress(FileExistsError):
            os.mkdir("started", dir_fd=descriptor)
        return stat.S_ISDIR(os.stat("started", dir_fd=descriptor).st_mode)
    finally:
        os.close(descriptor)


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


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file for reading, without waiting for whatever a task has put in its place. Raises NotRegular for that."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegular(path)
        with open(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


def read(path: Path) -> str:
    """A file's text, "" when there is no such file."""
    try:
        with opened(path) as file:
            return file.read().decode(errors="replace")
    except (FileNotFoundError, NotRegular):
        return ""


def write(path: Path, text: str) -> None:
    """Puts a text into a private file, without waiting for a reader where a task has put a pipe. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def remove(folder: Path) -> None:
    """What stands in its place is removed itself: of a link not what it leads to. Raises OSError where that fails."""
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink(missing_ok=True)
        return
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():  # a task left folders without write permission, as Go's module cache does
        for _, _, _, below in os.fwalk(folder):
            os.fchmod(below, 0o700)
        shutil.rmtree(folder)
