"""What should have happened against what did (U-07), and why, at one instant (U-03)."""

from typing import Annotated

from fastapi import APIRouter, Query

from controller.api.context import Here, Named, moment
from controller.api.paging import Cursor, Limit, bad_cursor, pack, page, unpack
from controller.api.triggers import ONE
from controller.shapes.audits import AuditShape, judged_shape, summary_shape
from controller.shapes.explanations import ExplanationShape, explanation_shape
from reconcile.queries.audit import Place, audit_trigger
from reconcile.queries.explain import explain_trigger
from reconcile.report.audit import AuditLine
from revisions.ids import utc_text
from revisions.spec.notation import ScheduleError, instant

router = APIRouter(prefix="/triggers", tags=["audit"])

From = Annotated[str, Query(alias="from", description="an instant, which is in")]
To = Annotated[str | None, Query(description="an instant, which is out; left out, and where it lies ahead, now")]
At = Annotated[str | None, Query(description="an instant; left out, the newest occurrence")]


@router.get(f"{ONE}/audit")
def audit(key: Named, here: Here, since: From, to: To = None, limit: Limit = 100, cursor: Cursor = None) -> AuditShape:
    """What became of each occurrence in [from, to), oldest first; the summary stands in the first part."""
    begins, place = moment(since, "from"), _place(cursor)
    assert begins is not None
    found = audit_trigger(here.database, here.settings.pace.grace, key, begins, moment(to, "to"), limit + 1, place)
    part = page(found.lines, limit, judged_shape, _cursor)
    return {
        "trigger": str(key),
        "from": utc_text(found.since),
        "to": utc_text(found.until),
        "summary": summary_shape(found.summary) if found.summary else None,
        **part,
    }


@router.get(f"{ONE}/explain")
def explain(key: Named, here: Here, at: At = None) -> ExplanationShape:
    """Why the trigger fired at an instant, or did not: in one word, in sentences, and as facts."""
    return explanation_shape(explain_trigger(here.database, key, moment(at, "at")), key)


def _cursor(line: AuditLine) -> str:
    return pack(utc_text(line.at), line.occurrence_id)


def _place(cursor: str | None) -> Place | None:
    start = unpack(cursor, 2)
    if start is None:
        return None
    try:
        return Place(instant(start[0]), start[1])
    except ScheduleError:
        raise bad_cursor() from None
