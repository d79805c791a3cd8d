"""Ports that are chosen before a server listens on them."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved() -> Iterator[int]:
    """Reserve a free port of 127.0.0.1 until the end of the block.

    The socket is bound but does not listen, so the system gives the port to nobody else. SO_REUSEADDR, which servers
    set too, lets a server bind the same port by its number.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
