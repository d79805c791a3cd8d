"""Tokens of an OpenID Connect issuer: its keys, the person a token names, and the person's rights (O-06).

PyJWT checks the signature and finds the key. Times are compared with the database's clock.
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
"""Asymmetric algorithms only: neither `none`, nor HMAC, whose secret the issuer's public key could be used as."""
LEEWAY = timedelta(seconds=30)
"""Tolerated difference between the issuer's clock and the database's."""
FAR_SECONDS: Final = 1e12
"""Largest time accepted, in seconds since 1970."""
KEYS_LAST_SECONDS = 300
TIMEOUT_SECONDS = 5.0
_WITHOUT_TIMES = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "require": ["exp", "sub", "aud", "iss"],
}


@dataclass(frozen=True, slots=True)
class TokenHolder:
    """Holder of an issuer's token."""

    name: str
    rights: Rights


class Issuer:
    """One issuer. Its keys are fetched when first needed, and again when a token names an unknown key."""

    def __init__(self, settings: Settings, monotonic: Callable[[], float]) -> None:
        assert settings.oidc_issuer is not None
        self._issuer = settings.oidc_issuer
        self._settings = settings
        self._keys = _Keys(settings.oidc_issuer, settings.oidc_key_wait.total_seconds(), monotonic)

    def holder(self, token: str, now: datetime) -> TokenHolder:
        """Return the holder of a token. Raises Unauthenticated, and Unavailable without the issuer's keys."""
        try:
            claims = self._claims(token)
        except PyJWKClientError:
            raise Unauthenticated("the token is signed with a key that the issuer does not have") from None
        except (InvalidTokenError, ValueError, TypeError) as error:
            raise Unauthenticated(f"the token is not accepted: {error}") from None
        _check_times(claims, now)
        name = claims.get(self._settings.oidc_actor_claim)
        if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > 200:
            raise Unauthenticated(f"the token does not name its holder: it has no {self._settings.oidc_actor_claim}")
        return TokenHolder(name, self._rights(claims))

    def _claims(self, token: str) -> Mapping[str, Any]:
        header = jwt.get_unverified_header(token)
        if header.get("alg") not in ALGORITHMS:
            raise InvalidTokenError("its signature algorithm is not accepted")
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
            options=_WITHOUT_TIMES,  # type: ignore[arg-type]  # a plain dictionary
        )
        return claims

    def _rights(self, claims: Mapping[str, Any]) -> Rights:
        """Return the rights that the settings grant for the values of the claim."""
        claim = claims.get(self._settings.oidc_claim, ())
        values = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
        granted = self._settings.oidc_grants
        return Rights(
            tuple(grant_of(granted[value]) for value in values if isinstance(value, str) and value in granted)
        )


class _Keys(PyJWKClient):
    """Keys of an issuer, found through its discovery document. A failure is not retried within `wait` seconds.

    Until then requests fail at once. Otherwise each would wait for the timeout of an issuer that does not answer, one
    after the other, and block the process. Known keys keep counting until they are too old.
    """

    def __init__(self, issuer: str, wait: float, monotonic: Callable[[], float]) -> None:
        super().__init__(issuer, lifespan=KEYS_LAST_SECONDS, cooldown_duration=wait, timeout=TIMEOUT_SECONDS)
        self._issuer = issuer
        self._is_discovered = False
        self._wait = wait
        self._monotonic = monotonic
        self._retry_at = -math.inf
        self._failure = ""

    def fetch_data(self) -> Any:
        """Fetch the keys from the issuer. Raises Unavailable."""
        if self._monotonic() < self._retry_at:
            raise Unavailable(self._failure)
        try:
            if not self._is_discovered:
                self.uri, self._is_discovered = _discover_keys(self._issuer), True
            return super().fetch_data()
        except (Unavailable, PyJWTError, ValueError) as error:
            cause = error.detail if isinstance(error, Unavailable) else error
            self._failure = f"the keys of {self._issuer} cannot be fetched: {cause}"
            self._retry_at = self._monotonic() + self._wait
            raise Unavailable(self._failure) from None


def _discover_keys(issuer: str) -> str:
    """Return the address of an issuer's keys. Raises Unavailable if discovery fails or names another issuer."""
    address = issuer.rstrip("/") + "/.well-known/openid-configuration"
    try:
        document = httpx.get(address, timeout=TIMEOUT_SECONDS).raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:
        raise Unavailable(f"{address} cannot be read: {error}") from None
    if not isinstance(document, dict) or document.get("issuer") != issuer:
        way = "set TRIGGERCTL_OIDC_ISSUER to the one it names"
        raise Unavailable(f"{address} does not name the issuer {issuer}: {way}")
    keys = document.get("jwks_uri")
    if not isinstance(keys, str):
        raise Unavailable(f"{address} has no jwks_uri")
    if not is_protected(keys):
        raise Unavailable(f"{address} has a jwks_uri of {keys}, which is not https://…")
    return keys


def _check_times(claims: Mapping[str, Any], now: datetime) -> None:
    times = {name: _seconds(claims[name]) for name in ("exp", "nbf", "iat") if name in claims}
    current, leeway = now.timestamp(), LEEWAY.total_seconds()
    if current >= times["exp"] + leeway:
        raise Unauthenticated("the token has expired")
    if max(times.get("nbf", current), times.get("iat", current)) > current + leeway:
        raise Unauthenticated("the token is not valid yet")


def _seconds(value: Any) -> float:
    """Return a time of a token. Raises Unauthenticated if it is not a finite number: NaN would never expire."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < FAR_SECONDS:
        return float(value)
    raise Unauthenticated("the token is not accepted: its times are not numbers of seconds")
