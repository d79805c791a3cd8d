"""Rendering of a plan: lines for people, and a document for programs."""

import json
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from controller.cli.output import count_of, format_cell, print_line
from reconcile.decide.admission import FULL, Demanded
from reconcile.report.plan import FolderPlan, LastDeploy, Paused, PlanStep, Verb
from revisions.history.triggers import Action, DifferenceKind, FieldDifference

_SIGNS: Mapping[Any, tuple[str, str]] = {
    Verb.REGISTER: ("+", "green"),
    Verb.CREATE: ("+", "green"),
    Verb.CHANGE: ("~", "yellow"),
    Verb.DELETE: ("-", "red"),
    DifferenceKind.ADDED: ("+", "green"),
    DifferenceKind.CHANGED: ("~", "yellow"),
    DifferenceKind.REMOVED: ("-", "red"),
}
"""Sign and colour of each line."""
_MAX_PATH_WIDTH = 32


def print_plan(plan: FolderPlan) -> None:
    """Print the steps, then what is left alone and the warnings, then the totals."""
    for change in plan.changes:
        _print_change(change)
    for paused in plan.paused:
        print_line(f"Trigger {paused.key} is inactive{_pause_details(paused)}", "cyan", sign="i")
        print_line("its file does not name `active`, so that stays as it is", "dim", indent=4)
    for key in plan.not_in_folder:
        print_line(f"Trigger {key} is not in the folder; --prune would delete it", "cyan", sign="i")
    warnings = [*plan.warnings]
    if plan.demanded and plan.demanded.is_too_much:
        warnings.append(_demand_warning(plan.demanded))
    for warning in warnings:
        print_line(warning, "yellow", sign="!")
    if plan.changes or plan.paused or plan.not_in_folder or warnings:
        print_line("")
    print_line(_totals(plan), "bold")


def plan_document(plan: FolderPlan) -> dict[str, Any]:
    """Return the plan as JSON shows it; `changes` holds the steps."""
    verbs = Counter(change.verb for change in plan.changes)
    return {
        "origin": plan.origin,
        "changes": [_change_document(change) for change in plan.changes],
        "inactive": [
            {"name": str(paused.key), "reason": paused.reason, "until": paused.until} for paused in plan.paused
        ],
        "not_in_folder": [str(key) for key in plan.not_in_folder],
        "summary": {
            **{verb.value: verbs[verb] for verb in Verb},
            "unchanged": plan.unchanged,
            "drifted": sum(change.drift is not None for change in plan.changes),
            "not_in_folder": len(plan.not_in_folder),
        },
        "warnings": [*plan.warnings],
        "demand": _demand_document(plan.demanded) if plan.demanded else None,
    }


def _totals(plan: FolderPlan) -> str:
    counts = Counter((change.verb, change.kind) for change in plan.changes)
    steps = [f"{count_of(count, kind.lower())} to {verb.value}" for (verb, kind), count in counts.items()]
    not_in_folder = f", {len(plan.not_in_folder)} not in the folder" if plan.not_in_folder else ""
    return f"{', '.join(steps) or 'Nothing to do'}; {plan.unchanged} unchanged{not_in_folder}."


def _demand_document(demand: Demanded) -> dict[str, Any]:
    return {"asked_rate": demand.asked, "execution_qps": demand.allowed, "is_too_much": demand.is_too_much}


def _change_document(change: PlanStep) -> dict[str, Any]:
    return {
        "action": change.verb.value,
        "kind": change.kind,
        "name": str(change.key),
        "revision": change.revision,
        "differences": [asdict(difference) for difference in change.differences],
        "drift": asdict(change.drift) if change.drift else None,
    }


def _print_change(change: PlanStep) -> None:
    sign, style = _SIGNS[change.verb]
    revision = f"  (revision {change.revision})" if change.revision is not None else ""
    print_line(f"{change.verb.value} {change.kind} {change.key}{revision}", f"bold {style}", sign=sign)
    if change.drift:
        print_line(_drift_sentence(change.drift, change.verb), "magenta", sign="!", indent=4)
    width = min(max((len(difference.path) for difference in change.differences), default=0), _MAX_PATH_WIDTH)
    for difference in change.differences:
        sign, style = _SIGNS[difference.kind]
        print_line(f"{difference.path.ljust(width)}  {_values(difference)}", style, sign=sign, indent=4)


def _drift_sentence(drift: LastDeploy, verb: Verb) -> str:
    reason = f" ({drift.reason})" if drift.reason else ""
    author = f"{drift.actor} at {format_cell(drift.at)}{reason}"
    if drift.action == Action.DELETE:
        return f"was deleted by {author}; this brings it back"
    effect = "that is deleted too" if verb is Verb.DELETE else "that is undone where the folder differs"
    return f"revision {drift.revision} was not applied from here: {author}; {effect}"


def _demand_warning(demand: Demanded) -> str:
    """Return the warning of L-18, with what to do."""
    share = f"{demand.asked / demand.allowed:.0%} of execution_qps ({demand.allowed:g})"
    return (
        f"with this the schedules ask for {demand.asked:.3g} starts a second, {share}: above {FULL:.0%} a burst makes "
        "starts late; raise execution_qps, or have them fire less often"
    )


def _pause_details(paused: Paused) -> str:
    until = f" until {format_cell(paused.until)}" if paused.until else ""
    return until + (f" ({paused.reason})" if paused.reason else "")


def _values(difference: FieldDifference) -> str:
    match difference.kind:
        case DifferenceKind.ADDED:
            return _json(difference.after)
        case DifferenceKind.REMOVED:
            return _json(difference.before)
        case DifferenceKind.CHANGED:
            return f"{_json(difference.before)} {_arrow()} {_json(difference.after)}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _arrow() -> str:
    try:
        "→".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return "->"
    return "→"
