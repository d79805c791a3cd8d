"""The process's parts together, on the real clock: who wakes whom, what a scrape shows, which pages may ask."""

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
def real(database_url: str) -> Iterator[Database]:
    """The database with its own clock."""
    with Database(database_url) as database:
        yield database


class Up:
    """A process with all its parts, its API included."""

    def __init__(self, database: Database, work_dir: Path, without: tuple[str, ...] = (), **options: Any) -> None:
        self.database = database
        self.heard: list[Observation] = []
        observations = Observations()
        observations.subscribe(self.heard.append)
        chosen = settings.load(work_dir=work_dir, **OPTIONS | options)
        self.process = Process(chosen, database, observations, without)
        listening = listen(chosen)
        self._stop_serving = self.process.serve(listening)
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=PATIENCE)
        self.process.start()

    def stop(self) -> None:
        self.process.stop()
        self._stop_serving()
        self.client.close()

    def metrics(self) -> dict[tuple[str, tuple[str, ...]], float]:
        """(name, label values) → value."""
        families = text_string_to_metric_families(self.client.get("/metrics").text)
        return {
            (sample.name, tuple(sample.labels.values())): sample.value
            for family in families
            for sample in family.samples
        }


@pytest.fixture
def up(real: Database, tmp_path: Path) -> Iterator[Up]:
    with ExitStack() as stack:
        process = Up(real, tmp_path / "work")
        stack.callback(process.stop)
        yield process


def elsewhere(database: Database) -> World:
    """Another process over the same database, which can only be heard through it."""
    world = World(database, database.clock)
    world.register()
    return world


def test_a_change_made_elsewhere_is_picked_up_at_once(up: Up, real: Database) -> None:
    """L-04: an interval of an hour is the safety net; the database's notice (or a short poll of it) is what wakes."""
    world = elsewhere(real)
    world.create(schedule={"every": "1s"}, overlap="allow")
    eventually(lambda: [run for run in world.runs() if run.status == "succeeded"])


def test_a_lost_listener_connects_again_and_looks(up: Up, real: Database) -> None:
    """L-04: after its connection is cut the listener reconnects, and what happened meanwhile is found."""
    if real.is_sqlite:
        pytest.skip("SQLite has no notices")
    world = elsewhere(real)
    eventually(lambda: up.metrics()["triggerctl_listener_connected", ()] == 1)
    with real.write() as connection:
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = :name"
        assert list(connection.execute(text(cut), {"name": real.url.database}).scalars()) == [True]
    world.create(schedule={"every": "1s"}, overlap="allow")
    eventually(lambda: world.runs())
    eventually(lambda: up.metrics()["triggerctl_listener_connected", ()] == 1)


def test_notices_are_heard_past_a_pooler(postgresql_url: str, postgresql_database_url: str, tmp_path: Path) -> None:
    """O-09: at `listen_url`, here another database of the server, so that one sees who listens where."""
    with Database(postgresql_database_url) as database:
        up = Up(database, tmp_path / "work", without=("loop", "runner"), listen_url=postgresql_url)
        try:
            eventually(lambda: up.metrics()["triggerctl_listener_connected", ()] == 1)
            with database.read() as connection:
                listening = text("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = :name")
                here = connection.execute(listening, {"name": database.url.database}).scalar_one()
                there = connection.execute(listening, {"name": parse_url(postgresql_url).database}).scalar_one()
        finally:
            up.stop()
    assert here == 0
    assert there >= 1


def test_a_wrong_address_to_listen_at_is_named(postgresql_database_url: str, tmp_path: Path) -> None:
    """O-09: by its own name, not as the database's."""
    with Database(postgresql_database_url) as database, pytest.raises(Invalid, match="listen-url"):
        Up(database, tmp_path / "work", listen_url="pgbouncer")


