"""Changes to a folder's triggers made by others since it was applied, and the start rate after applying (R-22)."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from reconcile.decide.admission import Demanded, per_second
from reconcile.decide.terms import schedule_of
from reconcile.report.plan import FolderPlan, LastDeploy, PlannedTrigger, PlanStep, ServerState, Verb, applied, pruned
from revisions.history.triggers import Action, DifferenceKind, FieldDifference
from revisions.ids import TriggerKey
from revisions.spec.trigger import TriggerManifest, TriggerSpec


def explain(plan: FolderPlan, pasts: Mapping[TriggerKey, LastDeploy]) -> FolderPlan:
    """Return the plan with recorded origins and with the deploys that others made meanwhile."""
    explained = []
    for change in plan.changes:
        past = pasts.get(change.key) if isinstance(change.key, TriggerKey) else None
        explained.append(_explained(change, past, plan.origin) if past else change)
    return replace(plan, changes=tuple(explained))


def _explained(change: PlanStep, past: LastDeploy, origin: str | None) -> PlanStep:
    found = tuple(_with_origin(difference, past) for difference in change.differences)
    is_gone = past.action == Action.DELETE
    if is_gone != (change.verb is Verb.CREATE):
        drifted = False  # it came or went since the rows were read: the precondition will tell
    elif is_gone:
        drifted = origin is None or past.reason != pruned(origin)
    else:
        is_own = (past.origin, past.reason) == (origin, applied(origin))
        says_more = change.verb is Verb.DELETE or any(difference.path != "origin" for difference in found)
        drifted = says_more and not is_own
    return replace(change, differences=found, drift=past if drifted else None)


def _with_origin(difference: FieldDifference, past: LastDeploy) -> FieldDifference:
    if difference.path != "origin" or past.origin is None:
        return difference
    return replace(difference, kind=DifferenceKind.CHANGED, before=past.origin)


def after(plan: FolderPlan, server: ServerState, standing: Demanded, now: datetime) -> Demanded:
    """Return the start rate after the steps of the plan."""
    changed = sum(_change(change, server, now) for change in plan.changes)
    return Demanded(max(0.0, standing.asked + changed), standing.allowed)


def _change(change: PlanStep, server: ServerState, now: datetime) -> float:
    if not isinstance(change.key, TriggerKey):
        return 0.0
    row = server.triggers.get(change.key)
    before = _rate(row.typed, now) if row and row.active else 0.0
    return _after(change, row, now) - before


def _after(change: PlanStep, row: PlannedTrigger | None, now: datetime) -> float:
    if change.verb is Verb.DELETE or change.declared is None:
        return 0.0
    manifest = change.declared.manifest
    assert isinstance(manifest, TriggerManifest)
    active = manifest.spec.active
    if active is None:
        active = row.active if row else True
    return _rate(manifest.spec, now) if active else 0.0


def _rate(spec: TriggerSpec, now: datetime) -> float:
    """Return starts a second; a schedule that cannot be read asks for nothing, nor does one that fires only once."""
    if spec.schedule.in_ is not None:
        return 0.0
    try:
        return per_second(schedule_of(spec, "{}"), now)
    except ValueError:
        return 0.0
