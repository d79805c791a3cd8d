"""ASGI middleware in front of the application: credential and role of every request, and protection of browsers.

The caller is known by the credential alone, never by another header or a body (O-06).

A browser lets any page send requests to this machine, and a page's own host name can be made to resolve to 127.0.0.1.
Without access control such a page could start commands here, so requests under a foreign Host and requests from foreign
pages are refused. With access control the Host does not matter: a page under another name has no credential to send.
"""

from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import SplitResult, urlsplit

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.auth.access import ACTOR, LOCAL, PRINCIPAL, REACH, Access, client_address, report_refusal
from controller.auth.requirements import ADMITTED, MatchedRoute, Projects, Requirement, RouteTable, RunTokens
from controller.errors import problem
from controller.problems import problem_response
from controller.services import Services
from controller.settings import Settings, is_loopback
from reconcile.decide.authority import ALL_RIGHTS, EVERYWHERE, NOWHERE, Principal, Reach, Role
from revisions.errors import Forbidden, TriggerctlError, Unavailable

COOKIE: Final = "triggerctl"
"""Cookie in which the sign-in page stores the token."""
SAFE = ("GET", "HEAD")


class Guard:
    """Middleware that refuses requests for unknown routes, and callers without the role that a route requires."""

    def __init__(self, app: ASGIApp, services: Services, routes: RouteTable) -> None:
        self._app = app
        self._services = services
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            route = self._routes.match(scope["path"])
            requirement = route.requirements.get(scope["method"]) if route else None
            if requirement is None or requirement.role is not None:
                await run_in_threadpool(self._admit, scope, route, requirement)
            if route is None:
                raise HTTPException(404)
            if requirement is None:
                raise HTTPException(405, headers={"Allow": ", ".join(sorted(route.requirements))})
        except (TriggerctlError, HTTPException) as error:
            kind = HTTPException if isinstance(error, HTTPException) else TriggerctlError
            response = await scope["app"].exception_handlers[kind](Request(scope), error)
            await response(scope, receive, send)
            return
        scope[ADMITTED] = requirement
        await self._app(scope, receive, send)

    def _admit(self, scope: Scope, route: MatchedRoute | None, requirement: Requirement | None) -> None:
        """Store the principal and its reach in the scope. Raises Unauthenticated, TooManyFailures, Forbidden."""
        scope[PRINCIPAL] = principal = self._principal(scope, requirement)
        scope[REACH] = _reach(principal, route, requirement)

    def _principal(self, scope: Scope, requirement: Requirement | None) -> Principal:
        if ACTOR in scope:
            return Principal(scope[ACTOR], ALL_RIGHTS)
        access = self._services.access
        diagnosis = requirement is not None and requirement.diagnosis
        if not access.is_known_on:
            try:
                self._services.gate.check()
                if not access.is_on():
                    return LOCAL
            except Unavailable:
                if diagnosis:
                    return LOCAL
                raise
        credential = self._credential(Headers(scope=scope), scope["method"])
        try:
            return access.principal(credential, client_address(scope))
        except Unavailable:
            if diagnosis and credential and (principal := access.recent_principal(credential)):
                return principal
            raise

    def _credential(self, headers: Headers, method: str) -> str | None:
        """Return the bearer token, else the sign-in cookie's. Raises Forbidden for a change sent by a foreign page."""
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind:
            return token.strip() if kind.lower() == "bearer" else ""
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            cookie = None
        if cookie is None or not cookie.value:
            return None
        if method not in SAFE and not is_same_origin(headers, self._services.settings.public_url):
            raise Forbidden("another site's page may not change something with your sign-in")
        return cookie.value


def _reach(principal: Principal, route: MatchedRoute | None, requirement: Requirement | None) -> Reach:
    """Return the projects in which the principal meets a requirement. Raises Forbidden if there are none."""
    if route is None or requirement is None:
        return NOWHERE
    assert requirement.role is not None
    if requirement.runs is RunTokens.OWN_RUN_ONLY and principal.cause is not None:
        if route.parameters["id"].upper() != principal.cause.run_id:
            raise Forbidden.hinted("run", f"{principal.actor} may report on itself only", "send that run's own token")
        return EVERYWHERE
    if requirement.runs is RunTokens.REFUSED and principal.cause is not None:
        raise Forbidden.hinted("run", f"{principal.actor} is a run, and only a person may do this", "ask a person")
    reach = principal.rights.reach(requirement.role)
    if requirement.projects is Projects.NAMED and not reach.covers(route.parameters["project"]):
        raise _missing_role(principal, requirement.role, route.parameters["project"])
    if requirement.projects is Projects.ALL and not reach.covers(None):
        raise _missing_role(principal, requirement.role, None)
    if reach == NOWHERE:
        raise _missing_role(principal, requirement.role, None)
    return reach


def _missing_role(principal: Principal, role: Role, project: str | None) -> Forbidden:
    """Error for a missing role; its text does not depend on what exists, so it reveals nothing."""
    rights = principal.rights
    where = f"in {project}" if project else "in every project" if rights.reach(role) != NOWHERE else "here"
    detail = f"{principal.actor} is not {role} {where}, and this requires that role"
    return Forbidden.hinted("role", detail, "ask an admin for a token that has the role")


def is_same_origin(headers: Headers, public_url: str) -> bool:
    """Return whether the browser says that a page of this host and port sent the request."""
    origin = headers.get("origin")
    return origin is not None and split_address(origin).netloc in (headers.get("host"), urlsplit(public_url).netloc)


def split_address(address: str) -> SplitResult:
    """Return the parts of an address from a request, all empty if it is not a URL."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


HEADERS = {
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Defaults for every answer; web pages set weaker ones of their own."""
HSTS = "max-age=31536000"
"""Sent over TLS, also if a trusted proxy ended it: browsers use TLS only, for a year."""


class SecurityHeaders:
    """Adds security headers that an answer does not set itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if scope["scheme"] == "https":
                    headers.setdefault("Strict-Transport-Security", HSTS)
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)


class OwnPagesOnly:
    """Answers 403 to requests under a foreign host or from a foreign page; programs that send neither pass."""

    def __init__(self, app: ASGIApp, settings: Settings, access: Access) -> None:
        self._app = app
        self._access = access
        self._url = settings.public_url
        self._own_hosts = {host for host in (settings.host, urlsplit(self._url).hostname) if host}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refusal := self._refusal(Headers(scope=scope))):
            report_refusal(scope, refusal)
            await problem_response(problem(refusal))(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, headers: Headers) -> Forbidden | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if is_same_origin(headers, self._url) and self._access.is_known_on:
            return None
        if not self._access.is_known_on and not self._is_own(split_address(f"//{host}").hostname):
            return Forbidden(f"this controller does not answer under the name {host!r}; set TRIGGERCTL_URL to add one")
        if origin is not None and not self._is_own(split_address(origin).hostname):
            return Forbidden(f"a page of {origin} may not send requests here")
        return None

    def _is_own(self, name: str | None) -> bool:
        return name is not None and (is_loopback(name) or name in self._own_hosts)
