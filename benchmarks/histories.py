"""Long histories, copied by SQL from one revision: appending each would take too long."""

from sqlalchemy import text

from benchmarks.subjects import task
from reconcile.decide.authority import Caller
from reconcile.decide.preconditions import Expected
from reconcile.observations.observation import Observations
from reconcile.triggers.deploy import deploy_trigger
from reconcile.triggers.tasks import register_task
from revisions.spec.trigger import TriggerManifest
from revisions.store.database import Database

AT_ONCE = 100_000


def begin(database: Database, *triggers: TriggerManifest) -> None:
    """Register the task and deploy the first revision of each trigger."""
    register_task(database, Observations(), task(), Caller("bench"))
    for trigger in triggers:
        deploy_trigger(database, Observations(), trigger, Expected(absent=True), Caller("ann", "first"))


def prolong(database: Database, name: str, revisions: int) -> None:
    """Copy a trigger's first revision until it has as many as asked for. The hashes of the copies do not verify."""
    with database.read() as connection:
        newest = connection.execute(
            text("SELECT revision FROM triggers WHERE name = :name"), {"name": name}
        ).scalar_one()
    for first in range(newest + 1, revisions + 1, AT_ONCE):
        last = min(first + AT_ONCE - 1, revisions)
        with database.write() as connection:
            connection.execute(text(_COPY), {"name": name, "first": first, "last": last})
            connection.execute(text(_FOLLOW), {"name": name, "last": last})


_COPY = """INSERT INTO trigger_revisions
    SELECT trigger_id, n, project, domain, task, name, action, actor, reason, at, active, tags, until, origin,
    idempotency_key, resolved, scopes, spec, previous_hash, hash
    FROM trigger_revisions, generate_series(CAST(:first AS int), CAST(:last AS int)) AS n
    WHERE name = :name AND revision = 1"""
_FOLLOW = "UPDATE triggers SET revision = :last WHERE name = :name"
