"""What became of runs that were asked for by hand, many at once."""

from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict

from controller.errors import problem
from controller.shapes.common import Object, Since, Time
from controller.shapes.previews import FireShape, fire_shape
from controller.shapes.runs import RunShape, run_shape
from reconcile.runs.manual.backfill import Backfilled
from reconcile.runs.manual.fire import Fired
from revisions.ids import TriggerKey, utc_text
from revisions.store.runs import Run


class BackfilledShape(FireShape):
    """An occurrence that was backfilled, with the run made for it, null in a dry run."""

    run_id: str | None


class BackfillShape(Since):
    """A backfill; `made` is how many runs it made, in a dry run would make, and `items` are their occurrences.

    `existing` is how many had their run already, `undecided` how many are left to a schedule with a `count`; `warnings`
    are what whoever asked is to know of the trigger's limits (X-08).
    """

    to: Time
    trigger: str
    force: bool
    dry_run: bool
    made: int
    existing: int
    undecided: int
    items: list[BackfilledShape]
    warnings: list[str]


class FiredShape(TypedDict):
    """What firing one of many triggers came to: its run, or the problem document that says why there is none.

    `warnings` are what whoever asked is to know of its limits (X-08).
    """

    trigger: str
    run: RunShape | None
    refused: Object | None
    warnings: list[str]


def backfill_shape(
    done: Backfilled, key: TriggerKey, warnings: Sequence[str], *, force: bool, dry_run: bool
) -> BackfillShape:
    return {
        "trigger": str(key),
        "from": utc_text(done.since),
        "to": utc_text(done.until),
        "force": force,
        "dry_run": dry_run,
        "made": len(done.made),
        "existing": done.existing,
        "undecided": done.undecided,
        "items": [{**fire_shape(fire), "run_id": run_id} for fire, run_id in done.made],
        "warnings": list(warnings),
    }


def fired_shape(fired: Fired, warnings: Sequence[str]) -> FiredShape:
    run: RunShape | None = None
    refused: dict[str, Any] | None = None
    if isinstance(fired.outcome, Run):
        run = run_shape(fired.outcome, {fired.outcome.trigger_id: fired.trigger})
    else:
        refused = problem(fired.outcome)
    return {"trigger": str(fired.trigger), "run": run, "refused": refused, "warnings": list(warnings)}
