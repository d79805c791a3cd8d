"""Authentication of callers, and reports of refused requests. With access control, every caller needs a credential.

Access control is on with the setting `access: required`, with an OpenID Connect issuer, and from the first token on.
Revoking all tokens does not turn it off, and a process that has seen it on keeps it on.
"""

import ipaddress
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from starlette.types import Scope

from controller.auth.oidc import Issuer
from controller.errors import TooManyFailures, Unauthenticated
from controller.settings import Settings
from reconcile.decide.authority import ALL_RIGHTS, Principal
from reconcile.observations.observation import AccessRefused, AccessThrottled, Observations
from reconcile.runs.claim import RUN_TOKEN_PREFIX, principal_of_run
from reconcile.triggers.credentials import (
    LOCAL_ACTOR,
    TOKEN_PREFIX,
    hash_token,
    principal_of_person,
    principal_of_token,
    tokens_exist,
)
from revisions.errors import Forbidden, TriggerctlError
from revisions.store.database import Database

ACTOR: Final = "triggerctl.actor"
"""ASGI scope key under which the command line in this process names its user; no network request can set it."""
PRINCIPAL: Final = "triggerctl.principal"
"""ASGI scope key under which the guard stores the authenticated principal."""
REACH: Final = "triggerctl.reach"
"""ASGI scope key under which the guard stores the projects in which the principal holds the required role."""

REFUSALS = (Unauthenticated, TooManyFailures, Forbidden)

LOCAL: Final = Principal(LOCAL_ACTOR, ALL_RIGHTS)
"""Principal of all HTTP requests while access control is off."""
REMEMBERED_SECONDS: Final = 3600.0
MOST_REMEMBERED: Final = 1_000
"""Credentials that are remembered, the most recently used ones."""
BURST: Final = 10
"""Wrong credentials that an address may send at once (O-06)."""
EVERY_SECONDS: Final = 6.0
"""Ten a minute in the long run."""
MOST_ADDRESSES: Final = 10_000
"""Bound of the memory used; the addresses that failed longest ago are dropped first."""
HOW: Final = "send a token, Authorization: Bearer …, or sign in at /sign-in; `triggerctl token create` makes one"


class Access:
    """Authenticates credentials, and limits addresses that send wrong ones."""

    def __init__(self, database: Database, settings: Settings, observations: Observations) -> None:
        self._database = database
        self._observations = observations
        self._issuer = Issuer(settings, lambda: database.clock.monotonic()) if settings.oidc_issuer else None
        self._counts_for = settings.oidc_remember
        self._is_on = settings.is_guarded
        self._limit = SignInLimit(lambda: database.clock.monotonic())
        self._lock = threading.Lock()
        self._recent: OrderedDict[str, tuple[Principal, float]] = OrderedDict()

    @property
    def is_known_on(self) -> bool:
        """Access control is on, as far as this process knows without asking the database."""
        return self._is_on

    def is_on(self) -> bool:
        """Return whether access control is on. Raises Unavailable without the database."""
        if not self._is_on:
            self._is_on = tokens_exist(self._database)
        return self._is_on

    def principal(self, credential: str | None, address: str) -> Principal:
        """Return the principal of a credential.

        Raises Unauthenticated for a missing or wrong one, TooManyFailures for an address that sent too many wrong ones,
        and Unavailable.
        """
        if wait := self._limit.wait_seconds(address):
            raise TooManyFailures(f"too many wrong credentials came from {address}: try again later", wait)
        if credential is None:
            raise Unauthenticated.hinted("Authorization", "this controller requires a credential", HOW)
        try:
            principal = self._authenticate(credential)
        except Unauthenticated:
            self._limit.count_failure(address)
            self._forget(credential)
            raise
        self._remember(credential, principal)
        return principal

    def recent_principal(self, credential: str) -> Principal | None:
        """Return the principal of a credential that was accepted within the last hour and not refused since.

        For diagnosis while the database, which knows whether the credential still counts, is unavailable.
        """
        with self._lock:
            principal, at = self._recent.get(hash_token(credential), (None, 0.0))
        return principal if principal and self._database.clock.monotonic() - at <= REMEMBERED_SECONDS else None

    def refused(
        self,
        error: TriggerctlError,
        address: str,
        method: str,
        path: str | None,
        *,
        actor: str | None,
        of: str | None,
    ) -> None:
        """Emit a refusal to logs and metrics; of an address over its limit only the number.

        `path` is the route's, None if no route matches: an arbitrary path may hold a secret. `of` is the resource.
        """
        if isinstance(error, TooManyFailures):
            self._observations.emit(AccessThrottled(address))
            return
        self._observations.emit(AccessRefused(error.code, address, actor, method, path, of, error.detail))

    def _remember(self, credential: str, principal: Principal) -> None:
        key = hash_token(credential)
        with self._lock:
            self._recent[key] = principal, self._database.clock.monotonic()
            self._recent.move_to_end(key)
            while len(self._recent) > MOST_REMEMBERED:
                self._recent.popitem(last=False)

    def _forget(self, credential: str) -> None:
        with self._lock:
            self._recent.pop(hash_token(credential), None)

    def _authenticate(self, credential: str) -> Principal:
        if credential.startswith((TOKEN_PREFIX, RUN_TOKEN_PREFIX)):
            if principal := self._principal_of_token(credential):
                return principal
            raise Unauthenticated.hinted("Authorization", "the token is unknown, was revoked or has expired", HOW)
        if self._issuer is None:
            raise Unauthenticated.hinted("Authorization", "this is not a token of this controller", HOW)
        with self._database.read() as connection:
            now = self._database.clock.now(connection)
        holder = self._issuer.holder(credential, now)
        return principal_of_person(self._database, holder.name, holder.rights, self._counts_for)

    def _principal_of_token(self, token: str) -> Principal | None:
        if token.startswith(RUN_TOKEN_PREFIX):
            return principal_of_run(self._database, token)
        return principal_of_token(self._database, token)


class SignInLimit:
    """Counts failures in this process by address; an IPv6 /64 network counts as one address.

    `monotonic` returns seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._full_until: OrderedDict[str, float] = OrderedDict()

    def wait_seconds(self, address: str) -> float:
        """Return how long the address must wait before its next attempt; 0 if it may try now."""
        with self._lock:
            ahead = self._full_until.get(_network(address), 0.0) - self._monotonic()
        return max(0.0, ahead - (BURST - 1) * EVERY_SECONDS)

    def count_failure(self, address: str) -> None:
        """Count one more failure of the address."""
        key = _network(address)
        with self._lock:
            now = self._monotonic()
            self._full_until[key] = max(self._full_until.get(key, now), now) + EVERY_SECONDS
            self._full_until.move_to_end(key)
            while len(self._full_until) > MOST_ADDRESSES:
                self._full_until.popitem(last=False)


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


def _network(address: str) -> str:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False)) if parsed.version == 6 else address
