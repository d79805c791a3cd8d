"""Facts that deciding a trigger needs besides its status, read in one statement per batch."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, and_, case, literal, select

from revisions.store.columns import in_list
from revisions.store.run_tables import runs
from revisions.store.runs import LIVE, in_status
from revisions.store.tables import tasks, triggers


@dataclass(frozen=True, slots=True)
class TriggerFacts:
    """Facts for deciding one trigger.

    `live_runs` is the number of its live runs, 2 for any larger number; `task_spec` is None when its task version does
    not exist.
    """

    trigger_id: str
    project: str
    domain: str
    task: str
    name: str
    task_version: str
    revision: int
    active: bool
    tags: str
    spec: str
    resolved: str
    scopes: str
    live_runs: int
    task_spec: str | None


def read(connection: Connection, ids: Sequence[str]) -> dict[str, TriggerFacts]:
    """Return facts of triggers whose status is locked; a later statement sees what the lock waited for."""
    live = select(literal(1)).where(runs.c.trigger_id == triggers.c.trigger_id, in_status(*LIVE)).correlate(triggers)
    first, second = live.exists(), live.limit(1).offset(1).exists()
    statement = select(
        triggers.c.trigger_id,
        triggers.c.project,
        triggers.c.domain,
        triggers.c.task,
        triggers.c.name,
        triggers.c.task_version,
        triggers.c.revision,
        triggers.c.active,
        triggers.c.tags,
        triggers.c.spec,
        triggers.c.resolved,
        triggers.c.scopes,
        case((~first, 0), (~second, 1), else_=2),
        tasks.c.spec,
    )
    statement = statement.outerjoin_from(
        triggers,
        tasks,
        and_(
            tasks.c.project == triggers.c.project,
            tasks.c.domain == triggers.c.domain,
            tasks.c.name == triggers.c.task,
            tasks.c.version == triggers.c.task_version,
        ),
    ).where(in_list(connection, triggers.c.trigger_id, ids))
    return {row[0]: TriggerFacts(*tuple(row)) for row in connection.execute(statement)}
