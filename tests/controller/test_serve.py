"""The process with all its parts, on the real clock: notifications, metrics, shutdown of parts, refused requests."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text

from controller import settings
from controller.serve import Process, listen
from reconcile.decide.authority import Caller, Grant, Reach, Role
from reconcile.loop import loop as loops
from reconcile.observations.observation import Observation, Observations
from reconcile.observations.runs import ClaimLost
from reconcile.triggers.credentials import create_token
from revisions.errors import Invalid, Unavailable
from revisions.store import logs, retention
from revisions.store.database import Database, parse_url
from revisions.store.run_tables import run_logs
from tests.contract.service import Service
from tests.controller.asking import BY_HAND, IS_NEW, T, manifest
from tests.observing import only
from tests.waiting import PATIENCE, eventually
from tests.world import World

OPTIONS = {"resync_interval": "1h", "listen": "127.0.0.1:0", "stop_grace": "1s"}


@pytest.fixture
def real_database(database_url: str) -> Iterator[Database]:
    """The database with its own clock."""
    with Database(database_url) as database:
        yield database


class RunningProcess:
    """Controller process with all its parts, and a client of its API."""

    def __init__(self, database: Database, work_dir: Path, without: tuple[str, ...] = (), **options: Any) -> None:
        self.database = database
        self.observed: list[Observation] = []
        observations = Observations()
        observations.subscribe(self.observed.append)
        chosen = settings.load(work_dir=work_dir, **OPTIONS | options)
        self.process = Process(chosen, database, observations, without)
        listener = listen(chosen)
        self._stop_serving = self.process.serve(listener)
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=PATIENCE)
        self.process.start()

    def stop(self) -> None:
        self.process.stop()
        self._stop_serving()
        self.client.close()

    def metrics(self) -> dict[tuple[str, tuple[str, ...]], float]:
        """Return the metrics: value by name and label values."""
        families = text_string_to_metric_families(self.client.get("/metrics").text)
        return {
            (sample.name, tuple(sample.labels.values())): sample.value
            for family in families
            for sample in family.samples
        }


@pytest.fixture
def running(real_database: Database, tmp_path: Path) -> Iterator[RunningProcess]:
    with ExitStack() as stack:
        process = RunningProcess(real_database, tmp_path / "work")
        stack.callback(process.stop)
        yield process


def another_process(database: Database) -> World:
    """Return the use cases of another process over the same database; only the database connects the two."""
    world = World(database, database.clock)
    world.register()
    return world


def test_a_change_by_another_process_is_noticed_at_once(running: RunningProcess, real_database: Database) -> None:
    """L-04: by a notification, or a short poll on SQLite, long before the resync interval of an hour."""
    world = another_process(real_database)
    world.create(schedule={"every": "1s"}, overlap="allow")
    eventually(lambda: [run for run in world.runs() if run.status == "succeeded"])


def test_a_listener_reconnects_after_its_connection_is_lost(running: RunningProcess, real_database: Database) -> None:
    """L-04: changes made meanwhile are found."""
    if real_database.is_sqlite:
        pytest.skip("SQLite has no notifications")
    world = another_process(real_database)
    eventually(lambda: running.metrics()["triggerctl_listener_connected", ()] == 1)
    with real_database.write() as connection:
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = :name"
        assert list(connection.execute(text(cut), {"name": real_database.url.database}).scalars()) == [True]
    world.create(schedule={"every": "1s"}, overlap="allow")
    eventually(lambda: world.runs())
    eventually(lambda: running.metrics()["triggerctl_listener_connected", ()] == 1)


def test_notifications_are_received_past_a_pooler(
    postgresql_url: str, postgresql_database_url: str, tmp_path: Path
) -> None:
    """O-09: at `listen_url`; here it names another database of the server, to show where the process listens."""
    with Database(postgresql_database_url) as database:
        running = RunningProcess(database, tmp_path / "work", without=("loop", "runner"), listen_url=postgresql_url)
        try:
            eventually(lambda: running.metrics()["triggerctl_listener_connected", ()] == 1)
            with database.read() as connection:
                query = text("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = :name")
                own_count = connection.execute(query, {"name": database.url.database}).scalar_one()
                listen_count = connection.execute(query, {"name": parse_url(postgresql_url).database}).scalar_one()
        finally:
            running.stop()
    assert own_count == 0
    assert listen_count >= 1


def test_an_invalid_listen_url_is_refused(postgresql_database_url: str, tmp_path: Path) -> None:
    """O-09: the error names `listen-url`, not the database's URL."""
    with Database(postgresql_database_url) as database, pytest.raises(Invalid, match="listen-url"):
        RunningProcess(database, tmp_path / "work", listen_url="pgbouncer")


