"""PgBouncer between the controllers and PostgreSQL, in transaction mode: the server's sessions are anybody's (O-09)."""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from reconcile.decide.admission import Pace
from reconcile.queries.doctor import Examining
from reconcile.report.installation_checks import Level
from reconcile.triggers.caller import Caller
from revisions.clock import HostClock
from revisions.errors import Conflict, Unavailable
from revisions.store import feed, schema, sessions, tasks
from revisions.store.database import Connection, Database
from revisions.store.notices import CHANGES, Hearing, Listener, check_hearing
from tests.crash.ledger import account
from tests.crash.site import TELL, Site
from tests.pooler import PGBOUNCER, Pooler, version
from tests.stalling import between_statements, within_a_turn
from tests.waiting import eventually
from tests.world import World, key

pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason="there is no pgbouncer; `.ci/run` installs it")

EVERY_SECOND = {"schedule": {"every": "1s"}, "catchup": {"policy": "all"}}
UNLIMITED = {"EXECUTION_QPS": "1000", "EXECUTION_BURST": "1000"}
KINDS = {
    "refuses options": {},
    "passes over options": {"ignore_startup_parameters": "options"},
    "knows no prepared statements": {"max_prepared_statements": "0"},
    "knows prepared statements": {"max_prepared_statements": "100"},
}


@pytest.fixture(params=KINDS)
def pooler(request: pytest.FixtureRequest, postgresql_database_url: str) -> Iterator[Pooler]:
    settings = KINDS[request.param]
    if "max_prepared_statements" in settings and version() < (1, 21):
        pytest.skip("PgBouncer knows of prepared statements since version 1.21")
    started = Pooler(postgresql_database_url, **settings)
    yield started
    started.stop()


@pytest.fixture
def one_kind(postgresql_database_url: str) -> Iterator[Pooler]:
    started = Pooler(postgresql_database_url)
    yield started
    started.stop()


@pytest.fixture
def behind(pooler: Pooler) -> Iterator[Database]:
    with Database(pooler.url) as database:
        yield database


def crowd(world: World, times: int = 6) -> None:
    """Everything that speaks to the database, over more sessions of ours than the pooler has of the server's."""
    holding = [world.database.engine.connect() for _ in range(6)]
    for session in holding:
        session.close()
    for number in range(times):
        name = f"tick-{number}"
        world.create(name)
        world.deactivate(name, 1)
        world.activate(name, 2)
        world.update(name, 3, description="new")
        world.firing.fire(key(name), None, Caller("ann"), "allow")
        world.finish(state={"cursor": number})
        world.resync()


def test_the_whole_path(behind: Database) -> None:
    """O-09: deploy, due pass, claim under its advisory lock, settle, feed, history; no statement waits for one that
    another session prepared."""
    world = World(behind, behind.clock)
    world.register()
    crowd(world)
    made = [run for number in range(6) for run in world.runs(f"tick-{number}")]
    assert Counter(run.status for run in made) == {"succeeded": 6}
    with behind.read() as connection:
        changes = feed.read(connection, feed.BEGINNING, 1_000)
    assert len(changes.items) == 24
    with pytest.raises(Conflict):
        world.update("tick-0", 1)


def test_one_wins_of_many_who_write_at_once(behind: Database) -> None:
    """R-07, O-09: the locks are those of transactions, and as exact as without a pooler."""
    world = World(behind, behind.clock)
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


def test_migrations(behind: Database) -> None:
    """O-09, R-19: down and up again."""
    schema.downgrade(behind, "base")
    assert behind.schema() is None
    schema.upgrade(behind)
    behind.check_schema()


@pytest.mark.usefixtures("as_shipped")
def test_every_transaction_has_its_timeouts(behind: Database, pooler: Pooler) -> None:
    """O-08, O-09: they are the transaction's own, and leave nothing to whoever has the server's session next."""
    expected = {"idle_in_transaction_session_timeout": "10s", "lock_timeout": "5s", "statement_timeout": "30s"}
    for transaction in (behind.read, behind.write):
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


