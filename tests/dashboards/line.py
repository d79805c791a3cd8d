"""The line to a database, which can be made slow: what goes one way or the other is late by a while."""

import socket
import threading
import time
from contextlib import suppress

import psycopg
from sqlalchemy import make_url

AT_ONCE = 65_536


class Line:
    """Listens at `url` and passes everything on to the database."""

    def __init__(self, database_url: str) -> None:
        with psycopg.connect(database_url) as connection:
            self._host, self._port = connection.info.host, connection.info.port
        self._delay = 0.0
        self._listening = socket.create_server(("127.0.0.1", 0))
        host, port = self._listening.getsockname()
        url = make_url(database_url)
        self.url = url.set(host=host, port=port, query={}).render_as_string(hide_password=False)
        threading.Thread(target=self._accept, daemon=True).start()

    def take(self, seconds: float) -> None:
        """From now on it takes so long, each way."""
        self._delay = seconds

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                near, _ = self._listening.accept()
                far = self._connected()
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _connected(self) -> socket.socket:
        if not self._host.startswith("/"):
            return socket.create_connection((self._host, self._port))
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(f"{self._host}/.s.PGSQL.{self._port}")
        return connected

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(AT_ONCE):
                time.sleep(self._delay)
                other.sendall(data)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
