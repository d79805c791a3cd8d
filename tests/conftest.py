"""Fixtures of all suites: one PostgreSQL server per session, an empty database per test, a hand-driven clock."""

import gc
import os
import shutil
import signal
from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from _pytest.nodeid import coerce_node_id
from hypothesis import settings

from revisions.clock import HandClock
from revisions.store import database as databases
from revisions.store import schema, sessions
from revisions.store.database import Database
from tests import compiled
from tests.ports import reserved
from tests.reused import ReusedDatabase
from tests.server import Server
from tests.waiting import PATIENCE
from tests.world import World

settings.register_profile("explore", settings.get_profile("ci"), derandomize=False)
START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
"""Monday at which hand-driven clocks start."""
MEMORY = Path("/dev/shm")
MIN_FREE_BYTES = 1024**3


def pytest_configure(config: pytest.Config) -> None:
    compiled.share_compiled_statements()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job's children inherit "ignore" otherwise
    if hasattr(config, "workerinput"):
        return
    config.stash[SERVER] = Server(os.environ.get("TEST_DATABASE_URL", ""))


def pytest_configure_node(node: Any) -> None:
    """Hand the server's address to each xdist worker."""
    server = node.config.stash[SERVER]
    node.workerinput["postgresql"] = server.url
    node.workerinput["postgresql_log"] = str(server.log or "")


def pytest_unconfigure(config: pytest.Config) -> None:
    if SERVER in config.stash:
        config.stash[SERVER].stop()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude imported modules and collected tests from garbage collection.

    They live until the end of the session, so scanning them again in every test only costs time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Append each test's `xdist_group` to its node id, so that one worker runs the whole group.

    pytest-xdist 3.8 does this too, but through an attribute that pytest 9.2 no longer reads.
    """
    if getattr(config.option, "loadgroup", False):
        for item in items:
            if (mark := item.get_closest_marker("xdist_group")) and "@" not in item.nodeid.rpartition("]")[2]:
                item._id = coerce_node_id(f"{item.nodeid}@{mark.args[0]}")


SERVER = pytest.StashKey[Server]()


@pytest.fixture(scope="session")
def postgresql_url(request: pytest.FixtureRequest) -> str:
    """URL of the maintenance database of the session's server."""
    if hasattr(request.config, "workerinput"):
        url: str = request.config.workerinput["postgresql"]
        return url
    return request.config.stash[SERVER].url


@pytest.fixture(scope="session")
def postgresql_log(request: pytest.FixtureRequest, postgresql_url: str) -> Path | None:
    """Log file of the server; None for a server that these tests did not start."""
    if hasattr(request.config, "workerinput"):
        path = request.config.workerinput["postgresql_log"]
        return Path(path) if path else None
    return request.config.stash[SERVER].log


@pytest.fixture(scope="session")
def postgresql(postgresql_url: str, worker_id: str) -> ReusedDatabase:
    """Database of this xdist worker."""
    return ReusedDatabase(postgresql_url, worker_id)


@pytest.fixture(scope="session")
def sqlite_folder() -> Iterator[Path]:
    """Folder for SQLite files, in memory if at least 1 GiB is free there.

    Killing a process does not test whether data reached the disk, so no commit needs to wait for one.
    """
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MIN_FREE_BYTES
    with TemporaryDirectory(prefix="sqlite-", dir=MEMORY if has_room else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def sqlite_template(sqlite_folder: Path) -> Path:
    path = sqlite_folder / "template.db"
    with Database(f"sqlite:///{path}", create=True) as database:
        schema.upgrade(database)
    return path


@pytest.fixture
def postgresql_database_url(postgresql: ReusedDatabase) -> str:
    """URL of a migrated, empty PostgreSQL database that no other test uses at the same time."""
    return postgresql.as_new()


@pytest.fixture
def sqlite_database_url(sqlite_template: Path) -> Iterator[str]:
    """URL of a migrated, empty SQLite database of this test alone."""
    with TemporaryDirectory(dir=sqlite_template.parent) as folder:
        yield f"sqlite:///{shutil.copy(sqlite_template, Path(folder) / 'triggerctl.db')}"


@pytest.fixture(autouse=True)
def _long_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the product's timeouts with PATIENCE, so that a slow machine does not fail a test."""
    for name in sessions.SESSION_TIMEOUTS:
        monkeypatch.setitem(sessions.SESSION_TIMEOUTS, name, f"{PATIENCE:.0f}s")
    monkeypatch.setattr(sessions, "TRANSACTION_TIMEOUT", f"{PATIENCE:.0f}s")
    monkeypatch.setattr(sessions, "CONNECT_SECONDS", int(PATIENCE))
    monkeypatch.setattr(databases, "CONNECTION_SECONDS", PATIENCE)
    monkeypatch.setattr(databases, "SQLITE_BUSY_SECONDS", PATIENCE)


@pytest.fixture
def as_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the product's own timeouts."""
    monkeypatch.undo()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Run the test once on SQLite and once on PostgreSQL."""
    url: str = request.getfixturevalue(f"{request.param}_database_url")
    return url


@pytest.fixture
def port() -> Iterator[int]:
    """Port of 127.0.0.1 that is reserved for this test."""
    with reserved() as port:
        yield port


@pytest.fixture
def clock() -> HandClock:
    return HandClock(START)


@pytest.fixture
def database(database_url: str, clock: HandClock) -> Iterator[Database]:
    """Database that reads the time from the hand-driven clock."""
    with Database(database_url) as database:
        database.clock = clock
        yield database


@pytest.fixture
def world(database: Database, clock: HandClock) -> World:
    """Product without threads: task report v1 is registered; there is no rate limit and no catch-up limit."""
    world = World(database, clock)
    world.register()
    return world
