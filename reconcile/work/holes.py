"""Holes: the room that bytes in the middle of a file took, given back while others go on writing at its end."""

import ctypes
import errno
import os

_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02


def punch(descriptor: int, start: int, end: int) -> None:
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
