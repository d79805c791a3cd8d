"""What the world sees of a trigger, revision, task, run and occurrence: pure renderings, shared by API and web page."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from controller.contract import (
    BreakShape,
    BulkShape,
    CalendarRevisionShape,
    CalendarShape,
    CatchupShape,
    ChangeShape,
    DifferenceShape,
    ExplanationShape,
    FactsShape,
    FireShape,
    HeldShape,
    HoldShape,
    ImportedShape,
    InForceShape,
    JudgedShape,
    LeftOutShape,
    OccurrenceShape,
    PreviewShape,
    ReplayShape,
    ReportShape,
    RevisionShape,
    RunShape,
    StatusShape,
    SummaryShape,
    TaskShape,
    TriggerShape,
)
from reconcile.backlogs import Standing
from reconcile.explaining import Explained
from reconcile.importing import Imported
from reconcile.rebuilding import Replay
from reconcile.revising import Changed
from reconcile.rules.audit import Kind, Line, Summary
from reconcile.rules.schedule import Fire, LeftOut
from reconcile.verifying import Report
from revisions.breaks import Break
from revisions.ids import TriggerKey, utc_text
from revisions.store.calendars import CalendarRow
from revisions.store.feed import Change
from revisions.store.holds import BLACKOUT, FREEZE, Hold
from revisions.store.occurrences import Occurrence
from revisions.store.runs import Run
from revisions.store.status import StatusRow
from revisions.store.tasks import TaskRow
from revisions.triggers import Difference, Revision, Trigger

_UNKNOWN: FactsShape = {
    "next_fire_at": None,
    "last_fired_at": None,
    "last_success_at": None,
    "last_outcome": None,
    "last_outcome_at": None,
    "last_run_id": None,
    "last_error": None,
    "run_count": None,
    "consecutive_failures": None,
}


def trigger(current: Trigger, row: StatusRow | None, holding: Hold | None = None) -> TriggerShape:
    """`row` is None for a trigger as of a time, of which no runtime facts are known; `holding` is what holds it now."""
    return {
        **current.key._asdict(),  # type: ignore[typeddict-item]  # the four names
        "revision": current.revision,
        "active": current.active,
        "deleted": current.deleted,
        "tags": list(current.tags),
        "spec": json.loads(current.spec),
        "hash": current.hash,
        "changed_at": utc_text(current.changed_at),
        "changed_by": current.changed_by,
        "status": status(current, row, holding),
    }


def status(current: Trigger, row: StatusRow | None, holding: Hold | None) -> StatusShape:
    return {
        **(_facts(row) if row else _UNKNOWN),
        "deactivated_reason": current.deactivated_reason,
        "paused_until": _time(current.until),
        "held": held(holding) if holding else None,
    }


def _facts(row: StatusRow) -> FactsShape:
    return {
        "next_fire_at": _time(row.next_fire_at),
        "last_fired_at": _time(row.last_fired_at),
        "last_success_at": _time(row.last_success_at),
        "last_outcome": row.last_outcome,
        "last_outcome_at": _time(row.last_outcome_at),
        "last_run_id": row.last_run_id,
        "last_error": row.last_error,
        "run_count": row.run_count,
        "consecutive_failures": row.consecutive_failures,
    }


def revision(made: Revision) -> RevisionShape:
    return {
        "revision": made.revision,
        "action": made.action.value,
        "actor": made.actor,
        "reason": made.reason,
        "at": utc_text(made.at),
        "active": made.active,
        "tags": list(made.tags),
        "until": _time(made.until),
        "origin": made.origin,
        "resolved": json.loads(made.resolved),
        "spec": json.loads(made.spec),
        "previous_hash": made.previous_hash,
        "hash": made.hash,
    }


def difference(found: Difference) -> DifferenceShape:
    return {"path": found.path, "kind": found.kind.value, "before": found.before, "after": found.after}


def bulk(changed: Changed) -> BulkShape:
    """One of many changes; a bulk change creates nothing, so there is a revision before."""
    new = changed.trigger.revision
    old = changed.before if changed.before is not None else new
    return {"trigger": str(changed.trigger.key), "old_revision": old, "new_revision": new, "changed": changed.changed}


def change(made: Change) -> ChangeShape:
    return {"trigger": str(made.key), "revision": made.revision, "at": utc_text(made.at)}


def task(row: TaskRow) -> TaskShape:
    return {
        **row.key._asdict(),  # type: ignore[typeddict-item]  # the three names and the version
        "spec": json.loads(row.spec),
        "trigger_name": row.trigger_name,
        "total_triggers": row.total_triggers,
        "active_triggers": row.active_triggers,
        "trigger_automation": row.trigger_automation,
    }


def calendar(row: CalendarRow) -> CalendarShape:
    return {
        **row.key._asdict(),  # type: ignore[typeddict-item]  # the project and the name
        "revision": row.revision,
        "deleted": row.deleted,
        "spec": json.loads(row.spec),
        "changed_at": utc_text(row.at),
        "changed_by": row.actor,
    }


def calendar_revision(row: CalendarRow) -> CalendarRevisionShape:
    return {
        "revision": row.revision,
        "action": "DELETE" if row.deleted else "DEPLOY",
        "actor": row.actor,
        "at": utc_text(row.at),
        "spec": json.loads(row.spec),
    }


def hold(made: Hold, now: datetime, triggers: Mapping[str, TriggerKey]) -> HoldShape:
    """`triggers` names the triggers by their ids."""
    is_over = made.until_at is not None and (made.until_at <= now or made.until_at <= made.from_at)
    return {
        "id": made.hold_id,
        "kind": FREEZE if made.kind == FREEZE else BLACKOUT,
        "state": "over" if is_over else "in_force" if made.from_at <= now else "to_come",
        "project": made.project,
        "tag": made.tag,
        "trigger": str(triggers[made.trigger_id]) if made.trigger_id else None,
        "from": utc_text(made.from_at),
        "until": _time(made.until_at),
        "mode": made.mode or None,
        "owner": made.owner,
        "reason": made.reason,
        "revision": made.revision,
        "changed_at": utc_text(made.at),
        "changed_by": made.actor,
    }


def held(by: Hold) -> HeldShape:
    return {
        "id": by.hold_id,
        "kind": FREEZE if by.kind == FREEZE else BLACKOUT,
        "mode": by.mode or None,
        "until": _time(by.until_at),
        "owner": by.owner,
        "reason": by.reason,
    }


def catchup(standing: Standing) -> CatchupShape:
    return {
        "trigger": str(standing.trigger),
        "watermark": utc_text(standing.watermark),
        "is_ahead": standing.is_ahead,
        "ranges": [{"after": utc_text(one.cursor_at), "until": utc_text(one.until_at)} for one in standing.backlogs],
        "remaining": standing.remaining,
        "sharing": standing.others,
        "ends_at": _time(standing.now + standing.takes) if standing.takes is not None else None,
        "takes_seconds": standing.takes.total_seconds() if standing.takes is not None else None,
        "held": held(standing.held) if standing.held else None,
    }


def run(made: Run, triggers: Mapping[str, TriggerKey]) -> RunShape:
    """`triggers` names the triggers by their ids."""
    return {
        "id": made.id,
        "project": made.project,
        "domain": made.domain,
        "task": made.task,
        "task_version": made.task_version,
        "trigger": str(triggers[made.trigger_id]),
        "revision": made.revision,
        "source": made.source,
        "occurrence_id": made.occurrence_id,
        "scheduled_at": utc_text(made.scheduled_at),
        "created_at": utc_text(made.created_at),
        "started_at": _time(made.started_at),
        "finished_at": _time(made.finished_at),
        "status": made.status,
        "attempt": made.attempt,
        "input": json.loads(made.input),
        "output": json.loads(made.output) if made.output is not None else None,
        "error": made.error,
        "cost": made.cost,
    }


def occurrence(decided: Occurrence, key: TriggerKey) -> OccurrenceShape:
    return {
        "trigger": str(key),
        "occurrence_id": decided.occurrence_id,
        "scheduled_at": utc_text(decided.scheduled_at),
        "scheduled_until": utc_text(decided.scheduled_until),
        "decided_at": utc_text(decided.decided_at),
        "outcome": decided.outcome,
        "reason": decided.reason,
        "revision": decided.revision,
        "run_id": decided.run_id,
        "count": decided.count,
    }


def preview(ahead: Sequence[Fire], missing: Sequence[LeftOut], late: timedelta) -> PreviewShape:
    """`late` is how much later than its nominal times the trigger fires (S-12)."""
    return {
        "fires": [fire(one) | ({"fires_at": utc_text(one.at + late)} if late else {}) for one in ahead],
        "skipped": [_left_out(missed) for missed in missing],
    }


def fire(named: Fire) -> FireShape:
    return {"id": named.id, "utc": utc_text(named.at), "local": _local(named)}


def _left_out(missed: LeftOut) -> LeftOutShape:
    return {"local": missed.local, "reason": missed.reason}


def judged(line: Line) -> JudgedShape:
    return {
        "occurrence_id": line.occurrence_id,
        "scheduled_at": utc_text(line.at),
        "kind": line.kind.value,
        "outcome": line.outcome or None,
        "reason": line.reason,
        "revision": line.revision,
        "run_id": line.run_id,
        "decided_at": _time(line.decided_at),
    }


def summary(made: Summary) -> SummaryShape:
    causes = sorted(made.skips.items())
    return {
        "clean": made.is_clean,
        **{kind.value: made.kinds[kind] for kind in Kind},  # type: ignore[typeddict-item]  # each kind is a member
        "causes": [{"outcome": outcome, "reason": reason, "count": count} for (outcome, reason), count in causes],
    }


def explained(made: Explained, key: TriggerKey) -> ExplanationShape:
    instant, status = made.instant, made.past.status
    backlogs = made.past.standing.backlogs
    return {
        "trigger": str(key),
        "at": utc_text(instant.at),
        "verdict": made.explanation.verdict.value,
        "sentences": list(made.explanation.sentences),
        "in_force": _in_force(instant.era.trigger) if instant.era else None,
        "occurrence": fire(instant.fire) if instant.fire else None,
        "before": fire(instant.before) if instant.before else None,
        "after": fire(instant.after) if instant.after else None,
        "left_out": [_left_out(missed) for missed in instant.left_out],
        "run": run(made.run, {made.run.trigger_id: key}) if made.run else None,
        "skip": occurrence(Occurrence.of(made.skip), key) if made.skip else None,
        "decided": {
            "watermark": utc_text(status.watermark),
            "backlogs": [{"after": utc_text(after), "until": utc_text(until)} for after, until in backlogs],
            "rate_waiting_since": _time(status.rate_waiting_since),
        },
    }


def _in_force(then: Trigger) -> InForceShape:
    return {
        "revision": then.revision,
        "changed_at": utc_text(then.changed_at),
        "changed_by": then.changed_by,
        "active": then.active,
        "deleted": then.deleted,
        "paused_until": _time(then.until),
        "deactivated_reason": then.deactivated_reason,
    }


def broken(found: Break) -> BreakShape:
    return {
        "trigger": str(found.key),
        "trigger_id": found.trigger_id,
        "revision": found.revision,
        "what": found.what.value,
        "field": found.field,
        "expected": _plain(found.expected),
        "found": _plain(found.found),
        "message": found.message,
    }


def report(made: Report) -> ReportShape:
    against = made.checkpoint
    return {
        "sound": made.is_sound,
        "triggers": made.triggers,
        "revisions": made.revisions,
        "broken": made.broken,
        "breaks": [broken(found) for found in made.breaks],
        "guards_missing": made.guards_missing,
        "checkpoint": {
            "created_at": against.created_at,
            "triggers": len(against.heads),
            "public_key": str(against.public_key),
            "pinned": against.is_pinned,
        }
        if against
        else None,
    }


def replay(made: Replay, *, applied: bool) -> ReplayShape:
    return {
        "applied": applied,
        "triggers": made.triggers,
        "revisions": made.revisions,
        "differences": [
            {
                "table": difference.table,
                "name": difference.name,
                "field": difference.field,
                "expected": _plain(difference.expected),
                "found": _plain(difference.found),
            }
            for difference in made.differences
        ],
        "breaks": [broken(found) for found in made.breaks],
    }


def imported(made: Imported) -> ImportedShape:
    return {
        "counts": dict(made.counts),
        "triggers": made.triggers,
        "public_key": str(made.signed_by) if made.signed_by else None,
        "pinned": made.is_pinned,
    }


def _plain(value: Any) -> Any:
    return utc_text(value) if isinstance(value, datetime) else value


def _local(fire: Fire) -> str:
    text = fire.local.isoformat()
    return f"{text.removesuffix('+00:00')}Z" if text.endswith("+00:00") else text


def _time(at: datetime | None) -> str | None:
    return utc_text(at) if at else None
