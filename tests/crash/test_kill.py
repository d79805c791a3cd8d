"""`kill -9` at any moment: nothing is lost, nothing is doubled (L-11)."""

import logging
import os
import random
import time
from datetime import datetime

from tests.crash.ledger import account
from tests.crash.site import TELL, Controller, Site

SETTINGS = {
    "RESYNC_INTERVAL": "1s",
    "LIVE_GRACE": "2s",  # short, so that a restart finds occurrences that are missed, and backlogs are drained too
    "MAX_CATCHUP_RUNS_PER_LOOP": "400",
    "EXECUTION_QPS": "1000",
    "EXECUTION_BURST": "1000",
    "MAX_RUNNING": "64",
}
TASK = f"{TELL} sleep 0.8"
"""Long enough that some are under way whenever a controller dies."""


def test_ten_kills_within_a_minute_on_postgresql(postgresql_site: Site) -> None:
    """L-11, X-05: every second of 20 triggers is one run or one recorded skip, and no attempt begins twice."""
    _endure(postgresql_site, triggers=20, kills=10, seconds=45.0)


def test_four_kills_within_fifteen_seconds_on_sqlite(sqlite_site: Site) -> None:
    """L-11, X-05: the same on SQLite."""
    _endure(sqlite_site, triggers=5, kills=4, seconds=12.0)


def _endure(site: Site, *, triggers: int, kills: int, seconds: float) -> None:
    names = [f"tick-{number}" for number in range(triggers)]
    site.register(TASK)
    for name in names:
        site.deploy(name, schedule={"every": "1s"}, catchup={"policy": "all"})
    controller = _killed(site, kills, seconds)
    until = site.comes_to_an_end(*names)
    assert controller.stop() == 0
    for name in names:
        _check_occurrences(site, name, until)
    _check_work(site)
    assert [found for one in site.controllers for found in one.said("run.adopted")]
    assert [line for one in site.controllers for line in one.complaints()] == []


def _killed(site: Site, kills: int, seconds: float) -> Controller:
    """Controllers one after another, killed at random moments, the last at work; answers the one that is left alive."""
    seed = int(os.environ.get("KILL_SEED") or random.randrange(2**32))
    logging.getLogger(__name__).warning("KILL_SEED=%d brings the same moments again", seed)
    chance, began = random.Random(seed), time.monotonic()
    controller = site.up(**SETTINGS)
    for moment in sorted(chance.uniform(0, seconds) for _ in range(kills - 1)):
        assert controller.lives_on(max(0.01, began + moment - time.monotonic())), controller.log.read_text()
        controller.kill()
        controller = site.up(**SETTINGS)
    controller.until("run.started")
    controller.kill()
    return site.up(**SETTINGS)


def _check_occurrences(site: Site, name: str, until: datetime) -> None:
    """Each second is accounted for, and each up to `until` was a run."""
    deployed, deactivated = site.history(name)
    made = site.runs(name)
    seconds = account(made, site.skips(name), deployed.at, deactivated.at)
    assert seconds.wrong == {}, name
    assert [skip for skip in site.skips(name) if skip.scheduled_at <= until] == []
    assert len({run.occurrence_id for run in made}) == len(made)
    assert site.status(name).run_count == len(made)


def _check_work(site: Site) -> None:
    """Tasks outlive their controller and are found again, so that a kill costs no attempt either (X-07)."""
    made, began = site.runs(), site.began()
    assert {run.status for run in made} == {"succeeded"}
    assert not [run for run in made if run.claimed_by or run.lease_until]
    assert [attempt for attempt, times in began.items() if times > 1] == []
    assert set(began) == {(run.id, run.attempt) for run in made}
    assert {run.attempt for run in made} == {1}
