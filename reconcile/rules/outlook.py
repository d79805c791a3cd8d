"""How many starts a second the schedules will ask for once a plan is done (L-18).

Days that calendars close are left aside, before and after alike: who plans does not have those of the server.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from reconcile.rules.demand import Demanded, per_second
from reconcile.rules.plan import Change, Plan, Row, Server, Verb
from reconcile.rules.terms import schedule_of
from revisions.ids import TriggerKey
from revisions.manifests import Trigger


def after(plan: Plan, server: Server, standing: Demanded, now: datetime) -> Demanded:
    """What is asked for now, and what the steps of the plan add to it and take away."""
    changed = sum(_change(change, server, now) for change in plan.changes)
    return Demanded(max(0.0, standing.asked + changed), standing.allowed)


def _change(change: Change, server: Server, now: datetime) -> float:
    if not isinstance(change.key, TriggerKey):
        return 0.0
    row = server.triggers.get(change.key)
    before = _rate(row.spec, now) if row and row.active else 0.0
    return _after(change, row, now) - before


def _after(change: Change, row: Row | None, now: datetime) -> float:
    if change.verb is Verb.DELETE or change.declared is None:
        return 0.0
    manifest = change.declared.manifest
    assert isinstance(manifest, Trigger)
    active = manifest.spec.active
    if active is None:
        active = row.active if row else True
    return _rate(manifest.written, now) if active else 0.0


def _rate(spec: Mapping[str, Any], now: datetime) -> float:
    """One that cannot be read asks for nothing; nor does one that fires a single time."""
    block = spec.get("schedule")
    if not block or "in" in block:
        return 0.0
    try:
        return per_second(schedule_of(spec, "{}"), now)
    except ValueError:
        return 0.0
