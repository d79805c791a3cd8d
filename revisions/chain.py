"""Bytes that are hashed: canonical JSON (RFC 8785) and the SHA-256 link from each revision to the one before (R-10)."""

import hashlib
from typing import Any

import rfc8785

from revisions.ids import utc_text
from revisions.triggers import Revision

ORIGIN = ""
"""What stands as `previous_hash` in a trigger's first revision."""


def canonical(value: Any) -> str:
    """The one text of a JSON value; the values were checked when they came in (`documents.check`)."""
    return rfc8785.dumps(value).decode()


def digest(text: str) -> str:
    """SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def envelope(revision: Revision) -> str:
    """The canonical text of a revision; the spec's own text, canonical already, is spliced in where its key sorts."""
    before = canonical(
        {
            "action": revision.action.value,
            "active": revision.active,
            "actor": revision.actor,
            "at": utc_text(revision.at),
            "idempotency_key": revision.idempotency_key,
            "origin": revision.origin,
            "previous_hash": revision.previous_hash,
            "reason": revision.reason,
        }
    )
    after = canonical(
        {
            "tags": list(revision.tags),
            "trigger": [revision.trigger_id, *revision.key],
            "until": utc_text(revision.until) if revision.until else None,
        }
    )
    spliced = (
        f'"resolved":{revision.resolved},"revision":{revision.revision},'
        f'"scopes":{revision.scopes},"spec":{revision.spec}'
    )
    return f"{before[:-1]},{spliced},{after[1:]}"


def link(revision: Revision) -> str:
    """The hash a revision must carry."""
    return digest(envelope(revision))
