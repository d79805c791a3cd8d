"""Runs that do nothing, from pending to settled: against the bare claim and update by psycopg, and procrastinate."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import count
from typing import Any

import psycopg
from procrastinate import App, PsycopgConnector

from benchmarks.ratio import Ratio
from benchmarks.server import bare_url, fresh_database
from benchmarks.subjects import task, trigger
from reconcile.decide.preconditions import Expected
from reconcile.decide.retry import AttemptOutcome
from reconcile.observations.observation import Observations
from reconcile.runs import claiming
from reconcile.runs.attempt import Ended
from reconcile.runs.endings import Ending
from reconcile.runs.settle import settle_all
from reconcile.triggers.deploying import Deploying
from reconcile.triggers.revising import Caller
from reconcile.triggers.tasks import Registering
from revisions.history.triggers import Trigger
from revisions.ids import fresh
from revisions.manifests import Trigger as Manifest
from revisions.outcomes import RunSource
from revisions.store import runs
from revisions.store.database import Database
from revisions.store.runs import NewRun

RUNS = 2_000
AT_ONCE = 20
ROUNDS = 3
HOT = 5

_CLAIM = """
UPDATE runs SET status = 'running', attempt = attempt + 1, claim = claim + 1, claimed_by = 'bare', started_at = %(now)s,
       lease_until = %(now)s + interval '60 s'
WHERE id IN (SELECT id FROM runs WHERE status = 'pending' ORDER BY available_at, id FOR UPDATE SKIP LOCKED LIMIT %(n)s)
RETURNING id
"""
_SETTLE = """
UPDATE runs SET status = 'succeeded', finished_at = %s, claimed_by = NULL, lease_until = NULL, output = '{}'
WHERE id = %s
"""
_UNIQUE = count()


def measure() -> list[Ratio]:
    """Medians of three rounds of 2,000 runs, twenty claimed at once.

    Ours settles together what ended together, as a worker's pass does; the bare one updates each run in a transaction
    of its own.
    """
    with fresh_database() as database:
        observations = Observations()
        deploying = Deploying(database, observations)
        Registering(database, deploying, observations).register(task(), Caller("bench"))
        deployed = [deploying.deploy(one, Expected(absent=True), Caller("bench")).trigger for one in _triggers()]
        of, keyed = deployed[:1], deployed[1:]
        with psycopg.connect(bare_url(database)) as connection:
            bare = _median(lambda: _bare(database, connection, of))
        free = _median(lambda: _ours(database, observations, of))
        hot = _median(lambda: _ours(database, observations, keyed))
        theirs = _median(lambda: asyncio.run(_procrastinate(bare_url(database))))
    return [
        Ratio("claim to settle, no keys", free, bare, goal=0.4),
        Ratio(f"claim to settle, {HOT} hot keys", hot, bare, goal=0.4),
        Ratio("claim to settle against procrastinate's worker", free, theirs, goal=1),
    ]


def _median(measured: Callable[[], float]) -> float:
    return sorted(measured() for _ in range(ROUNDS))[ROUNDS // 2]


def _triggers() -> Iterator[Manifest]:
    """One whose runs hold no key, and one for each hot key."""
    yield trigger("t", overlap="allow")
    for number in range(HOT):
        yield trigger(f"keyed-{number}", overlap="allow", serialize_key=f"key-{number}")


def _ours(database: Database, observations: Observations, of: Sequence[Trigger]) -> float:
    _fill(database, of)
    began, done = time.monotonic(), 0
    while done < RUNS:
        taken = claiming.take(
            database, observations, claimed_by="ours", lease=timedelta(seconds=60), limit=AT_ONCE, max_running=AT_ONCE
        )
        ended = Ended(AttemptOutcome.SUCCEEDED, output={})
        settle_all(database, observations, [Ending(one.run, ended, trigger=one.trigger) for one in taken.claimed])
        done += len(taken.claimed)
    return RUNS / (time.monotonic() - began)


def _bare(database: Database, connection: psycopg.Connection[Any], of: Sequence[Trigger]) -> float:
    _fill(database, of)
    began, done = time.monotonic(), 0
    while done < RUNS:
        now = connection.execute("SELECT clock_timestamp()").fetchall()[0][0]
        ids = connection.execute(_CLAIM, {"now": now, "n": AT_ONCE}).fetchall()
        connection.commit()
        for (run_id,) in ids:
            connection.execute(_SETTLE, (now, run_id))
            connection.commit()
        done += len(ids)
    return RUNS / (time.monotonic() - began)


def _fill(database: Database, of: Sequence[Trigger]) -> None:
    """The triggers' runs take turns."""
    with database.write() as connection:
        now = database.clock.now(connection)
        runs.create(connection, [_new(of[number % len(of)], now) for number in range(RUNS)])
    with psycopg.connect(bare_url(database), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE runs")


def _new(of: Trigger, now: Any) -> NewRun:
    return NewRun(
        id=fresh(now),
        trigger_id=of.trigger_id,
        occurrence_id=f"bench/{next(_UNIQUE)}",
        revision=1,
        project=of.key.project,
        domain=of.key.domain,
        task=of.key.task,
        task_version="v1",
        source=RunSource.SCHEDULE,
        overlap="allow",
        max_attempts=3,
        actor="system",
        scheduled_at=now,
        created_at=now,
        input="{}",
    )


async def _procrastinate(url: str) -> float:
    """Its own worker over its own tables on the same server, as many tasks at once."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS theirs CASCADE")
        connection.execute("CREATE SCHEMA theirs")
    app = App(connector=PsycopgConnector(conninfo=url, kwargs={"options": "-c search_path=theirs"}))

    @app.task
    async def nothing() -> None:
        pass

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await nothing.batch_defer_async(*({} for _ in range(RUNS)))
        began = time.monotonic()
        await app.run_worker_async(wait=False, concurrency=AT_ONCE, install_signal_handlers=False)
        return RUNS / (time.monotonic() - began)
