"""Whether histories can be trusted; checkpoints, replays and imports."""

from typing import Any

from typing_extensions import TypedDict

from controller.shapes.common import Time, plain
from reconcile.triggers.history.rebuild import Replay
from reconcile.triggers.history.transfer import Imported
from reconcile.triggers.history.verify import Report
from revisions.history.chain_breaks import ChainBreak


class BreakShape(TypedDict):
    """The first thing that is wrong with a trigger's history; `field` is the column that differs, where one does."""

    trigger: str
    trigger_id: str
    revision: int
    what: str
    field: str | None
    expected: Any
    found: Any
    message: str


class SignerShape(TypedDict):
    """The checkpoint that was verified against; `pinned` is false when only itself says whose it is."""

    created_at: Time
    triggers: int
    public_key: str
    pinned: bool


class ReportShape(TypedDict):
    """Whether histories can be trusted; `breaks` holds the first break of each broken trigger."""

    sound: bool
    triggers: int
    revisions: int
    broken: int
    breaks: list[BreakShape]
    guards_missing: list[str]
    checkpoint: SignerShape | None


class MendShape(TypedDict):
    """What is not as the revisions say; without a field, the row itself."""

    table: str
    name: str
    field: str | None
    expected: Any
    found: Any


class ReplayShape(TypedDict):
    """What replaying all revisions changes in the current tables, or changed."""

    applied: bool
    triggers: int
    revisions: int
    differences: list[MendShape]
    breaks: list[BreakShape]


class StatementShape(TypedDict):
    """What a checkpoint says; the digest is over the heads."""

    format: int
    created_at: Time
    schema: str
    triggers: int
    digest: str


class SignatureShape(TypedDict):
    """Ed25519, in base64, over the statement's canonical text."""

    public_key: str
    signature: str


class HeadShape(TypedDict):
    """The newest revision of a trigger."""

    trigger_id: str
    trigger: str
    revision: int
    hash: str


class CheckpointShape(TypedDict):
    """All heads, signed."""

    checkpoint: StatementShape
    signature: SignatureShape
    heads: list[HeadShape]


class ImportedShape(TypedDict):
    """What was taken in: rows by table, current rows made, and whose signature stood under it."""

    counts: dict[str, int]
    triggers: int
    public_key: str | None
    pinned: bool


def break_shape(found: ChainBreak) -> BreakShape:
    return {
        "trigger": str(found.key),
        "trigger_id": found.trigger_id,
        "revision": found.revision,
        "what": found.what.value,
        "field": found.field,
        "expected": plain(found.expected),
        "found": plain(found.found),
        "message": found.message,
    }


def report_shape(made: Report) -> ReportShape:
    against = made.checkpoint
    return {
        "sound": made.is_sound,
        "triggers": made.triggers,
        "revisions": made.revisions,
        "broken": made.broken,
        "breaks": [break_shape(found) for found in made.breaks],
        "guards_missing": made.guards_missing,
        "checkpoint": {
            "created_at": against.created_at,
            "triggers": len(against.heads),
            "public_key": str(against.public_key),
            "pinned": against.is_pinned,
        }
        if against
        else None,
    }


def replay_shape(made: Replay, *, applied: bool) -> ReplayShape:
    return {
        "applied": applied,
        "triggers": made.triggers,
        "revisions": made.revisions,
        "differences": [
            {
                "table": difference.table,
                "name": difference.name,
                "field": difference.field,
                "expected": plain(difference.expected),
                "found": plain(difference.found),
            }
            for difference in made.differences
        ],
        "breaks": [break_shape(found) for found in made.breaks],
    }


def imported_shape(made: Imported) -> ImportedShape:
    return {
        "counts": dict(made.counts),
        "triggers": made.triggers,
        "public_key": str(made.signed_by) if made.signed_by else None,
        "pinned": made.is_pinned,
    }
