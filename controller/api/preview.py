"""What is to come of a trigger that is deployed, or of a manifest that is not: fires (S-09), warnings (U-02)."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query

from controller.api.bodies import MANIFEST, Sent
from controller.api.context import Here, Named, Within, moment, refuse_outside
from controller.api.history import existing
from controller.api.paging import MOST
from controller.api.triggers import ONE
from controller.shapes.previews import PreviewShape, WarningsShape, inactive_shape, preview_shape
from reconcile.decide import changes, trust
from reconcile.decide.terms import Terms, terms
from reconcile.report.upcoming import HoldSpan, upcoming
from reconcile.schedule.fires import count
from reconcile.triggers import closed_days, limit_warnings
from revisions.errors import Invalid, NotFound
from revisions.history.chain import canonical
from revisions.ids import TriggerKey
from revisions.outcomes import HoldKind
from revisions.spec.trigger import TriggerManifest
from revisions.store import holds
from revisions.store import status as status_store
from revisions.store import triggers as trigger_store
from revisions.store.holds import Hold

router = APIRouter(tags=["preview"])

Count = Annotated[int, Query(ge=1, le=MOST, description="how many fires")]
After = Annotated[str | None, Query(description="fires later than this instant; left out, than now")]


@router.get(f"/triggers{ONE}/next")
def of_trigger(key: Named, here: Here, n: Count = 10, after: After = None) -> PreviewShape:
    """The next fires of a deployed trigger, as many as may still start; of an inactive one those it would have."""
    start = moment(after, "after")
    with here.database.read() as connection:
        current = existing(connection, key)
        now = here.database.clock.now(connection)
        if current.deleted:
            raise NotFound.deleted(key, current.revision)
        found = closed_days.read_terms(connection, key.project, current.spec, current.resolved)
        row = status_store.get(connection, current.trigger_id)
        over = _over(connection, now, key, current.trigger_id, current.tags)
    assert row is not None
    begins = max(row.watermark, now - found.delay(str(key)))  # nominal, as watermarks are (S-12)
    answer = _preview(found, key, begins, start, n, over, row.started_count)
    return answer if current.active else {**answer, "inactive": inactive_shape(current)}


@router.post("/next", openapi_extra=MANIFEST)
def of_manifest(body: Sent, here: Here, within: Within, n: Count = 10, after: After = None) -> PreviewShape:
    """The next fires of a manifest that is not deployed, judged as a deploy would judge its schedule."""
    start, manifest = moment(after, "after"), _judged(body, within)
    key, named, written = manifest.key, manifest.spec.schedule.calendars, canonical(manifest.written)
    with here.database.read() as connection:
        now = here.database.clock.now(connection)
        closed_days.refuse_unknown(connection, key.project, named)
        closed = closed_days.closed(connection, key.project, named)
        there = trigger_store.get(connection, key)
        over = _over(connection, now, key, there.trigger_id if there else "", manifest.metadata.tags)
    made = changes.deploy(None, manifest, written, now, reason="", origin=None, scopes="[]", calendars=closed)
    assert made is not None
    return _preview(terms(written, made.resolved, closed), key, now, start, n, over)


@router.post("/warnings", openapi_extra=MANIFEST)
def of_deploy(body: Sent, here: Here, within: Within) -> WarningsShape:
    """What a deploy of a manifest would be answered with, by what its trigger has done so far; nothing is deployed."""
    manifest = _judged(body, within)
    with here.database.read() as connection:
        now, there = here.database.clock.now(connection), trigger_store.get(connection, manifest.key)
        told = limit_warnings.warnings(connection, there, manifest.spec, now)
    return {"warnings": [*trust.warnings(manifest.spec), *told]}


def _judged(body: Sent, within: Within) -> TriggerManifest:
    """The manifest in the body. Raises Invalid, fault by fault, and Forbidden outside the caller's projects."""
    manifest = TriggerManifest.read(body.document())
    if faults := changes.faults(manifest):
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)
    refuse_outside(within, manifest.key.project)
    return manifest


def _over(connection: Any, now: datetime, key: TriggerKey, trigger_id: str, tags: tuple[str, ...]) -> list[Hold]:
    """What holds a trigger now or later, freezes first."""
    lasting = holds.not_ended(connection, now)
    over = [one for one in lasting if one.covers(project=key.project, trigger_id=trigger_id, tags=tags)]
    return sorted(over, key=lambda one: one.kind != HoldKind.FREEZE)


def _preview(
    found: Terms,
    key: TriggerKey,
    begins: datetime,
    start: datetime | None,
    n: int,
    over: Iterable[Hold],
    started: int = 0,
) -> PreviewShape:
    """The fires later than `start`, or without one than `begins`, from which on they are still to come."""
    late = found.delay(str(key))
    after, limit = start or begins, n
    if found.count is not None:
        remaining = max(0, found.count - started)
        limit = min(n, remaining - count(found.schedule, begins, after, remaining))
    holdings = [HoldSpan(one.from_at, one.until_at, one.kind).earlier(late) for one in over]
    shown = upcoming(found.schedule, after, limit, holdings, MOST)
    return preview_shape(shown.fires, shown.left_out, late)
