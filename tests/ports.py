"""A port that is known before anybody listens at it."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved() -> Iterator[int]:
    """A port of 127.0.0.1 at which only those can listen who name it.

    A socket that is bound and does not listen keeps the system from giving the port to anybody else; like the servers
    that are to have it, it says SO_REUSEADDR, and so does not stand in their way.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
