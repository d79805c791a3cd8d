"""A plan as people read it, a line for each path that differs, and as programs do."""

import json
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from controller.cli import screen
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
_WIDEST_PATH = 32


def show(plan: FolderPlan) -> None:
    """The plan in lines: steps first, then what is left alone and why, then how many of each."""
    for change in plan.changes:
        _show_change(change)
    for paused in plan.paused:
        screen.line(f"Trigger {paused.key} is inactive{_because(paused)}", "cyan", sign="i")
        screen.line("its file does not name `active`, so that stays as it is", "dim", indent=4)
    for key in plan.not_in_folder:
        screen.line(f"Trigger {key} is not in the folder; --prune would delete it", "cyan", sign="i")
    told = [*plan.warnings]
    if plan.demanded and plan.demanded.is_too_much:
        told.append(_too_much(plan.demanded))
    for warning in told:
        screen.line(warning, "yellow", sign="!")
    if plan.changes or plan.paused or plan.not_in_folder or told:
        screen.line("")
    screen.line(total(plan), "bold")


def total(plan: FolderPlan) -> str:
    """How many steps of each kind, in words."""
    counts = Counter((change.verb, change.kind) for change in plan.changes)
    steps = [f"{screen.many(count, kind.lower())} to {verb.value}" for (verb, kind), count in counts.items()]
    told = "; ".join([", ".join(steps) or "Nothing to do", f"{plan.unchanged} unchanged"])
    left = len(plan.not_in_folder)
    return told + (f", {left} not in the folder" if left else "") + "."


def document(plan: FolderPlan) -> dict[str, Any]:
    """The plan in the shape that programs read; `changes` holds the steps, and nothing when there are none."""
    verbs = Counter(change.verb for change in plan.changes)
    return {
        "origin": plan.origin,
        "changes": [_shape(change) for change in plan.changes],
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
        "demand": _demand(plan.demanded) if plan.demanded else None,
    }


def _demand(of: Demanded) -> dict[str, Any]:
    return {"asked_rate": of.asked, "execution_qps": of.allowed, "is_too_much": of.is_too_much}


def _shape(change: PlanStep) -> dict[str, Any]:
    return {
        "action": change.verb.value,
        "kind": change.kind,
        "name": str(change.key),
        "revision": change.revision,
        "differences": [asdict(difference) for difference in change.differences],
        "drift": asdict(change.drift) if change.drift else None,
    }


def _show_change(change: PlanStep) -> None:
    sign, style = _SIGNS[change.verb]
    stands = f"  (revision {change.revision})" if change.revision is not None else ""
    screen.line(f"{change.verb.value} {change.kind} {change.key}{stands}", f"bold {style}", sign=sign)
    if change.drift:
        screen.line(_drift(change.drift, change.verb), "magenta", sign="!", indent=4)
    width = min(max((len(difference.path) for difference in change.differences), default=0), _WIDEST_PATH)
    for difference in change.differences:
        sign, style = _SIGNS[difference.kind]
        screen.line(f"{difference.path.ljust(width)}  {_values(difference)}", style, sign=sign, indent=4)


def _drift(past: LastDeploy, verb: Verb) -> str:
    because = f" ({past.reason})" if past.reason else ""
    if past.action == Action.DELETE:
        return f"was deleted by {past.actor} at {screen.cell(past.at)}{because}; this brings it back"
    lost = "that is deleted too" if verb is Verb.DELETE else "that is undone where the folder differs"
    made = f"{past.actor} at {screen.cell(past.at)}{because}"
    return f"revision {past.revision} was not applied from here: {made}; {lost}"


def _too_much(of: Demanded) -> str:
    """The warning of L-18, with the way out."""
    share = f"{of.asked / of.allowed:.0%} of execution_qps ({of.allowed:g})"
    return (
        f"with this the schedules ask for {of.asked:.3g} starts a second, {share}: above {FULL:.0%} a burst makes "
        "starts late; raise execution_qps, or have them fire less often"
    )


def _because(paused: Paused) -> str:
    until = f" until {screen.cell(paused.until)}" if paused.until else ""
    return until + (f" ({paused.reason})" if paused.reason else "")


def _values(difference: FieldDifference) -> str:
    match difference.kind:
        case DifferenceKind.ADDED:
            return _text(difference.after)
        case DifferenceKind.REMOVED:
            return _text(difference.before)
        case DifferenceKind.CHANGED:
            return f"{_text(difference.before)} {_arrow()} {_text(difference.after)}"


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _arrow() -> str:
    try:
        "→".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return "->"
    return "→"
