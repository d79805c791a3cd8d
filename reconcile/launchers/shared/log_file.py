"""The log in an attempt's folder, to which others write while it is read and its middle is given back."""

import ctypes
import errno
import os
import stat
from pathlib import Path

from reconcile.launchers.shared import attempt_folder

_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02
"""As in `linux/falloc.h`."""


class LogFile:
    """A `Log`; what a task has put in the file's place is an empty one."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, start: int, limit: int) -> bytes:
        try:
            with attempt_folder.opened(self._path) as file:
                file.seek(start)
                return file.read(limit)
        except (FileNotFoundError, attempt_folder.NotRegular):
            return b""

    def size(self) -> int:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return 0
        return found.st_size if stat.S_ISREG(found.st_mode) else 0

    def drop(self, start: int, end: int) -> None:
        """Raises OSError where the file system cannot."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            _punch(descriptor, start, end)
        finally:
            os.close(descriptor)


def _punch(descriptor: int, start: int, end: int) -> None:
    """Bytes [start, end) read as zeros from now on; the file's size, and so every position in it, stays.

    Raises OSError where the file system cannot, and where this is not Linux.
    """
    try:
        fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    except AttributeError:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP)) from None
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong)
    while fallocate(descriptor, _KEEP_SIZE | _PUNCH_HOLE, start, end - start):
        if (code := ctypes.get_errno()) != errno.EINTR:
            raise OSError(code, os.strerror(code))
