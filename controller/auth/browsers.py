"""Protection of and against browsers: security headers on every answer, and no requests from other sites' pages.

A browser lets any page send requests to this machine, and a page's own host name can be made to resolve to 127.0.0.1.
Without access control such a page could start commands here, so requests under a foreign Host and requests from foreign
pages are refused. With access control the Host does not matter: a page under another name has no credential to send.
"""

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.auth.access import Access, report_refusal
from controller.auth.guard import is_same_origin, split_address
from controller.errors import problem
from controller.problems import problem_response
from controller.settings import Settings, is_loopback
from revisions.errors import Forbidden

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