def test_a_lock_that_somebody_holds(
    one_kind: Pooler, postgresql_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O-08, O-09: it is waited for no longer than without a pooler."""
    monkeypatch.setitem(sessions.SESSION_TIMEOUTS, "lock_timeout", "300ms")  # 5 s as it ships
    with Database(one_kind.url) as database, psycopg.connect(postgresql_database_url) as holder:
        world = World(database, database.clock)
        world.register()
        world.create()
        holder.execute("SELECT 1 FROM triggers FOR UPDATE")
        with pytest.raises(Unavailable, match="lock timeout"):
            world.update("tick", 1, description="new")
        holder.rollback()
        assert world.update("tick", 1, description="new").trigger.revision == 2


def test_a_statement_that_takes_too_long(one_kind: Pooler, monkeypatch: pytest.MonkeyPatch) -> None:
    """O-08, O-09: it is ended, and its transaction with it."""
    monkeypatch.setitem(sessions.SESSION_TIMEOUTS, "statement_timeout", "300ms")  # 30 s as it ships
    with (
        Database(one_kind.url) as database,
        pytest.raises(Unavailable, match="statement timeout"),
        database.write() as connection,
    ):
        connection.exec_driver_sql("SELECT pg_sleep(20)")


@pytest.mark.parametrize("stands_still", [between_statements, within_a_turn])
def test_a_participant_that_stalls(
    one_kind: Pooler, postgresql_database_url: str, stands_still: Callable[[Connection], None]
) -> None:
    """O-08, O-09, invariant 8: it loses its locks to those who wait for them, and changes nothing when it is back."""
    with Database(one_kind.url) as stalled, psycopg.connect(postgresql_database_url) as other:
        if stands_still is within_a_turn and other.info.server_version < 170_000:
            pytest.skip("PostgreSQL ends transactions that stall in the middle of a turn since version 17")
        world = World(stalled, stalled.clock)
        [task] = [world.register().task.key]

        def change() -> None:
            with stalled.write() as connection:
                connection.exec_driver_sql("SELECT 1 FROM tasks FOR UPDATE")
                stands_still(connection)
                other.execute("SELECT 1 FROM tasks FOR UPDATE")  # until the other's session is ended
                other.rollback()
                tasks.delete(connection, task)

        with pytest.raises(Unavailable):
            change()
        with stalled.read() as connection:
            found = tasks.get(connection, task)
        assert found is not None
        assert not found.deleted


def test_doctor_notices(one_kind: Pooler, postgresql_database_url: str) -> None:
    """O-09: that a pooler is there, and whether notices get past it."""
    with Database(one_kind.url) as database:
        for listen_url, level in ((None, Level.WARNING), (postgresql_database_url, Level.OK)):
            made = Examining(database, Pace(), HostClock(), listen_url).examine()
            found = {check.name: check for check in made}
            assert "one is before the database" in found["pooler"].detail
            assert found["notices"].level is level
            assert [check.name for check in made if check.level is Level.FAULT] == []


def test_nothing_is_heard_through_it(one_kind: Pooler, postgresql_database_url: str) -> None:
    """O-09: a listener does not say that it is connected where a pooler would keep the notices; `listen_url` leads
    past it."""
    with Database(one_kind.url) as database:
        assert check_hearing(database, None) is Hearing.POOLED
        assert check_hearing(database, postgresql_database_url) is Hearing.HEARD
        woken: list[bool] = []
        deaf = Listener(database, {CHANGES: lambda: woken.append(True)})
        hears = Listener(database, {CHANGES: lambda: woken.append(True)}, past=postgresql_database_url)
        deaf.start()
        hears.start()
        try:
            eventually(lambda: hears.connected and woken)
            assert not deaf.connected
        finally:
            deaf.stop()
            hears.stop()


def test_controllers(site_over: Callable[[str], Site], pooler: Pooler, postgresql_database_url: str) -> None:
    """O-09, L-14: two of them make one run of each second and do it once; a change is heard past the pooler."""
    site = site_over(pooler.url)
    site.register(TELL)
    settings = UNLIMITED | {"LISTEN_URL": postgresql_database_url, "RESYNC_INTERVAL": "1h"}
    controllers = [site.up(**settings) for _ in range(2)]
    for one in controllers:
        one.until("controller.started")
    site.deploy("tick", **EVERY_SECOND)
    eventually(lambda: len(site.runs("tick")) >= 4)
    site.comes_to_an_end("tick")
    deployed, deactivated = site.history("tick")
    made = site.runs("tick")
    assert account(made, site.skips("tick"), deployed.at, deactivated.at).wrong == {}
    assert {run.status for run in made} == {"succeeded"}
    assert site.began() == Counter((run.id, 1) for run in made)
    for one in controllers:
        assert one.stop() == 0
        assert one.complaints() == []
