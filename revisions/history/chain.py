"""Canonical JSON (RFC 8785) and the SHA-256 chain of revisions (R-10).

Chains are verified over rows as stored, because every hashed part is text.
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
"""RFC 8785 form of a string; a property test compares it with rfc8785."""

ORIGIN = ""
"""The `previous_hash` of a trigger's first revision."""

Row = tuple[Any, ...]
"""A revision as stored: the columns of `trigger_revisions` in their order, instants as RFC 3339 (`COLUMNS`)."""

COLUMNS = (
    *("trigger_id", "revision", "project", "domain", "task", "name", "action", "actor", "reason", "at", "active"),
    *("tags", "until", "origin", "idempotency_key", "resolved", "scopes", "spec", "previous_hash", "hash"),
)


def canonical(value: Any) -> str:
    """Return the canonical text of a JSON value; `documents.check` has accepted the value."""
    return rfc8785.dumps(value).decode()


def value_of(text: str) -> Any:
    """Return the value of a text that `canonical` made."""
    return json.loads(text)


def texts(values: Iterable[str]) -> str:
    """Return the canonical text of a list of strings."""
    return f"[{','.join(map(quoted, values))}]"


def digest(text: str) -> str:
    """Return the SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def text_of(row: Row) -> str:
    """Return the canonical text of a revision without its hash; columns that are canonical are spliced in.

    Raises TypeError for a column that should be text and is not.
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
    """Return the canonical text of a revision without its hash."""
    return text_of(written(revision))


def link(revision: Revision) -> str:
    """Return the hash that a revision must have."""
    return digest(envelope(revision))


def written(revision: Revision) -> Row:
    """Return a revision as it is stored."""
    return (
        *(revision.trigger_id, revision.revision, *revision.key, revision.action.value, revision.actor),
        *(revision.reason, utc_text(revision.at), revision.active, texts(revision.tags)),
        *(utc_text(revision.until) if revision.until else None, revision.origin, revision.idempotency_key),
        *(revision.resolved, revision.scopes, revision.spec, revision.previous_hash, revision.hash),
    )


def revision_of(row: Row) -> Revision:
    """Return a stored revision. Raises ValueError, TypeError or KeyError when it cannot be read."""
    values = dict(zip(COLUMNS, row, strict=True))
    key = TriggerKey(*(values.pop(name) for name in TriggerKey._fields))
    return Revision(
        **values
        | {
            "key": key,
            "action": Action(values["action"]),
            "at": datetime.fromisoformat(values["at"]),
            "active": bool(values["active"]),
            "tags": tuple(json.loads(values["tags"])),
            "until": datetime.fromisoformat(values["until"]) if values["until"] else None,
        }
    )
