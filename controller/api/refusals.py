"""What is refused leaves a line and a number, wherever on its way the request was (O-06)."""

from starlette.types import Scope

from controller.api import rights
from controller.api.context import PRINCIPAL
from controller.errors import TooManyFailures, Unauthenticated
from reconcile.decide.authority import Principal
from revisions.errors import Forbidden, TriggerctlError

REFUSALS = (Unauthenticated, TooManyFailures, Forbidden)


def address_of(scope: Scope) -> str:
    """Where a request came from, or a proxy that is believed says that it did."""
    return (scope["client"] or ("unknown",))[0]


def write_down(scope: Scope, error: TriggerctlError) -> None:
    """Has a refusal written down: the route rather than its path, and who asks, as far as that is known by then."""
    found, asking = rights.find(scope["path"]), scope.get(PRINCIPAL)
    scope["app"].state.services.access.refused(
        error,
        address_of(scope),
        scope["method"],
        found.path if found else None,
        actor=asking.actor if isinstance(asking, Principal) else None,
        of=found.of() if found else None,
    )