def test_the_loop_removes_what_is_old(real: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """O-07: by itself, page after page, while it does everything else."""
    monkeypatch.setattr(loops, "PRUNE_SECONDS", 0.05)
    monkeypatch.setattr(retention, "LOGS", 1)
    world = elsewhere(real)
    world.create()
    ids = [f"00000000000000000000000000{number}"[-26:] for number in range(3)]
    with real.write() as connection:
        for run_id in ids:
            connection.execute(run_logs.insert(), {"run_id": run_id, "attempt": 1, "position": 0, "data": b"old"})
    process = Up(real, tmp_path / "work", without=("runner",), retain_runs="0s")
    try:
        eventually(lambda: not any(_logged(real, run_id) for run_id in ids))
    finally:
        process.stop()


def _logged(database: Database, run_id: str) -> bytes:
    with database.read() as connection:
        return logs.read(connection, run_id, 1).head


def test_metrics_show_what_happened(up: Up, real: Database) -> None:
    """O-02: active triggers, jobs, resyncs, lateness, runs by outcome and source, queue depth; in bounded labels."""
    world = elsewhere(real)
    world.create(schedule={"every": "1s"}, overlap="allow")
    happened = {  # told by two threads, each in its time
        ("triggerctl_runs_total", ("succeeded", "schedule")),
        ("triggerctl_resync_changes_total", ("added",)),
        ("triggerctl_fire_lateness_seconds_count", ()),
        ("triggerctl_run_seconds_count", ()),
        ("triggerctl_jobs", ()),
    }

    def told() -> dict[tuple[str, tuple[str, ...]], float] | None:
        found = up.metrics()
        return found if all(found.get(one) for one in happened) else None

    metrics = eventually(told)
    assert metrics["triggerctl_triggers_active", ()] == 1
    assert metrics["triggerctl_jobs", ()] == 1
    assert {labels for name, labels in metrics if name == "triggerctl_queue_depth"} == {
        ("pending",),
        ("running",),
        ("waiting",),
        ("parked",),
    }
    assert not [labels for _, labels in metrics if "tick" in labels or world.id("tick") in labels]


def test_a_service_is_asked_and_calls_back(real: Database, port: int, tmp_path: Path) -> None:
    """X-10: the whole way over sockets: request, 202, heartbeat, callback, the end that the API shows."""
    with ExitStack() as stack:
        service = stack.enter_context(Service())
        up = Up(real, tmp_path / "work", listen=f"127.0.0.1:{port}")
        stack.callback(up.stop)
        task = {"spec": {"launcher": "http", "http": {"url": f"{service.url}/accept"}}}
        assert up.client.put("/api/v1/tasks/acme/production/report/v1", json=task).status_code == 201
        assert up.client.put(f"/api/v1{T}", json=manifest(**BY_HAND), headers=IS_NEW).status_code == 201
        run_id = up.client.post(f"/api/v1{T}/fire").json()["id"]
        run = eventually(lambda: run if (run := up.client.get(f"/api/v1/runs/{run_id}").json())["output"] else None)
        assert (run["status"], run["attempt"], run["output"]) == ("succeeded", 1, {"beat": "running"})
        eventually(lambda: up.client.get(f"/api/v1/runs/{run_id}/logs").text == "HTTP/1.1 202 Accepted\n")
        assert only(ClaimLost, up.heard) == []
        assert service.keys == [f"{run_id}/1"]


def test_whoever_connects_early_is_not_refused() -> None:
    """O-05: from the moment the address is told, a connection is taken, even before the server answers."""
    with (
        listen(settings.load(**OPTIONS)) as listening,
        socket.create_connection(listening.getsockname(), timeout=PATIENCE) as connected,
    ):
        assert connected.getpeername() == listening.getsockname()


def test_the_page_is_served(up: Up) -> None:
    """U-04: the process shows its triggers at `/`, with its own style, and refuses other hosts there too."""
    page = up.client.get("/", headers={"Accept": "text/html"})
    assert page.status_code == 200
    assert "text/html" in page.headers["content-type"]
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert up.client.get("/", headers={"Host": "evil.example"}).status_code == 403


def test_a_foreign_page_is_refused(up: Up) -> None:
    """O-06: a web page of another site, or under another name of this machine, cannot start commands here."""
    for headers in (
        {"Host": "evil.example"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "["},
        {"Origin": "http://["},
    ):
        refused = up.client.post("/api/v1/triggers/a/b/c/d/fire", headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), headers
    assert up.client.get("/healthz", headers={"Host": "localhost:8080"}).status_code == 200
    own = str(up.client.base_url).rstrip("/")
    assert up.client.get("/readyz", headers={"Origin": own}).status_code == 200


@pytest.mark.parametrize(("trusted", "status"), [(None, 429), ("127.0.0.1", 401)])
def test_who_is_not_trusted_says_for_nobody_else(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: str | None, status: int
) -> None:
    """O-06: whose address counts for wrong credentials, only a proxy that the operator names may say, here too."""
    monkeypatch.delenv("FORWARDED_ALLOW_IPS", raising=False)
    if trusted:
        monkeypatch.setenv("FORWARDED_ALLOW_IPS", trusted)
    # on the hand-driven clock: a few seconds later one more would be listened to
    process = Up(database, tmp_path / "work", without=("loop", "runner"), access="required")
    try:
        for number in range(11):
            headers = {"X-Forwarded-For": f"192.0.2.{number}", "Authorization": "Bearer tct_wrong"}
            answer = process.client.get("/api/v1/triggers", headers=headers)
        assert answer.status_code == status
    finally:
        process.stop()


def test_a_disabled_controller_has_no_timer_and_no_thread(real: Database, tmp_path: Path) -> None:
    """L-02: with `enabled` false nothing is timed; the API answers all the same."""
    before = {thread.name for thread in threading.enumerate()}
    process = Up(real, tmp_path / "work", without=("runner",), enabled=False)
    try:
        assert process.client.get("/readyz").status_code == 200
        started = {thread.name for thread in threading.enumerate()} - before
        assert not {name for name in started if name in ("loop", "runner", "APScheduler")}
    finally:
        process.stop()


def test_the_schema_of_another_release_is_unavailable(up: Up, real: Database) -> None:
    """O-05: a process whose database has another schema is alive and not ready, and says what to do."""
    with real.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        connection.execute(text("UPDATE schema_support SET readable_since = '9999'"))
    assert up.client.get("/healthz").status_code == 200
    refused = up.client.get("/readyz")
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
    assert "9999" in refused.json()["detail"]


def test_metrics_are_told_without_the_database(up: Up, monkeypatch: pytest.MonkeyPatch) -> None:
    """O-02, O-05: what the process knows by itself."""
    monkeypatch.setattr(Database, "read", gone)
    names = {name for name, _ in up.metrics()}
    assert "triggerctl_jobs" in names
    assert "triggerctl_triggers_active" not in names


def test_nobody_is_let_in_because_the_database_cannot_say(
    real: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O-06: that there are tokens is known from the start."""
    grant = Grant(Role.VIEWER, Reach(None))
    create_token(real, Observations(), "ann", grant, None, Reach(None), Caller("root"))
    process = Up(real, tmp_path / "work", without=("runner", "loop"))
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Database, "read", gone)
            assert process.client.get("/metrics").status_code == 401
    finally:
        process.stop()


def gone(database: Database) -> Any:
    raise Unavailable("the database is away")


def test_deploying_elsewhere_is_one_function(real: Database) -> None:
    """L-04: on PostgreSQL every change of a trigger sends a notice that carries its id and nothing else."""
    if real.is_sqlite:
        pytest.skip("SQLite has no notices")
    import psycopg

    from revisions.store.notices import CHANGES

    address = real.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address, autocommit=True) as listening:
        listening.execute(f"LISTEN {CHANGES}")
        world = elsewhere(real)
        world.create()
        world.deactivate("tick", 1)
        notices = [notice.payload for notice in listening.notifies(timeout=PATIENCE, stop_after=2)]
    assert notices == [world.id("tick")] * 2
