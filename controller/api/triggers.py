"""Triggers: deploy, read, list. Other changes are in `trigger_changes`, runs started by hand in `fires`."""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Response

from controller.api.answers import (
    Answer,
    CursorQuery,
    FilterQuery,
    LimitQuery,
    ListOut,
    Object,
    Time,
    pack,
    page,
    time_text,
    unpack,
)
from controller.api.bodies import MANIFEST, RawBodyDep, manifest_at
from controller.api.holds import HeldOut, held_out
from controller.api.parameters import (
    CallerDep,
    OriginQuery,
    Precondition,
    ReachDep,
    ServicesDep,
    TriggerPath,
    etag,
    optional_moment,
    projects_to_list,
    with_reason,
)
from controller.auth.requirements import Projects, require
from controller.services import Services
from reconcile.decide.authority import Role
from reconcile.triggers.append import Changed
from reconcile.triggers.deploy import deploy_trigger
from revisions.errors import NotFound
from revisions.history.triggers import Trigger
from revisions.ids import TriggerKey, utc_text
from revisions.spec.trigger import TriggerManifest
from revisions.store import holds as hold_store
from revisions.store import quarantines
from revisions.store import revisions as revision_store
from revisions.store import status as status_store
from revisions.store import triggers as store
from revisions.store.database import Connection
from revisions.store.holds import Hold
from revisions.store.quarantines import Quarantine
from revisions.store.status import StatusRow

router = APIRouter(prefix="/triggers", tags=["triggers"])
ONE = "/{project}/{domain}/{task}/{name}"

AsOfQuery = Annotated[str | None, Query(description="the trigger as it was at this instant, without runtime facts")]


class QuarantinedOut(Answer):
    """Quarantine of a trigger that could not be decided: since when, when it is tried again, and the last error."""

    since: Time
    until: Time
    attempts: int
    error: str


class StatusOut(Answer):
    """Runtime facts of a trigger. Of a trigger at a past instant they are unknown and null (R-09).

    `stopped_for`: reason for which the system deactivated it, null if a person did. `held` and `quarantined`: what
    keeps it from starting now.
    """

    next_fire_at: Time | None = None
    last_fired_at: Time | None = None
    last_success_at: Time | None = None
    last_outcome: str | None = None
    last_outcome_at: Time | None = None
    last_run_id: str | None = None
    last_error: str | None = None
    run_count: int | None = None
    consecutive_failures: int | None = None
    deactivated_reason: str | None
    stopped_for: str | None
    paused_until: Time | None
    held: HeldOut | None
    quarantined: QuarantinedOut | None


class TriggerOut(Answer):
    """A trigger in its current revision, or in that of a past instant."""

    project: str
    domain: str
    task: str
    name: str
    revision: int
    active: bool
    deleted: bool
    tags: list[str]
    spec: Object
    hash: str
    changed_at: Time
    changed_by: str
    status: StatusOut


class ChangedTriggerOut(TriggerOut):
    """A trigger after a request; `changed` is false if it already was so and no revision was added.

    `warnings` are for whoever deployed or activated it (E-15, X-08).
    """

    changed: bool
    warnings: list[str]


@router.put(
    ONE,
    openapi_extra=MANIFEST,
    responses={201: {"description": "created", "model": ChangedTriggerOut}},
    dependencies=[require(Role.DEPLOYER, Projects.NAMED)],
)
def deploy(
    key: TriggerPath,
    body: RawBodyDep,
    expected: Precondition,
    caller: CallerDep,
    services: ServicesDep,
    response: Response,
    origin: OriginQuery,
    reason: FilterQuery = None,
) -> ChangedTriggerOut:
    """Create (`If-None-Match: *`) or update (`If-Match: "N"`) a trigger from its manifest (R-04 to R-06)."""
    manifest = TriggerManifest.read(manifest_at(body.document(), "Trigger", key._asdict()))
    made = deploy_trigger(
        services.database, services.observations, manifest, expected, with_reason(caller, reason), origin=origin
    )
    if made.created:
        response.status_code = 201
    return changed_trigger(services, made, response)


@router.get(ONE, dependencies=[require(Role.VIEWER, Projects.NAMED)])
def show(key: TriggerPath, services: ServicesDep, response: Response, as_of: AsOfQuery = None) -> TriggerOut:
    """Return a trigger, also a deleted one, as it is or as it was at an instant (R-09)."""
    at = optional_moment(as_of, "as_of")
    trigger = read_trigger(services, key) if at is None else read_trigger_as_of(services, key, at)
    response.headers["ETag"] = etag(trigger.revision)
    return trigger


@router.get("", dependencies=[require(Role.VIEWER)])
def listing(
    services: ServicesDep,
    reach: ReachDep,
    project: FilterQuery = None,
    domain: FilterQuery = None,
    task: FilterQuery = None,
    tag: FilterQuery = None,
    active: Annotated[bool | None, Query()] = None,
    origin: FilterQuery = None,
    limit: LimitQuery = 100,
    cursor: CursorQuery = None,
) -> ListOut[TriggerOut]:
    """List the triggers that are not deleted, by name."""
    filters = TriggerFilter(project, domain, task, tag, active, origin)
    return list_triggers(services, filters, projects_to_list(reach, project), limit, cursor)


@dataclass(frozen=True, slots=True)
class TriggerFilter:
    """Filter of a list of triggers; None matches everything."""

    project: str | None = None
    domain: str | None = None
    task: str | None = None
    tag: str | None = None
    active: bool | None = None
    origin: str | None = None


