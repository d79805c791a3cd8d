"""Error messages for people, on standard error: the message, each fault, and the next step."""

import os
from collections.abc import Mapping
from typing import Any

from controller.cli.client import ApiError
from controller.cli.output import format_cell, write_note
from controller.errors import UNEXPECTED, Exit, problem
from revisions.errors import TriggerctlError

_NEXT_STEPS = {
    "malformed": "fix the text at that place and try again",
    "unauthenticated": "pass --token, or set TRIGGERCTL_TOKEN; `triggerctl token create` on the database makes one",
    "too_many_failures": "check that the token is the right one, and try again later",
    "forbidden": "ask somebody who has the permission",
    "not_found": "`triggerctl list`, `triggerctl task list` and `triggerctl runs list` show what there is",
    "conflict": "see `triggerctl show` for the current state",
    "precondition_required": "see `triggerctl show`, then repeat with --expected-revision and the revision you read",
    "too_large": "split the input, or store the data elsewhere and pass a reference to it",
    "invalid": "fix the faults named above and try again; nothing was changed",
    "unavailable": "check that the database or the server runs, and that --database-url or --server names it",
    UNEXPECTED: "set TRIGGERCTL_DEBUG=1 to see the traceback",
}


def report_error(error: Exception) -> Exit:
    """Write an error to standard error and return the exit status.

    An unexpected error is written as one line; with TRIGGERCTL_DEBUG it is raised again instead.
    """
    match error:
        case ApiError():
            _write_problem(error.problem)
            return error.exit_code
        case TriggerctlError():
            document = problem(error)
            _write_problem(document)
            return ApiError(document).exit_code
        case _:
            if os.environ.get("TRIGGERCTL_DEBUG"):
                raise error
            first_line = (str(error).splitlines() or [""])[0]
            write_note(f"error: unexpected {type(error).__name__}: {first_line}".rstrip(": "))
            write_note(f"next: {_NEXT_STEPS[UNEXPECTED]}")
            return Exit.FAILED


def format_fault(fault: Mapping[str, str]) -> str:
    """Return a fault of a problem document as one line: path, message and hint."""
    hint = f" ({fault['hint']})" if fault.get("hint") else ""
    return f"{fault['path']}: {fault['message']}{hint}"


def _write_problem(document: Mapping[str, Any]) -> None:
    faults, detail = document.get("errors", ()), document["detail"]
    lines = [format_fault(fault) for fault in faults]
    if len(faults) == 1 and faults[0]["message"] == detail:
        lines = []  # its hint becomes the next step
    elif len(lines) == 1 and detail in lines[0]:
        detail, lines = lines[0], []
    elif len(lines) > 1:
        detail = f"{len(lines)} things are wrong"
    write_note(f"error: {detail}")
    for line in lines:
        write_note(f"  {line}")
    if document.get("changed_at"):
        write_note(f"  changed by {document['changed_by']} at {format_cell(document['changed_at'])}")
    if step := _next_step(document):
        write_note(f"next: {step}")


def _next_step(document: Mapping[str, Any]) -> str | None:
    """Return the error's own hint if it has one, else that of its code; None if the message already says it."""
    code, revision, faults = document["code"], document.get("current_revision"), document.get("errors", ())
    if code == "unauthenticated":  # its hint is about HTTP headers, which the command line's user does not write
        return _NEXT_STEPS[code]
    if len(faults) == 1 and faults[0]["message"] == document["detail"]:
        return None if faults[0]["hint"] in document["detail"] else str(faults[0]["hint"])
    if code == "conflict":
        if faults:
            return None
        if revision is not None:
            return f"see `triggerctl history`, then repeat with --expected-revision {revision} if it still holds"
    return _NEXT_STEPS.get(code)
