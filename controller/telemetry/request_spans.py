"""Spans of requests that change something, in the caller's trace or a new one (O-04).

Reads are recorded only if the caller traces them: pages and probes read all the time.
"""

from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bound_contextvars

from controller.api.parameters import TRACEPARENT
from controller.auth.access import PRINCIPAL
from controller.auth.guard import SAFE
from controller.telemetry.tracing import Tracing
from reconcile.decide.trace_context import parse
from revisions.ids import TriggerKey

_NAMES_OF_TRIGGERS = frozenset(TriggerKey._fields)


class TraceRequests:
    """Outermost middleware, so that refusals are traced too. Queries, headers and bodies are not recorded."""

    def __init__(self, app: ASGIApp, tracing: Tracing) -> None:
        self._app = app
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        parent = parse(Headers(scope=scope).get("traceparent")) if scope["type"] == "http" else None
        if scope["type"] != "http" or (scope["method"] in SAFE and parent is None):
            await self._app(scope, receive, send)
            return
        method, matched = scope["method"], scope["app"].state.route_table.match(scope["path"])
        route = matched.path if matched else None
        attributes = {"http.request.method": method, "http.route": route, "url.scheme": scope["scheme"]}
        status = 500

        async def send_watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with self._tracing.request(f"{method} {route}" if route else method, attributes, parent) as span:
            scope[TRACEPARENT] = str(span.context)
            try:
                with bound_contextvars(trace_id=span.context.trace):
                    await self._app(scope, receive, send_watched)
            finally:
                names = matched.parameters if matched else {}
                span.set_answer(status, {**_named(names), "triggerctl.actor": _actor(scope)})


def _named(names: Mapping[str, str]) -> dict[str, str]:
    """Return the trigger that a path names; other path parameters may be secret."""
    return {"triggerctl.trigger": str(TriggerKey(**names))} if names.keys() == _NAMES_OF_TRIGGERS else {}


def _actor(scope: Scope) -> str | None:
    return scope[PRINCIPAL].actor if PRINCIPAL in scope else None
