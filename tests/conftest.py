"""One PostgreSQL for the session, a database as new for each test, and a clock driven by hand."""

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
from tests.reused import Reused
from tests.server import Server
from tests.waiting import PATIENCE
from tests.world import World

settings.register_profile("explore", settings.get_profile("ci"), derandomize=False)
START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
"""A Monday, where hand-driven clocks begin."""
MEMORY = Path("/dev/shm")
ROOM_BYTES = 1024**3


def pytest_configure(config: pytest.Config) -> None:
    compiled.share()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # children of a background job would ignore it
    if hasattr(config, "workerinput"):
        return
    config.stash[SERVER] = Server(os.environ.get("TEST_DATABASE_URL", ""))


def pytest_configure_node(node: Any) -> None:
    """Hands the one server's address to each xdist worker."""
    server = node.config.stash[SERVER]
    node.workerinput["postgresql"] = server.url
    node.workerinput["postgresql_log"] = str(server.log or "")


def pytest_unconfigure(config: pytest.Config) -> None:
    if SERVER in config.stash:
        config.stash[SERVER].stop()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays to the end: nobody looks for garbage in it, neither now nor in a test."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Names each item after its `xdist_group`, by which a group goes to one worker.

    pytest-xdist 3.8 does that itself, but to an attribute that pytest 9.2 reads no more.
    """
    if getattr(config.option, "loadgroup", False):
        for item in items:
            if (mark := item.get_closest_marker("xdist_group")) and "@" not in item.nodeid.rpartition("]")[2]:
                item._id = coerce_node_id(f"{item.nodeid}@{mark.args[0]}")


SERVER = pytest.StashKey[Server]()


@pytest.fixture(scope="session")
def postgresql_url(request: pytest.FixtureRequest) -> str:
    """The session's server, as the URL of its maintenance database."""
    if hasattr(request.config, "workerinput"):
        url: str = request.config.workerinput["postgresql"]
        return url
    return request.config.stash[SERVER].url


@pytest.fixture(scope="session")
def postgresql_log(request: pytest.FixtureRequest, postgresql_url: str) -> Path | None:
    """The server's log, None when the server is not ours."""
    if hasattr(request.config, "workerinput"):
        path = request.config.workerinput["postgresql_log"]
        return Path(path) if path else None
    return request.config.stash[SERVER].log


@pytest.fixture(scope="session")
def postgresql(postgresql_url: str, worker_id: str) -> Reused:
    """This worker's database."""
    return Reused(postgresql_url, worker_id)


@pytest.fixture(scope="session")
def sqlite_folder() -> Iterator[Path]:
    """In memory, where there is room: a commit would wait for the disk, which no kill of a process puts to the test."""
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM_BYTES
    with TemporaryDirectory(prefix="sqlite-", dir=MEMORY if has_room else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def sqlite_template(sqlite_folder: Path) -> Path:
    path = sqlite_folder / "template.db"
    with Database(f"sqlite:///{path}", create=True) as database:
        schema.upgrade(database)
    return path


@pytest.fixture
def postgresql_database_url(postgresql: Reused) -> str:
    """A migrated PostgreSQL database without rows that no other test uses meanwhile."""
    return postgresql.as_new()


@pytest.fixture
def sqlite_database_url(sqlite_template: Path) -> Iterator[str]:
    """An own, migrated SQLite database."""
    with TemporaryDirectory(dir=sqlite_template.parent) as folder:
        yield f"sqlite:///{shutil.copy(sqlite_template, Path(folder) / 'triggerctl.db')}"


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is sent away for want of time: how long a lock or an answer takes is the machine's doing, and no fault."""
    for name in sessions.SESSION_TIMEOUTS:
        monkeypatch.setitem(sessions.SESSION_TIMEOUTS, name, f"{PATIENCE:.0f}s")
    monkeypatch.setattr(sessions, "TRANSACTION_TIMEOUT", f"{PATIENCE:.0f}s")
    monkeypatch.setattr(sessions, "CONNECT_SECONDS", int(PATIENCE))
    monkeypatch.setattr(databases, "CONNECTION_SECONDS", PATIENCE)
    monkeypatch.setattr(databases, "SQLITE_BUSY_SECONDS", PATIENCE)


@pytest.fixture
def as_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits as the product has them."""
    monkeypatch.undo()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Each test that asks for a database runs on both."""
    url: str = request.getfixturevalue(f"{request.param}_database_url")
    return url


@pytest.fixture
def port() -> Iterator[int]:
    """One at which nobody listens but who names it."""
    with reserved() as port:
        yield port


@pytest.fixture
def clock() -> HandClock:
    return HandClock(START)


@pytest.fixture
def database(database_url: str, clock: HandClock) -> Iterator[Database]:
    """A database whose time is the hand-driven clock's."""
    with Database(database_url) as database:
        database.clock = clock
        yield database


@pytest.fixture
def world(database: Database, clock: HandClock) -> World:
    """The product by hand, with task report v1 registered, no rate limit and no catch-up cap in the way."""
    world = World(database, clock)
    world.register()
    return world
