"""Controllers that stop, are killed while a task runs, are replaced, or lose their database for a while."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import psycopg
import pytest
from sqlalchemy import make_url

from tests.crash.ledger import account
from tests.crash.site import RECORD_START, WAIT_FOR_RELEASE, Site
from tests.waiting import PATIENCE, eventually

WAITING = RECORD_START + WAIT_FOR_RELEASE
EVERY_SECOND = {"schedule": {"every": "1s"}, "catchup": {"policy": "all"}}
UNLIMITED = {"EXECUTION_QPS": "1000", "EXECUTION_BURST": "1000"}


@pytest.fixture
def waiting_site(site: Site) -> Site:
    """Site with a trigger whose task waits until it is released."""
    site.register(WAITING)
    site.deploy("slow")
    return site


def start_run(site: Site) -> str:
    """Fire the trigger and return the id of the run once its task has started."""
    run_id = site.fire("slow")
    eventually(lambda: site.started_attempts()[run_id, 1])
    return run_id


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_task_that_ends_within_the_stop_grace_is_settled(waiting_site: Site) -> None:
    """U-01, X-07: after SIGTERM the controller claims nothing more, waits for the task, settles it and exits with 0."""
    waiting_site.register(RECORD_START + "sleep 1", "v2")
    waiting_site.deploy("short", task_version="v2")
    controller = waiting_site.up(STOP_GRACE="10m")
    first = start_run(waiting_site)
    short = waiting_site.fire("short")
    eventually(lambda: waiting_site.started_attempts()[short, 1])
    controller.terminate()
    controller.wait_for("controller.stopping")
    later = waiting_site.fire("slow")
    assert waiting_site.wait_for_end(short).status == "succeeded"
    assert waiting_site.run(later).status == "pending"
    assert controller.process.poll() is None
    waiting_site.release_tasks()
    assert controller.process.wait(PATIENCE) == 0
    run = waiting_site.run(first)
    assert (run.status, run.attempt, run.output) == ("succeeded", 1, '{"answer":42}')
    run = waiting_site.run(later)
    assert (run.status, run.attempt) == ("pending", 0)
    assert waiting_site.started_attempts() == Counter([(first, 1), (short, 1)])
    assert controller.errors() == []


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_task_that_exceeds_the_stop_grace_is_handed_back(waiting_site: Site) -> None:
    """X-07: it is ended without using up an attempt, and the next controller starts it again."""
    controller = waiting_site.up(STOP_GRACE="1s")
    run_id = start_run(waiting_site)
    assert controller.stop() == 0
    run = waiting_site.run(run_id)
    assert (run.status, run.attempt, run.claimed_by, run.lease_until) == ("pending", 0, None, None)
    assert controller.events("run.handed_back")
    waiting_site.release_tasks()
    assert waiting_site.finished_attempts() == Counter()
    restarted = waiting_site.up()
    run = waiting_site.wait_for_end(run_id)
    assert (run.status, run.attempt, run.output) == ("succeeded", 1, '{"answer":42}')
    assert waiting_site.started_attempts() == Counter({(run_id, 1): 2})
    assert waiting_site.finished_attempts() == Counter([(run_id, 1)])
    assert restarted.stop() == 0
    assert not list(waiting_site.work.glob("*-*"))


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_readiness_ends_as_soon_as_a_controller_is_told_to_stop(waiting_site: Site) -> None:
    """O-05: /readyz answers 503 immediately, and everything else answers as long as a task runs."""
    controller = waiting_site.up(STOP_GRACE="10m")
    run_id = start_run(waiting_site)
    status = _status_codes(controller.url)
    assert (status("/healthz"), status("/readyz")) == (200, 200)
    controller.terminate()
    eventually(lambda: status("/readyz") == 503)
    assert status("/healthz") == 200
    assert status(f"/api/v1/runs/{run_id}") == 200
    waiting_site.release_tasks()
    assert controller.process.wait(PATIENCE) == 0
    assert waiting_site.run(run_id).status == "succeeded"


@pytest.mark.parametrize(
    ("database_url", "ends"),
    [("sqlite", "before the restart"), ("postgresql", "after the restart")],
    indirect=["database_url"],
)
def test_a_task_outlives_a_killed_controller_and_is_adopted(waiting_site: Site, ends: str) -> None:
    """X-05, X-10, L-11: the next controller does not start it again and settles its result, although the lease of the
    killed one has not expired."""
    controller = waiting_site.up()
    run_id = start_run(waiting_site)
    controller.kill()
    assert waiting_site.run(run_id).status == "running"
    if ends == "before the restart":
        waiting_site.release_tasks()
        eventually(waiting_site.finished_attempts)
    restarted = waiting_site.up()
    restarted.wait_for("run.adopted")
    waiting_site.release_tasks()
    run = waiting_site.wait_for_end(run_id)
    assert (run.status, run.attempt, run.output) == ("succeeded", 1, '{"answer":42}')
    assert waiting_site.started_attempts() == waiting_site.finished_attempts() == Counter([(run_id, 1)])
    assert restarted.stop() == 0
    assert restarted.errors() == []
    assert not list(waiting_site.work.glob("*-*"))


def check_one_run_per_second(site: Site, name: str) -> None:
    """Drain the trigger, and assert that each second had one run that was executed once."""
    site.drain(name)
    deployed, deactivated = site.history(name)
    runs = site.runs(name)
    seconds = account(runs, site.skips(name), deployed.at, deactivated.at)
    assert seconds.wrong == {}
    assert {skip.outcome for skip in site.skips(name)} <= {"superseded"}  # by the deactivation
    assert {run.status for run in runs} == {"succeeded"}
    assert site.started_attempts() == Counter((run.id, 1) for run in site.runs())


def wait_for_three_runs(site: Site, name: str) -> None:
    """Wait until three more runs exist."""
    before = len(site.runs(name))
    eventually(lambda: len(site.runs(name)) >= before + 3)


def test_a_rolling_restart_makes_one_run_per_second(postgresql_site: Site) -> None:
    """L-14: replicas that overlap and follow one another neither lose nor double an occurrence."""
    site = postgresql_site
    site.register(RECORD_START)
    site.deploy("tick", **EVERY_SECOND)
    old = site.up(**UNLIMITED)
    eventually(lambda: site.runs("tick"))
    for _ in range(2):
        new = site.up(**UNLIMITED)
        new.wait_for("controller.started")
        wait_for_three_runs(site, "tick")
        assert old.stop() == 0
        old = new
    check_one_run_per_second(site, "tick")
    assert old.stop() == 0
    assert [line for controller in site.controllers for line in controller.errors()] == []


@contextmanager
def unavailable(url: str) -> Iterator[None]:
    """Make a database refuse connections without disturbing the server's other databases."""
    address = make_url(url)
    server = address.set(database="postgres").render_as_string(hide_password=False)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{address.database}" ALLOW_CONNECTIONS false')
        try:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [address.database]
            )
            yield
        finally:
            connection.execute(f'ALTER DATABASE "{address.database}" ALLOW_CONNECTIONS true')


