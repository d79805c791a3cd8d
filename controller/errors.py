"""Problem documents (RFC 9457) and exit codes of errors, both chosen by the error's stable `code`."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from enum import IntEnum
from typing import Any, Final, NamedTuple

from revisions.errors import Conflict, PreconditionFailed, TriggerctlError
from revisions.ids import utc_text

MEDIA_TYPE = "application/problem+json"
UNEXPECTED = "unexpected"
UNEXPECTED_DETAIL: Final = "something went wrong inside; the controller's log says what"
LONGEST_TEXT: Final = 2_000
"""Longest text in a problem document, characters."""


class TooLarge(TriggerctlError):
    """The request's body is larger than the route accepts."""

    code = "too_large"


class Unauthenticated(TriggerctlError):
    """The request has no credential, or a wrong one."""

    code = "unauthenticated"


class TooManyFailures(TriggerctlError):
    """Too many wrong credentials came from an address; it may try again after `retry_after_seconds`."""

    code = "too_many_failures"

    def __init__(self, detail: str, retry_after_seconds: float) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds


class Exit(IntEnum):
    """Exit status of the command line."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    INVALID = 5
    NOT_ALLOWED = 6
    NOT_REACHABLE = 7


class _Kind(NamedTuple):
    status: int
    title: str
    exit: Exit


KINDS: Mapping[str, _Kind] = {
    "malformed": _Kind(400, "The text cannot be read", Exit.INVALID),
    "unauthenticated": _Kind(401, "Say who you are", Exit.NOT_ALLOWED),
    "forbidden": _Kind(403, "Not allowed", Exit.NOT_ALLOWED),
    "not_found": _Kind(404, "There is no such thing", Exit.NOT_FOUND),
    "method_not_allowed": _Kind(405, "This cannot be done with it", Exit.FAILED),
    "conflict": _Kind(409, "Something else is there", Exit.CONFLICT),
    "too_large": _Kind(413, "Too large", Exit.INVALID),
    "invalid": _Kind(422, "The input says something wrong", Exit.INVALID),
    "precondition_required": _Kind(428, "Name the revision you read", Exit.CONFLICT),
    "too_many_failures": _Kind(429, "Too many wrong credentials", Exit.NOT_ALLOWED),
    UNEXPECTED: _Kind(500, "Something went wrong inside", Exit.FAILED),
    "unavailable": _Kind(503, "Cannot be used now", Exit.NOT_REACHABLE),
}


def status_of(error: TriggerctlError) -> int:
    """Return the HTTP status: 412 for a precondition that the caller named, else the one of the error's code."""
    return 412 if isinstance(error, PreconditionFailed) else KINDS[error.code].status


def problem(error: TriggerctlError) -> dict[str, Any]:
    """Return the problem document of an error."""
    document = document_of(error.code, _shortened(error.detail), status_of(error))
    document["errors"] = [{name: _shortened(text) for name, text in asdict(fault).items()} for fault in error.errors]
    if isinstance(error, Conflict):
        document["current_revision"] = error.current_revision
        document["changed_by"] = error.changed_by
        document["changed_at"] = utc_text(error.changed_at) if error.changed_at else None
    return document


def document_of(code: str, detail: str, status: int | None = None) -> dict[str, Any]:
    """Return a problem document without faults."""
    kind = KINDS[code]
    return {
        "type": f"urn:triggerctl:problem:{code}",
        "title": kind.title,
        "status": status or kind.status,
        "code": code,
        "detail": detail,
        "errors": [],
    }


def _shortened(text: str) -> str:
    """Return a text cut to a readable length: errors quote the input, which may be long."""
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


def headers_of(error: TriggerctlError) -> dict[str, str] | None:
    """Return the HTTP headers of an error: how to authenticate, and when to try again."""
    match error:
        case Unauthenticated():
            return {"WWW-Authenticate": 'Bearer realm="triggerctl"'}
        case TooManyFailures():
            return {"Retry-After": str(math.ceil(error.retry_after_seconds))}
        case _:
            return None


def exit_code(code: str) -> Exit:
    """Return the exit status of a code; FAILED for an unknown one, which a newer server may send."""
    return KINDS[code].exit if code in KINDS else Exit.FAILED