def list_triggers(
    services: Services, filters: TriggerFilter, projects: Collection[str] | None, limit: int, cursor: str | None
) -> ListOut[TriggerOut]:
    """Return a page of the triggers that are not deleted, by name. Raises Invalid for a bad cursor."""
    start = unpack(cursor, 4)
    with services.database.read() as connection:
        rows = store.page(
            connection,
            TriggerKey(*start) if start else None,
            limit + 1,
            project=filters.project,
            domain=filters.domain,
            task=filters.task,
            tag=filters.tag,
            active=filters.active,
            origin=filters.origin,
            projects=projects,
        )
        obstacles = _obstacles(connection, services, (trigger for trigger, _ in rows))
    return page(
        ListOut[TriggerOut],
        rows,
        limit,
        lambda row: trigger_out(row[0], status_out(*row, obstacles[row[0].trigger_id])),
        lambda row: pack(*row[0].key),
    )


def read_trigger(services: Services, key: TriggerKey) -> TriggerOut:
    """Return a trigger in its current revision. Raises NotFound."""
    with services.database.read() as connection:
        trigger = existing(connection, key)
        row = status_store.get(connection, trigger.trigger_id)
        obstacles = _obstacles(connection, services, [trigger])
    return trigger_out(trigger, status_out(trigger, row, obstacles[trigger.trigger_id]))


def read_trigger_as_of(services: Services, key: TriggerKey, at: datetime) -> TriggerOut:
    """Return a trigger in the revision of an instant. Raises NotFound."""
    with services.database.read() as connection:
        current = existing(connection, key)
        past = revision_store.as_of(connection, current.trigger_id, at)
    if past is None:
        hint = f"`triggerctl history {key}` shows since when it is there"
        raise NotFound.hinted("as_of", f"there was no trigger {key} at {utc_text(at)}", hint)
    return trigger_out(past, status_out(past, None, StartObstacles()))


def existing(connection: Connection, key: TriggerKey) -> Trigger:
    """Return a trigger, also a deleted one. Raises NotFound for a name that was never used."""
    trigger = store.get(connection, key)
    if trigger is None:
        raise NotFound.trigger(key)
    return trigger


def changed_trigger(services: Services, made: Changed, response: Response) -> ChangedTriggerOut:
    """Answer a change with the trigger after it. Raises NotFound if the trigger has been removed since."""
    trigger = made.trigger
    with services.database.read() as connection:
        row = status_store.get(connection, trigger.trigger_id)
        obstacles = _obstacles(connection, services, [trigger])
    if row is None:
        raise NotFound.trigger(trigger.key)
    response.headers["ETag"] = etag(trigger.revision)
    shown = trigger_out(trigger, status_out(trigger, row, obstacles[trigger.trigger_id]))
    return ChangedTriggerOut(**dict(shown), changed=made.changed, warnings=list(made.warnings))


@dataclass(frozen=True, slots=True)
class StartObstacles:
    """Hold (S-13) and quarantine (L-13) that keep a trigger from starting now."""

    hold: Hold | None = None
    quarantine: Quarantine | None = None


def _obstacles(connection: Connection, services: Services, shown: Iterable[Trigger]) -> dict[str, StartObstacles]:
    """Return what keeps each trigger from starting now, by trigger id."""
    triggers = list(shown)
    now = services.database.clock.now(connection)
    current_holds = hold_store.not_ended(connection, now)
    quarantined = quarantines.get(connection, [trigger.trigger_id for trigger in triggers if trigger.active])
    return {
        trigger.trigger_id: StartObstacles(
            hold_store.hold_of(current_holds, trigger, now), quarantined.get(trigger.trigger_id)
        )
        for trigger in triggers
    }


def trigger_out(trigger: Trigger, status: StatusOut) -> TriggerOut:
    """Return a trigger as the API shows it."""
    return TriggerOut(
        project=trigger.key.project,
        domain=trigger.key.domain,
        task=trigger.key.task,
        name=trigger.key.name,
        revision=trigger.revision,
        active=trigger.active,
        deleted=trigger.deleted,
        tags=list(trigger.tags),
        spec=json.loads(trigger.spec),
        hash=trigger.hash,
        changed_at=utc_text(trigger.changed_at),
        changed_by=trigger.changed_by,
        status=status,
    )


def status_out(trigger: Trigger, row: StatusRow | None, obstacles: StartObstacles) -> StatusOut:
    """Return a trigger's status as the API shows it; `row` is None for a past instant."""
    return StatusOut(
        next_fire_at=time_text(row.next_fire_at) if row else None,
        last_fired_at=time_text(row.last_fired_at) if row else None,
        last_success_at=time_text(row.last_success_at) if row else None,
        last_outcome=row.last_outcome if row else None,
        last_outcome_at=time_text(row.last_outcome_at) if row else None,
        last_run_id=row.last_run_id if row else None,
        last_error=row.last_error if row else None,
        run_count=row.run_count if row else None,
        consecutive_failures=row.consecutive_failures if row else None,
        deactivated_reason=trigger.deactivated_reason,
        stopped_for=trigger.stopped_for,
        paused_until=time_text(trigger.until),
        held=held_out(obstacles.hold) if obstacles.hold else None,
        quarantined=_quarantined(obstacles.quarantine) if obstacles.quarantine else None,
    )


def _quarantined(row: Quarantine) -> QuarantinedOut:
    since, until = utc_text(row.since), utc_text(row.until_at)
    return QuarantinedOut(since=since, until=until, attempts=row.attempts, error=row.error)
