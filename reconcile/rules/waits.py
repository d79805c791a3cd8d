"""Why a run that could begin has not: the first thing that stands in its way, in words (U-03, X-04)."""

from dataclasses import dataclass
from datetime import datetime

from reconcile.rules.overlap import ONE_AT_A_TIME
from revisions.ids import utc_text


@dataclass(frozen=True, slots=True)
class Ahead:
    """What goes on beside a run that waits: who holds its key, who of its trigger goes before it, how many run, and
    who froze its project or everything."""

    key_holder: str | None = None
    before: str | None = None
    of_trigger: int = 0
    of_task: int = 0
    over_budget_until: datetime | None = None
    frozen_by: str | None = None


@dataclass(frozen=True, slots=True)
class Pending:
    """A run that waits, with what bounds its start: by its trigger as it stands, and by its task version."""

    available_at: datetime
    overlap: str
    serialize_key: str | None
    concurrency_limit: int | None
    task_limit: int | None


def waits_for(run: Pending, ahead: Ahead, now: datetime) -> str:
    """What it waits for, empty where only nobody has claimed it yet."""
    if ahead.frozen_by:
        return f"the end of the freeze by {ahead.frozen_by}"
    if run.available_at > now:
        return f"its next attempt, at {utc_text(run.available_at)}"
    if ahead.over_budget_until:
        return f"the next period of its budget, which begins at {utc_text(ahead.over_budget_until)}"
    if run.overlap in ONE_AT_A_TIME and ahead.before:
        return f"the end of run {ahead.before} of the same trigger (overlap {run.overlap})"
    if ahead.key_holder:
        return f"the end of run {ahead.key_holder}, which holds its serialize_key {run.serialize_key!r}"
    if run.concurrency_limit is not None and ahead.of_trigger >= run.concurrency_limit:
        return f"one of the {ahead.of_trigger} runs of its trigger to end (concurrency.limit {run.concurrency_limit})"
    if run.task_limit is not None and ahead.of_task >= run.task_limit:
        return f"one of the {ahead.of_task} runs of its task to end (its concurrency.limit {run.task_limit})"
    return ""
