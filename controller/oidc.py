"""People whom an OpenID Connect issuer vouches for: its keys, and what a token of its says (O-06).

PyJWT checks the signature and finds the key; times are judged by the database's clock, as everything is.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import httpx
import jwt
from jwt import PyJWK, PyJWKClient
from jwt.exceptions import InvalidTokenError, PyJWKClientError, PyJWTError

from controller.errors import Unauthenticated
from controller.settings import Settings, is_protected
from reconcile.decide.authority import Rights, grant_of
from revisions.errors import Unavailable

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures with a private key only: never `none`, and no secret that the issuer's public key could be taken for."""
LEEWAY = timedelta(seconds=30)
"""How far the issuer's clock may be off."""
FAR_SECONDS: Final = 1e12
"""Since 1970; no calendar goes so far."""
KEYS_LAST_SECONDS = 300
TIMEOUT_SECONDS = 5.0
_TIMES_ARE_OURS = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "require": ["exp", "sub", "aud", "iss"],
}


@dataclass(frozen=True, slots=True)
class Vouched:
    """Somebody the issuer vouches for, and what he may do."""

    name: str
    rights: Rights


class Issuer:
    """One issuer; its keys are fetched when they are first needed, and anew when a token names an unknown one."""

    def __init__(self, settings: Settings, monotonic: Callable[[], float]) -> None:
        assert settings.oidc_issuer is not None
        self._issuer = settings.oidc_issuer
        self._settings = settings
        self._keys = _Keys(settings.oidc_issuer, settings.oidc_key_wait.total_seconds(), monotonic)

    def vouched(self, token: str, now: datetime) -> Vouched:
        """Whom a token is of. Raises Unauthenticated, saying what is wrong with it; Unavailable without the issuer."""
        try:
            claims = self._claims(token)
        except PyJWKClientError:
            raise Unauthenticated("the token is signed with a key that the issuer does not have") from None
        except (InvalidTokenError, ValueError, TypeError) as error:
            raise Unauthenticated(f"the token is not one to accept: {error}") from None
        _check_times(claims, now)
        name = claims.get(self._settings.oidc_actor_claim)
        if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > 200:
            raise Unauthenticated(f"the token does not say who it is of: it has no {self._settings.oidc_actor_claim}")
        return Vouched(name, self._rights(claims))

    def _claims(self, token: str) -> Mapping[str, Any]:
        header = jwt.get_unverified_header(token)
        if header.get("alg") not in ALGORITHMS:
            raise InvalidTokenError("it is signed in a way that is not accepted")
        kid = header.get("kid")
        if not isinstance(kid, str):
            raise InvalidTokenError("it names no key")
        key: PyJWK = self._keys.get_signing_key(kid)
        claims: Mapping[str, Any] = jwt.decode(
            token,
            key,
            algorithms=list(ALGORITHMS),
            audience=self._settings.oidc_audience,
            issuer=self._issuer,
            options=_TIMES_ARE_OURS,  # type: ignore[arg-type]  # a plain dictionary
        )
        return claims

    def _rights(self, claims: Mapping[str, Any]) -> Rights:
        """What the settings grant for what stands in the claim; nothing where they grant nothing."""
        said = claims.get(self._settings.oidc_claim, ())
        values = [said] if isinstance(said, str) else said if isinstance(said, list) else []
        granted = self._settings.oidc_grants
        return Rights(
            tuple(grant_of(granted[value]) for value in values if isinstance(value, str) and value in granted)
        )


class _Keys(PyJWKClient):
    """An issuer's keys, from where its discovery says. After a failure it is left alone for `wait` seconds.

    Whoever asks meanwhile is told at once: all who come at a time wait for one answer, and an issuer that does not
    answer would otherwise hold up one after the other, and with them whatever else the process is asked. Keys that are
    known still count until they are too old.
    """

    def __init__(self, issuer: str, wait: float, monotonic: Callable[[], float]) -> None:
        super().__init__(issuer, lifespan=KEYS_LAST_SECONDS, cooldown_duration=wait, timeout=TIMEOUT_SECONDS)
        self._issuer = issuer
        self._is_found = False
        self._wait = wait
        self._monotonic = monotonic
        self._rests_until = -math.inf
        self._why = ""

    def fetch_data(self) -> Any:
        """The keys as the issuer answers them. Raises Unavailable."""
        if self._monotonic() < self._rests_until:
            raise Unavailable(self._why)
        try:
            if not self._is_found:
                self.uri, self._is_found = _discovered(self._issuer), True
            return super().fetch_data()
        except (Unavailable, PyJWTError, ValueError) as error:
            said = error.detail if isinstance(error, Unavailable) else error
            self._why = f"{self._issuer} cannot be asked for its keys: {said}"
            self._rests_until = self._monotonic() + self._wait
            raise Unavailable(self._why) from None


def _discovered(issuer: str) -> str:
    """Where an issuer's keys are. Raises Unavailable when it does not say so, or says that it is another."""
    address = issuer.rstrip("/") + "/.well-known/openid-configuration"
    try:
        found = httpx.get(address, timeout=TIMEOUT_SECONDS).raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:
        raise Unavailable(f"{address} cannot be read: {error}") from None
    if not isinstance(found, dict) or found.get("issuer") != issuer:
        raise Unavailable(f"{address} is not of the issuer {issuer}: set TRIGGERCTL_OIDC_ISSUER as it says")
    keys = found.get("jwks_uri")
    if not isinstance(keys, str):
        raise Unavailable(f"{address} does not say where the keys are")
    if not is_protected(keys):
        raise Unavailable(f"{address} says that the keys are at {keys}, which is not https://…")
    return keys


def _check_times(claims: Mapping[str, Any], now: datetime) -> None:
    at = {name: _seconds(claims[name]) for name in ("exp", "nbf", "iat") if name in claims}
    stands, leeway = now.timestamp(), LEEWAY.total_seconds()
    if stands >= at["exp"] + leeway:
        raise Unauthenticated("the token has expired")
    if max(at.get("nbf", stands), at.get("iat", stands)) > stands + leeway:
        raise Unauthenticated("the token is not valid yet")


def _seconds(value: Any) -> float:
    """A time of a token. Raises Unauthenticated for what is none: not a number would never have passed."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < FAR_SECONDS:
        return float(value)
    raise Unauthenticated("the token is not one to accept: its times are no numbers of seconds")
