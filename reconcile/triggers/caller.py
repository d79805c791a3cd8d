"""Author, reason and cause of a change (invariant 7)."""

from dataclasses import dataclass

from reconcile.decide.authority import UNLIMITED, CausingRun
from revisions.history.triggers import SYSTEM


@dataclass(frozen=True, slots=True)
class Caller:
    """Author of a change, with the reason given and the key by which a retry is recognised (R-04).

    `scopes` names the author in canonical JSON, so that the author's rights can be read later (X-15). `traceparent` is
    the W3C trace context of the request (O-04). `cause` is the run that makes the request, if one does (X-02).
    """

    actor: str = SYSTEM
    reason: str = ""
    idempotency_key: str | None = None
    scopes: str = UNLIMITED
    traceparent: str | None = None
    cause: CausingRun | None = None
