"""Signing in and out: a token goes into a cookie that no script and no other site's page gets hold of (O-06)."""

import re
from typing import Annotated, Final
from urllib.parse import parse_qsl, quote

from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from controller.api.bodies import RawBody, RawBodyDep
from controller.api.parameters import ServicesDep, check_schema
from controller.auth.guard import COOKIE, is_same_origin, split_address
from controller.auth.refusals import client_address, report_refusal
from controller.auth.requirements import public
from controller.errors import TooManyFailures, Unauthenticated, status_of
from controller.web.answering import page
from revisions.errors import Forbidden, Malformed

router = APIRouter(
    include_in_schema=False, default_response_class=Response, dependencies=[Depends(check_schema), public()]
)
FIELDS: Final = 2
"""The token, and the place that was asked for."""
LONGEST_FORM: Final = 64 * 1024
"""Bytes: a token of an issuer may be long, and so may a place."""


@router.get("/sign-in")
def form(request: Request, next: Annotated[str, Query()] = "/") -> Response:
    """Asks for a token."""
    return page(request, "sign-in.html", next=within(next), wrong=None)


@router.post("/sign-in")
async def sign_in(request: Request, here: ServicesDep, sent: RawBodyDep) -> Response:
    """Leaves the token in the browser, if it is one; the browser gives it up when it is closed."""
    if not is_same_origin(request.headers, here.settings.public_url):
        way = f"a program sends Authorization: Bearer …, or says Origin: {here.settings.public_url}"
        raise Forbidden.hinted("Origin", "another page may not sign you in", way)
    said = _form(sent)
    token, following = said.get("token", "").strip(), within(said.get("next", "/"))
    try:
        await run_in_threadpool(here.access.principal, token, client_address(request.scope))
    except (Unauthenticated, TooManyFailures) as error:
        report_refusal(request.scope, error)
        return page(request, "sign-in.html", status_of(error), next=following, wrong=error.detail)
    answer = RedirectResponse(following, 303)
    answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=request.url.scheme == "https")
    return answer


@router.post("/sign-out")
def sign_out(request: Request, here: ServicesDep) -> Response:
    """Takes the token out of the browser; revoking it is another matter."""
    if not is_same_origin(request.headers, here.settings.public_url):
        raise Forbidden("another page may not sign you out")
    answer = RedirectResponse("/sign-in", 303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=request.url.scheme == "https")
    return answer


def within(address: str) -> str:
    """A place on this very site: what leads elsewhere leads to the beginning.

    What is sent on is a path, and one that begins with `//` would be read as another site's name.
    """
    parts = split_address(address)
    is_place = re.match(r"/(?!/)", parts.path) and "\\" not in address and address.isprintable()
    if parts.scheme or parts.netloc or not is_place:
        return "/"
    return quote(parts.path, safe="/:@") + (f"?{parts.query}" if parts.query else "")


def _form(sent: RawBody) -> dict[str, str]:
    """The fields of our own form, which are few and short: anybody may send one, and it is read in the event loop.

    Raises Malformed for what is none.
    """
    if len(sent.content) > LONGEST_FORM:
        raise Malformed("body: is not what the sign-in page sends")
    try:
        return dict(parse_qsl(sent.content.decode("utf-8", "replace"), max_num_fields=FIELDS))
    except ValueError:
        raise Malformed("body: is not what the sign-in page sends") from None
