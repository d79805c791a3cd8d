"""Fixtures that reach the application over HTTP and through the command line, both in this process."""

import asyncio
import io
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TextIO

import httpx
import pytest
from fastapi import FastAPI

from controller import settings
from controller.app import create_app
from controller.cli.main import main
from controller.services import Services
from reconcile.observations.observation import Observations
from revisions.clock import HandClock
from revisions.store.database import Database
from tests.controller.asking import Api, task_manifest

ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""Marks tests whose result does not depend on the database, such as what a terminal shows."""
ON_POSTGRESQL = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
"""Marks tests of what only PostgreSQL does, such as a change feed that repeats changes."""


@cache
def _runner() -> asyncio.Runner:
    """Return the event loop of all requests; creating one for each would take longer than the request."""
    return asyncio.Runner()


class Network(httpx.BaseTransport):
    """Transport that hands requests to the application as a server does, with nothing else in the scope."""

    def __init__(self, app: FastAPI) -> None:
        self._transport = httpx.ASGITransport(app)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return _runner().run(self._ask(request), context=copy_context())

    async def _ask(self, request: httpx.Request) -> httpx.Response:
        answer = await self._transport.handle_async_request(request)
        return httpx.Response(answer.status_code, headers=answer.headers, content=await answer.aread())


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Run each test in an empty folder, without settings from the environment."""
    for name in ("CONFIG", "DATABASE_URL", "SERVER", "TOKEN", "DEBUG"):
        monkeypatch.delenv(f"TRIGGERCTL_{name}", raising=False)
    monkeypatch.chdir(tmp_path)
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.setLevel(level)  # a test's own handler writes to its standard error, which is closed afterwards
    root.handlers = handlers


@pytest.fixture
def observations() -> Observations:
    return Observations()


@pytest.fixture
def services(database: Database, observations: Observations) -> Services:
    return Services.over(database, settings.load(), observations)


@pytest.fixture
def app(services: Services) -> FastAPI:
    return create_app(services)


@pytest.fixture
def api(app: FastAPI) -> Iterator[Api]:
    """Client of the API, with one task registered: `report` v1."""
    with httpx.Client(transport=Network(app), base_url="http://test") as client:
        api = Api(client)
        assert api.put("/tasks/acme/production/report/v1", task_manifest()).status_code == 201
        yield api


@dataclass(frozen=True)
class CommandResult:
    """Exit status and output of a command."""

    status: int
    out: str
    err: str


class Cli(Protocol):
    def __call__(self, *arguments: str, stdin: str | TextIO = "", database: str | None = ...) -> CommandResult: ...


class Terminal(Protocol):
    def __call__(self, *arguments: str, keys: str = "", columns: int = 100) -> CommandResult: ...


class Write(Protocol):
    def __call__(self, name: str, *documents: Any) -> str: ...


class Confirmation(io.StringIO):
    """Terminal at which a person does something else before answering yes to the next question."""

    def __init__(self, before_answering: Callable[[], object]) -> None:
        super().__init__("y\n")
        self._before_answering = before_answering

    def isatty(self) -> bool:
        return True

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]  # IOBase reads bytes
        self._before_answering()
        return super().readline(size)


def exit_status(arguments: Sequence[str]) -> int:
    """Run the command line's entry point and return the status with which it exits."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


@pytest.fixture
def cli(
    database_url: str, clock: HandClock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Cli:
    """Run a command in this process; its database uses the hand-driven clock."""
    opened = Database.__init__

    def by_hand(database: Database, *arguments: Any, **options: Any) -> None:
        opened(database, *arguments, **options)
        database.clock = clock

    monkeypatch.setattr(Database, "__init__", by_hand)

    def run(*arguments: str, stdin: str | TextIO = "", database: str | None = database_url) -> CommandResult:
        typed = io.TextIOWrapper(io.BytesIO(stdin.encode())) if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", typed)
        capsys.readouterr()
        url = [] if database is None else ["--database-url", database]
        status = exit_status([*url, *arguments])
        result = capsys.readouterr()
        return CommandResult(status, result.out, result.err)

    return run


@pytest.fixture
def terminal(cli: Cli, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Run a command in this process, with all three standard streams connected to a terminal of a given width."""

    def run(*arguments: str, keys: str = "", columns: int = 100) -> CommandResult:
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", str(columns))
        controlling, controlled = os.openpty()
        os.write(controlling, keys.encode())
        shown = bytearray()

        def read_all() -> None:
            with suppress(OSError):  # the terminal is closed at the other end
                while part := os.read(controlling, 65536):
                    shown.extend(part)

        reader = threading.Thread(target=read_all)
        reader.start()
        try:
            with ExitStack() as closing, monkeypatch.context() as patch:
                closing.callback(os.close, controlled)
                for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
                    stream = closing.enter_context(open(os.dup(controlled), mode, buffering=1, encoding="utf-8"))
                    patch.setattr(sys, name, stream)
                status = exit_status(["--database-url", database_url, *arguments])
        finally:
            reader.join()
            os.close(controlling)
        return CommandResult(status, shown.decode(), "")

    return run


@pytest.fixture
def stop_signals() -> Iterator[None]:
    """Keep pytest's signal handlers over a test of `up`, which sets its own for the rest of the process."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write documents to a file, as JSON, which is YAML too, and return its name."""
    import json

    def write(name: str, *documents: Any) -> str:
        texts = [document if isinstance(document, str) else json.dumps(document) for document in documents]
        (tmp_path / name).write_text("\n---\n".join(texts))
        return name

    return write
