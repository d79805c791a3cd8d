"""Burst of occurrences that are due at one instant, against inserting the same rows of runs with psycopg."""

import time
from datetime import timedelta

import psycopg
from sqlalchemy import text

from benchmarks.ratio import Ratio
from benchmarks.server import bare_url, fresh_database
from benchmarks.subjects import task, trigger
from reconcile.decide.admission import Pace
from reconcile.decide.authority import Caller
from reconcile.decide.preconditions import Expected
from reconcile.decide.retention import Retention
from reconcile.loop.loop import Loop
from reconcile.observations.observation import Observations
from reconcile.triggers.deploy import deploy_trigger
from reconcile.triggers.tasks import register_task
from revisions.clock import HandClock
from revisions.store.database import Database

TRIGGERS = 10_000
BATCH = 500
ROUNDS = 3


def measure() -> list[Ratio]:
    """Return the median rate of three bursts of 10,000 runs, each followed by its baseline.

    Triggers have no rate limit and allow overlap.
    """
    with fresh_database() as database:
        with database.read() as connection:
            clock = HandClock(database.clock.now(connection))
        database.clock = clock
        observations = Observations()
        register_task(database, observations, task(), Caller("bench"))
        for number in range(TRIGGERS):
            deploy_trigger(
                database, observations, trigger(f"t{number}", overlap="allow"), Expected(absent=True), Caller("bench")
            )
        loop = Loop(database, observations, Pace(execution_qps=0), Retention(), "bench")
        loop.timers.start()  # the cost of setting alarms is part of the measurement
        loop.resync()
        with psycopg.connect(bare_url(database)) as connection:
            connection.execute("CREATE TABLE bare_runs (LIKE runs INCLUDING ALL)")
            connection.commit()
            ours, bare = [], []
            for _ in range(ROUNDS):
                clock.advance(timedelta(minutes=1))
                ours.append(_ours(database, loop))
                bare.append(_bare(connection))
        loop.timers.stop()
    middle = ROUNDS // 2
    return [Ratio("burst of 10,000 due, to committed runs", sorted(ours)[middle], sorted(bare)[middle], goal=0.35)]


def _ours(database: Database, loop: Loop) -> float:
    with database.read() as connection:
        ids = list(connection.execute(text("SELECT trigger_id FROM trigger_status")).scalars())
    began = time.monotonic()
    started = loop.due(ids)
    seconds = time.monotonic() - began
    assert started == TRIGGERS, f"{started} runs instead of {TRIGGERS}"
    return started / seconds


def _bare(connection: psycopg.Connection[tuple[object, ...]]) -> float:
    """Insert the rows of the newest burst into another table with the same columns and indexes."""
    cursor = connection.execute("SELECT * FROM runs ORDER BY id DESC LIMIT %s", (TRIGGERS,))
    rows = cursor.fetchall()
    connection.execute("TRUNCATE bare_runs")
    connection.commit()
    places = ", ".join(["%s"] * len(rows[0]))
    began = time.monotonic()
    with connection.cursor() as inserting:
        for start in range(0, TRIGGERS, BATCH):
            inserting.executemany(f"INSERT INTO bare_runs VALUES ({places})", rows[start : start + BATCH])
            connection.commit()
    return TRIGGERS / (time.monotonic() - began)
