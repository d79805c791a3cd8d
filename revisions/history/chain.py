"""Bytes that are hashed: canonical JSON (RFC 8785) and the SHA-256 link from each revision to the one before (R-10).

A chain is walked over rows as they are stored, without making anything of them: what is hashed is all text.
"""

import hashlib
import json
from collections.abc import Iterable
from datetime import datetime
from json.encoder import encode_basestring
from typing import Any

import rfc8785

from revisions.history.triggers import Action, Revision
from revisions.ids import TriggerKey, utc_text

quoted = encode_basestring
"""RFC 8785 of a string; a property test holds it against rfc8785."""

ORIGIN = ""
"""What stands as `previous_hash` in a trigger's first revision."""

Row = tuple[Any, ...]
"""A revision as stored: the columns of `trigger_revisions` in their order, instants as RFC 3339 (`COLUMNS`)."""

COLUMNS = (
    *("trigger_id", "revision", "project", "domain", "task", "name", "action", "actor", "reason", "at", "active"),
    *("tags", "until", "origin", "idempotency_key", "resolved", "scopes", "spec", "previous_hash", "hash"),
)


def canonical(value: Any) -> str:
    """The one text of a JSON value; the values were checked when they came in (`documents.check`)."""
    return rfc8785.dumps(value).decode()


def value_of(text: str) -> Any:
    """Return the value of a text that `canonical` made."""
    return json.loads(text)


def texts(values: Iterable[str]) -> str:
    """The canonical text of a list of texts."""
    return f"[{','.join(map(quoted, values))}]"


def digest(text: str) -> str:
    """SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def text_of(row: Row) -> str:
    """The canonical text of a revision but for its hash; texts that are canonical already are spliced in.

    Raises TypeError for what is no text where one must stand.
    """
    # fmt: off
    (
        trigger_id, revision, project, domain, task, name, action, actor, reason, at, active,
        tags, until, origin, idempotency_key, resolved, scopes, spec, previous_hash, _,
    ) = row
    # fmt: on
    return (
        f'{{"action":{quoted(action)},"active":{"true" if active else "false"},"actor":{quoted(actor)},'
        f'"at":{quoted(at)},"idempotency_key":{"null" if idempotency_key is None else quoted(idempotency_key)},'
        f'"origin":{"null" if origin is None else quoted(origin)},"previous_hash":{quoted(previous_hash)},'
        f'"reason":{quoted(reason)},"resolved":{resolved},"revision":{revision},"scopes":{scopes},"spec":{spec},'
        f'"tags":{tags},"trigger":[{quoted(trigger_id)},{quoted(project)},{quoted(domain)},{quoted(task)},'
        f'{quoted(name)}],"until":{"null" if until is None else quoted(until)}}}'
    )


def envelope(revision: Revision) -> str:
    """The canonical text of a revision but for its hash."""
    return text_of(written(revision))


def link(revision: Revision) -> str:
    """The hash a revision must carry."""
    return digest(envelope(revision))


def written(revision: Revision) -> Row:
    """A revision as it is stored."""
    return (
        *(revision.trigger_id, revision.revision, *revision.key, revision.action.value, revision.actor),
        *(revision.reason, utc_text(revision.at), revision.active, texts(revision.tags)),
        *(utc_text(revision.until) if revision.until else None, revision.origin, revision.idempotency_key),
        *(revision.resolved, revision.scopes, revision.spec, revision.previous_hash, revision.hash),
    )


def revision_of(row: Row) -> Revision:
    """A stored revision as a value. Raises ValueError, TypeError or KeyError for one that cannot be read."""
    found = dict(zip(COLUMNS, row, strict=True))
    key = TriggerKey(*(found.pop(name) for name in TriggerKey._fields))
    return Revision(
        **found
        | {
            "key": key,
            "action": Action(found["action"]),
            "at": datetime.fromisoformat(found["at"]),
            "active": bool(found["active"]),
            "tags": tuple(json.loads(found["tags"])),
            "until": datetime.fromisoformat(found["until"]) if found["until"] else None,
        }
    )