def test_the_loop_prunes_old_records(real_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """O-07: page after page, beside its other work."""
    monkeypatch.setattr(loops, "PRUNE_SECONDS", 0.05)
    monkeypatch.setattr(retention, "LOGS", 1)
    world = another_process(real_database)
    world.create()
    ids = [f"00000000000000000000000000{number}"[-26:] for number in range(3)]
    with real_database.write() as connection:
        for run_id in ids:
            connection.execute(run_logs.insert(), {"run_id": run_id, "attempt": 1, "position": 0, "data": b"old"})
    process = RunningProcess(real_database, tmp_path / "work", without=("runner",), retain_runs="0s")
    try:
        eventually(lambda: not any(_log_head(real_database, run_id) for run_id in ids))
    finally:
        process.stop()


def _log_head(database: Database, run_id: str) -> bytes:
    with database.read() as connection:
        return logs.read(connection, run_id, 1).head


def test_metrics_after_a_run(running: RunningProcess, real_database: Database) -> None:
    """O-02: active triggers, jobs, resyncs, lateness, runs by outcome and source, queue depth; bounded labels."""
    world = another_process(real_database)
    world.create(schedule={"every": "1s"}, overlap="allow")
    expected = {  # two threads update these, at different times
        ("triggerctl_runs_total", ("succeeded", "schedule")),
        ("triggerctl_resync_changes_total", ("added",)),
        ("triggerctl_fire_lateness_seconds_count", ()),
        ("triggerctl_run_seconds_count", ()),
        ("triggerctl_jobs", ()),
    }

    def complete_metrics() -> dict[tuple[str, tuple[str, ...]], float] | None:
        metrics = running.metrics()
        return metrics if all(metrics.get(sample) for sample in expected) else None

    metrics = eventually(complete_metrics)
    assert metrics["triggerctl_triggers_active", ()] == 1
    assert metrics["triggerctl_jobs", ()] == 1
    assert {labels for name, labels in metrics if name == "triggerctl_queue_depth"} == {
        ("pending",),
        ("running",),
        ("waiting",),
        ("parked",),
    }
    assert not [labels for _, labels in metrics if "tick" in labels or world.id("tick") in labels]


def test_an_http_service_calls_back(real_database: Database, port: int, tmp_path: Path) -> None:
    """X-10: over sockets: request, 202, heartbeat, callback, and the end as the API shows it."""
    with ExitStack() as stack:
        service = stack.enter_context(Service())
        running = RunningProcess(real_database, tmp_path / "work", listen=f"127.0.0.1:{port}")
        stack.callback(running.stop)
        task = {"spec": {"launcher": "http", "http": {"url": f"{service.url}/accept"}}}
        assert running.client.put("/api/v1/tasks/acme/production/report/v1", json=task).status_code == 201
        assert running.client.put(f"/api/v1{T}", json=manifest(**BY_HAND), headers=IS_NEW).status_code == 201
        run_id = running.client.post(f"/api/v1{T}/fire").json()["id"]
        run = eventually(
            lambda: run if (run := running.client.get(f"/api/v1/runs/{run_id}").json())["output"] else None
        )
        assert (run["status"], run["attempt"], run["output"]) == ("succeeded", 1, {"beat": "running"})
        eventually(lambda: running.client.get(f"/api/v1/runs/{run_id}/logs").text == "HTTP/1.1 202 Accepted\n")
        assert only(ClaimLost, running.observed) == []
        assert service.keys == [f"{run_id}/1"]


def test_connections_are_accepted_before_the_server_answers() -> None:
    """O-05: from the moment the address is reported."""
    with (
        listen(settings.load(**OPTIONS)) as listener,
        socket.create_connection(listener.getsockname(), timeout=PATIENCE) as connection,
    ):
        assert connection.getpeername() == listener.getsockname()


def test_the_web_page_is_served(running: RunningProcess) -> None:
    """U-04: at `/`, with its own styles; requests under a foreign host name are refused there too."""
    page = running.client.get("/", headers={"Accept": "text/html"})
    assert page.status_code == 200
    assert "text/html" in page.headers["content-type"]
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert running.client.get("/", headers={"Host": "evil.example"}).status_code == 403


def test_requests_of_foreign_pages_are_refused(running: RunningProcess) -> None:
    """O-06: a page of another site, or under another name of this machine, cannot start commands."""
    for headers in (
        {"Host": "evil.example"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "["},
        {"Origin": "http://["},
    ):
        refused = running.client.post("/api/v1/triggers/a/b/c/d/fire", headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), headers
    assert running.client.get("/healthz", headers={"Host": "localhost:8080"}).status_code == 200
    own_origin = str(running.client.base_url).rstrip("/")
    assert running.client.get("/readyz", headers={"Origin": own_origin}).status_code == 200


@pytest.mark.parametrize(("trusted", "status"), [(None, 429), ("127.0.0.1", 401)])
def test_only_a_trusted_proxy_reports_the_clients_address(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: str | None, status: int
) -> None:
    """O-06: FORWARDED_ALLOW_IPS names it; `X-Forwarded-For` of other senders is ignored."""
    monkeypatch.delenv("FORWARDED_ALLOW_IPS", raising=False)
    if trusted:
        monkeypatch.setenv("FORWARDED_ALLOW_IPS", trusted)
    # on the hand-driven clock, because on a real one another attempt is allowed every few seconds
    process = RunningProcess(database, tmp_path / "work", without=("loop", "runner"), access="required")
    try:
        for number in range(11):
            headers = {"X-Forwarded-For": f"192.0.2.{number}", "Authorization": "Bearer tct_wrong"}
            answer = process.client.get("/api/v1/triggers", headers=headers)
        assert answer.status_code == status
    finally:
        process.stop()


def test_a_disabled_controller_has_no_timer_and_no_thread(real_database: Database, tmp_path: Path) -> None:
    """L-02: with `enabled` false there is neither loop nor scheduler; the API still answers."""
    before = {thread.name for thread in threading.enumerate()}
    process = RunningProcess(real_database, tmp_path / "work", without=("runner",), enabled=False)
    try:
        assert process.client.get("/readyz").status_code == 200
        started = {thread.name for thread in threading.enumerate()} - before
        assert not {name for name in started if name in ("loop", "runner", "APScheduler")}
    finally:
        process.stop()


def test_a_process_is_not_ready_over_another_schema(running: RunningProcess, real_database: Database) -> None:
    """O-05: it is alive, and its readiness says what to do."""
    with real_database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        connection.execute(text("UPDATE schema_support SET readable_since = '9999'"))
    assert running.client.get("/healthz").status_code == 200
    refused = running.client.get("/readyz")
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
    assert "9999" in refused.json()["detail"]


def test_metrics_are_served_without_the_database(running: RunningProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """O-02, O-05: only those that the process knows by itself."""
    monkeypatch.setattr(Database, "read", raise_unavailable)
    names = {name for name, _ in running.metrics()}
    assert "triggerctl_jobs" in names
    assert "triggerctl_triggers_active" not in names


def test_access_stays_controlled_while_the_database_is_away(
    real_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O-06: the process learns at its start that there are tokens."""
    grant = Grant(Role.VIEWER, Reach(None))
    create_token(real_database, Observations(), "ann", grant, None, Reach(None), Caller("root"))
    process = RunningProcess(real_database, tmp_path / "work", without=("runner", "loop"))
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Database, "read", raise_unavailable)
            assert process.client.get("/metrics").status_code == 401
    finally:
        process.stop()


def raise_unavailable(database: Database) -> Any:
    raise Unavailable("the database is away")


def test_each_change_sends_a_notification_with_the_trigger_id(real_database: Database) -> None:
    """L-04: on PostgreSQL, and with nothing but the id."""
    if real_database.is_sqlite:
        pytest.skip("SQLite has no notifications")
    import psycopg

    from revisions.store.notices import CHANGES

    address = real_database.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"LISTEN {CHANGES}")
        world = another_process(real_database)
        world.create()
        world.deactivate("tick", 1)
        payloads = [notice.payload for notice in connection.notifies(timeout=PATIENCE, stop_after=2)]
    assert payloads == [world.id("tick")] * 2