def test_a_controller_survives_an_unavailable_database(postgresql_site: Site, postgresql_database_url: str) -> None:
    """L-11, L-16: it stays alive, is not ready and starts nothing; once the database is back it catches up the missed
    seconds and settles the task that ended meanwhile."""
    site = postgresql_site
    site.register(WAITING)
    site.register(RECORD_START, "v2")
    site.deploy("slow")
    site.deploy("tick", task_version="v2", **EVERY_SECOND)
    controller = site.up(**UNLIMITED)
    status = _status_codes(controller.url)
    assert (status("/healthz"), status("/readyz")) == (200, 200)
    run_id = start_run(site)
    with unavailable(postgresql_database_url):
        eventually(lambda: status("/readyz") == 503)
        assert status("/healthz") == 200
        site.release_tasks()
        eventually(lambda: site.finished_attempts()[run_id, 1])
        failures = len(controller.events("loop.failed"))
        eventually(lambda: len(controller.events("loop.failed")) > failures + 1)
        assert controller.process.poll() is None
        assert (status("/healthz"), status("/readyz")) == (200, 503)
    eventually(lambda: status("/readyz") == 200)
    run = site.wait_for_end(run_id)
    assert (run.status, run.attempt, run.output) == ("succeeded", 1, '{"answer":42}')
    check_one_run_per_second(site, "tick")
    assert controller.stop() == 0


def _status_codes(url: str) -> Callable[[str], int]:
    return lambda path: httpx.get(f"{url}{path}", timeout=PATIENCE).status_code
