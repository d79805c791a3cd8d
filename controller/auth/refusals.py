"""Refused requests, reported to metrics and logs wherever on their way they were refused (O-06)."""

from typing import Final

from starlette.types import Scope

from controller.errors import TooManyFailures, Unauthenticated
from reconcile.decide.authority import Principal
from revisions.errors import Forbidden, TriggerctlError

ACTOR: Final = "triggerctl.actor"
"""ASGI scope key under which the command line in this process names its user; no network request can set it."""
PRINCIPAL: Final = "triggerctl.principal"
"""ASGI scope key under which the guard stores the authenticated principal."""
REACH: Final = "triggerctl.reach"
"""ASGI scope key under which the guard stores the projects in which the principal holds the required role."""

REFUSALS = (Unauthenticated, TooManyFailures, Forbidden)


def client_address(scope: Scope) -> str:
    """Return the client's address, as reported by the proxy if that is trusted."""
    return (scope["client"] or ("unknown",))[0]


def report_refusal(scope: Scope, error: TriggerctlError) -> None:
    """Report a refused request: its route instead of its path, and the principal if it is known."""
    state = scope["app"].state
    route, principal = state.route_table.match(scope["path"]), scope.get(PRINCIPAL)
    state.services.access.refused(
        error,
        client_address(scope),
        scope["method"],
        route.path if route else None,
        actor=principal.actor if isinstance(principal, Principal) else None,
        of=route.resource() if route else None,
    )
