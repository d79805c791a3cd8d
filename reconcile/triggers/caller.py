"""Who asks for a change, and why (invariant 7)."""

from dataclasses import dataclass

from reconcile.decide.authority import UNLIMITED, CausingRun
from revisions.history.triggers import SYSTEM


@dataclass(frozen=True, slots=True)
class Caller:
    """Author of a change, with the reason given and the key by which a retry is recognised (R-04).

    `scopes` is the canonical text that a deploy keeps of what its author may do (X-15). `traceparent` is the W3C
    context of the request (O-04). `cause` is the run that asks, if one does (X-02).
    """

    actor: str = SYSTEM
    reason: str = ""
    idempotency_key: str | None = None
    scopes: str = UNLIMITED
    traceparent: str | None = None
    cause: CausingRun | None = None
