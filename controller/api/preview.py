"""Preview of deployed triggers and of manifests: the next fires (S-09), and warnings of a deploy (U-02)."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from controller.api.answers import MOST_ITEMS, Answer, Time, time_text
from controller.api.bodies import MANIFEST, RawBodyDep
from controller.api.parameters import ReachDep, ServicesDep, TriggerPath, optional_moment, refuse_outside
from controller.api.triggers import ONE, existing
from controller.auth.requirements import Projects, require
from controller.services import Services
from reconcile.decide import changes
from reconcile.decide.authority import Reach, Role
from reconcile.decide.terms import Terms, terms
from reconcile.report import outlook
from reconcile.report.outlook import HoldSpan, upcoming
from reconcile.schedule.fires import Fire, LeftOut, count
from reconcile.triggers import append, trigger_calendars
from revisions.errors import Invalid, NotFound
from revisions.history.chain import canonical
from revisions.ids import TriggerKey, utc_text
from revisions.outcomes import HoldKind
from revisions.spec.trigger import TriggerManifest
from revisions.store import holds
from revisions.store import status as status_store
from revisions.store import triggers as trigger_store
from revisions.store.database import Connection
from revisions.store.holds import Hold

router = APIRouter(tags=["preview"])

CountQuery = Annotated[int, Query(ge=1, le=MOST_ITEMS, description="number of fires")]
AfterQuery = Annotated[str | None, Query(description="only fires later than this instant; left out: than now")]


class FireOut(Answer):
    """A fire in UTC and in the schedule's zone. `fires_at`: its actual start, if the trigger has a `spread`."""

    id: str
    utc: Time
    local: Time
    fires_at: Time | None = Field(None, exclude_if=lambda value: value is None)


class LeftOutOut(Answer):
    """A wall time that will not fire.

    `reason`: `gap`, `fold`, `exclude`, the name of a calendar, `freeze` or `blackout`.
    """

    local: str
    reason: str


class InactiveOut(Answer):
    """Reason why a trigger is not active, and the end of its pause."""

    reason: str
    paused_until: Time | None


class PreviewOut(Answer):
    """The next fires and what is left out between them. `inactive` is there only if nothing fires for now."""

    fires: list[FireOut]
    skipped: list[LeftOutOut]
    inactive: InactiveOut | None = Field(None, exclude_if=lambda value: value is None)


class WarningsOut(Answer):
    """Warnings for whoever deploys a manifest (E-15, X-08)."""

    warnings: list[str]


@router.get(f"/triggers{ONE}/next", dependencies=[require(Role.VIEWER, Projects.NAMED)])
def of_trigger(key: TriggerPath, services: ServicesDep, n: CountQuery = 10, after: AfterQuery = None) -> PreviewOut:
    """Return the next fires of a deployed trigger, within its limits; of an inactive one those it would have."""
    return preview_trigger(services, key, n, optional_moment(after, "after"))


def preview_trigger(services: Services, key: TriggerKey, number: int, after: datetime | None) -> PreviewOut:
    """Return up to `number` fires of a trigger later than `after`, None for now. Raises NotFound."""
    with services.database.read() as connection:
        current = existing(connection, key)
        now = services.database.clock.now(connection)
        if current.deleted:
            raise NotFound.deleted(key, current.revision)
        agreed = trigger_calendars.read_terms(connection, key.project, current.spec, current.resolved)
        row = status_store.get(connection, current.trigger_id)
        held = _holds(connection, now, key, current.trigger_id, current.tags)
    assert row is not None
    begins = max(row.watermark, now - agreed.delay(str(key)))  # nominal times, as watermarks are (S-12)
    answer = _preview(agreed, key, begins, after, number, held, row.started_count)
    if current.active:
        return answer
    inactive = InactiveOut(reason=current.deactivated_reason or "", paused_until=time_text(current.until))
    return answer.model_copy(update={"inactive": inactive})


