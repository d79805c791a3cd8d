"""Create, revoke and recognise tokens, and read the present rights of people and of triggers' authors.

A token is shown once and stored as its hash. It has 256 random bits, so a plain SHA-256 is safe: nobody can try out
all tokens to find the one of a stolen hash (O-06, X-13). Rights of authors are read for a whole batch at once (X-15).
"""

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reconcile.decide import authority
from reconcile.decide.authority import (
    RUN_START,
    Caller,
    Grant,
    Principal,
    Reach,
    Rights,
    author_of,
    grants_text,
    refusal,
    rights_of,
)
from reconcile.observations.observation import Observations, TokenCreated, TokenRevoked
from revisions import ids
from revisions.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from revisions.history.triggers import SYSTEM
from revisions.ids import TriggerKey, utc_text
from revisions.store import tokens
from revisions.store.database import Connection, Database
from revisions.store.tokens import Person, Token

TOKEN_AUTHOR: Final = "token:"
"""Prefix of an author who deployed with a token; the token's name follows."""
PERSON_AUTHOR: Final = "oidc:"
"""Prefix of an author who signed in through the OpenID Connect issuer; the person's name follows."""
TOKEN_PREFIX: Final = "tct_"
"""Beginning of every token, by which people and secret scanners recognise one."""
LOCAL_ACTOR: Final = "local"
"""Actor of HTTP requests while access is not controlled."""
_RESERVED_NAMES: Final = {
    SYSTEM: "what triggerctl itself is called",
    LOCAL_ACTOR: "whoever asks where access is not controlled",
}
"""Names that no token may have, because its changes could be taken for those of another actor."""
_LAST_USED_PRECISION = timedelta(minutes=1)
"""`last_used_at` of a token is written at most this often."""
_LAST_SEEN_PRECISION = timedelta(hours=1)
"""`seen_at` of a person is written at most this often, while the grants stay the same."""
_LIST_HINT = "`triggerctl token list` shows what there is"


@dataclass(frozen=True, slots=True)
class CreatedToken:
    """A new token with its secret, which is shown only in this answer."""

    token: Token
    secret: str


def author_lost_rights(connection: Connection, scopes: str, project: str, now: datetime) -> bool:
    """Tell whether the author of a revision may no longer start runs of it; `scopes` is the revision's text."""
    return refusal((RUN_START,), scopes, project, rights_of_authors(connection, [scopes], now)) is not None


def triggers_without_rights(connection: Connection, now: datetime) -> Mapping[str, list[TriggerKey]]:
    """Return, by author, the active triggers that start nothing because the author may no longer start them."""
    pairs = tokens.active_scopes(connection)
    rights = rights_of_authors(connection, [scopes for _, scopes in pairs], now)
    keys: dict[str, list[TriggerKey]] = {}
    for project, scopes in pairs:
        author = author_of(scopes)
        if author is not None and refusal((RUN_START,), scopes, project, rights) is not None:
            keys.setdefault(author, []).extend(tokens.active_keys_with_scopes(connection, project, scopes))
    return keys


def rights_of_authors(connection: Connection, scopes: Iterable[str], now: datetime) -> Mapping[str, Rights]:
    """Return the rights at `now` of all authors that these revisions' scopes name; without authors, nothing is read."""
    authors = {author for text in scopes if (author := author_of(text)) is not None}
    rights = dict.fromkeys(authors, Rights())
    for prefix, read_grants in (
        (TOKEN_AUTHOR, tokens.granted_to_tokens),
        (PERSON_AUTHOR, tokens.granted_to_people),
    ):
        names = sorted(author.removeprefix(prefix) for author in authors if author.startswith(prefix))
        for name, grants in read_grants(connection, names, now) if names else ():
            author = prefix + name
            rights[author] = Rights(rights[author].grants + rights_of(grants).grants)
    return rights


def tokens_exist(database: Database) -> bool:
    """Tell whether there ever was a token; revoked and expired ones count."""
    with database.read() as connection:
        return tokens.exist(connection)


