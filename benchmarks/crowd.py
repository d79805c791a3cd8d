"""Many active triggers, copied by SQL from one that was deployed: deploying each would take too long."""

from typing import Any

from sqlalchemy import text

from benchmarks.subjects import task, trigger
from reconcile.decide.admission import Pace
from reconcile.decide.authority import Caller
from reconcile.decide.preconditions import Expected
from reconcile.decide.retention import Retention
from reconcile.loop.loop import Loop
from reconcile.observations.observation import Observations
from reconcile.triggers.deploy import deploy_trigger
from reconcile.triggers.tasks import register_task
from revisions.store.database import Database

FIRST = "t0"

QUIET: dict[str, Any] = {"schedule": {"cron": "0 0 1 1 *"}, "overlap": "allow"}
"""Spec of a trigger that is not due while a benchmark runs."""


def gather(database: Database, number: int, **spec: Any) -> None:
    """Create `number` active triggers of one task, named from `t0` on. The hashes of the copies do not verify."""
    register_task(database, Observations(), task(), Caller("bench"))
    deploy_trigger(database, Observations(), trigger(FIRST, **spec), Expected(absent=True), Caller("bench"))
    with database.write() as connection:
        for statement in _COPIES:
            connection.execute(text(statement), {"first": FIRST, "last": number - 1})
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))


def loop_over(database: Database, pace: Pace | None = None) -> Loop:
    """Return a loop whose passes the benchmark calls itself; without `pace` it has no rate limit."""
    return Loop(database, Observations(), pace or Pace(execution_qps=0), Retention(), "bench")


_ID = "lpad('T' || n, 26, '0')"
_NUMBERS = "generate_series(1, CAST(:last AS int)) AS n"
_COPIES = (
    f"""INSERT INTO triggers SELECT {_ID}, project, domain, task, 't' || n, task_version, revision, active, deleted,
        tags, until, origin, resolved, scopes, spec, automation, hash, changed_at, changed_by, deactivated_reason
        FROM triggers, {_NUMBERS} WHERE name = :first""",
    f"""INSERT INTO trigger_status SELECT {_ID}, revision, watermark, next_fire_at, rate_waiting_since, last_fired_at,
        last_success_at, last_outcome, last_outcome_at, last_run_id, last_error, run_count, consecutive_failures,
        started_count, asked_fire_at, asked_by_run_id FROM trigger_status, {_NUMBERS}
        WHERE trigger_id = (SELECT trigger_id FROM triggers WHERE name = :first)""",
    f"""INSERT INTO trigger_revisions SELECT {_ID}, revision, project, domain, task, 't' || n, action, actor, reason,
        at, active, tags, until, origin, idempotency_key, resolved, scopes, spec, previous_hash, hash
        FROM trigger_revisions, {_NUMBERS} WHERE name = :first""",
    "UPDATE tasks SET total_triggers = 1 + :last, active_triggers = 1 + :last, trigger_name = NULL,"
    " trigger_automation = NULL WHERE :first = :first",
)
