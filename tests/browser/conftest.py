"""Fixtures of the browser tests: Chromium, uvicorn on a free port, one database, and a clock driven by hand."""

import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from controller import settings
from controller.app import create_app
from controller.services import Services
from controller.web import pages
from reconcile.observations.observation import Observations
from reconcile.runs.runner import Runner, RunnerSettings
from revisions.store.database import Database
from tests.browser.reader import Reader
from tests.reconcile.scripted import ScriptedLauncher
from tests.waiting import PATIENCE, eventually
from tests.world import World

NOW = datetime(2026, 3, 2, 8, 0, 1, tzinfo=UTC)
"""Time at which the browser's clock is paused."""
CHROMIUM = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, shared by the tests of a module."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no program named chromium is installed")
    expect.set_options(timeout=PATIENCE * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM), timeout=PATIENCE * 1000)
        yield browser
        browser.close()


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> str:
    """URL of a SQLite database unless a test asks for PostgreSQL; other tests cover the differences between them."""
    url: str = request.getfixturevalue(f"{getattr(request, 'param', 'sqlite')}_database_url")
    return url


class Site:
    """Server that can be stopped and started again at the same address."""

    def __init__(self, database: Database, port: int) -> None:
        services = Services.over(database, settings.load(), Observations())
        self._app = create_app(services)
        pages.install(self._app)
        self.url = f"http://127.0.0.1:{port}"
        self._port = port
        self.start()

    def start(self) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self._port))
        config = uvicorn.Config(self._app, log_level="error", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]}, daemon=True)
        self._thread.start()
        eventually(lambda: self._server.started)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()


@pytest.fixture
def site(database: Database, port: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Site]:
    monkeypatch.chdir(tmp_path)  # no configuration file, so the defaults hold
    site = Site(database, port)
    yield site
    site.stop()


@contextmanager
def profile(browser: Browser, site: Site, width: int = 1280, **options: Any) -> Iterator[BrowserContext]:
    """A fresh browser profile for the site."""
    context = browser.new_context(base_url=site.url, viewport={"width": width, "height": 900}, **options)
    context.set_default_timeout(PATIENCE * 1000)
    yield context
    context.close()


@pytest.fixture
def reader(browser: Browser, site: Site) -> Iterator[Reader]:
    """A tab with a paused clock. Fails the test on a request to another host and on an unexpected console message."""
    with profile(browser, site) as context:
        page = context.new_page()
        page.clock.install(time=NOW - timedelta(hours=1))  # earlier than the pause: the clock cannot go back
        page.clock.pause_at(NOW)
        reader = Reader(page, site.url)
        yield reader
    assert reader.foreign_requests == []
    assert reader.console_messages == []


@pytest.fixture
def launcher() -> ScriptedLauncher:
    """Launcher that starts nothing; the test ends its attempts."""
    return ScriptedLauncher()


@pytest.fixture
def runner(world: World, launcher: ScriptedLauncher, tmp_path: Path) -> Runner:
    """Runner whose passes the test runs."""
    return Runner(
        world.database,
        world.observations,
        {"process": launcher},
        settings=RunnerSettings(tmp_path / "attempts", tmp_path),
    )
