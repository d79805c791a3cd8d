"""Which web pages may talk to a controller: its own, and no other.

A browser lets any page send requests to this machine, and a page can make its own name mean 127.0.0.1. Without access
control that would let it start commands here, so a foreign Host is refused, and so is a request that another page sent.
With access control the name does not matter, for a page under another name has no credential to send.
"""

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from controller.api.guard import is_own, parts_of
from controller.api.problems import respond
from controller.api.refusals import write_down
from controller.auth import Access
from controller.errors import problem
from controller.settings import Settings, is_loopback
from revisions.errors import Forbidden


class OwnPagesOnly:
    """Answers 403 to requests under a foreign name or from a foreign page; programs that send neither pass."""

    def __init__(self, app: ASGIApp, settings: Settings, access: Access) -> None:
        self._app = app
        self._access = access
        self._url = settings.public_url
        self._own = {host for host in (settings.host, urlsplit(self._url).hostname) if host}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refused := self._refused(Headers(scope=scope))):
            write_down(scope, refused)
            await respond(problem(refused))(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refused(self, headers: Headers) -> Forbidden | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if is_own(headers, self._url) and self._access.is_known_on:
            return None
        if not self._access.is_known_on and not self._is_own(parts_of(f"//{host}").hostname):
            return Forbidden(f"this controller does not answer under the name {host!r}; set TRIGGERCTL_URL to add one")
        if origin is not None and not self._is_own(parts_of(origin).hostname):
            return Forbidden(f"a page of {origin} may not send requests here")
        return None

    def _is_own(self, name: str | None) -> bool:
        return name is not None and (is_loopback(name) or name in self._own)
