"""Task versions: register, read, list, delete."""

import json

from fastapi import APIRouter, Response

from controller.api.answers import Answer, CursorQuery, FilterQuery, LimitQuery, ListOut, Object, pack, page, unpack
from controller.api.bodies import MANIFEST, RawBodyDep, manifest_at
from controller.api.parameters import CallerDep, ReachDep, ServicesDep, TaskPath, projects_to_list
from controller.auth.requirements import Projects, require
from reconcile.decide.authority import Role
from reconcile.triggers.tasks import delete_task, register_task
from revisions.errors import NotFound
from revisions.ids import TaskKey
from revisions.spec.task import TaskManifest
from revisions.store import tasks as store
from revisions.store.tasks import TaskRow

router = APIRouter(prefix="/tasks", tags=["tasks"])
ONE = "/{project}/{domain}/{name}/{version}"


class TaskOut(Answer):
    """One version of a task with a summary of its triggers."""

    project: str
    domain: str
    name: str
    version: str
    spec: Object
    trigger_name: str | None
    total_triggers: int
    active_triggers: int
    trigger_automation: Object | None


class RegisteredTaskOut(TaskOut):
    """A task version after a request; `changed` is false if it was registered with the same spec before.

    `warnings` name the active triggers that rely on something the new version leaves out (R-15).
    """

    changed: bool
    warnings: list[str]


@router.put(
    ONE,
    openapi_extra=MANIFEST,
    responses={201: {"description": "new", "model": RegisteredTaskOut}},
    dependencies=[require(Role.DEPLOYER, Projects.NAMED)],
)
def register(
    key: TaskPath, body: RawBodyDep, caller: CallerDep, services: ServicesDep, response: Response
) -> RegisteredTaskOut:
    """Register a version. The same spec again changes nothing, another spec is a conflict (R-23).

    `warnings` name the active triggers that rely on something this version leaves out (R-15).
    """
    manifest = TaskManifest.read(manifest_at(body.document(), "Task", key._asdict()))
    registered = register_task(services.database, services.observations, manifest, caller)
    if registered.changed:
        response.status_code = 201
    return RegisteredTaskOut(
        **dict(task_out(registered.task)), changed=registered.changed, warnings=list(registered.warnings)
    )


@router.get(ONE, dependencies=[require(Role.VIEWER, Projects.NAMED)])
def show(key: TaskPath, services: ServicesDep) -> TaskOut:
    """Return one version with a summary of its triggers (R-12)."""
    with services.database.read() as connection:
        row = store.get(connection, key)
        versions = store.versions(connection, key.project, key.domain, key.name)
    if row is None or row.deleted:
        known = f"; there are {', '.join(versions)}" if versions else ""
        raise NotFound.hinted("task", f"there is no task {key}{known}", "`triggerctl task list` shows what there is")
    return task_out(row)


@router.delete(ONE, dependencies=[require(Role.DEPLOYER, Projects.NAMED)])
def delete(key: TaskPath, caller: CallerDep, services: ServicesDep) -> TaskOut:
    """Delete a version and the triggers bound to it. Their history stays (R-14)."""
    return task_out(delete_task(services.database, services.observations, key, caller))


@router.get("", dependencies=[require(Role.VIEWER)])
def listing(
    services: ServicesDep,
    reach: ReachDep,
    project: FilterQuery = None,
    domain: FilterQuery = None,
    name: FilterQuery = None,
    limit: LimitQuery = 100,
    cursor: CursorQuery = None,
) -> ListOut[TaskOut]:
    """List the versions that are not deleted, by name."""
    start = unpack(cursor, 4)
    after, projects = TaskKey(*start) if start else None, projects_to_list(reach, project)
    with services.database.read() as connection:
        rows = store.page(connection, after, limit + 1, project=project, domain=domain, name=name, projects=projects)
    return page(ListOut[TaskOut], rows, limit, task_out, lambda row: pack(*row.key))


def task_out(row: TaskRow) -> TaskOut:
    """Return a task version as the API shows it."""
    return TaskOut(
        project=row.key.project,
        domain=row.key.domain,
        name=row.key.name,
        version=row.key.version,
        spec=json.loads(row.spec),
        trigger_name=row.trigger_name,
        total_triggers=row.total_triggers,
        active_triggers=row.active_triggers,
        trigger_automation=row.trigger_automation,
    )
