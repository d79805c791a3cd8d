"""Claiming and settling runs that do nothing, against the same updates with psycopg and against procrastinate."""

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
from reconcile.decide.attempt_ends import AttemptOutcome
from reconcile.decide.authority import Caller
from reconcile.decide.preconditions import Expected
from reconcile.observations.observation import Observations
from reconcile.runs.attempt import Ended
from reconcile.runs.claim import claim_runs
from reconcile.runs.endings import EndedAttempt
from reconcile.runs.settle import settle_all
from reconcile.triggers.deploy import deploy_trigger
from reconcile.triggers.tasks import register_task
from revisions.history.triggers import Trigger
from revisions.ids import fresh
from revisions.outcomes import RunSource
from revisions.spec.trigger import TriggerManifest
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
    """Return the medians of three rounds of 2,000 runs, claimed in batches of twenty.

    Ours settles each batch in one transaction, as a worker's pass does; the baseline settles each run in its own.
    """
    with fresh_database() as database:
        observations = Observations()
        register_task(database, observations, task(), Caller("bench"))
        deployed = [
            deploy_trigger(database, observations, manifest, Expected(absent=True), Caller("bench")).trigger
            for manifest in _triggers()
        ]
        unkeyed, keyed = deployed[:1], deployed[1:]
        with psycopg.connect(bare_url(database)) as connection:
            bare = _median(lambda: _bare(database, connection, unkeyed))
        free = _median(lambda: _ours(database, observations, unkeyed))
        hot = _median(lambda: _ours(database, observations, keyed))
        procrastinate = _median(lambda: asyncio.run(_procrastinate(bare_url(database))))
    return [
        Ratio("runs claimed and settled, no serialize_key", free, bare, goal=0.4),
        Ratio(f"runs claimed and settled, {HOT} shared keys", hot, bare, goal=0.4),
        Ratio("runs claimed and settled, against procrastinate", free, procrastinate, goal=1),
    ]


def _median(measured: Callable[[], float]) -> float:
    return sorted(measured() for _ in range(ROUNDS))[ROUNDS // 2]


def _triggers() -> Iterator[TriggerManifest]:
    """Yield a trigger without `serialize_key`, and one for each of the keys."""
    yield trigger("t", overlap="allow")
    for number in range(HOT):
        yield trigger(f"keyed-{number}", overlap="allow", serialize_key=f"key-{number}")


def _ours(database: Database, observations: Observations, triggers: Sequence[Trigger]) -> float:
    _fill(database, triggers)
    began, done = time.monotonic(), 0
    while done < RUNS:
        batch = claim_runs(
            database, observations, claimed_by="ours", lease=timedelta(seconds=60), limit=AT_ONCE, max_running=AT_ONCE
        )
        ended = Ended(AttemptOutcome.SUCCEEDED, output={})
        settle_all(
            database, observations, [EndedAttempt(claim.run, ended, trigger=claim.trigger) for claim in batch.claimed]
        )
        done += len(batch.claimed)
    return RUNS / (time.monotonic() - began)


def _bare(database: Database, connection: psycopg.Connection[Any], triggers: Sequence[Trigger]) -> float:
    _fill(database, triggers)
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


def _fill(database: Database, triggers: Sequence[Trigger]) -> None:
    """Create the pending runs, of each trigger in turn."""
    with database.write() as connection:
        now = database.clock.now(connection)
        runs.create(connection, [_new(triggers[number % len(triggers)], now) for number in range(RUNS)])
    with psycopg.connect(bare_url(database), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE runs")


def _new(trigger: Trigger, now: Any) -> NewRun:
    return NewRun(
        id=fresh(now),
        trigger_id=trigger.trigger_id,
        occurrence_id=f"bench/{next(_UNIQUE)}",
        revision=1,
        project=trigger.key.project,
        domain=trigger.key.domain,
        task=trigger.key.task,
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
    """Return jobs per second of procrastinate's worker on the same server, with the same concurrency."""
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
