"""Burst of due triggers decided by one, two and three replicas, against jobs in APScheduler's own job store.

Both use the same server. Each replica is a process that is woken for all triggers, as in the product; the row locks of
the batches split the work between them.
"""

import multiprocessing
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from multiprocessing.synchronize import Barrier

from apscheduler.executors.debug import DebugExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import text

from benchmarks.crowd import gather, loop_over
from benchmarks.ratio import Ratio
from benchmarks.server import bare_url, fresh_database
from revisions.store.database import Database

TRIGGERS = 10_000
STORED_JOBS = 1_000
"""Jobs of APScheduler's store. Fewer than ours because they are slow; only rates are compared."""


def measure() -> list[Ratio]:
    """Return committed runs per second against APScheduler's stored jobs per second; the goal is ten times as many."""
    with fresh_database() as database:
        gather(database, TRIGGERS, overlap="allow")
        stored = _stored(database)
        return [
            Ratio(
                f"{TRIGGERS:,} due, replicas: {number}, against APScheduler's store",
                _rate(database, number),
                stored,
                10,
            )
            for number in (1, 2, 3)
        ]


def _rate(database: Database, replicas: int) -> float:
    """Return runs per second when all triggers are due at once and this many processes decide them."""
    url = database.url.render_as_string(hide_password=False)
    with database.write() as connection:
        connection.execute(text("TRUNCATE runs"))
        connection.execute(text("UPDATE trigger_status SET next_fire_at = now(), watermark = now() - interval '61 s'"))
        ids = list(connection.execute(text("SELECT trigger_id FROM trigger_status")).scalars())
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(replicas + 1)
    processes = [context.Process(target=_decide, args=(url, ids, barrier)) for _ in range(replicas)]
    for process in processes:
        process.start()
    barrier.wait()
    began = time.monotonic()
    for process in processes:
        process.join()
    seconds = time.monotonic() - began
    with database.read() as connection:
        decided: int = connection.execute(text("SELECT count(DISTINCT trigger_id) FROM runs")).scalar_one()
    assert decided == TRIGGERS, f"{decided} runs"
    return TRIGGERS / seconds


def _decide(url: str, ids: Sequence[str], barrier: Barrier) -> None:
    with Database(url) as database:
        loop = loop_over(database)
        loop.timers.start()
        loop.due([])
        barrier.wait()
        loop.due(ids)
        loop.timers.stop()


def _stored(database: Database) -> float:
    """Return jobs per second that APScheduler reads from its store, runs and writes back; the jobs do nothing."""
    store = SQLAlchemyJobStore(bare_url(database).replace("postgresql:", "postgresql+psycopg:"))
    defaults = {"misfire_grace_time": None, "coalesce": True}
    executors = {"default": DebugExecutor()}
    scheduler = BackgroundScheduler(
        jobstores={"default": store}, executors=executors, job_defaults=defaults, timezone=UTC
    )
    scheduler.start(paused=True)
    ran.clear()
    for number in range(STORED_JOBS):
        at = datetime.now(UTC)
        scheduler.add_job("benchmarks.replicas:note", "interval", minutes=10, id=f"{number}", next_run_time=at)
    began = time.monotonic()
    scheduler.resume()
    while len(ran) < STORED_JOBS:
        time.sleep(0.01)
    seconds = time.monotonic() - began
    scheduler.shutdown()
    return STORED_JOBS / seconds


ran: list[None] = []


def note() -> None:
    """Count a run of a stored job. The store keeps the function's name, so it must be importable."""
    ran.append(None)
