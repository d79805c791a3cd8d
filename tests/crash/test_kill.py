"""Controllers that are killed at random moments lose and double nothing (L-11)."""

import logging
import os
import random
import time
from datetime import datetime

from tests.crash.ledger import account
from tests.crash.site import RECORD_START, Controller, Site

SETTINGS = {
    "RESYNC_INTERVAL": "1s",
    "LIVE_GRACE": "2s",  # short, so that a restart finds missed occurrences and backlogs
    "MAX_CATCHUP_RUNS_PER_LOOP": "400",
    "EXECUTION_QPS": "1000",
    "EXECUTION_BURST": "1000",
    "MAX_RUNNING": "64",
}
TASK = f"{RECORD_START} sleep 0.8"
"""Task that runs long enough for some to be running whenever a controller dies."""


def test_ten_kills_on_postgresql_lose_and_double_nothing(postgresql_site: Site) -> None:
    """L-11, X-05: every second of 20 triggers has one run or one recorded skip, and no attempt starts twice."""
    _check_kills(postgresql_site, triggers=20, kills=10, seconds=30.0)


def test_four_kills_on_sqlite_lose_and_double_nothing(sqlite_site: Site) -> None:
    """L-11, X-05: the same on SQLite."""
    _check_kills(sqlite_site, triggers=5, kills=4, seconds=8.0)


def _check_kills(site: Site, *, triggers: int, kills: int, seconds: float) -> None:
    names = [f"tick-{number}" for number in range(triggers)]
    site.register(TASK)
    for name in names:
        site.deploy(name, schedule={"every": "1s"}, catchup={"policy": "all"})
    controller = _kill_repeatedly(site, kills, seconds)
    until = site.drain(*names)
    assert controller.stop() == 0
    for name in names:
        _check_occurrences(site, name, until)
    _check_attempts(site)
    assert [line for each in site.controllers for line in each.events("run.adopted")]
    assert [line for each in site.controllers for line in each.errors()] == []


def _kill_repeatedly(site: Site, kills: int, seconds: float) -> Controller:
    """Kill controllers at random moments, the last while it runs a task; return the controller that stays alive."""
    seed = int(os.environ.get("KILL_SEED") or random.randrange(2**32))
    logging.getLogger(__name__).warning("KILL_SEED=%d repeats these moments", seed)
    chance, began = random.Random(seed), time.monotonic()
    controller = site.up(**SETTINGS)
    for moment in sorted(chance.uniform(0, seconds) for _ in range(kills - 1)):
        assert controller.survives(max(0.01, began + moment - time.monotonic())), controller.log.read_text()
        controller.kill()
        controller = site.up(**SETTINGS)
    controller.wait_for("run.started")
    controller.kill()
    return site.up(**SETTINGS)


def _check_occurrences(site: Site, name: str, until: datetime) -> None:
    """Assert that each second has one run or skip, and that each one up to `until` became a run."""
    deployed, deactivated = site.history(name)
    runs = site.runs(name)
    seconds = account(runs, site.skips(name), deployed.at, deactivated.at)
    assert seconds.wrong == {}, name
    assert [skip for skip in site.skips(name) if skip.scheduled_at <= until] == []
    assert len({run.occurrence_id for run in runs}) == len(runs)
    assert site.status(name).run_count == len(runs)


def _check_attempts(site: Site) -> None:
    """Assert that no attempt was lost: tasks outlive their controller and are adopted (X-07)."""
    runs, attempts = site.runs(), site.started_attempts()
    assert {run.status for run in runs} == {"succeeded"}
    assert not [run for run in runs if run.claimed_by or run.lease_until]
    assert [attempt for attempt, times in attempts.items() if times > 1] == []
    assert set(attempts) == {(run.id, run.attempt) for run in runs}
    assert {run.attempt for run in runs} == {1}
