"""What somebody else did to the triggers of a folder since it was applied (R-22)."""

from collections.abc import Mapping
from dataclasses import replace

from reconcile.rules.plan import Change, Past, Plan, Verb, applied, pruned
from revisions.ids import TriggerKey
from revisions.triggers import Action, Difference, Kind


def explain(plan: Plan, pasts: Mapping[TriggerKey, Past]) -> Plan:
    """The plan with each recorded origin that is to change, and with what somebody else did meanwhile."""
    explained = []
    for change in plan.changes:
        past = pasts.get(change.key) if isinstance(change.key, TriggerKey) else None
        explained.append(_explained(change, past, plan.origin) if past else change)
    return replace(plan, changes=tuple(explained))


def _explained(change: Change, past: Past, origin: str | None) -> Change:
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


def _with_origin(difference: Difference, past: Past) -> Difference:
    if difference.path != "origin" or past.origin is None:
        return difference
    return replace(difference, kind=Kind.CHANGED, before=past.origin)
