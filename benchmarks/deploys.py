"""Deploys per second, against the four statements that any deploy must send: lock, append, current row, summary.

The baseline sends them with psycopg and the same values. Both run on one connection and on eight, each connection with
a trigger and a task of its own, so that none waits for another's lock.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg

from benchmarks.ratio import Ratio
from benchmarks.server import bare_url, fresh_database
from benchmarks.subjects import task, trigger
from reconcile.decide.authority import Caller
from reconcile.decide.preconditions import Expected
from reconcile.observations.observation import Observations
from reconcile.triggers.deploy import deploy_trigger
from reconcile.triggers.tasks import register_task
from revisions.store.database import Database

SECONDS = 4.0
ROUNDS = 3
CONNECTIONS = (1, 8)


def measure() -> list[Ratio]:
    """Return, for each number of connections, the medians of three rounds; ours and the baseline alternate."""
    with fresh_database() as database:
        for number in range(max(CONNECTIONS)):
            register_task(database, Observations(), task(f"task{number}"), Caller("bench"))
            for name in ("subject", "bare"):
                deploy_trigger(
                    database,
                    Observations(),
                    trigger(name, task=f"task{number}"),
                    Expected(absent=True),
                    Caller("bench"),
                )
        ours = [_Subject(database, f"task{number}") for number in range(max(CONNECTIONS))]
        bare = [_Bare(database, f"task{number}") for number in range(max(CONNECTIONS))]
        return [_compare(ours[:number], bare[:number]) for number in CONNECTIONS]


def _compare(ours: list["_Subject"], bare: list["_Bare"]) -> Ratio:
    rounds = [
        (_rate([subject.deploy for subject in ours]), _rate([subject.deploy for subject in bare]))
        for _ in range(ROUNDS)
    ]
    middle = ROUNDS // 2
    name = f"deploys on {len(ours)} connection{'s' if len(ours) > 1 else ''}"
    return Ratio(name, sorted(r[0] for r in rounds)[middle], sorted(r[1] for r in rounds)[middle], goal=0.6)


def _rate(deploys: list[Callable[[], None]]) -> float:
    """Return calls per second of all functions together, each called in a thread of its own."""
    made = [0] * len(deploys)
    end = time.monotonic() + SECONDS

    def work(number: int) -> None:
        while time.monotonic() < end:
            deploys[number]()
            made[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(deploys))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(made) / SECONDS


class _Subject:
    """Trigger that is deployed from manifests parsed beforehand; every call appends a revision."""

    def __init__(self, database: Database, task_name: str) -> None:
        self._database = database
        self._observations = Observations()
        self._manifests = [trigger("subject", task=task_name, description=word) for word in ("even", "odd")]
        self._revision = 1

    def deploy(self) -> None:
        manifest = self._manifests[self._revision % 2]
        deploy_trigger(self._database, self._observations, manifest, Expected(revision=self._revision), Caller("bench"))
        self._revision += 1


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


class _Bare:
    """Trigger whose rows are written directly, without comparing, checking or hashing anything."""

    def __init__(self, database: Database, task_name: str) -> None:
        self._connection: psycopg.Connection[tuple[Any, ...]] = psycopg.connect(bare_url(database))
        self._key, self._task = ("acme", "production", task_name, "bare"), ("acme", "production", task_name, "v1")
        columns = "trigger_id, tags, resolved, scopes, spec, automation, hash, changed_at"
        row = self._connection.execute(f"SELECT {columns} FROM triggers WHERE {_KEY}", self._key).fetchone()
        self._connection.commit()
        assert row is not None
        self._row = row
        self._revision = 1

    def deploy(self) -> None:
        trigger_id, tags, resolved, scopes, spec, automation, digest, at = self._row
        self._revision += 1
        number, connection = self._revision, self._connection
        appended = (trigger_id, number, *self._key, "DEPLOY", "ann", "", at, True, tags, None, None, None)
        current = (number, True, False, tags, None, None, resolved, scopes, spec, automation, "v1", digest, at, "ann")
        connection.execute(_LOCK, self._key).fetchone()
        connection.execute(_APPEND, (*appended, resolved, scopes, spec, digest, digest))
        connection.execute(_CURRENT, (*current, None, trigger_id))
        connection.execute(_SUMMARY, (*self._task, *self._task))
        connection.commit()
