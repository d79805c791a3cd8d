"""Signing in and out: the token is stored in a cookie that scripts and the pages of other sites cannot use (O-06)."""

import re
from typing import Annotated, Final
from urllib.parse import parse_qsl, quote

from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from controller.api.bodies import RawBody, RawBodyDep
from controller.api.parameters import ServicesDep, check_schema
from controller.auth.access import client_address, report_refusal
from controller.auth.guard import COOKIE, is_same_origin, split_address
from controller.auth.requirements import public
from controller.errors import TooManyFailures, Unauthenticated, status_of
from controller.web.rendering import render
from revisions.errors import Forbidden, Malformed

router = APIRouter(
    include_in_schema=False, default_response_class=Response, dependencies=[Depends(check_schema), public()]
)
MOST_FIELDS: Final = 2
"""Fields of the form: the token, and the address to go on to."""
LARGEST_FORM: Final = 64 * 1024
"""Bytes. Tokens of an OpenID Connect issuer may be long, and addresses too."""


@router.get("/sign-in")
def form(request: Request, next: Annotated[str, Query()] = "/") -> Response:
    """Return the form that asks for a token."""
    return render(request, "sign-in.html", next=local_address(next), error=None)


@router.post("/sign-in")
async def sign_in(request: Request, services: ServicesDep, body: RawBodyDep) -> Response:
    """Store a valid token in a cookie that the browser deletes when it is closed, and go on to the wanted page."""
    if not is_same_origin(request.headers, services.settings.public_url):
        hint = f"a program sends Authorization: Bearer …, or says Origin: {services.settings.public_url}"
        raise Forbidden.hinted("Origin", "another page may not sign you in", hint)
    fields = _form_fields(body)
    token, next_address = fields.get("token", "").strip(), local_address(fields.get("next", "/"))
    try:
        await run_in_threadpool(services.access.principal, token, client_address(request.scope))
    except (Unauthenticated, TooManyFailures) as error:
        report_refusal(request.scope, error)
        return render(request, "sign-in.html", status_of(error), next=next_address, error=error.detail)
    answer = RedirectResponse(next_address, 303)
    answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=request.url.scheme == "https")
    return answer


@router.post("/sign-out")
def sign_out(request: Request, services: ServicesDep) -> Response:
    """Delete the cookie. The token stays valid; `triggerctl token revoke` ends it."""
    if not is_same_origin(request.headers, services.settings.public_url):
        raise Forbidden("another page may not sign you out")
    answer = RedirectResponse("/sign-in", 303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=request.url.scheme == "https")
    return answer


def local_address(address: str) -> str:
    """Return an address as path and query if it leads to this site, else `/`.

    Browsers read a path that begins with `//` or `/\\` as the name of another site.
    """
    parts = split_address(address)
    is_local = re.match(r"/(?!/)", parts.path) and "\\" not in address and address.isprintable()
    if parts.scheme or parts.netloc or not is_local:
        return "/"
    return quote(parts.path, safe="/:@") + (f"?{parts.query}" if parts.query else "")


def _form_fields(body: RawBody) -> dict[str, str]:
    """Return the fields of the sign-in form. Raises Malformed for any other body.

    The limits are tight because anybody may send a form, and it is parsed in the event loop.
    """
    if len(body.content) > LARGEST_FORM:
        raise Malformed("body: is not what the sign-in page sends")
    try:
        return dict(parse_qsl(body.content.decode("utf-8", "replace"), max_num_fields=MOST_FIELDS))
    except ValueError:
        raise Malformed("body: is not what the sign-in page sends") from None
