"""Present rights of the authors of triggers, read for a whole batch at once (X-15)."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from reconcile.decide.authority import RUN_START, Rights, author_of, refusal, rights_of
from revisions.ids import TriggerKey
from revisions.store import tokens, triggers
from revisions.store.database import Connection

TOKEN_AUTHOR: Final = "token:"
"""Prefix of an author who deployed with a token; the token's name follows."""
PERSON_AUTHOR: Final = "oidc:"
"""Prefix of an author who signed in through the OpenID Connect issuer; the person's name follows."""


def author_lost_rights(connection: Connection, scopes: str, project: str, now: datetime) -> bool:
    """Tell whether the author of a revision may no longer start runs of it; `scopes` is the revision's text."""
    return refusal((RUN_START,), scopes, project, rights_of_authors(connection, [scopes], now)) is not None


def triggers_without_rights(connection: Connection, now: datetime) -> Mapping[str, list[TriggerKey]]:
    """Return, by author, the active triggers that start nothing because the author may no longer start them."""
    pairs = triggers.active_scopes(connection)
    rights = rights_of_authors(connection, [scopes for _, scopes in pairs], now)
    keys: dict[str, list[TriggerKey]] = {}
    for project, scopes in pairs:
        author = author_of(scopes)
        if author is not None and refusal((RUN_START,), scopes, project, rights) is not None:
            keys.setdefault(author, []).extend(triggers.active_keys_with_scopes(connection, project, scopes))
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
