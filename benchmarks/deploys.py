"""Deploys of one trigger per second, against the four statements any such deploy must send (lock, append, current row,
summary), with the same values, by bare psycopg."""

import time

import psycopg

from benchmarks.ratio import Ratio
from benchmarks.server import bare_url, fresh_database
from benchmarks.subjects import task, trigger
from reconcile.deploying import Deploying
from reconcile.observe import Observations
from reconcile.registering import Registering
from reconcile.revising import Caller
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


_KEY = "project = %s AND domain = %s AND task = %s AND name = %s"
_LOCK = f"SELECT * FROM triggers WHERE {_KEY} FOR NO KEY UPDATE"
_APPEND = f"INSERT INTO trigger_revisions VALUES ({', '.join(['%s'] * 20)})"
_CURRENT = """UPDATE triggers SET revision = %s, active = %s, deleted = %s, tags = %s, until = %s, origin = %s,
    resolved = %s, scopes = %s, spec = %s, automation = %s, task_version = %s, hash = %s, changed_at = %s,
    changed_by = %s, deactivated_reason = %s WHERE trigger_id = %s"""
_ATTACHED = "FROM triggers WHERE project = %s AND domain = %s AND task = %s AND task_version = %s AND NOT deleted"
_SUMMARY = f"""UPDATE tasks SET (total_triggers, active_triggers, trigger_name, trigger_automation) =
    (SELECT count(*), count(*) FILTER (WHERE active), CASE WHEN count(*) = 1 THEN min(name) END,
    CASE WHEN count(*) = 1 THEN min(automation) END {_ATTACHED})
    WHERE project = %s AND domain = %s AND name = %s AND version = %s"""


def _bare(connection: psycopg.Connection[tuple[object, ...]], number: int) -> int:
    """Lock, append, current row, summary, commit: the same values as ours, without deciding or hashing anything."""
    key, task_key = ("acme", "production", "report", "bare"), ("acme", "production", "report", "v1")
    row = connection.execute(
        "SELECT trigger_id, tags, resolved, scopes, spec, automation, hash, changed_at "
        "FROM triggers WHERE name = 'bare'"
    ).fetchone()
    assert row is not None
    trigger_id, tags, resolved, scopes, spec, automation, digest, at = row
    connection.commit()
    done, end = 0, time.monotonic() + SECONDS
    while time.monotonic() < end:
        n = number + done + 1
        connection.execute(_LOCK, key).fetchone()
        appended = (trigger_id, n, *key, "DEPLOY", "ann", "", at, True, tags, None, None, None, resolved, scopes, spec)
        connection.execute(_APPEND, (*appended, digest, digest))
        current = (n, True, False, tags, None, None, resolved, scopes, spec, automation, "v1", digest, at, "ann", None)
        connection.execute(_CURRENT, (*current, trigger_id))
        connection.execute(_SUMMARY, (*task_key, *task_key))
        connection.commit()
        done += 1
    return done
