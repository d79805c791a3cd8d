"""Who asks: access control is on as soon as there is something to control it by, and then everybody needs a credential.

It is on with the setting `access: required`, with an issuer, and from the first token on: revoking all of them opens
nothing, and what was found to be on stays on for the life of the process.
"""

import threading
from collections import OrderedDict

from controller.errors import TooManyFailures, Unauthenticated
from controller.oidc import Issuer
from controller.settings import Settings
from controller.throttle import Throttle
from reconcile.decide.authority import ALL_RIGHTS, Principal
from reconcile.observations.observation import Observations
from reconcile.observations.process import AccessRefused, AccessThrottled
from reconcile.runs.run_tokens import RUN_TOKEN_PREFIX, principal_of_run
from reconcile.triggers import credentials
from reconcile.triggers.credentials import LOCAL_ACTOR, TOKEN_PREFIX, hash_token
from revisions.errors import TriggerctlError
from revisions.store.database import Database

LOCAL = Principal(LOCAL_ACTOR, ALL_RIGHTS)
"""Who asks over HTTP where access is not controlled."""
MET_SECONDS = 3600.0
MOST_MET = 1_000
"""Credentials that are remembered, those that were shown last."""
HOW = "send a token, Authorization: Bearer …, or sign in at /sign-in; `triggerctl token create` makes one"


class Access:
    """Answers who shows a credential, and listens less and less to addresses that show wrong ones."""

    def __init__(self, database: Database, settings: Settings, observations: Observations) -> None:
        self._database = database
        self._observations = observations
        self._issuer = Issuer(settings, lambda: database.clock.monotonic()) if settings.oidc_issuer else None
        self._counts_for = settings.oidc_remember
        self._is_on = settings.is_guarded
        self._throttle = Throttle(lambda: database.clock.monotonic())
        self._meeting = threading.Lock()
        self._met: OrderedDict[str, tuple[Principal, float]] = OrderedDict()

    @property
    def is_known_on(self) -> bool:
        """Whether access is controlled, as far as this process knows without asking."""
        return self._is_on

    def is_on(self) -> bool:
        """Whether access is controlled. Raises Unavailable when the database cannot say."""
        if not self._is_on:
            self._is_on = credentials.tokens_exist(self._database)
        return self._is_on

    def principal(self, credential: str | None, address: str) -> Principal:
        """Whom a credential stands for.

        Raises Unauthenticated for none and for a wrong one, TooManyFailures for an address that showed too many, and
        Unavailable.
        """
        if wait := self._throttle.wait_seconds(address):
            raise TooManyFailures(f"too many wrong credentials came from {address}: try again later", wait)
        if credential is None:
            raise Unauthenticated.hinted("Authorization", "this controller wants to know who asks", HOW)
        try:
            found = self._of(credential)
        except Unauthenticated:
            self._throttle.failed(address)
            self._forget(credential)
            raise
        self._remember(credential, found)
        return found

    def met(self, credential: str) -> Principal | None:
        """Whom a credential stood for when it was last shown, within the last hour; None where it stood for nobody.

        For diagnosis, while nobody can say if it still does.
        """
        with self._meeting:
            found, at = self._met.get(hash_token(credential), (None, 0.0))
        return found if found and self._database.clock.monotonic() - at <= MET_SECONDS else None

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
        """Has a refusal written down: who, from where, what for and why not; of a throttled address only the number.

        `path` is the route's, None for what is none: it may be anything, a secret too; `of` is what was named in it.
        """
        if isinstance(error, TooManyFailures):
            self._observations.emit(AccessThrottled(address))
            return
        self._observations.emit(AccessRefused(error.code, address, actor, method, path, of, error.detail))

    def _remember(self, credential: str, found: Principal) -> None:
        key = hash_token(credential)
        with self._meeting:
            self._met[key] = found, self._database.clock.monotonic()
            self._met.move_to_end(key)
            while len(self._met) > MOST_MET:
                self._met.popitem(last=False)

    def _forget(self, credential: str) -> None:
        with self._meeting:
            self._met.pop(hash_token(credential), None)

    def _of(self, credential: str) -> Principal:
        if credential.startswith((TOKEN_PREFIX, RUN_TOKEN_PREFIX)):
            if found := self._of_token(credential):
                return found
            raise Unauthenticated.hinted("Authorization", "the token is unknown, was revoked or has expired", HOW)
        if self._issuer is None:
            raise Unauthenticated.hinted("Authorization", "that is no token of this controller's", HOW)
        with self._database.read() as connection:
            now = self._database.clock.now(connection)
        vouched = self._issuer.vouched(credential, now)
        return credentials.principal_of_person(self._database, vouched.name, vouched.rights, self._counts_for)

    def _of_token(self, token: str) -> Principal | None:
        if token.startswith(RUN_TOKEN_PREFIX):
            return principal_of_run(self._database, token)
        return credentials.principal_of_token(self._database, token)
