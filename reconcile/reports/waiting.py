"""Reads what keeps a run from its start, and has the rules put it into words (U-03, X-04, S-13)."""

from datetime import datetime

from reconcile.rules.waits import Ahead, Pending, waits_for
from revisions.places import Bounds, bounds_of
from revisions.spec.stored import readable_trigger
from revisions.store import holds, queue, status, triggers
from revisions.store.database import Connection
from revisions.store.runs import Run


def told(connection: Connection, run: Run, now: datetime) -> str:
    """What it waits for, empty where only nobody has claimed it yet, and for a run that has begun or ended."""
    if run.status == "parked":
        return "an approval"
    if run.status != "pending":
        return ""
    running = queue.running(connection)
    task = (run.project, run.domain, run.task)
    row = status.get(connection, run.trigger_id)
    trigger = triggers.by_id(connection, run.trigger_id)
    key, limit = bounds_of(readable_trigger(trigger.spec)) if trigger else Bounds(None, None)
    held_until = row.over_budget_until if row else None
    frozen = [one for one in holds.frozen(connection, now) if one.project in (None, run.project)]
    ahead = Ahead(
        key_holder=queue.holder(connection, run.project, key) if key is not None else None,
        before=queue.before(connection, run),
        of_trigger=sum(one.trigger_id == run.trigger_id for one in running),
        of_task=sum((one.project, one.domain, one.task) == task for one in running),
        over_budget_until=held_until if held_until and held_until > now else None,
        frozen_by=frozen[0].owner if frozen else None,
    )
    pending = Pending(run.available_at, run.overlap, key, limit, run.task_limit)
    return waits_for(pending, ahead, now)
