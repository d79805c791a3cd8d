"""What went wrong, for people, on standard error: the message, each fault, and what to do next."""

import os
from collections.abc import Mapping
from typing import Any

from controller.cli.client import Refused
from controller.cli.screen import cell, note
from controller.errors import UNEXPECTED, Exit, problem
from revisions.errors import TriggerctlError

_NEXT = {
    "malformed": "mend the text at that place and try again",
    "unauthenticated": "pass --token, or set TRIGGERCTL_TOKEN; `triggerctl token create` on the database makes one",
    "too_many_failures": "wait a while, and see that the token is the right one",
    "forbidden": "ask somebody who may",
    "not_found": "`triggerctl list`, `triggerctl task list` and `triggerctl runs list` show what there is",
    "conflict": "see `triggerctl show`, and what stands in the way",
    "precondition_required": "see `triggerctl show`, then repeat with --expected-revision and the revision you read",
    "too_large": "split it up, or keep the data elsewhere and pass its place",
    "invalid": "mend what is named above and try again; nothing was changed",
    "unavailable": "see that the database or the server runs, and that --database-url or --server names it",
    UNEXPECTED: "set TRIGGERCTL_DEBUG=1 to see where",
}


def tell(error: Exception) -> Exit:
    """Prints an error and answers the exit status; what nobody expected is one line, and in full when debugging."""
    match error:
        case Refused():
            _problem(error.problem)
            return error.exit_code
        case TriggerctlError():
            document = problem(error)
            _problem(document)
            return Refused(document).exit_code
        case _:
            if os.environ.get("TRIGGERCTL_DEBUG"):
                raise error
            first = (str(error).splitlines() or [""])[0]
            note(f"error: unexpected {type(error).__name__}: {first}".rstrip(": "))
            note(f"next: {_NEXT[UNEXPECTED]}")
            return Exit.FAILED


def _problem(document: Mapping[str, Any]) -> None:
    told, detail = document.get("errors", ()), document["detail"]
    faults = [_fault(fault) for fault in told]
    if len(told) == 1 and told[0]["message"] == detail:
        faults = []  # its hint is what is to be done next
    elif len(faults) == 1 and detail in faults[0]:
        detail, faults = faults[0], []
    elif len(faults) > 1:
        detail = f"{len(faults)} things are wrong"
    note(f"error: {detail}")
    for fault in faults:
        note(f"  {fault}")
    if document.get("changed_at"):
        note(f"  changed by {document['changed_by']} at {cell(document['changed_at'])}")
    if following := _next(document):
        note(f"next: {following}")


def _fault(fault: Mapping[str, str]) -> str:
    hint = f" ({fault['hint']})" if fault.get("hint") else ""
    return f"{fault['path']}: {fault['message']}{hint}"


def _next(document: Mapping[str, Any]) -> str | None:
    """What the error itself says is to be done, where it does; nothing where that stands in its text already.

    Who has to say who he is does it otherwise here than by HTTP, of which the error speaks.
    """
    code, revision, told = document["code"], document.get("current_revision"), document.get("errors", ())
    if code == "unauthenticated":
        return _NEXT[code]
    if len(told) == 1 and told[0]["message"] == document["detail"]:
        return None if told[0]["hint"] in document["detail"] else str(told[0]["hint"])
    if code == "conflict":
        if told:
            return None
        if revision is not None:
            return f"see `triggerctl history`, then repeat with --expected-revision {revision} if it still holds"
    return _NEXT.get(code)
