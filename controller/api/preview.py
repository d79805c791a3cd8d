"""When a trigger will fire: of one that is deployed, or of a manifest that is not (S-09)."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query

from controller import shapes
from controller.api.bodies import MANIFEST, Sent
from controller.api.context import Here, Named, moment
from controller.api.history import existing
from controller.api.paging import MOST
from controller.api.triggers import ONE
from controller.contract import PreviewShape
from reconcile.rules import changes
from reconcile.rules.schedule import Schedule, fires, left_out
from reconcile.rules.terms import terms
from revisions.chain import canonical
from revisions.errors import Invalid, NotFound
from revisions.manifests import Trigger as Manifest

router = APIRouter(tags=["preview"])

Count = Annotated[int, Query(ge=1, le=MOST, description="how many fires")]
After = Annotated[str | None, Query(description="fires later than this instant; left out, than now")]


@router.get(f"/triggers{ONE}/next")
def of_trigger(key: Named, here: Here, n: Count = 10, after: After = None) -> PreviewShape:
    """The next fires of a deployed trigger; of an inactive one those it would have."""
    start = moment(after, "after")
    with here.database.read() as connection:
        current = existing(connection, key)
        now = here.database.clock.now(connection)
    if current.deleted:
        raise NotFound(f"{key} was deleted at revision {current.revision}")
    return _preview(terms(current.spec, current.resolved).schedule, start or now, n)


@router.post("/next", openapi_extra=MANIFEST)
def of_manifest(body: Sent, here: Here, n: Count = 10, after: After = None) -> PreviewShape:
    """The next fires of a manifest that is not deployed, judged as a deploy would judge its schedule."""
    start = moment(after, "after")
    manifest = Manifest.read(body.document())
    if faults := changes.faults(manifest):
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)
    with here.database.read() as connection:
        now = here.database.clock.now(connection)
    written = canonical(manifest.written)
    made = changes.deploy(None, manifest, written, now, reason="", origin=None, scopes="[]")
    assert made is not None
    return _preview(terms(written, made.resolved).schedule, start or now, n)


def _preview(schedule: Schedule, after: datetime, n: int) -> PreviewShape:
    ahead = fires(schedule, after, None, n)
    missing = left_out(schedule, after, ahead[-1].at, MOST) if ahead else []
    return shapes.preview(ahead, missing)
