"""PgBouncer in transaction mode between the controllers and PostgreSQL, where clients share server sessions (O-09)."""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from reconcile.decide.admission import Pace
from reconcile.decide.authority import Caller
from reconcile.queries.doctor import examine
from reconcile.report.installation_checks import Level
from revisions.clock import HostClock
from revisions.errors import Conflict, Unavailable
from revisions.store import revisions, schema, sessions, tasks
from revisions.store.database import Connection, Database
from revisions.store.notices import CHANGES, Hearing, Listener, check_hearing
from tests.crash.ledger import account
from tests.crash.site import RECORD_START, Site
from tests.pooler import PGBOUNCER, Pooler, version
from tests.stalling import between_statements, within_a_turn
from tests.waiting import eventually
from tests.world import World, key

pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed; `.ci/run` installs it")

EVERY_SECOND = {"schedule": {"every": "1s"}, "catchup": {"policy": "all"}}
UNLIMITED = {"EXECUTION_QPS": "1000", "EXECUTION_BURST": "1000"}
KINDS = {
    "refuses startup options": {},
    "ignores startup options": {"ignore_startup_parameters": "options"},
    "without prepared statements": {"max_prepared_statements": "0"},
    "with prepared statements": {"max_prepared_statements": "100"},
}


@pytest.fixture(params=KINDS)
def pooler(request: pytest.FixtureRequest, postgresql_database_url: str) -> Iterator[Pooler]:
    settings = KINDS[request.param]
    if "max_prepared_statements" in settings and version() < (1, 21):
        pytest.skip("PgBouncer supports prepared statements since version 1.21")
    started = Pooler(postgresql_database_url, **settings)
    yield started
    started.stop()


@pytest.fixture
def default_pooler(postgresql_database_url: str) -> Iterator[Pooler]:
    started = Pooler(postgresql_database_url)
    yield started
    started.stop()


@pytest.fixture
def pooled_database(pooler: Pooler) -> Iterator[Database]:
    with Database(pooler.url) as database:
        yield database


def run_full_cycles(world: World, times: int = 6) -> None:
    """Change, fire and finish triggers over more client sessions than the pooler has server sessions."""
    sessions_opened = [world.database.engine.connect() for _ in range(6)]
    for session in sessions_opened:
        session.close()
    for number in range(times):
        name = f"tick-{number}"
        world.create(name)
        world.deactivate(name, 1)
        world.activate(name, 2)
        world.update(name, 3, description="new")
        world.fire(key(name), None, Caller("ann"), "allow")
        world.finish(state={"cursor": number})
        world.resync()


def test_deploys_passes_claims_and_settles_work_through_a_pooler(pooled_database: Database) -> None:
    """O-09: so do the feed and the history; no statement relies on one that another session prepared."""
    world = World(pooled_database, pooled_database.clock)
    world.register()
    run_full_cycles(world)
    runs = [run for number in range(6) for run in world.runs(f"tick-{number}")]
    assert Counter(run.status for run in runs) == {"succeeded": 6}
    with pooled_database.read() as connection:
        changes = revisions.read(connection, revisions.BEGINNING, 1_000)
    assert len(changes.items) == 24
    with pytest.raises(Conflict):
        world.update("tick-0", 1)


def test_one_of_many_concurrent_updates_wins(pooled_database: Database) -> None:
    """R-07, O-09: locks belong to transactions, so they are as exact as without a pooler."""
    world = World(pooled_database, pooled_database.clock)
    world.register()
    world.create()

    def change(number: int) -> bool:
        try:
            return world.update("tick", 1, description=str(number)).changed
        except Conflict:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(change, range(16))) == 1
    assert [revision.revision for revision in world.history()] == [2, 1]


def test_migrations_run_down_and_up_through_a_pooler(pooled_database: Database) -> None:
    """O-09, R-19: to an empty database and back."""
    schema.downgrade(pooled_database, "base")
    assert pooled_database.schema() is None
    schema.upgrade(pooled_database)
    pooled_database.check_schema()


@pytest.mark.usefixtures("as_shipped")
def test_timeouts_hold_for_the_transaction_only(pooled_database: Database, pooler: Pooler) -> None:
    """O-08, O-09: the next client of the server session does not inherit them."""
    expected = {"idle_in_transaction_session_timeout": "10s", "lock_timeout": "5s", "statement_timeout": "30s"}
    for transaction in (pooled_database.read, pooled_database.write):
        with transaction() as connection:
            driver = connection.connection.driver_connection
            assert isinstance(driver, psycopg.Connection)
            if driver.info.server_version >= 170_000:
                expected["transaction_timeout"] = "40s"
            assert {name: _shown(driver, name) for name in expected} == expected
    with psycopg.connect(pooler.url) as stranger:
        assert {name: _shown(stranger, name) for name in expected} == dict.fromkeys(expected, "0")


def _shown(connection: psycopg.Connection[Any], name: str) -> str:
    row = connection.execute(f"SHOW {name}").fetchone()
    assert row is not None
    return str(row[0])


