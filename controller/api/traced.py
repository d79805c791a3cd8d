"""A span for each request that changes something, in the trace that it is part of, else in one of its own (O-04).

One that only reads is recorded where somebody follows it: pages and probes ask all the time.
"""

from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bound_contextvars

from controller.api import rights
from controller.api.context import PRINCIPAL, TRACEPARENT
from controller.api.guard import SAFE
from controller.telemetry.tracing import Tracing
from reconcile.decide.trace_context import parse
from revisions.ids import TriggerKey

_NAMES_OF_TRIGGERS = frozenset(TriggerKey._fields)


class Traced:
    """Outermost, so that a refusal is seen as well; nothing of a query, a header or a body is told."""

    def __init__(self, app: ASGIApp, tracing: Tracing) -> None:
        self._app = app
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        parent = parse(Headers(scope=scope).get("traceparent")) if scope["type"] == "http" else None
        if scope["type"] != "http" or (scope["method"] in SAFE and parent is None):
            await self._app(scope, receive, send)
            return
        method, found = scope["method"], rights.find(scope["path"])
        route = found.path if found else None
        attributes = {"http.request.method": method, "http.route": route, "url.scheme": scope["scheme"]}
        status = 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with self._tracing.request(f"{method} {route}" if route else method, attributes, parent) as asked:
            scope[TRACEPARENT] = str(asked.context)
            try:
                with bound_contextvars(trace_id=asked.context.trace):
                    await self._app(scope, receive, watched)
            finally:
                names = found.names if found else {}
                asked.answered(status, {**_named(names), "triggerctl.actor": _actor(scope)})


def _named(names: Mapping[str, str]) -> dict[str, str]:
    """Whom a path names, where that is a trigger; other parts of paths may be secret."""
    return {"triggerctl.trigger": str(TriggerKey(**names))} if names.keys() == _NAMES_OF_TRIGGERS else {}


def _actor(scope: Scope) -> str | None:
    return scope[PRINCIPAL].actor if PRINCIPAL in scope else None
