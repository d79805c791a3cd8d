"""The application over a test's database: asked as from a network, and by the command line in this process."""

import asyncio
import io
import logging
import sys
from collections.abc import Iterator
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

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
"""For what no database has a part in, such as what a terminal shows: it is the same whichever it came from."""


@cache
def _runner() -> asyncio.Runner:
    """One for all requests, as in a server: a loop of its own would cost each more than its answer."""
    return asyncio.Runner()


class Network(httpx.BaseTransport):
    """Requests as a server gets them: nothing in the scope but what HTTP carries."""

    def __init__(self, app: FastAPI) -> None:
        self._transport = httpx.ASGITransport(app)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return _runner().run(self._ask(request), context=copy_context())

    async def _ask(self, request: httpx.Request) -> httpx.Response:
        answer = await self._transport.handle_async_request(request)
        return httpx.Response(answer.status_code, headers=answer.headers, content=await answer.aread())


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No settings but the test's own; the test's folder is where everything starts."""
    for name in ("CONFIG", "DATABASE_URL", "SERVER", "TOKEN", "DEBUG"):
        monkeypatch.delenv(f"TRIGGERCTL_{name}", raising=False)
    monkeypatch.chdir(tmp_path)
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.setLevel(level)  # what a test configures would write to its own standard error, which is closed then
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
    """The API with one task registered, `report` v1."""
    with httpx.Client(transport=Network(app), base_url="http://test") as client:
        api = Api(client)
        assert api.put("/tasks/acme/production/report/v1", task_manifest()).status_code == 201
        yield api


@dataclass(frozen=True)
class Said:
    """What a command left behind."""

    status: int
    out: str
    err: str


class Cli(Protocol):
    def __call__(self, *arguments: str, stdin: str = "", database: str | None = ...) -> Said: ...


class Write(Protocol):
    def __call__(self, name: str, *documents: Any) -> str: ...


@pytest.fixture
def cli(
    database_url: str, clock: HandClock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Cli:
    """Runs a command in this process, its database's time being the hand-driven clock's."""
    opened = Database.__init__

    def by_hand(database: Database, *arguments: Any, **options: Any) -> None:
        opened(database, *arguments, **options)
        database.clock = clock

    monkeypatch.setattr(Database, "__init__", by_hand)

    def run(*arguments: str, stdin: str = "", database: str | None = database_url) -> Said:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        url = [] if database is None else ["--database-url", database]
        with pytest.raises(SystemExit) as ended:
            main([*url, *arguments])
        said = capsys.readouterr()
        return Said(int(ended.value.code or 0), said.out, said.err)

    return run


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file, documents as JSON (which is YAML), and answers its name."""
    import json

    def write(name: str, *documents: Any) -> str:
        texts = [document if isinstance(document, str) else json.dumps(document) for document in documents]
        (tmp_path / name).write_text("\n---\n".join(texts))
        return name

    return write
