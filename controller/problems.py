"""Error answers: problem documents (RFC 9457) that show nothing of the implementation."""

import json
import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.auth.access import ACTOR, REFUSALS, report_refusal
from controller.errors import KINDS, MEDIA_TYPE, UNEXPECTED, UNEXPECTED_DETAIL, document_of, headers_of, problem
from revisions.errors import Fault, Invalid, TriggerctlError, Unavailable

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
