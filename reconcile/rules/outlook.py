"""How many starts a second the schedules will ask for once a plan is done (L-18).

Days that calendars close are left aside, before and after alike: who plans does not have those of the server.
"""

from datetime import datetime

from reconcile.rules.demand import Demanded, per_second
from reconcile.rules.plan import Change, Plan, Row, Server, Verb
from reconcile.rules.terms import schedule_of
from revisions.ids import TriggerKey
from revisions.spec.trigger import TriggerManifest, TriggerSpec


def after(plan: Plan, server: Server, standing: Demanded, now: datetime) -> Demanded:
    """What is asked for now, and what the steps of the plan add to it and take away."""
    changed = sum(_change(change, server, now) for change in plan.changes)
    return Demanded(max(0.0, standing.asked + changed), standing.allowed)


def _change(change: Change, server: Server, now: datetime) -> float:
    if not isinstance(change.key, TriggerKey):
        return 0.0
    row = server.triggers.get(change.key)
    before = _rate(row.typed, now) if row and row.active else 0.0
    return _after(change, row, now) - before


def _after(change: Change, row: Row | None, now: datetime) -> float:
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
