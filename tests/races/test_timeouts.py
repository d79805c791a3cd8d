"""Session timeouts end a participant that stalls, so that nobody holds locks for longer than a lease (O-08)."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from reconcile.decide.authority import Caller
from reconcile.decide.preconditions import Expected
from reconcile.observations.observation import Observations
from reconcile.triggers.append import Changed
from reconcile.triggers.deploy import deploy_trigger
from reconcile.triggers.tasks import register_task
from revisions.clock import HostClock
from revisions.errors import Unavailable
from revisions.ids import TaskKey
from revisions.spec.task import TaskManifest
from revisions.spec.trigger import TriggerManifest
from revisions.store import sessions, tasks, triggers
from revisions.store.database import Connection, Database
from revisions.store.notices import CHANGES, Listener
from tests.stalling import between_statements, within_a_turn
from tests.waiting import eventually
from tests.world import key, task_document, trigger_document

ANN = Caller("ann")
TASK = TaskKey("acme", "production", "report", "v1")


def has_transaction_timeout(database: Database) -> bool:
    with database.read() as connection:
        return int(connection.exec_driver_sql("SHOW server_version_num").scalar_one()) >= 170_000


def lock_one_row(connection: Connection) -> None:
    connection.exec_driver_sql("SELECT 1 FROM tasks FOR UPDATE")


def take_all_locks(connection: Connection) -> None:
    triggers.lock(connection, [TASK], key("tick"), HostClock())


STALLS = {
    "after a statement": (lock_one_row, between_statements),
    "after taking its locks": (take_all_locks, between_statements),
    "in the middle of a pipeline": (take_all_locks, within_a_turn),
}


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """Database with task report v1 and trigger tick."""
    with Database(database_url) as database:
        register_task(database, Observations(), TaskManifest.read(task_document()), ANN)
        deploy_trigger(database, Observations(), TriggerManifest.read(trigger_document()), Expected(absent=True), ANN)
        yield database


def redeploy(database: Database) -> Changed:
    manifest = TriggerManifest.read(trigger_document(description="new"))
    return deploy_trigger(database, Observations(), manifest, Expected(revision=1), ANN)


@pytest.mark.usefixtures("as_shipped")
def test_every_session_has_timeouts_below_the_lease(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """O-08: so does the session of a listener."""
    expected = {
        "idle_in_transaction_session_timeout": "10s",
        "lock_timeout": "5s",
        "statement_timeout": "30s",
    }
    if has_transaction_timeout(database):
        expected["transaction_timeout"] = "40s"
    connections: list[psycopg.Connection[Any]] = []
    connect = psycopg.connect

    def record_connection(*given: Any, **named: Any) -> psycopg.Connection[Any]:
        connections.append(connect(*given, **named))
        return connections[-1]

    monkeypatch.setattr(psycopg, "connect", record_connection)
    listener = Listener(database, {CHANGES: lambda: None})
    listener.start()
    eventually(lambda: listener.connected)
    [listening] = connections
    assert listening.info.get_parameters()["tcp_user_timeout"] == "10000"
    listener.stop()
    for transaction in (database.read, database.write):
        with transaction() as connection:
            for name, value in expected.items():
                assert connection.exec_driver_sql(f"SHOW {name}").scalar_one() == value
            driver = connection.connection.driver_connection
            assert isinstance(driver, psycopg.Connection)
            assert driver.info.get_parameters()["tcp_user_timeout"] == "10000"


@pytest.mark.parametrize("table", ["tasks", "triggers", "trigger_status"])
def test_a_deploy_that_waits_for_a_lock_is_refused_after_the_timeout(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """O-08: the answer says that the database is busy, nothing is changed, and a later deploy succeeds."""
    monkeypatch.setitem(sessions.SESSION_TIMEOUTS, "lock_timeout", "300ms")  # 5 s in the product
    with Database(database_url) as short_timeout, psycopg.connect(database_url) as holder:
        holder.execute(f"SELECT 1 FROM {table} FOR UPDATE")
        for _ in range(2):
            with pytest.raises(Unavailable, match="lock timeout"):
                redeploy(short_timeout)
        holder.rollback()
        assert redeploy(short_timeout).trigger.revision == 2


def test_a_statement_that_exceeds_its_timeout_is_cancelled(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O-08: its transaction is rolled back."""
    monkeypatch.setitem(sessions.SESSION_TIMEOUTS, "statement_timeout", "300ms")  # 30 s in the product
    with (
        Database(database_url) as short_timeout,
        pytest.raises(Unavailable, match="statement timeout"),
        short_timeout.write() as connection,
    ):
        connection.exec_driver_sql("SELECT pg_sleep(20)")
    assert redeploy(database).changed


@pytest.mark.parametrize("where", list(STALLS))
def test_a_stalled_change_loses_its_session_and_its_locks(database: Database, database_url: str, where: str) -> None:
    """O-08, invariant 8: it changes nothing when it continues, and the others went on meanwhile."""
    if "pipeline" in where and not has_transaction_timeout(database):
        pytest.skip("PostgreSQL ends transactions that stall within a pipeline since version 17")
    begin, stall = STALLS[where]
    with Database(database_url) as stalled:

        def change() -> None:
            with stalled.write() as connection:
                begin(connection)
                stall(connection)
                assert redeploy(database).trigger.revision == 2  # waits for the lock until PostgreSQL ends the session
                tasks.delete(connection, TASK)

        with pytest.raises(Unavailable):
            change()
        with stalled.read() as connection:
            current = triggers.get(connection, key("tick"))
            task = tasks.get(connection, TASK)
        assert current is not None
        assert task is not None
        assert (current.revision, task.deleted) == (2, False)
