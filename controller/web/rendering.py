"""Rendering of pages: everything is escaped, unchanged pages are answered 304, and the browser gets a strict policy."""

import hashlib
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from controller.auth.access import LOCAL, PRINCIPAL
from controller.settings import VERSION
from controller.web import formatting

FOLDER = Path(__file__).parent

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "Cache-Control": "private, no-cache",
}
"""Headers of every page and file: nothing from other hosts, nothing inline, no frames, no use of a cache unasked."""

REFRESH_SECONDS = 3
"""Interval at which an open page updates itself."""

ErrorHandler = Callable[[Request, Exception], Awaitable[Response]]

_FILTERS: tuple[Callable[..., str], ...] = (
    formatting.duration,
    formatting.label,
    formatting.local_time,
    formatting.plain,
    formatting.pretty,
    formatting.readable,
    formatting.relative,
    formatting.schedule,
    formatting.tone,
)


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update({function.__name__: function for function in _FILTERS})
    environment.globals.update(
        version=VERSION,
        refresh_seconds=REFRESH_SECONDS,
        display_state=formatting.display_state,
        is_overdue=formatting.is_overdue,
        link=formatting.link,
        words=formatting,
    )
    return environment


_TEMPLATES = _environment()


def render(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """Return a page made of a template and its values, or 304 if the browser already has this content."""
    principal = request.scope.get(PRINCIPAL, LOCAL)
    signed_in = None if principal is LOCAL else principal.actor
    server = str(request.base_url).rstrip("/")
    text = _TEMPLATES.get_template(template).render(server=server, signed_in=signed_in, **values)
    content = text.encode("utf-8", "replace")  # texts of users may hold lone surrogates
    headers = HEADERS | {"ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"', "Vary": "Accept"}
    if status == 200 and headers["ETag"] in _etags_of(request):
        return Response(status_code=304, headers=headers)
    return Response(content, status, headers, "text/html; charset=utf-8")


def or_error_page(handler: ErrorHandler) -> ErrorHandler:
    """Wrap a handler of errors: browsers get a page made of its problem document, programs the document itself."""

    async def handle(request: Request, error: Exception) -> Response:
        answer = await handler(request, error)
        if request.url.path.startswith("/api/") or "text/html" not in request.headers.get("accept", ""):
            return answer
        if answer.status_code == HTTPStatus.UNAUTHORIZED:
            wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            page = render(request, "sign-in.html", answer.status_code, next=wanted, error=None)
        else:
            page = render(request, "error.html", answer.status_code, problem=json.loads(bytes(answer.body)))
        for name in ("WWW-Authenticate", "Retry-After", "Allow"):
            if name in answer.headers:
                page.headers[name] = answer.headers[name]
        return page

    return handle


class PageFiles(StaticFiles):
    """Stylesheet, scripts and icon of the pages."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        answer = await super().get_response(path, scope)
        answer.headers.update(HEADERS)
        return answer


def _etags_of(request: Request) -> list[str]:
    """Return the ETags that the browser has in its cache."""
    header = request.headers.get("if-none-match", "")
    return [tag.strip().removeprefix("W/") for tag in header.split(",")]
