"""Tokens: made once and shown once, kept as hashes, revoked; and whom a token stands for (O-06, X-13).

A token is 256 random bits, so a plain SHA-256 of it gives nothing away; who guesses has nothing to go by.
"""

import hashlib
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reconcile.decide import authority
from reconcile.decide.authority import Grant, Principal, Reach, Rights, grants_text, rights_of
from reconcile.observations.observation import Observations
from reconcile.observations.process import TokenCreated, TokenRevoked
from reconcile.triggers import authors
from reconcile.triggers.authors import PERSON, TOKEN
from reconcile.triggers.caller import Caller
from revisions import ids
from revisions.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from revisions.history.triggers import SYSTEM
from revisions.ids import TriggerKey, utc_text
from revisions.store import tokens as store
from revisions.store.database import Connection, Database
from revisions.store.tokens import Person, Token

PREFIX: Final = "tct_"
"""How tokens begin, so that people and scanners know one where they see it."""
USED_EVERY = timedelta(minutes=1)
"""How exact `last_used_at` is."""
SEEN_EVERY = timedelta(hours=1)
LOCAL_ACTOR: Final = "local"
"""Who asks over HTTP where access is not controlled."""
TAKEN: Final = {SYSTEM: "what triggerctl itself is called", LOCAL_ACTOR: "whoever asks where access is not controlled"}
"""Actors that a token's name would be taken for, in revisions and wherever people's doing is told from the system's."""
_LIST = "`triggerctl token list` shows what there is"


@dataclass(frozen=True, slots=True)
class Created:
    """A token and its secret, which is told this once."""

    token: Token
    secret: str


class Credentials:
    """One database's tokens."""

    def __init__(self, database: Database, observations: Observations) -> None:
        self._database = database
        self._observations = observations

    def exist(self) -> bool:
        """Whether there ever was a token."""
        with self._database.read() as connection:
            return store.exist(connection)

    def create(self, name: str, grant: Grant, expires_at: datetime | None, within: Reach, caller: Caller) -> Created:
        """A new token for what is granted, which must lie within the reach of whoever makes it.

        Raises Invalid for a wrong name, one that is taken, or an end that is past, Forbidden beyond the reach, and
        Conflict for a name that stands for somebody with other rights: what triggers may do hangs on their author's
        name.
        """
        if faults := ids.name_faults("", name=name):
            raise Invalid(f"name: {faults[0].message}", faults)
        if name in TAKEN:
            raise Invalid.at("name", f"{name!r} is {TAKEN[name]}", "choose another name")
        _refuse_beyond(within, grant.reach)
        secret = PREFIX + secrets.token_urlsafe(32)
        with self._database.write() as connection:
            store.lock(connection)
            now = self._database.clock.now(connection)
            if expires_at is not None and expires_at <= now:
                raise Invalid.at("expires_at", f"{utc_text(expires_at)} is past", "name an instant ahead")
            made = Token(
                token_id=ids.fresh(now),
                name=name,
                hash=hashed(secret),
                grants=grants_text([grant]),
                created_at=now,
                created_by=caller.actor,
                expires_at=expires_at,
                revoked_at=None,
                revoked_by=None,
                last_used_at=None,
            )
            if other := next(
                (one for one in store.live_named(connection, name, now) if one.grants != made.grants), None
            ):
                raise _taken(name, other, within)
            store.add(connection, made)
        projects = authority.projects_list(grant.reach) or "all"
        self._observations.emit(TokenCreated(made.token_id, name, grant.role, projects, caller.actor))
        return Created(made, secret)

    def revoke(self, token_id: str, within: Reach, caller: Caller) -> Token:
        """Ends a token now. Raises NotFound, also for one that is not within reach."""
        with self._database.write() as connection:
            found = store.get(connection, token_id)
            if found is None or not is_within(within, found):
                raise NotFound.hinted("token", f"there is no token {token_id}", _LIST)
            store.revoke(connection, token_id, self._database.clock.now(connection), caller.actor)
            made = store.get(connection, token_id)
        assert made is not None
        if found.revoked_at is None:
            self._observations.emit(TokenRevoked(token_id, found.name, caller.actor))
        return made

    def orphans(self, name: str, within: Reach) -> list[TriggerKey]:
        """The active triggers within reach that start nothing any more because the tokens of a name are gone."""
        with self._database.read() as connection:
            now = self._database.clock.now(connection)
            found = authors.orphans(connection, now).get(TOKEN + name, [])
        return [key for key in found if within.covers(key.project)]

    def principal(self, secret: str) -> Principal | None:
        """Return the principal of a token; None for a token that is unknown, revoked or expired."""
        with self._database.read() as connection:
            found = store.by_hash(connection, hashed(secret))
            now = self._database.clock.now(connection)
        if found is None or not found.is_live(now):
            return None
        if found.last_used_at is None or now - found.last_used_at >= USED_EVERY:
            self._note(lambda connection: store.record_use(connection, found.token_id, now))
        return Principal(found.name, rights_of(found.grants), authority.scopes_of(TOKEN + found.name))

    def vouched_for(self, name: str, rights: Rights, counts_for: timedelta) -> Principal:
        """Somebody of the issuer's, with what it grants now; kept, for the triggers that he writes (X-15)."""
        grants = grants_text(rights.grants)
        with self._database.read() as connection:
            before = store.person(connection, name)
            now = self._database.clock.now(connection)
        if before is None or before.grants != grants or now - before.seen_at >= SEEN_EVERY:
            self._note(lambda connection: store.store_person(connection, Person(name, grants, now, now + counts_for)))
        return Principal(PERSON + name, rights, authority.scopes_of(PERSON + name))

    def _note(self, write: Callable[[Connection], None]) -> None:
        """Keeps what is good to know of who asks; he may read in a database that takes no writes."""
        with suppress(Unavailable), self._database.write() as connection:
            write(connection)


def hashed(secret: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(secret.encode()).hexdigest()


def is_within(reach: Reach, token: Token) -> bool:
    """Whether all that a token is granted lies within a reach."""
    return all(_contains(reach, grant.reach) for grant in rights_of(token.grants).grants)


def _taken(name: str, other: Token, within: Reach) -> Conflict:
    """That a name stands for somebody else; of which token, is told to those whom it concerns."""
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
