"""Nobody gets further than this without the right that his route takes; who asks and within what is left in the scope.

Who asks is known by the credential alone, never by a header or a body that says so (O-06).
"""

from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import SplitResult, urlsplit

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from controller.api import rights
from controller.api.context import ACTOR, PRINCIPAL, REACH
from controller.api.refusals import address_of
from controller.api.rights import Found, Need, Where
from controller.auth import LOCAL
from controller.services import Services
from reconcile.decide.authority import ALL_RIGHTS, EVERYWHERE, NOWHERE, Principal, Reach, Role
from revisions.errors import Forbidden, TriggerctlError, Unavailable

COOKIE: Final = "triggerctl"
"""What the sign-in page leaves in a browser."""
SAFE = ("GET", "HEAD")


class Guard:
    """Stands before every route of an application."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            found = rights.find(scope["path"])
            need = found.needs.get(scope["method"]) if found else None
            if need is None or need.role is not None:
                await run_in_threadpool(self._admit, scope, found, need)
            if found is None:
                raise HTTPException(404)
            if need is None:
                raise HTTPException(405, headers={"Allow": ", ".join(sorted(found.needs))})
        except (TriggerctlError, HTTPException) as error:
            kind = HTTPException if isinstance(error, HTTPException) else TriggerctlError
            answer = await scope["app"].exception_handlers[kind](Request(scope), error)
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _admit(self, scope: Scope, found: Found | None, need: Need | None) -> None:
        """Leaves who asks, and within what, in the scope. Raises what keeps him out."""
        scope[PRINCIPAL] = asking = self._principal(scope, need)
        scope[REACH] = _reach(asking, found, need)

    def _principal(self, scope: Scope, need: Need | None) -> Principal:
        if ACTOR in scope:
            return Principal(scope[ACTOR], ALL_RIGHTS)
        access = self._services.access
        if not access.is_known_on:
            try:
                self._services.gate.check()
                if not access.is_on():
                    return LOCAL
            except Unavailable:
                if need is not None and need.is_diagnosis:
                    return LOCAL
                raise
        credential = self._credential(Headers(scope=scope), scope["method"])
        try:
            return access.principal(credential, address_of(scope))
        except Unavailable:
            if need is not None and need.is_diagnosis and credential and (met := access.met(credential)):
                return met
            raise

    def _credential(self, headers: Headers, method: str) -> str | None:
        """The bearer token, else what the sign-in page left, with which only our own pages may change something."""
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind:
            return token.strip() if kind.lower() == "bearer" else ""
        try:
            left = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            left = None
        if left is None or not left.value:
            return None
        if method not in SAFE and not is_own(headers, self._services.settings.public_url):
            raise Forbidden("another page may not change something with your signing in")
        return left.value


def _reach(asking: Principal, found: Found | None, need: Need | None) -> Reach:
    """Within what somebody may do what the route does. Raises Forbidden where that is nothing."""
    if found is None or need is None:
        return NOWHERE
    assert need.role is not None
    if need.where is Where.OWN_RUN and asking.cause is not None:
        if found.names["id"].upper() != asking.cause.run_id:
            raise Forbidden.hinted("run", f"{asking.actor} may speak for itself alone", "send that run's own token")
        return EVERYWHERE
    if need.where is Where.NOT_BY_RUNS and asking.cause is not None:
        raise Forbidden.hinted(
            "run", f"{asking.actor} may not do this: it takes a person's word", "have somebody do it"
        )
    reach = asking.rights.reach(need.role)
    if need.where is Where.NAMED and not reach.covers(found.names["project"]):
        raise missing(asking, need.role, found.names["project"])
    if need.where is Where.ALL and not reach.covers(None):
        raise missing(asking, need.role, None)
    if reach == NOWHERE:
        raise missing(asking, need.role, None)
    return reach


def missing(asking: Principal, role: Role, project: str | None) -> Forbidden:
    """What is told to somebody who lacks a role; it does not hang on what there is, so it gives nothing away."""
    where = f"in {project}" if project else "in every project" if asking.rights.reach(role) != NOWHERE else "here"
    detail = f"{asking.actor} is not {role} {where}, and this takes that"
    return Forbidden.hinted("role", detail, "ask an admin for a token that has the role")


def is_own(headers: Headers, public_url: str) -> bool:
    """Whether the page that sends a request is of this very host and port, as the browser says."""
    origin = headers.get("origin")
    return origin is not None and parts_of(origin).netloc in (headers.get("host"), urlsplit(public_url).netloc)


def parts_of(address: str) -> SplitResult:
    """The parts of an address that a stranger sent; empty ones where it is none."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")
