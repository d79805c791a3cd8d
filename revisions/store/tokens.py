"""Bearer tokens, stored as hashes, people as their issuer last described them, and the authors of triggers (O-06).

Grants are a canonical text that `reconcile.decide.authority` reads.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, exists, false, insert, or_, select, text, true, update

from revisions.ids import TriggerKey
from revisions.store.columns import in_list, insert_if_absent
from revisions.store.sessions import Query, fetch
from revisions.store.tables import people, tokens, triggers

_IS_ACTIVE = and_(triggers.c.active == true(), triggers.c.deleted == false())
_KEY = (triggers.c.project, triggers.c.domain, triggers.c.task, triggers.c.name)


@dataclass(frozen=True, slots=True)
class Token:
    """A token. During a rotation several have one name, and then the same grants."""

    token_id: str
    name: str
    hash: str
    grants: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None
    last_used_at: datetime | None

    def is_live(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


EXIST: Query = (select(exists(select(tokens.c.token_id)).label("exist")), {})
"""Query for `exist`."""


@dataclass(frozen=True, slots=True)
class Person:
    """A person of the issuer: the grants when last seen, and until when they count."""

    name: str
    grants: str
    seen_at: datetime
    until_at: datetime


def exist(connection: Connection) -> bool:
    """Return True when a token was ever made, revoked ones included: authentication then stays required."""
    return bool(fetch(connection, EXIST)[0][0].exist)


def lock(connection: Connection) -> None:
    """Lock the table against other makers of tokens, so that one name has one meaning; SQLite needs no lock."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("LOCK TABLE tokens IN SHARE ROW EXCLUSIVE MODE"))


def add(connection: Connection, token: Token) -> None:
    connection.execute(insert(tokens).values({name: getattr(token, name) for name in Token.__slots__}))


def by_hash(connection: Connection, hash: str) -> Token | None:
    row = connection.execute(select(tokens).where(tokens.c.hash == hash)).one_or_none()
    return Token(**row._mapping) if row else None


def get(connection: Connection, token_id: str) -> Token | None:
    row = connection.execute(select(tokens).where(tokens.c.token_id == token_id)).one_or_none()
    return Token(**row._mapping) if row else None


def live_named(connection: Connection, name: str, now: datetime) -> list[Token]:
    """Return the usable tokens of a name."""
    statement = select(tokens).where(tokens.c.name == name, _live(now)).order_by(tokens.c.token_id)
    return [Token(**row._mapping) for row in connection.execute(statement)]


def page(connection: Connection, before: str | None, limit: int) -> list[Token]:
    """Return tokens before an id, newest first, revoked ones included."""
    statement = select(tokens).order_by(tokens.c.token_id.desc()).limit(limit)
    if before is not None:
        statement = statement.where(tokens.c.token_id < before)
    return [Token(**row._mapping) for row in connection.execute(statement)]


def revoke(connection: Connection, token_id: str, now: datetime, by: str) -> None:
    """Revoke a token; one that is revoked already stays as it is."""
    this = update(tokens).where(tokens.c.token_id == token_id, tokens.c.revoked_at.is_(None))
    connection.execute(this.values(revoked_at=now, revoked_by=by))


def record_use(connection: Connection, token_id: str, now: datetime) -> None:
    connection.execute(update(tokens).where(tokens.c.token_id == token_id).values(last_used_at=now))


def person(connection: Connection, name: str) -> Person | None:
    row = connection.execute(select(people).where(people.c.name == name)).one_or_none()
    return Person(**row._mapping) if row else None


def store_person(connection: Connection, person: Person) -> None:
    """Insert a person with the grants from the issuer, or replace the stored ones."""
    values = {name: getattr(person, name) for name in Person.__slots__}
    if insert_if_absent(connection, people, values) == 0:
        connection.execute(update(people).where(people.c.name == person.name).values(values))


def granted_to_tokens(connection: Connection, names: Collection[str], now: datetime) -> Iterable[tuple[str, str]]:
    """Return (name, grants) of the usable tokens of these names."""
    statement = select(tokens.c.name, tokens.c.grants).where(
        in_list(connection, tokens.c.name, list(names)), _live(now)
    )
    return [(row[0], row[1]) for row in connection.execute(statement)]


def granted_to_people(connection: Connection, names: Collection[str], now: datetime) -> Iterable[tuple[str, str]]:
    """Return (name, grants) of those people whose grants still count."""
    statement = select(people.c.name, people.c.grants)
    statement = statement.where(in_list(connection, people.c.name, list(names)), people.c.until_at > now)
    return [(row[0], row[1]) for row in connection.execute(statement)]


def _live(now: datetime) -> ColumnElement[bool]:
    return and_(tokens.c.revoked_at.is_(None), or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > now))


def active_scopes(connection: Connection) -> list[tuple[str, str]]:
    """Return the distinct (project, scopes) of active triggers."""
    statement = select(triggers.c.project, triggers.c.scopes).where(_IS_ACTIVE).distinct()
    return [(row[0], row[1]) for row in connection.execute(statement.order_by(triggers.c.project, triggers.c.scopes))]


def active_keys_with_scopes(connection: Connection, project: str, scopes: str) -> list[TriggerKey]:
    """Return the names of a project's active triggers whose author has these scopes."""
    statement = select(*_KEY).where(_IS_ACTIVE, triggers.c.project == project, triggers.c.scopes == scopes)
    return [TriggerKey(*row) for row in connection.execute(statement.order_by(*_KEY))]
