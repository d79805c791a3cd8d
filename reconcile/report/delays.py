"""Why a run was made, or began, later than its time: what is recorded of it, in sentences; pure (U-03).

What kept a run from its start once it was made, but for an approval and a freeze, is recorded nowhere.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reconcile.decide.concurrency import ONE_AT_A_TIME
from reconcile.report.wording import at_text, because, span_text
from revisions.ids import utc_text
from revisions.outcomes import HoldKind

A_WHILE: Final = timedelta(seconds=5)
"""What is less late than this was on time."""
SHOWN: Final = 5
"""The newest so many freezes and blackouts are told."""


@dataclass(frozen=True, slots=True)
class PastHold:
    """A freeze or a blackout that was in force for a time; None as its end where it still is."""

    kind: HoldKind
    owner: str
    reason: str
    since: datetime
    until: datetime | None

    def told(self) -> str:
        ended = f"to {at_text(self.until)}" if self.until else "on, and still is"
        return f"A {self.kind} by {self.owner} was in force from {at_text(self.since)} {ended}{because(self.reason)}."


@dataclass(frozen=True, slots=True)
class RunStart:
    """When a run began for the first time, None where that is not known, and who approved it when, if it had to be."""

    created_at: datetime
    started_at: datetime | None
    approved_at: datetime | None = None
    approved_by: str | None = None


def decided_late(stood: Iterable[PastHold], due_at: datetime, decided_at: datetime) -> Iterator[str]:
    """What held an occurrence up to its decision."""
    if decided_at - due_at > A_WHILE:
        yield from _told(stood, due_at, decided_at)


def began_late(stood: Iterable[PastHold], run: RunStart) -> Iterator[str]:
    """How long it took a run to begin once it was made, and what of that is known."""
    if run.approved_at is not None:
        waited = span_text(run.approved_at - run.created_at)
        yield f"It waited {waited} for an approval, which {run.approved_by} gave at {at_text(run.approved_at)}."
    if run.started_at is None:
        return
    could_begin = run.approved_at or run.created_at
    if run.started_at - could_begin > A_WHILE:
        since = "approved" if run.approved_at else "made"
        yield f"It began {span_text(run.started_at - could_begin)} after it was {since}, at {at_text(run.started_at)}."
        freezes = [one for one in stood if one.kind == HoldKind.FREEZE]
        found = list(_told(freezes, could_begin, run.started_at))
        yield from found or ["What it waited for is not recorded: a limit, a key, a run before it, or a worker."]


def _told(stood: Iterable[PastHold], after: datetime, until: datetime) -> Iterator[str]:
    between = [one for one in stood if one.since < until and (one.until is None or after < one.until)]
    yield from (one.told() for one in between[-SHOWN:])


@dataclass(frozen=True, slots=True)
class Obstruction:
    """What goes on beside a run that waits: who holds its key, who of its trigger goes before it, how many run, and
    who froze its project or everything."""

    key_holder: str | None = None
    before: str | None = None
    of_trigger: int = 0
    of_task: int = 0
    over_budget_until: datetime | None = None
    frozen_by: str | None = None


@dataclass(frozen=True, slots=True)
class PendingRun:
    """A run that waits, with what bounds its start: by its trigger as it stands, and by its task version."""

    available_at: datetime
    overlap: str
    serialize_key: str | None
    concurrency_limit: int | None
    task_limit: int | None


def waits_for(run: PendingRun, ahead: Obstruction, now: datetime) -> str:
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
