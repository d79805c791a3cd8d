"""Pages as responses: rendered with everything escaped, compared by ETag, sent with what keeps a browser in bounds."""

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

from controller.auth.access import LOCAL
from controller.auth.refusals import PRINCIPAL
from controller.version import VERSION
from controller.web import words

HERE = Path(__file__).parent

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "Cache-Control": "private, no-cache",
}
"""On every page and file: nothing from elsewhere, nothing inline, no frame; shown again only once it was asked for."""

REFRESH_SECONDS = 3

ErrorHandler = Callable[[Request, Exception], Awaitable[Response]]


_FILTERS: tuple[Callable[..., str], ...] = (
    words.hint,
    words.label,
    words.plain,
    words.pretty,
    words.readable,
    words.schedule,
    words.span,
    words.tone,
    words.wall,
)


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update({word.__name__: word for word in _FILTERS})
    environment.globals.update(version=VERSION, refresh_seconds=REFRESH_SECONDS, words=words)
    return environment


_TEMPLATES = _environment()


def page(request: Request, template: str, status: int = 200, **facts: Any) -> Response:
    """A page, or 304 where the browser has it already."""
    asking = request.scope.get(PRINCIPAL, LOCAL)
    signed_in = None if asking is LOCAL else asking.actor
    server = str(request.base_url).rstrip("/")
    text = _TEMPLATES.get_template(template).render(server=server, signed_in=signed_in, **facts)
    content = text.encode("utf-8", "replace")
    headers = HEADERS | {"ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"', "Vary": "Accept"}
    if status == 200 and headers["ETag"] in _known(request):
        return Response(status_code=304, headers=headers)
    return Response(content, status, headers, "text/html; charset=utf-8")


def or_page(problem: ErrorHandler) -> ErrorHandler:
    """The same error for who reads pages: made of the problem document that a program gets."""

    async def handle(request: Request, error: Exception) -> Response:
        answer = await problem(request, error)
        if request.url.path.startswith("/api/") or "text/html" not in request.headers.get("accept", ""):
            return answer
        if answer.status_code == HTTPStatus.UNAUTHORIZED:
            place = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            shown = page(request, "sign-in.html", answer.status_code, next=place, wrong=None)
        else:
            shown = page(request, "error.html", answer.status_code, problem=json.loads(bytes(answer.body)))
        for name in ("WWW-Authenticate", "Retry-After", "Allow"):
            if name in answer.headers:
                shown.headers[name] = answer.headers[name]
        return shown

    return handle


class Files(StaticFiles):
    """Stylesheet, script and icon."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        answer = await super().get_response(path, scope)
        answer.headers.update(HEADERS)
        return answer


def _known(request: Request) -> list[str]:
    sent = request.headers.get("if-none-match", "")
    return [tag.strip().removeprefix("W/") for tag in sent.split(",")]
