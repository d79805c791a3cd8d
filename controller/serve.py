"""The controller process: starts its parts, waits for a signal, and stops them in an order that loses nothing."""

import os
import signal
import socket
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import uvicorn
from fastapi import FastAPI, Response

from controller.app import create_app
from controller.auth.guard import OwnPagesOnly
from controller.auth.requirements import Projects, require
from controller.services import Services, vault
from controller.settings import PARTS, VERSION, Settings
from controller.settings_sources import mistyped_variables
from controller.telemetry import logs
from controller.telemetry.metrics import Metrics
from controller.web import pages
from reconcile.decide.authority import Role
from reconcile.loop.loop import Loop
from reconcile.loop.restore import declare_baseline
from reconcile.observations.observation import (
    ControllerStarted,
    ControllerStopped,
    ControllerStopping,
    Observation,
    Observations,
    SettingUnknown,
)
from reconcile.observations.passes import PassDecided
from reconcile.observations.runs import (
    FireRequested,
    RunApproved,
    RunCancelRequested,
    RunCompleted,
    RunFired,
    RunRetriedByHand,
    RunsBackfilled,
)
from reconcile.observations.specs import (
    BacklogDropped,
    CalendarRevised,
    HistoryImported,
    HoldChanged,
    TaskDeleted,
    TriggerChanged,
    TriggersRebuilt,
)
from reconcile.plugins import launchers
from reconcile.runs.runner import Runner, RunnerSettings, stored_traceparent
from revisions.errors import Invalid
from revisions.store import schema, tokens
from revisions.store.database import Database
from revisions.store.notices import CHANGES, RUNS, Listener
from revisions.store.runs import Run

if TYPE_CHECKING:
    from controller.telemetry.spans import Spans

TRUSTED_PROXIES_VARIABLE = "FORWARDED_ALLOW_IPS"
"""Variable of uvicorn with the proxies whose X-Forwarded headers are believed; without it none are."""
REQUEST_GRACE_SECONDS = 5
"""Time for requests in progress to complete once the process stops."""


def run(settings: Settings, without: Collection[str] = (), *, is_restored: bool = False) -> None:
    """Run the parts (`api`, `web`, `loop`, `runner`) that are not in `without`, until SIGTERM or SIGINT.

    With `is_restored`, the database is treated as a restored backup: the time since the backup fires nothing. If every
    part is left out, the function returns after that.

    Raises Invalid when it cannot listen on the address, Unavailable when the database cannot be used, and Conflict when
    `is_restored` is set for a database that was not just restored.
    """
    logs.configure(settings.log_level, settings.log_format)
    with ExitStack() as stack:
        signals = stack.enter_context(_stop_signals())
        serves, listening = "api" not in without, None
        if serves and settings.is_safe:
            listening = stack.enter_context(listen(settings))
        database = stack.enter_context(_open_database(settings))
        if serves and listening is None:
            refuse_public_access(settings, database)
            listening = stack.enter_context(listen(settings))
        observations = Observations()
        spans = _spans(settings, observations) if settings.is_traced else None
        if spans:
            stack.callback(spans.tracing.close)
        observations.subscribe(logs.write_with_trace if spans else logs.write)
        for variable, meant in mistyped_variables(Settings.model_fields).items():
            observations.emit(SettingUnknown(variable, meant))
        if is_restored:
            declare_baseline(database, observations, settings.resync_interval)
            if set(without) == set(PARTS):
                return
        process = Process(settings, database, observations, without, spans)
        if listening is not None:
            stack.callback(process.serve(listening))
        process.start()
        observations.emit(ControllerStarted(_url(listening), str(database)))
        signals.recv(1)
        observations.emit(ControllerStopping())
        process.stop()
    observations.emit(ControllerStopped())