def create_token(
    database: Database,
    observations: Observations,
    name: str,
    grant: Grant,
    expires_at: datetime | None,
    within: Reach,
    caller: Caller,
) -> CreatedToken:
    """Create a token for a grant that lies within the caller's own reach.

    Several tokens may have one name, so that one can replace another, but only with the same grants: the rights of
    triggers depend on their author's name (X-15).
    Raises Invalid for a wrong or reserved name and an end that is past, Forbidden beyond the reach, and Conflict for a
    name that has other grants.
    """
    if faults := ids.name_faults("", name=name):
        raise Invalid(f"name: {faults[0].message}", faults)
    if name in _RESERVED_NAMES:
        raise Invalid.at("name", f"{name!r} is {_RESERVED_NAMES[name]}", "choose another name")
    _refuse_beyond(within, grant.reach)
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    with database.write() as connection:
        tokens.lock(connection)
        now = database.clock.now(connection)
        if expires_at is not None and expires_at <= now:
            raise Invalid.at("expires_at", f"{utc_text(expires_at)} is past", "name an instant ahead")
        token = Token(
            token_id=ids.fresh(now),
            name=name,
            hash=hash_token(secret),
            grants=grants_text([grant]),
            created_at=now,
            created_by=caller.actor,
            expires_at=expires_at,
            revoked_at=None,
            revoked_by=None,
            last_used_at=None,
        )
        for other in tokens.live_named(connection, name, now):
            if other.grants != token.grants:
                raise _name_conflict(name, other, within)
        tokens.add(connection, token)
    projects = authority.projects_list(grant.reach) or "all"
    observations.emit(TokenCreated(token.token_id, name, grant.role, projects, caller.actor))
    return CreatedToken(token, secret)


def revoke_token(database: Database, observations: Observations, token_id: str, within: Reach, caller: Caller) -> Token:
    """End a token now; one that is revoked already stays as it is.

    Raises NotFound, also for a token that does not lie within the reach.
    """
    with database.write() as connection:
        before = tokens.get(connection, token_id)
        if before is None or not is_within(within, before):
            raise NotFound.hinted("token", f"there is no token {token_id}", _LIST_HINT)
        tokens.revoke(connection, token_id, database.clock.now(connection), caller.actor)
        token = tokens.get(connection, token_id)
    assert token is not None
    if before.revoked_at is None:
        observations.emit(TokenRevoked(token_id, before.name, caller.actor))
    return token


def triggers_denied(database: Database, name: str, within: Reach) -> list[TriggerKey]:
    """Return the active triggers within reach that start nothing because no token of this name may start them."""
    with database.read() as connection:
        now = database.clock.now(connection)
        keys = triggers_without_rights(connection, now).get(TOKEN_AUTHOR + name, [])
    return [key for key in keys if within.covers(key.project)]


def principal_of_token(database: Database, secret: str) -> Principal | None:
    """Return the principal of a token; None for a token that is unknown, revoked or expired."""
    with database.read() as connection:
        token = tokens.by_hash(connection, hash_token(secret))
        now = database.clock.now(connection)
    if token is None or not token.is_live(now):
        return None
    if token.last_used_at is None or now - token.last_used_at >= _LAST_USED_PRECISION:
        # A database that takes no writes at the moment must not keep its callers from reading.
        with suppress(Unavailable), database.write() as connection:
            tokens.record_use(connection, token.token_id, now)
    return Principal(token.name, rights_of(token.grants), authority.scopes_of(TOKEN_AUTHOR + token.name))


def principal_of_person(database: Database, name: str, rights: Rights, remembered_for: timedelta) -> Principal:
    """Return the principal of a person whom the issuer vouched for, with the rights that it grants now.

    The rights are stored, and count for the person's triggers until `remembered_for` has passed (X-15).
    """
    grants = grants_text(rights.grants)
    with database.read() as connection:
        before = tokens.person(connection, name)
        now = database.clock.now(connection)
    if before is None or before.grants != grants or now - before.seen_at >= _LAST_SEEN_PRECISION:
        with suppress(Unavailable), database.write() as connection:
            tokens.store_person(connection, Person(name, grants, now, now + remembered_for))
    return Principal(PERSON_AUTHOR + name, rights, authority.scopes_of(PERSON_AUTHOR + name))


def hash_token(secret: str) -> str:
    """Return the hash under which a token is stored."""
    return hashlib.sha256(secret.encode()).hexdigest()


def is_within(reach: Reach, token: Token) -> bool:
    """Tell whether everything that a token is granted lies within a reach."""
    return all(_contains(reach, grant.reach) for grant in rights_of(token.grants).grants)


def _name_conflict(name: str, other: Token, within: Reach) -> Conflict:
    """Return the refusal of a name that has other grants; it names a token only to callers who may see that token."""
    if not is_within(within, other):
        return Conflict.hinted("name", f"{name!r} is a name that was given out already", "choose another name")
    detail = f"{name!r} is the name of token {other.token_id}, which is granted something else"
    return Conflict.hinted("name", detail, "revoke that one first, or choose another name")


def _refuse_beyond(within: Reach, wanted: Reach) -> None:
    if not _contains(within, wanted):
        own = ", ".join(sorted(within.projects or ()))
        raise Forbidden.hinted("projects", "reach beyond your own", f"name some of {own}")


def _contains(outer: Reach, inner: Reach) -> bool:
    if outer.projects is None or inner.projects is None:
        return outer.projects is None
    return inner.projects <= outer.projects
