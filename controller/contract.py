"""The shapes of INTERFACE.md as types: what OpenAPI describes, what mypy and every answer are held against."""

from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NotRequired,  # pydantic reads typing's own only from Python 3.12 on
    TypeVar,
)

from pydantic import WithJsonSchema
from typing_extensions import TypedDict

Time = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
Object = dict[str, Any]
Item = TypeVar("Item")
_Between = TypedDict("_Between", {"from": int})  # a name that no class body can hold
_Since = TypedDict("_Since", {"from": Time})


class FactsShape(TypedDict):
    """What a trigger did and will do; all null in a trigger as of a time, for nobody keeps them (R-09)."""

    next_fire_at: Time | None
    last_fired_at: Time | None
    last_success_at: Time | None
    last_outcome: str | None
    last_outcome_at: Time | None
    last_run_id: str | None
    last_error: str | None
    run_count: int | None
    consecutive_failures: int | None


class HeldShape(TypedDict):
    """The freeze or the blackout that keeps a trigger from starting; without `until` it lasts until it is lifted."""

    id: str
    kind: Literal["freeze", "blackout"]
    mode: str | None
    until: Time | None
    owner: str
    reason: str


class StatusShape(FactsShape):
    """What a trigger does, apart from what it is; `held` as it is now, and null in a trigger as of a time."""

    deactivated_reason: str | None
    paused_until: Time | None
    held: HeldShape | None


class TriggerShape(TypedDict):
    """A trigger as it stands."""

    project: str
    domain: str
    task: str
    name: str
    revision: int
    active: bool
    deleted: bool
    tags: list[str]
    spec: Object
    hash: str
    changed_at: Time
    changed_by: str
    status: StatusShape


class ChangedTriggerShape(TriggerShape):
    """A trigger after a request; `changed` is false when nothing had to be appended."""

    changed: bool


class BulkShape(TypedDict):
    """What became of one trigger of many; `changed` is false when nothing had to be appended."""

    trigger: str
    old_revision: int
    new_revision: int
    changed: bool


class RevisionShape(TypedDict):
    """One immutable change."""

    revision: int
    action: str
    actor: str
    reason: str
    at: Time
    active: bool
    tags: list[str]
    until: Time | None
    origin: str | None
    resolved: Object
    spec: Object
    previous_hash: str
    hash: str


class DifferenceShape(TypedDict):
    """One path at which two revisions differ; `before` is null for what was added, `after` for what was removed."""

    path: str
    kind: Literal["added", "removed", "changed"]
    before: Any
    after: Any


class DiffShape(_Between):
    """What differs between two revisions, by path."""

    to: int
    differences: list[DifferenceShape]


class ChangeShape(TypedDict):
    """One revision that came to be; the trigger's name is the one it got then."""

    trigger: str
    revision: int
    at: Time


class TaskShape(TypedDict):
    """One version of a task with the summary of its triggers."""

    project: str
    domain: str
    name: str
    version: str
    spec: Object
    trigger_name: str | None
    total_triggers: int
    active_triggers: int
    trigger_automation: Object | None


class RegisteredTaskShape(TaskShape):
    """A task version after a request; `changed` is false for the same spec again.

    `warnings` name the active triggers that rely on what the new version leaves out (R-15).
    """

    changed: bool
    warnings: list[str]


class CalendarShape(TypedDict):
    """A calendar as it stands."""

    project: str
    name: str
    revision: int
    deleted: bool
    spec: Object
    changed_at: Time
    changed_by: str


class ChangedCalendarShape(CalendarShape):
    """A calendar after a request; `changed` is false when nothing had to be appended."""

    changed: bool


class CalendarRevisionShape(TypedDict):
    """One immutable change of a calendar."""

    revision: int
    action: Literal["DEPLOY", "DELETE"]
    actor: str
    at: Time
    spec: Object


class HoldShape(_Since):
    """A freeze or a blackout as it stands: for whom, where a null narrows nothing, from when and until when, and why.

    `mode` is a blackout's. What was ended early says so by its `until`.
    """

    until: Time | None
    id: str
    kind: Literal["freeze", "blackout"]
    state: Literal["to_come", "in_force", "over"]
    project: str | None
    tag: str | None
    trigger: str | None
    mode: str | None
    owner: str
    reason: str
    revision: int
    changed_at: Time
    changed_by: str


