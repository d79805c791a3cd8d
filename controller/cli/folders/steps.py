"""Plan of a folder: shown as lines for people or a document for programs, and carried out step by step.

Each step is carried out under the revision that the plan read, so that no newer change is overwritten.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from controller.cli import arguments
from controller.cli.client import ApiError, Client, if_match, if_match_or_new
from controller.cli.error_messages import format_fault
from controller.cli.output import count_of, format_cell, print_line, write_warnings
from controller.errors import Exit
from reconcile.decide.admission import FULL, Demanded
from reconcile.report.plan import FolderPlan, LastDeploy, Paused, PlanStep, Verb, applied, pruned
from revisions.errors import Unavailable
from revisions.history.triggers import Action, DifferenceKind, FieldDifference
from revisions.ids import CalendarKey, TaskKey

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


class StepOutcome(StrEnum):
    """Outcome of one step."""

    DONE = "done"
    CONFLICT = "conflict"
    FAILED = "failed"
    HELD_BACK = "held_back"


@dataclass(frozen=True, slots=True)
class StepResult:
    """A change and its outcome. `revision` is the one that it made, `error` why it failed."""

    change: PlanStep
    outcome: StepOutcome
    revision: int | None = None
    detail: str = ""
    error: ApiError | Unavailable | None = None

    @property
    def is_refused(self) -> bool:
        return self.outcome in (StepOutcome.CONFLICT, StepOutcome.FAILED)

    @property
    def is_connection_lost(self) -> bool:
        return isinstance(self.error, Unavailable) or (
            isinstance(self.error, ApiError) and self.error.exit_code is Exit.NOT_REACHABLE
        )


_PAST_TENSE = {Verb.REGISTER: "registered", Verb.CREATE: "created", Verb.CHANGE: "changed", Verb.DELETE: "deleted"}


def apply_plan(client: Client, plan: FolderPlan) -> Iterator[StepResult]:
    """Carry out the steps of a plan in order, and yield each result.

    A refused step does not stop the steps after it, except deletions: the trigger that was to replace the deleted one
    may be what was refused. After a lost connection no step is tried.
    """
    is_refused = is_lost = False
    for change in plan.changes:
        if is_lost:
            result = StepResult(change, StepOutcome.HELD_BACK, detail="not reached")
        elif is_refused and change.verb is Verb.DELETE:
            result = StepResult(change, StepOutcome.HELD_BACK, detail="not deleted")
        else:
            result = _apply_change(client, plan, change)
        is_refused = is_refused or result.is_refused
        is_lost = is_lost or result.is_connection_lost
        yield result


def describe(result: StepResult) -> str:
    """Return a result as one line."""
    change = result.change
    is_done = result.outcome is StepOutcome.DONE
    outcome = _PAST_TENSE[change.verb] if is_done else result.outcome.value.replace("_", " ")
    revision = f", revision {result.revision}" if result.revision is not None else ""
    detail = f": {result.detail}" if result.detail else ""
    return f"{outcome} {change.kind} {change.key}{revision}{detail}"


def results_document(plan: FolderPlan, results: Sequence[StepResult]) -> dict[str, Any]:
    """Return the plan as JSON shows it, with the outcome of each change."""
    document = plan_document(plan)
    for change, result in zip(document["changes"], results, strict=True):
        change |= {"outcome": result.outcome.value, "new_revision": result.revision, "detail": result.detail}
    counts = Counter(result.outcome for result in results)
    document["summary"] |= {outcome.value: counts[outcome] for outcome in StepOutcome}
    return document


def undo_hints(results: Sequence[StepResult]) -> list[str]:
    """Return lines that tell how to undo the deletions."""
    rollbacks = [
        f"  triggerctl rollback {result.change.key} --to {result.change.revision} --expected-revision {result.revision}"
        for result in results
        if result.change.verb is Verb.DELETE and result.outcome is StepOutcome.DONE
    ]
    return ["undo a deletion with a rollback:", *rollbacks] if rollbacks else []


def lost_connection(results: Sequence[StepResult]) -> ApiError | Unavailable | None:
    """Return the error with which the connection was lost."""
    return next((result.error for result in results if result.is_connection_lost), None)


def failure_note(results: Sequence[StepResult]) -> str | None:
    """Return how many steps were refused or held back; None if all were done."""
    refused = sum(result.is_refused for result in results)
    if not refused:
        return None
    held_back = sum(result.outcome is StepOutcome.HELD_BACK for result in results)
    deletions = f", and {count_of(held_back, 'deletion')} held back because of that" if held_back else ""
    return f"{refused} of {len(results)} steps could not be done{deletions}"


def exit_status(results: Sequence[StepResult]) -> Exit:
    """Return the exit status of the first refused step; a conflict takes precedence over other errors."""
    statuses = [result.error.exit_code for result in results if isinstance(result.error, ApiError)]
    if Exit.CONFLICT in statuses:
        return Exit.CONFLICT
    return statuses[0] if statuses else Exit.DONE


def _apply_change(client: Client, plan: FolderPlan, change: PlanStep) -> StepResult:
    try:
        return StepResult(change, StepOutcome.DONE, _send(client, plan, change))
    except Unavailable as error:
        return StepResult(change, StepOutcome.FAILED, detail=str(error), error=error)
    except ApiError as error:
        outcome = StepOutcome.CONFLICT if error.exit_code is Exit.CONFLICT else StepOutcome.FAILED
        detail = str(error) if error.exit_code is Exit.NOT_REACHABLE else _refusal_detail(error)
        return StepResult(change, outcome, detail=detail, error=error)


def _send(client: Client, plan: FolderPlan, change: PlanStep) -> int | None:
    """Send a change and return the revision that it made; tasks have none."""
    document = change.declared.document if change.declared else None
    if isinstance(change.key, TaskKey):
        write_warnings(client.put(arguments.task_key_path(change.key), document))
        return None
    if isinstance(change.key, CalendarKey):
        answer = client.put(
            arguments.calendar_path(str(change.key)), document, headers=if_match_or_new(change.revision)
        )
        write_warnings(answer, change.key)
        return int(answer["revision"])
    path = arguments.trigger_path(str(change.key))
    if change.verb is Verb.DELETE:
        assert plan.origin is not None
        assert change.revision is not None
        answer = client.delete(path, {"reason": pruned(plan.origin)}, headers=if_match(change.revision))
        return int(answer["revision"])
    headers = if_match_or_new(change.revision)
    answer = client.put(path, document, headers=headers, origin=plan.origin, reason=applied(plan.origin))
    write_warnings(answer, change.key)
    return int(answer["revision"])


def _refusal_detail(error: ApiError) -> str:
    """Return the server's faults, or else its message, as one line."""
    faults, actor = error.problem.get("errors") or (), error.problem.get("changed_by")
    if faults:
        return "; ".join(map(format_fault, faults))
    return f"{error}, changed by {actor} at {format_cell(error.problem['changed_at'])}" if actor else str(error)
