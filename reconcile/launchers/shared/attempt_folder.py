"""The folder of one attempt: creating, marking, locking, reading and removing it.

Its path follows from run and attempt, so that a restarted controller finds it. It is private (mode 0700). The entry
`started` decides whether the attempt may begin: whoever begins it creates a file, a controller that takes the folder
over and finds no such file creates a directory. Both creations fail if the entry exists, so only one of them happens
(invariant 5).

A task can write to its own folder. So files are opened without waiting (a task may have put a pipe there) and only
regular files are read.
"""

import ctypes
import errno
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, BinaryIO, TypeVar

from reconcile.plugins import Failed, LaunchError, Lost, Succeeded

WorkT = TypeVar("WorkT")

GIVEN_UP = "this attempt was given up before it started"

_FALLOC_FL_KEEP_SIZE, _FALLOC_FL_PUNCH_HOLE = 0x01, 0x02
"""Flags of fallocate(2), from `linux/falloc.h`."""


class NotRegular(OSError):
    """A directory, pipe or device is in the place of a regular file."""


@contextmanager
def starting(folder: Path, failure: str) -> Iterator[bool]:
    """Create the folder and yield True, or yield False if an earlier call created it.

    The block prepares and starts the attempt. If it raises, the folder is removed and the error becomes a LaunchError
    that begins with `failure`. If another controller has ruled the start out meanwhile (see `mark_started`), the
    folder stays, because its `started` must keep saying so.
    """
    try:
        is_new = _create(folder)
    except OSError as error:
        raise LaunchError(f"cannot use the folder {folder}: {error.strerror}") from None
    if not is_new:
        yield False
        return
    try:
        yield True
    except FileExistsError:
        raise LaunchError(GIVEN_UP) from None
    except (OSError, ValueError, TypeError, RuntimeError) as error:  # RuntimeError: no more threads
        shutil.rmtree(folder, ignore_errors=True)
        raise LaunchError(f"{failure}: {error}") from None


def started_before(adopted: WorkT | None) -> WorkT:
    """Return the work of an earlier start. Raises LaunchError if there is none because the start was ruled out."""
    if adopted is None:
        raise LaunchError(GIVEN_UP)
    return adopted


def mark_started(folder: Path) -> None:
    """Record that the attempt begins; call it before anything leaves this machine.

    Raises FileExistsError if the start was ruled out, FileNotFoundError if the folder was removed.
    """
    write_new(folder / "started", "")
    # Synced before the first byte is sent: after a power cut a missing `started` would let the attempt begin again,
    # although the request may have arrived. The parent is synced too, because it holds the folder's own entry.
    for path in (folder, folder.parent):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def rule_out_start(folder: Path) -> bool:
    """Prevent the attempt from ever beginning. Returns False if it has begun already.

    Raises NotADirectoryError where the task has replaced its folder, for example by a link to another one.
    """
    # An absent folder is created: otherwise a slow controller could still create it and begin.
    _create(folder)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with suppress(FileExistsError):
            os.mkdir("started", dir_fd=descriptor)
        return stat.S_ISDIR(os.stat("started", dir_fd=descriptor).st_mode)
    finally:
        os.close(descriptor)


def remove(folder: Path) -> None:
    """Remove the folder, or the file or link in its place without following it. Raises OSError if that fails."""
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink(missing_ok=True)
        return
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():  # a task left folders without write permission, as Go's module cache does
        for _, _, _, below in os.fwalk(folder):
            os.fchmod(below, 0o700)
        shutil.rmtree(folder)


def _create(folder: Path) -> bool:
    """Return False if the folder exists. mkdir is atomic, so of two controllers only one gets True."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True


def write_new(path: Path, text: str) -> None:
    """Create a private file. Raises FileExistsError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def write(path: Path, text: str) -> None:
    """Create or overwrite a private file. Raises OSError, also for a pipe that nobody reads."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def read(path: Path) -> str:
    """Return the text of a file, "" if there is no regular file."""
    try:
        with opened(path) as file:
            return file.read().decode(errors="replace")
    except (FileNotFoundError, NotRegular):
        return ""


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading without waiting. Raises NotRegular for anything but a regular file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegular(path)
        with open(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Lock a file and yield its descriptor. Raises BlockingIOError if another process holds the lock.

    A child process that inherits the descriptor keeps the lock after the block, until it ends. Unlike a process id, a
    lock cannot pass to an unrelated process, and it is gone after a restart of the machine.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield descriptor
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Return whether any process holds the lock of a file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # A shared lock: with an exclusive one, two processes that ask at once would take each other for the holder.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def record_outcome(folder: Path, outcome: Succeeded | Failed | Lost) -> None:
    """Write how the attempt ended to `end`, unless that is there already. Raises OSError."""
    error = None if isinstance(outcome, Succeeded) else outcome.error
    output = None if isinstance(outcome, Lost) else outcome.output
    with NamedTemporaryFile("w", dir=folder, encoding="utf-8") as file:
        json.dump({"error": error, "output": output, "lost": isinstance(outcome, Lost)}, file)
        file.flush()
        # Linked, not renamed: a reader sees the whole file or none, and the first outcome is never overwritten.
        with suppress(FileExistsError):
            os.link(file.name, folder / "end")


def read_outcome(folder: Path) -> Succeeded | Failed | Lost | None:
    """Return the outcome in `end`, None if there is none yet."""
    text = read(folder / "end")
    if not text:
        return None
    end: dict[str, Any] = json.loads(text)
    if end["error"] is None:
        return Succeeded(end["output"])
    return Lost(end["error"]) if end.get("lost") else Failed(end["error"], end["output"])


class LogFile:
    """A `Log` in a file. It is empty while there is no file, or if the task has replaced it by something else."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, start: int, limit: int) -> bytes:
        try:
            with opened(self._path) as file:
                file.seek(start)
                return file.read(limit)
        except (FileNotFoundError, NotRegular):
            return b""

    def size(self) -> int:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return 0
        return status.st_size if stat.S_ISREG(status.st_mode) else 0

    def drop(self, start: int, end: int) -> None:
        """Free the disk space of bytes [start, end). Raises OSError if the file system cannot."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            _punch_hole(descriptor, start, end)
        finally:
            os.close(descriptor)


def _punch_hole(descriptor: int, start: int, end: int) -> None:
    """Turn bytes [start, end) into a hole that reads as zeros.

    The file keeps its size, so writers and readers keep their positions. Raises OSError, also outside Linux.
    """
    try:
        fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    except AttributeError:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP)) from None
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong)
    while fallocate(descriptor, _FALLOC_FL_KEEP_SIZE | _FALLOC_FL_PUNCH_HOLE, start, end - start):
        if (code := ctypes.get_errno()) != errno.EINTR:
            raise OSError(code, os.strerror(code))
