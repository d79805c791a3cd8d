"""Deploys of one trigger per second, against the four statements any such deploy must send, by bare psycopg."""

import time

import psycopg

from benchmarks.ratio import Ratio
from benchmarks.server import bare_url, fresh_database
from benchmarks.subjects import task, trigger
from reconcile.deploying import Caller, Deploying
from reconcile.observe import Observations
from reconcile.registering import Registering
from reconcile.rules.preconditions import Expected

SECONDS = 4.0
ROUNDS = 3


def measure() -> list[Ratio]:
    """The median of three rounds, ours and bare in turn."""
    with fresh_database() as database:
        deploying = Deploying(database, Observations())
        Registering(database, deploying, Observations()).register(task(), Caller())
        deploying.deploy(trigger("subject"), Expected(absent=True), Caller())
        deploying.deploy(trigger("bare"), Expected(absent=True), Caller())
        ours, bare = [], []
        revision = 1
        with psycopg.connect(bare_url(database)) as connection:
            number = 1
            for _ in range(ROUNDS):
                made = _ours(deploying, revision)
                ours.append(made / SECONDS)
                revision += made
                done = _bare(connection, number)
                bare.append(done / SECONDS)
                number += done
    middle = ROUNDS // 2
    return [Ratio("deploys, one connection", sorted(ours)[middle], sorted(bare)[middle], goal=0.3)]


def _ours(deploying: Deploying, revision: int) -> int:
    made, end = 0, time.monotonic() + SECONDS
    while time.monotonic() < end:
        manifest = trigger("subject", description=f"deploy {revision + made}")
        deploying.deploy(manifest, Expected(revision=revision + made), Caller())
        made += 1
    return made


_LOCK = "SELECT * FROM triggers WHERE name = 'bare' FOR NO KEY UPDATE"
_APPEND = """INSERT INTO trigger_revisions
    SELECT trigger_id, %s, project, domain, task, name, 'DEPLOY', 'ann', '', clock_timestamp(), active, tags, until,
    origin, NULL, resolved, scopes, spec, hash, hash FROM triggers WHERE name = 'bare'"""
_CURRENT = "UPDATE triggers SET revision = %s, changed_at = clock_timestamp() WHERE name = 'bare'"
_SUMMARY = """UPDATE tasks SET total_triggers = (SELECT count(*) FROM triggers WHERE NOT deleted),
    active_triggers = (SELECT count(*) FROM triggers WHERE active)"""


def _bare(connection: psycopg.Connection[tuple[object, ...]], number: int) -> int:
    done, end = 0, time.monotonic() + SECONDS
    while time.monotonic() < end:
        connection.execute(_LOCK)
        connection.execute(_APPEND, (number + done + 1,))
        connection.execute(_CURRENT, (number + done + 1,))
        connection.execute(_SUMMARY)
        connection.commit()
        done += 1
    return done
