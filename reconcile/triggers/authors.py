"""What the authors of triggers may do now, read for a whole batch at once (X-15)."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from reconcile.decide.authority import RUN_START, Rights, author_of, refusal, rights_of
from revisions.ids import TriggerKey
from revisions.store import tokens, triggers
from revisions.store.database import Connection

TOKEN: Final = "token:"
PERSON: Final = "oidc:"
"""How authors are written: of what kind, and the name."""


def is_gone(connection: Connection, scopes: str, project: str, now: datetime) -> bool:
    """Whether the author of a revision may no longer start what he wrote."""
    return refusal((RUN_START,), scopes, project, rights(connection, [scopes], now)) is not None


def orphans(connection: Connection, now: datetime) -> Mapping[str, list[TriggerKey]]:
    """Active triggers that start nothing because their author may not start them any more, by that author."""
    pairs = triggers.active_scopes(connection)
    given = rights(connection, [scopes for _, scopes in pairs], now)
    found: dict[str, list[TriggerKey]] = {}
    for project, scopes in pairs:
        author = author_of(scopes)
        if author is not None and refusal((RUN_START,), scopes, project, given) is not None:
            found.setdefault(author, []).extend(triggers.active_keys_with_scopes(connection, project, scopes))
    return found


def rights(connection: Connection, scopes: Iterable[str], now: datetime) -> Mapping[str, Rights]:
    """All authors that these revisions' scopes name, each with what he has at `now`; nothing is read when none is."""
    named = {author for text in scopes if (author := author_of(text)) is not None}
    found = dict.fromkeys(named, Rights())
    for prefix, granted in ((TOKEN, tokens.granted_to_tokens), (PERSON, tokens.granted_to_people)):
        names = sorted(author.removeprefix(prefix) for author in named if author.startswith(prefix))
        for name, grants in granted(connection, names, now) if names else ():
            author = prefix + name
            found[author] = Rights(found[author].grants + rights_of(grants).grants)
    return found