class Process:
    """Loop, runner, listener and API of one process, connected so that they wake each other."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        observations: Observations,
        without: Collection[str],
        spans: "Spans | None" = None,
    ) -> None:
        self._settings = settings
        self._spans = spans
        self._without = without
        self._services = Services.over(database, settings, observations)
        self._loop: Loop | None = None
        self._runner: Runner | None = None
        self._listener: Listener | None = None
        if settings.enabled and "loop" not in without:
            self._loop = Loop(database, observations, settings.pace, settings.retention, VERSION)
        if "runner" not in without:
            traceparent = spans.traceparent if spans else stored_traceparent
            self._runner = _runner(settings, database, observations, traceparent)
        if not database.is_sqlite:
            self._listener = Listener(
                database, {CHANGES: self._wake_loop, RUNS: self._wake_runner}, past=settings.listen_url
            )
        self._metrics = Metrics(
            database, lambda: self._listener is not None and self._listener.connected, self._settings
        )
        observations.subscribe(self._metrics.count)
        observations.subscribe(self._services.condition.note_resync)
        observations.subscribe(self._wake)

    def start(self) -> None:
        for part in (self._listener, self._runner, self._loop):
            if part is not None:
                part.start()
        watched = {"loop": self._loop, "runner": self._runner}
        self._services.condition.begin({name: part.lives for name, part in watched.items() if part is not None})

    def stop(self) -> None:
        """Stop deciding and claiming, then let running work end within the grace period, or hand it back."""
        self._services.condition.leave()
        if self._runner is not None:
            self._runner.drain(self._settings.stop_grace)
        for part in (self._listener, self._loop):
            if part is not None:
                part.stop()
        if self._runner is not None:
            self._runner.stop(self._settings.stop_grace)

    def serve(self, listening: socket.socket) -> Callable[[], None]:
        """Serve requests in a thread and return the function that stops it.

        It must be stopped last, because running tasks may call the API until they have ended.
        """
        self._services.access.is_on()  # caches the answer for times when the database cannot be reached
        app = create_app(self._services)
        if "web" not in self._without:
            pages.install(app)
        app.add_middleware(OwnPagesOnly, settings=self._settings, access=self._services.access)
        app.add_api_route(
            "/metrics",
            self._exposition,
            include_in_schema=False,
            dependencies=[require(Role.VIEWER, Projects.ALL, diagnosis=True)],
        )
        if self._spans:
            _trace(app, self._spans)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            proxy_headers=bool(os.environ.get(TRUSTED_PROXIES_VARIABLE)),  # else uvicorn believes every local process
            timeout_graceful_shutdown=REQUEST_GRACE_SECONDS,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="api", daemon=True)
        thread.start()

        def stop() -> None:
            server.should_exit = True
            thread.join()

        return stop

    def _exposition(self) -> Response:
        return Response(self._metrics.exposition(), media_type=self._metrics.content_type)

    def _wake(self, observation: Observation) -> None:
        match observation:
            case TriggerChanged() | TaskDeleted() | TriggersRebuilt() | HistoryImported():
                self._wake_loop()
            case CalendarRevised() | HoldChanged() | BacklogDropped() | FireRequested():
                self._wake_loop()
            case RunFired() | RunsBackfilled() | RunRetriedByHand() | RunApproved():
                self._wake_runner()
            case RunCancelRequested() | RunCompleted():
                self._wake_runner()
            case PassDecided() if observation.started:
                self._wake_runner()

    def _wake_loop(self) -> None:
        if self._loop is not None:
            self._loop.wake()

    def _wake_runner(self) -> None:
        if self._runner is not None:
            self._runner.wake()


def _runner(
    settings: Settings,
    database: Database,
    observations: Observations,
    traceparent: Callable[[Run], str | None],
) -> Runner:
    runner_settings = RunnerSettings(
        work_dir=settings.attempts,
        task_root=settings.root,
        url=settings.public_url,
        vault=vault(settings),
        traceparent=traceparent,
        max_running=settings.max_running,
        lease=timedelta(seconds=settings.lease_seconds),
        guarded=settings.is_guarded,
    )
    return Runner(database, observations, launchers(), settings=runner_settings)


def _spans(settings: Settings, observations: Observations) -> "Spans":
    """Send traces of the observations. OpenTelemetry is imported only here, because it loads slowly."""
    from controller.telemetry.spans import Spans
    from controller.telemetry.tracing import exporting

    spans = Spans(exporting(settings.tracing_url, settings.tracing_ratio))
    observations.subscribe(spans.record)
    return spans


def _trace(app: FastAPI, spans: "Spans") -> None:
    from controller.telemetry.spans import TraceRequests

    app.add_middleware(TraceRequests, tracing=spans.tracing)


def _open_database(settings: Settings) -> Database:
    """Open the database and check its schema. A SQLite database is created and migrated first."""
    database = Database(settings.database_url, create=True)
    if database.is_sqlite:
        schema.upgrade(database)
    database.check_schema()
    return database


def refuse_public_access(settings: Settings, database: Database) -> None:
    """Raise Invalid if there is no token, because anybody who connects could then start commands (O-06)."""
    with database.read() as connection:
        if tokens.exist(connection):
            return
    hint = "listen on 127.0.0.1, or make a token with `triggerctl token create`, or set TRIGGERCTL_ACCESS=required"
    detail = f"{settings.host} can be reached by others, and nobody would have to say who he is"
    raise Invalid.at("listen", detail, hint)


def listen(settings: Settings) -> socket.socket:
    """Return the API's socket, listening; port 0 chooses a free one. Raises Invalid if the address cannot be used."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
        listening.listen()  # connections made before the server runs are queued, not refused
    except OSError as error:
        listening.close()
        hint = "stop what listens there, or choose another address with --listen"
        raise Invalid.at("listen", f"{settings.listen} cannot be used: {error.strerror}", hint) from None
    return listening


def _url(listening: socket.socket | None) -> str | None:
    if listening is None:
        return None
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def _stop_signals() -> Iterator[socket.socket]:
    """Yield a socket that receives a byte on SIGTERM or SIGINT.

    A handler that sets a threading.Event could deadlock: it may interrupt the thread that holds the event's lock. The
    byte is written without a lock, whichever thread receives the signal.
    """
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    with receiver, sender:
        previous = signal.set_wakeup_fd(sender.fileno())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        try:
            yield receiver
        finally:
            signal.set_wakeup_fd(previous)
