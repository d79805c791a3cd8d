"""Task versions: register, read, list, delete."""

from fastapi import APIRouter, Response

from controller.api.bodies import MANIFEST, Sent, manifest_at
from controller.api.context import Asking, Here, NamedTask, Within, listed
from controller.api.paging import Cursor, Filter, Limit, pack, page, unpack
from controller.shapes.common import Page
from controller.shapes.tasks import RegisteredTaskShape, TaskShape, task_shape
from reconcile.triggers.tasks import delete_task, register_task
from revisions.errors import NotFound
from revisions.ids import TaskKey
from revisions.spec.task import TaskManifest
from revisions.store import tasks as store

router = APIRouter(prefix="/tasks", tags=["tasks"])
ONE = "/{project}/{domain}/{name}/{version}"


@router.put(ONE, openapi_extra=MANIFEST, responses={201: {"description": "new", "model": RegisteredTaskShape}})
def register(key: NamedTask, body: Sent, caller: Asking, here: Here, response: Response) -> RegisteredTaskShape:
    """Registers a version; the same spec again changes nothing, another is a conflict (R-23).

    `warnings` name the active triggers that rely on what this version leaves out (R-15).
    """
    manifest = TaskManifest.read(manifest_at(body.document(), "Task", key._asdict()))
    registered = register_task(here.database, here.observations, manifest, caller)
    if registered.changed:
        response.status_code = 201
    return {**task_shape(registered.task), "changed": registered.changed, "warnings": list(registered.warnings)}


@router.get(ONE)
def show(key: NamedTask, here: Here) -> TaskShape:
    """One version with the summary of its triggers (R-12)."""
    with here.database.read() as connection:
        row = store.get(connection, key)
        there = store.versions(connection, key.project, key.domain, key.name)
    if row is None or row.deleted:
        known = f"; there are {', '.join(there)}" if there else ""
        raise NotFound.hinted("task", f"there is no task {key}{known}", "`triggerctl task list` shows what there is")
    return task_shape(row)


@router.delete(ONE)
def delete(key: NamedTask, caller: Asking, here: Here) -> TaskShape:
    """Deletes a version softly, with the triggers bound to it (R-14)."""
    deleted = delete_task(here.database, here.observations, key, caller)
    return task_shape(deleted)


@router.get("")
def listing(
    here: Here,
    within: Within,
    project: Filter = None,
    domain: Filter = None,
    name: Filter = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[TaskShape]:
    """The versions that are not deleted, by name."""
    start = unpack(cursor, 4)
    after, projects = TaskKey(*start) if start else None, listed(within, project)
    with here.database.read() as connection:
        found = store.page(connection, after, limit + 1, project=project, domain=domain, name=name, projects=projects)
    return page(found, limit, task_shape, lambda row: pack(*row.key))
