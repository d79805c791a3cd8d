"""Proxy between a controller and its database that can delay both directions."""

import socket
import threading
import time
from contextlib import suppress

import psycopg
from sqlalchemy import make_url

CHUNK_BYTES = 65_536


class SlowProxy:
    """Listen at `url` and forward everything to the database."""

    def __init__(self, database_url: str) -> None:
        with psycopg.connect(database_url) as connection:
            self._host, self._port = connection.info.host, connection.info.port
        self._delay = 0.0
        self._listening = socket.create_server(("127.0.0.1", 0))
        host, port = self._listening.getsockname()
        url = make_url(database_url)
        self.url = url.set(host=host, port=port, query={}).render_as_string(hide_password=False)
        threading.Thread(target=self._accept, daemon=True).start()

    def set_delay(self, seconds: float) -> None:
        """Delay each chunk of data by so many seconds, in each direction."""
        self._delay = seconds

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):  # the listening socket was closed
            while True:
                client, _ = self._listening.accept()
                server = self._connect()
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self._forward, args=(source, target), daemon=True).start()

    def _connect(self) -> socket.socket:
        if not self._host.startswith("/"):
            return socket.create_connection((self._host, self._port))
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(f"{self._host}/.s.PGSQL.{self._port}")
        return connected

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                time.sleep(self._delay)
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
