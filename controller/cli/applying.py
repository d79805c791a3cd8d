"""Doing a plan: each step under the revision that the plan read, so that nothing that came between is overwritten."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from controller.cli import files, planned
from controller.cli.client import Client, Refused
from controller.cli.screen import cell, note, warn
from controller.errors import Exit
from reconcile.report.plan import FolderPlan, PlanStep, Verb, applied, pruned
from revisions.errors import Unavailable
from revisions.ids import CalendarKey, TaskKey


class Outcome(StrEnum):
    """What became of a step."""

    DONE = "done"
    CONFLICT = "conflict"
    FAILED = "failed"
    HELD_BACK = "held_back"


@dataclass(frozen=True, slots=True)
class Step:
    """A change and what became of it; `revision` is the one it made."""

    change: PlanStep
    outcome: Outcome
    revision: int | None = None
    detail: str = ""
    exit: Exit = Exit.DONE


_DID = {Verb.REGISTER: "registered", Verb.CREATE: "created", Verb.CHANGE: "changed", Verb.DELETE: "deleted"}


class Steps:
    """Takes the steps of a plan one by one and says so; one that is refused does not keep the others from being taken.

    But nothing is deleted after a refusal: what was to take its place may be what was refused.
    """

    def __init__(self, client: Client, plan: FolderPlan, *, says: Callable[[str], None]) -> None:
        self._client, self._plan, self._says = client, plan, says
        self._taken: list[Step] = []
        self._lost: Unavailable | Refused | None = None

    def take(self) -> None:
        """All steps; stops early only when the server is lost, which `close` tells."""
        for change in self._plan.changes:
            if self._lost or (change.verb is Verb.DELETE and self._refused):
                self._note(Step(change, Outcome.HELD_BACK, detail="not reached" if self._lost else "not deleted"))
                continue
            try:
                self._note(self._do(change))
            except Refused as error:
                if error.exit_code is Exit.NOT_REACHABLE:
                    self._lose(change, error)
                else:
                    outcome = Outcome.CONFLICT if error.exit_code is Exit.CONFLICT else Outcome.FAILED
                    self._note(Step(change, outcome, detail=_why(error), exit=error.exit_code))
            except Unavailable as error:
                self._lose(change, error)

    def document(self) -> dict[str, Any]:
        """The plan's own shape, each change with what became of it."""
        shape = planned.document(self._plan)
        for change, step in zip(shape["changes"], self._taken, strict=True):
            change |= {"outcome": step.outcome.value, "new_revision": step.revision, "detail": step.detail}
        shape["summary"] |= {outcome.value: self._count(outcome) for outcome in Outcome}
        return shape

    def close(self) -> int:
        """Says what is left to do, and answers the exit status: a conflict goes before every other refusal."""
        self._say_how_to_undo()
        if self._lost:
            raise self._lost
        if not self._refused:
            return Exit.DONE
        held = self._count(Outcome.HELD_BACK)
        because = f", and {held} deletions were held back because of that" if held else ""
        note(f"error: {len(self._refused)} of {len(self._taken)} steps could not be done{because}")
        note("next: see `triggerctl plan`, then apply again; what is done stays done")
        exits = [step.exit for step in self._refused]
        return Exit.CONFLICT if Exit.CONFLICT in exits else exits[0]

    @property
    def _refused(self) -> list[Step]:
        return [step for step in self._taken if step.outcome in (Outcome.CONFLICT, Outcome.FAILED)]

    def _count(self, outcome: Outcome) -> int:
        return sum(step.outcome is outcome for step in self._taken)

    def _lose(self, change: PlanStep, error: Unavailable | Refused) -> None:
        self._lost = error
        self._note(Step(change, Outcome.FAILED, detail=str(error), exit=Exit.NOT_REACHABLE))

    def _note(self, step: Step) -> None:
        self._taken.append(step)
        did = _DID[step.change.verb] if step.outcome is Outcome.DONE else step.outcome.value.replace("_", " ")
        after = f", revision {step.revision}" if step.revision is not None else ""
        self._says(f"{did} {step.change.kind} {step.change.key}{after}{f': {step.detail}' if step.detail else ''}")

    def _do(self, change: PlanStep) -> Step:
        origin, document = self._plan.origin, change.declared.document if change.declared else None
        if isinstance(change.key, TaskKey):
            made = self._client.put(files.task_key_path(change.key), document)
            warn(made)
            return Step(change, Outcome.DONE)
        is_calendar = isinstance(change.key, CalendarKey)
        path = (files.calendar_path if is_calendar else files.trigger_path)(str(change.key))
        headers = {"If-None-Match": "*"} if change.revision is None else {"If-Match": f'"{change.revision}"'}
        if change.verb is Verb.DELETE:
            assert origin is not None
            answer = self._client.delete(path, {"reason": pruned(origin)}, headers=headers)
        else:
            said = {} if is_calendar else {"origin": origin, "reason": applied(origin)}
            answer = self._client.put(path, document, headers=headers, **said)
            warn(answer, change.key)
        return Step(change, Outcome.DONE, answer["revision"])

    def _say_how_to_undo(self) -> None:
        deleted = [step for step in self._taken if step.change.verb is Verb.DELETE and step.outcome is Outcome.DONE]
        if deleted:
            note("undo a deletion with a rollback:")
        for step in deleted:
            name, before = step.change.key, step.change.revision
            note(f"  triggerctl rollback {name} --to {before} --expected-revision {step.revision}")


def _why(error: Refused) -> str:
    """What a server said against it, in one line."""
    faults, by = error.problem.get("errors") or (), error.problem.get("changed_by")
    if not faults:
        return f"{error}, changed by {by} at {cell(error.problem['changed_at'])}" if by else str(error)
    return "; ".join(
        f"{fault['path']}: {fault['message']}" + (f" ({fault['hint']})" if fault.get("hint") else "")
        for fault in faults
    )
