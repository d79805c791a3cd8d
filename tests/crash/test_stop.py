"""Stopping, being killed with a task under way, being replaced, and a database that goes away for a while."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import psycopg
import pytest
from sqlalchemy import make_url

from tests.crash.ledger import account
from tests.crash.site import TELL, WAIT, Site
from tests.waiting import PATIENCE, eventually

WAITING = TELL + WAIT
EVERY_SECOND = {"schedule": {"every": "1s"}, "catchup": {"policy": "all"}}
UNLIMITED = {"EXECUTION_QPS": "1000", "EXECUTION_BURST": "1000"}


@pytest.fixture
def waiting(site: Site) -> Site:
    """With a trigger whose task waits until it may go on."""
    site.register(WAITING)
    site.deploy("slow")
    return site


def begun(site: Site) -> str:
    """A run that is under way."""
    run_id = site.fire("slow")
    eventually(lambda: site.began()[run_id, 1])
    return run_id


def test_what_ends_within_the_grace_is_kept(waiting: Site) -> None:
    """U-01, X-07: SIGTERM ends claiming, lets a running task end, settles it, and exits with 0."""
    controller = waiting.up(STOP_GRACE="10m")
    first = begun(waiting)
    controller.terminate()
    controller.until("controller.stopping")
    assert controller.lives_on(3)
    later = waiting.fire("slow")
    assert controller.lives_on(2)
    assert waiting.run(later).status == "pending"
    waiting.lets_go()
    assert controller.process.wait(PATIENCE) == 0
    run = waiting.run(first)
    assert (run.status, run.attempt, run.output) == ("succeeded", 1, '{"answer":42}')
    run = waiting.run(later)
    assert (run.status, run.attempt) == ("pending", 0)
    assert waiting.began() == Counter([(first, 1)])
    assert controller.complaints() == []


def test_what_takes_longer_is_handed_back(waiting: Site) -> None:
    """X-07: a task that outlives the grace is ended and given back without using an attempt; the next controller
    begins it anew."""
    controller = waiting.up(STOP_GRACE="1s")
    run_id = begun(waiting)
    assert controller.stop() == 0
    run = waiting.run(run_id)
    assert (run.status, run.attempt, run.claimed_by, run.lease_until) == ("pending", 0, None, None)
    assert controller.said("run.handed_back")
    waiting.lets_go()
    assert waiting.finished() == Counter()
    restarted = waiting.up()
    run = waiting.ended(run_id)
    assert (run.status, run.attempt, run.output) == ("succeeded", 1, '{"answer":42}')
    assert waiting.began() == Counter({(run_id, 1): 2})
    assert waiting.finished() == Counter([(run_id, 1)])
    assert restarted.stop() == 0
    assert not list(waiting.work.glob("*-*"))


def test_readiness_goes_first(waiting: Site) -> None:
    """O-05: told to stop, it says at once that it is not ready, and answers as long as a task is under way."""
    controller = waiting.up(STOP_GRACE="10m")
    run_id = begun(waiting)
    answers = _asking(controller.url)
    assert (answers("/healthz"), answers("/readyz")) == (200, 200)
    controller.terminate()
    eventually(lambda: answers("/readyz") == 503)
    assert answers("/healthz") == 200
    assert answers(f"/api/v1/runs/{run_id}") == 200
    waiting.lets_go()
    assert controller.process.wait(PATIENCE) == 0
    assert waiting.run(run_id).status == "succeeded"


@pytest.mark.parametrize(
    ("database_url", "ends"),
    [("sqlite", "while nobody watches"), ("postgresql", "after the restart")],
    indirect=["database_url"],
)
def test_a_task_outlives_its_controller(waiting: Site, ends: str) -> None:
    """X-05, X-10, L-11: after `kill -9` the next controller finds the task, does not start it again, and settles what
    it answers, although the lease of the dead one has not lapsed."""
    controller = waiting.up()
    run_id = begun(waiting)
    controller.kill()
    assert waiting.run(run_id).status == "running"
    if ends == "while nobody watches":
        waiting.lets_go()
        eventually(waiting.finished)
    restarted = waiting.up()
    restarted.until("run.adopted")
    waiting.lets_go()
    run = waiting.ended(run_id)
    assert (run.status, run.attempt, run.output) == ("succeeded", 1, '{"answer":42}')
    assert waiting.began() == waiting.finished() == Counter([(run_id, 1)])
    assert restarted.stop() == 0
    assert restarted.complaints() == []
    assert not list(waiting.work.glob("*-*"))


def check_every_second(site: Site, name: str) -> None:
    """Waits until everything is over, and looks whether each second was one run that was done once."""
    site.comes_to_an_end(name)
    deployed, deactivated = site.history(name)
    made = site.runs(name)
    seconds = account(made, site.skips(name), deployed.at, deactivated.at)
    assert seconds.wrong == {}
    assert {skip.outcome for skip in site.skips(name)} <= {"superseded"}  # by the end of the schedule
    assert {run.status for run in made} == {"succeeded"}
    assert site.began() == Counter((run.id, 1) for run in site.runs())


def fires_on(site: Site, name: str) -> None:
    """Waits for three more runs."""
    before = len(site.runs(name))
    eventually(lambda: len(site.runs(name)) >= before + 3)


def test_a_rolling_restart(postgresql_site: Site) -> None:
    """L-14: replicas that overlap and follow one another make exactly one run of every second, done once."""
    site = postgresql_site
    site.register(TELL)
    site.deploy("tick", **EVERY_SECOND)
    old = site.up(**UNLIMITED)
    eventually(lambda: site.runs("tick"))
    for _ in range(2):
        new = site.up(**UNLIMITED)
        new.until("controller.started")
        fires_on(site, "tick")
        assert old.stop() == 0
        old = new
    check_every_second(site, "tick")
    assert old.stop() == 0
    assert [line for one in site.controllers for line in one.complaints()] == []


@contextmanager
def gone(url: str) -> Iterator[None]:
    """A database to which nobody can connect, without disturbing the server's others."""
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


def test_a_database_that_goes_away(postgresql_site: Site, postgresql_database_url: str) -> None:
    """L-11, L-16: without its database the controller lives, says that it is not ready, and starts nothing; once it
    is back everything goes on by itself, the missed seconds and the task that was under way included."""
    site = postgresql_site
    site.register(WAITING)
    site.register(TELL, "v2")
    site.deploy("slow")
    site.deploy("tick", task_version="v2", **EVERY_SECOND)
    controller = site.up(**UNLIMITED)
    answers = _asking(controller.url)
    assert (answers("/healthz"), answers("/readyz")) == (200, 200)
    run_id = begun(site)
    with gone(postgresql_database_url):
        eventually(lambda: answers("/readyz") == 503)
        assert answers("/healthz") == 200
        site.lets_go()
        eventually(lambda: site.finished()[run_id, 1])
        assert controller.lives_on(3)
        assert (answers("/healthz"), answers("/readyz")) == (200, 503)
    eventually(lambda: answers("/readyz") == 200)
    run = site.ended(run_id)
    assert (run.status, run.attempt, run.output) == ("succeeded", 1, '{"answer":42}')
    check_every_second(site, "tick")
    assert controller.stop() == 0


def _asking(url: str) -> Callable[[str], int]:
    return lambda path: httpx.get(f"{url}{path}", timeout=PATIENCE).status_code
