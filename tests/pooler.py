"""PgBouncer in front of the tests' PostgreSQL, as installed by its Debian package."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg
from sqlalchemy import make_url

from tests.waiting import PATIENCE, eventually

PGBOUNCER = os.environ.get("TEST_PGBOUNCER") or shutil.which("pgbouncer", path=f"{os.defpath}:/usr/sbin")
"""Path of PgBouncer; None if it is not installed. TEST_PGBOUNCER overrides the system's."""


def version() -> tuple[int, ...]:
    assert PGBOUNCER is not None
    output = subprocess.run([PGBOUNCER, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in output.split()[1].split("."))


class Pooler:
    """PgBouncer in transaction mode with four server sessions, so that clients share them all the time."""

    def __init__(self, database_url: str, **settings: str) -> None:
        assert PGBOUNCER is not None
        self._folder = Path(tempfile.mkdtemp(prefix="pooler-"))
        target = make_url(database_url)
        server: dict[str, object] = {"user": target.username, "password": target.password, "port": target.port}
        server["host"] = target.host or target.query.get("host")
        options = {
            "pool_mode": "transaction",
            "default_pool_size": "4",
            "auth_type": "any",
            "unix_socket_dir": str(self._folder),
            "listen_port": "6432",
            "logfile": str(self._folder / "log"),
            **settings,
        }
        lines = [
            "[databases]",
            "* = " + " ".join(f"{name}={value}" for name, value in server.items() if value),
            "[pgbouncer]",
            *(f"{name} = {value}" for name, value in options.items()),
        ]
        (self._folder / "pgbouncer.ini").write_text("\n".join(lines) + "\n")
        command = [PGBOUNCER, "-q", str(self._folder / "pgbouncer.ini")]
        if os.geteuid() == 0:  # PgBouncer refuses to run as root, so it runs as PostgreSQL's user
            socket = Path(str(server["host"]))
            user = socket.owner() if socket.is_dir() else "nobody"
            shutil.chown(self._folder, user)
            command += ["-u", user]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        query = {"host": str(self._folder), "port": "6432"}
        url = target.set(host=None, port=None, username="anyone", password=None, query=query)
        self.url = url.render_as_string(hide_password=False)
        eventually(self._accepts_connections)

    def stop(self) -> None:
        self._process.kill()  # on SIGTERM it would wait for its clients
        self._process.wait(PATIENCE)
        shutil.rmtree(self._folder)

    def _accepts_connections(self) -> bool:
        assert self._process.poll() is None, (self._folder / "log").read_text()
        try:
            psycopg.connect(self.url, connect_timeout=int(PATIENCE)).close()
        except psycopg.OperationalError:
            return False
        return True