def test_a_change_that_waits_for_a_lock_is_refused_after_the_timeout(
    default_pooler: Pooler, postgresql_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O-08, O-09: it waits no longer than without a pooler."""
    monkeypatch.setitem(sessions.SESSION_TIMEOUTS, "lock_timeout", "300ms")  # 5 s in the product
    with Database(default_pooler.url) as database, psycopg.connect(postgresql_database_url) as holder:
        world = World(database, database.clock)
        world.register()
        world.create()
        holder.execute("SELECT 1 FROM triggers FOR UPDATE")
        with pytest.raises(Unavailable, match="lock timeout"):
            world.update("tick", 1, description="new")
        holder.rollback()
        assert world.update("tick", 1, description="new").trigger.revision == 2


def test_a_statement_that_exceeds_its_timeout_is_cancelled(
    default_pooler: Pooler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O-08, O-09: its transaction is rolled back."""
    monkeypatch.setitem(sessions.SESSION_TIMEOUTS, "statement_timeout", "300ms")  # 30 s in the product
    with (
        Database(default_pooler.url) as database,
        pytest.raises(Unavailable, match="statement timeout"),
        database.write() as connection,
    ):
        connection.exec_driver_sql("SELECT pg_sleep(20)")


@pytest.mark.parametrize("stands_still", [between_statements, within_a_turn])
def test_a_stalled_transaction_loses_its_locks(
    default_pooler: Pooler, postgresql_database_url: str, stands_still: Callable[[Connection], None]
) -> None:
    """O-08, O-09, invariant 8: those who wait for its locks go on, and it changes nothing when it continues."""
    with Database(default_pooler.url) as stalled, psycopg.connect(postgresql_database_url) as other:
        if stands_still is within_a_turn and other.info.server_version < 170_000:
            pytest.skip("PostgreSQL ends transactions that stall in the middle of a turn since version 17")
        world = World(stalled, stalled.clock)
        [task] = [world.register().task.key]

        def change() -> None:
            with stalled.write() as connection:
                connection.exec_driver_sql("SELECT 1 FROM tasks FOR UPDATE")
                stands_still(connection)
                other.execute("SELECT 1 FROM tasks FOR UPDATE")  # waits until PostgreSQL ends the stalled session
                other.rollback()
                tasks.delete(connection, task)

        with pytest.raises(Unavailable):
            change()
        with stalled.read() as connection:
            row = tasks.get(connection, task)
        assert row is not None
        assert not row.deleted


def test_doctor_reports_the_pooler_and_whether_notifications_arrive(
    default_pooler: Pooler, postgresql_database_url: str
) -> None:
    """O-09: `listen_url` must lead to PostgreSQL itself."""
    with Database(default_pooler.url) as database:
        for listen_url, level in ((None, Level.WARNING), (postgresql_database_url, Level.OK)):
            checks = {check.name: check for check in examine(database, Pace(), HostClock(), listen_url)}
            assert "one is before the database" in checks["pooler"].detail
            assert checks["notices"].level is level
            assert [check.name for check in checks.values() if check.level is Level.FAULT] == []


def test_a_listener_behind_a_pooler_does_not_claim_to_be_connected(
    default_pooler: Pooler, postgresql_database_url: str
) -> None:
    """O-09: the pooler would keep its notifications; `listen_url` bypasses the pooler."""
    with Database(default_pooler.url) as database:
        assert check_hearing(database, None) is Hearing.POOLED
        assert check_hearing(database, postgresql_database_url) is Hearing.HEARD
        woken: list[bool] = []
        pooled = Listener(database, {CHANGES: lambda: woken.append(True)})
        bypassing = Listener(database, {CHANGES: lambda: woken.append(True)}, past=postgresql_database_url)
        pooled.start()
        bypassing.start()
        try:
            eventually(lambda: bypassing.connected and woken)
            assert not pooled.connected
        finally:
            pooled.stop()
            bypassing.stop()


def test_two_controllers_behind_a_pooler_share_the_work(
    site_over: Callable[[str], Site], default_pooler: Pooler, postgresql_database_url: str
) -> None:
    """O-09, L-14: each second has one run that is executed once; a change is noticed through `listen_url`."""
    site = site_over(default_pooler.url)
    site.register(RECORD_START)
    settings = UNLIMITED | {"LISTEN_URL": postgresql_database_url, "RESYNC_INTERVAL": "1h"}
    controllers = [site.up(**settings) for _ in range(2)]
    for controller in controllers:
        controller.wait_for("controller.started")
    site.deploy("tick", **EVERY_SECOND)
    eventually(lambda: len(site.runs("tick")) >= 4)
    site.drain("tick")
    deployed, deactivated = site.history("tick")
    runs = site.runs("tick")
    assert account(runs, site.skips("tick"), deployed.at, deactivated.at).wrong == {}
    assert {run.status for run in runs} == {"succeeded"}
    assert site.started_attempts() == Counter((run.id, 1) for run in runs)
    for controller in controllers:
        assert controller.stop() == 0
        assert controller.errors() == []