@router.post("/next", openapi_extra=MANIFEST, dependencies=[require(Role.VIEWER)])
def of_manifest(
    body: RawBodyDep, services: ServicesDep, reach: ReachDep, n: CountQuery = 10, after: AfterQuery = None
) -> PreviewOut:
    """Return the next fires of a manifest. Its schedule is checked as by a deploy, and nothing is deployed."""
    start, manifest = optional_moment(after, "after"), _manifest(body, reach)
    key, named, written = manifest.key, manifest.spec.schedule.calendars, canonical(manifest.written)
    with services.database.read() as connection:
        now = services.database.clock.now(connection)
        trigger_calendars.refuse_unknown_calendars(connection, key.project, named)
        closed = trigger_calendars.closed_days_of(connection, key.project, named)
        deployed = trigger_store.get(connection, key)
        held = _holds(connection, now, key, deployed.trigger_id if deployed else "", manifest.metadata.tags)
    made = changes.deploy(None, manifest, written, now, reason="", origin=None, scopes="[]", calendars=closed)
    assert made is not None
    return _preview(terms(written, made.resolved, closed), key, now, start, n, held)


@router.post("/warnings", openapi_extra=MANIFEST, dependencies=[require(Role.VIEWER)])
def of_deploy(body: RawBodyDep, services: ServicesDep, reach: ReachDep) -> WarningsOut:
    """Return the warnings that a deploy of the manifest would be answered with. Nothing is deployed."""
    manifest = _manifest(body, reach)
    with services.database.read() as connection:
        now, deployed = services.database.clock.now(connection), trigger_store.get(connection, manifest.key)
        of_limits = append.warnings_for_spec(connection, deployed, manifest.spec, now)
    return WarningsOut(warnings=[*outlook.destructive_warnings(manifest.spec), *of_limits])


def _manifest(body: RawBodyDep, reach: Reach) -> TriggerManifest:
    """Return the manifest in the body. Raises Invalid, and Forbidden outside the caller's projects."""
    manifest = TriggerManifest.read(body.document())
    if faults := changes.faults(manifest):
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)
    refuse_outside(reach, manifest.key.project)
    return manifest


def _holds(
    connection: Connection, now: datetime, key: TriggerKey, trigger_id: str, tags: tuple[str, ...]
) -> list[Hold]:
    """Return the present and future holds on a trigger, freezes first."""
    lasting = holds.not_ended(connection, now)
    covering = [hold for hold in lasting if hold.covers(project=key.project, trigger_id=trigger_id, tags=tags)]
    return sorted(covering, key=lambda hold: hold.kind != HoldKind.FREEZE)


def _preview(
    agreed: Terms,
    key: TriggerKey,
    begins: datetime,
    start: datetime | None,
    number: int,
    held: Iterable[Hold],
    started: int = 0,
) -> PreviewOut:
    """Preview the fires later than `start`, or without one than `begins`; fires before `begins` are past.

    `started` counts against the schedule's `count`.
    """
    delay = agreed.delay(str(key))
    after, limit = start or begins, number
    if agreed.count is not None:
        remaining = max(0, agreed.count - started)
        limit = min(number, remaining - count(agreed.schedule, begins, after, remaining))
    holdings = [HoldSpan(hold.from_at, hold.until_at, hold.kind).earlier(delay) for hold in held]
    shown = upcoming(agreed.schedule, after, limit, holdings, MOST_ITEMS)
    return _preview_out(shown.fires, shown.left_out, delay)


def _preview_out(fires: Sequence[Fire], left_out: Sequence[LeftOut], delay: timedelta) -> PreviewOut:
    """Return a preview; `delay` is the trigger's offset within its spread (S-12)."""
    return PreviewOut(
        fires=[fire_out(fire, utc_text(fire.at + delay) if delay else None) for fire in fires],
        skipped=[left_out_out(missing) for missing in left_out],
    )


def fire_out(fire: Fire, fires_at: str | None = None) -> FireOut:
    """Return a fire as the API shows it."""
    local = fire.local.isoformat()
    if local.endswith("+00:00"):
        local = f"{local.removesuffix('+00:00')}Z"
    return FireOut(id=fire.id, utc=utc_text(fire.at), local=local, fires_at=fires_at)


def left_out_out(missing: LeftOut) -> LeftOutOut:
    """Return a wall time that does not fire as the API shows it."""
    return LeftOutOut(local=missing.local, reason=missing.reason)
