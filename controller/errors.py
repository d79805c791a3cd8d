"""Error answers: problem documents (RFC 9457) and exit codes, both chosen by the error's stable `code`.

An answer shows nothing of the implementation.
"""

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import asdict
from enum import IntEnum
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.auth.access import ACTOR, REFUSALS, report_refusal
from revisions.errors import Conflict, Fault, Invalid, PreconditionFailed, TriggerctlError, Unavailable
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


log = logging.getLogger(__name__)

_TEXT = {"type": "string"}
_FAULT = {"type": "object", "properties": dict.fromkeys(("path", "message", "hint"), _TEXT)}
_PROBLEM = {
    "title": "Problem",
    "description": "RFC 9457 problem details. Conflicts have the last three properties, too.",
    "type": "object",
    "required": ["type", "title", "status", "code", "detail", "errors"],
    "properties": {
        **dict.fromkeys(("type", "title"), _TEXT),
        "status": {"type": "integer"},
        "code": {"type": "string", "enum": sorted(KINDS)},
        "detail": _TEXT,
        "errors": {"type": "array", "items": _FAULT},
        "current_revision": {"type": ["integer", "null"]},
        "changed_by": {"type": ["string", "null"]},
        "changed_at": {"type": ["string", "null"], "format": "date-time"},
    },
}
_CONTENT = {MEDIA_TYPE: {"schema": _PROBLEM}}

DOCUMENTED: dict[int | str, dict[str, Any]] = {
    "4XX": {"description": "the request cannot be carried out", "content": _CONTENT},
    "5XX": {"description": "the controller cannot answer now", "content": _CONTENT},
}


def install(app: FastAPI) -> None:
    """Answer every error of an application with a problem document."""
    app.add_exception_handler(TriggerctlError, _known)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(HTTPException, _http)
    app.add_middleware(Boundary)


class Boundary:
    """Outermost middleware: logs unexpected errors and answers 500; a caller in this process gets the exception."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except ClientDisconnect:
            return  # the client left while it was sending its body: nobody waits for an answer
        except Exception as error:
            answer = await _unexpected(scope, error)
            if started:
                raise
            await answer(scope, receive, send)


async def _unexpected(scope: Scope, error: Exception) -> Response:
    """Answer 503 if the database has another schema; else 500, with the cause in the log only."""
    gate = scope["app"].state.services.gate
    gate.forget()
    try:
        await run_in_threadpool(gate.check)
    except Unavailable as reason:
        return problem_response(problem(reason))
    if ACTOR in scope:
        raise error
    log.error("%s %s failed", scope["method"], scope["path"], exc_info=error)
    return problem_response(document_of(UNEXPECTED, UNEXPECTED_DETAIL))


def problem_response(document: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    """Return an answer with a problem document as its body."""
    content = json.dumps(document).encode()  # ASCII: a text quoted from the input may hold a lone surrogate
    return Response(content, document["status"], headers, MEDIA_TYPE)


async def _known(request: Request, error: Exception) -> Response:
    assert isinstance(error, TriggerctlError)
    if isinstance(error, Unavailable):
        request.app.state.services.gate.forget()
    if isinstance(error, REFUSALS):
        report_refusal(request.scope, error)
    return problem_response(problem(error), headers_of(error))


async def _validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = [_fault(details) for details in error.errors()]
    return problem_response(problem(Invalid(f"{faults[0].path}: {faults[0].message}", faults)))


def _fault(details: Any) -> Fault:
    path = ".".join(map(str, details["loc"][1:])) or str(details["loc"][0])
    message = str(details["msg"]).removeprefix("Value error, ")
    return Fault(path, message[0].lower() + message[1:])


async def _http(request: Request, error: Exception) -> Response:
    """Answer errors that Starlette raises, such as an unknown route or method."""
    assert isinstance(error, HTTPException)
    code = next((code for code, kind in KINDS.items() if kind.status == error.status_code), UNEXPECTED)
    match error.status_code:
        case 404:
            detail = f"there is no {request.url.path}"
        case 405:
            detail = f"{request.method} cannot be done with {request.url.path}"
        case _:
            detail = str(error.detail) or HTTPStatus(error.status_code).phrase
    document = document_of(code, detail, error.status_code)
    return problem_response(document, dict(error.headers) if error.headers else None)
