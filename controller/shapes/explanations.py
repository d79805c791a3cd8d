"""Why a trigger fired, or did not."""

from typing import Literal

from typing_extensions import TypedDict

from controller.shapes.catchup import BacklogShape
from controller.shapes.common import Time, time_text
from controller.shapes.occurrences import OccurrenceShape, occurrence_shape
from controller.shapes.previews import FireShape, LeftOutShape, fire_shape, left_out_shape
from controller.shapes.runs import RunShape, run_shape
from reconcile.queries.explain import Explained
from revisions.history.triggers import Trigger
from revisions.ids import TriggerKey, utc_text
from revisions.store.occurrences import Occurrence


class InForceShape(TypedDict):
    """The revision that was in force at an instant."""

    revision: int
    changed_at: Time
    changed_by: str
    active: bool
    deleted: bool
    paused_until: Time | None
    deactivated_reason: str | None


class DecidedShape(TypedDict):
    """How far a trigger is decided: all up to the watermark, but for what lies in backlogs."""

    watermark: Time
    backlogs: list[BacklogShape]
    rate_waiting_since: Time | None


class ExplanationShape(TypedDict):
    """Why a trigger fired, or did not, at an instant; the nearest fires are those that its revisions then named."""

    trigger: str
    at: Time
    verdict: Literal[
        "not_there",
        "ahead",
        "inactive",
        "not_named",
        "over",
        "started",
        "skipped",
        "undecided",
        "not_kept",
        "missing",
    ]
    sentences: list[str]
    in_force: InForceShape | None
    occurrence: FireShape | None
    before: FireShape | None
    after: FireShape | None
    left_out: list[LeftOutShape]
    run: RunShape | None
    skip: OccurrenceShape | None
    decided: DecidedShape


def explanation_shape(made: Explained, key: TriggerKey) -> ExplanationShape:
    instant, status = made.instant, made.past.status
    backlogs = made.past.standing.backlogs
    return {
        "trigger": str(key),
        "at": utc_text(instant.at),
        "verdict": made.explanation.verdict.value,
        "sentences": list(made.explanation.sentences),
        "in_force": _in_force(instant.period.trigger) if instant.period else None,
        "occurrence": fire_shape(instant.fire) if instant.fire else None,
        "before": fire_shape(instant.before) if instant.before else None,
        "after": fire_shape(instant.after) if instant.after else None,
        "left_out": [left_out_shape(missed) for missed in instant.left_out],
        "run": run_shape(made.run, {made.run.trigger_id: key}) if made.run else None,
        "skip": occurrence_shape(Occurrence.of(made.skip), key) if made.skip else None,
        "decided": {
            "watermark": utc_text(status.watermark),
            "backlogs": [{"after": utc_text(after), "until": utc_text(until)} for after, until in backlogs],
            "rate_waiting_since": time_text(status.rate_waiting_since),
        },
    }


def _in_force(then: Trigger) -> InForceShape:
    return {
        "revision": then.revision,
        "changed_at": utc_text(then.changed_at),
        "changed_by": then.changed_by,
        "active": then.active,
        "deleted": then.deleted,
        "paused_until": time_text(then.until),
        "deactivated_reason": then.deactivated_reason,
    }