class RunShape(TypedDict):
    """One run."""

    id: str
    project: str
    domain: str
    task: str
    task_version: str
    trigger: str
    revision: int
    source: str
    occurrence_id: str
    scheduled_at: Time
    created_at: Time
    started_at: Time | None
    finished_at: Time | None
    status: str
    attempt: int
    input: Object
    output: Object | None
    error: str | None
    cost: float | None


class OccurrenceShape(TypedDict):
    """What became of an occurrence, or of a range of skipped ones."""

    trigger: str
    occurrence_id: str
    scheduled_at: Time
    scheduled_until: Time
    decided_at: Time
    outcome: str
    reason: str
    revision: int
    run_id: str | None
    count: int | None


class FireShape(TypedDict):
    """One fire ahead, in UTC and in the schedule's zone; `fires_at` is when it really starts, under a `spread`."""

    id: str
    utc: Time
    local: Time
    fires_at: NotRequired[Time]


class LeftOutShape(TypedDict):
    """A wall time that will not fire, and why: `gap`, `fold`, `exclude`, a calendar's name; or `freeze`, `blackout`."""

    local: str
    reason: str


class PreviewShape(TypedDict):
    """The next fires and what is left out between them."""

    fires: list[FireShape]
    skipped: list[LeftOutShape]


class JudgedShape(TypedDict):
    """One occurrence and what became of it; `revision` is the one in force then, of an unexpected record its own."""

    occurrence_id: str
    scheduled_at: Time
    kind: Literal["on_time", "late", "skipped", "inactive", "undecided", "missing", "unexpected"]
    outcome: str | None
    reason: str
    revision: int
    run_id: str | None
    decided_at: Time | None


class CauseShape(TypedDict):
    """How many were skipped for one cause."""

    outcome: str
    reason: str
    count: int


class SummaryShape(TypedDict):
    """How many occurrences of each kind; `clean` when none is missing or unexpected."""

    clean: bool
    on_time: int
    late: int
    skipped: int
    inactive: int
    undecided: int
    missing: int
    unexpected: int
    causes: list[CauseShape]


class AuditShape(_Since):
    """What should have happened in [from, to) against what did; the summary is of all, and null in later parts."""

    to: Time
    trigger: str
    summary: SummaryShape | None
    items: list[JudgedShape]
    next_cursor: str | None


class InForceShape(TypedDict):
    """The revision that was in force at an instant."""

    revision: int
    changed_at: Time
    changed_by: str
    active: bool
    deleted: bool
    paused_until: Time | None
    deactivated_reason: str | None


class BacklogShape(TypedDict):
    """Missed occurrences later than `after`, up to `until`, that are still being caught up."""

    after: Time
    until: Time


class CatchupShape(TypedDict):
    """What of a trigger is still being caught up; `remaining` is null beyond a million.

    `sharing` is how many other triggers share the cap. `ends_at` estimates when the last is started, `takes_seconds`
    how long that is from now; null when there is nothing, and while nothing is served.
    """

    trigger: str
    watermark: Time
    is_ahead: bool
    ranges: list[BacklogShape]
    remaining: int | None
    sharing: int
    ends_at: Time | None
    takes_seconds: float | None
    held: HeldShape | None


class DroppedShape(CatchupShape):
    """What is left after a backlog was given up, and the range that was recorded for it."""

    dropped: OccurrenceShape | None


class DecidedShape(TypedDict):
    """How far a trigger is decided: all up to the watermark, but for what lies in backlogs."""

    watermark: Time
    backlogs: list[BacklogShape]
    rate_waiting_since: Time | None


class ExplanationShape(TypedDict):
    """Why a trigger fired, or did not, at an instant; the nearest fires are those that its revisions then named."""

    trigger: str
    at: Time
    verdict: Literal[
        "not_there", "ahead", "inactive", "not_named", "over", "started", "skipped", "undecided", "missing"
    ]
    sentences: list[str]
    in_force: InForceShape | None
    occurrence: FireShape | None
    before: FireShape | None
    after: FireShape | None
    left_out: list[LeftOutShape]
    run: RunShape | None
    skip: OccurrenceShape | None
    decided: DecidedShape


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


class Page(TypedDict, Generic[Item]):
    """A part of a list; the next one begins at the cursor, which is null after the last (never in `/changes`)."""

    items: list[Item]
    next_cursor: str | None
