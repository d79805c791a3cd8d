"""Why a run was made, or began, later than its time: what is recorded of it, in sentences; pure (U-03).

What kept a run from its start once it was made, but for an approval and a freeze, is recorded nowhere.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reconcile.rules.wording import at_text, because, span_text

A_WHILE: Final = timedelta(seconds=5)
"""What is less late than this was on time."""
FREEZE: Final = "freeze"
SHOWN: Final = 5
"""The newest so many freezes and blackouts are told."""


@dataclass(frozen=True, slots=True)
class Stood:
    """A freeze or a blackout that was in force for a time; None as its end where it still is."""

    kind: str
    owner: str
    reason: str
    since: datetime
    until: datetime | None

    def told(self) -> str:
        ended = f"to {at_text(self.until)}" if self.until else "on, and still is"
        return f"A {self.kind} by {self.owner} was in force from {at_text(self.since)} {ended}{because(self.reason)}."


@dataclass(frozen=True, slots=True)
class Began:
    """When a run began for the first time, None where that is not known, and who approved it when, if it had to be."""

    created_at: datetime
    started_at: datetime | None
    approved_at: datetime | None = None
    approved_by: str | None = None


def decided_late(stood: Iterable[Stood], due_at: datetime, decided_at: datetime) -> Iterator[str]:
    """What held an occurrence up to its decision."""
    if decided_at - due_at > A_WHILE:
        yield from _told(stood, due_at, decided_at)


def began_late(stood: Iterable[Stood], run: Began) -> Iterator[str]:
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
        freezes = [one for one in stood if one.kind == FREEZE]
        found = list(_told(freezes, could_begin, run.started_at))
        yield from found or ["What it waited for is not recorded: a limit, a key, a run before it, or a worker."]


def _told(stood: Iterable[Stood], after: datetime, until: datetime) -> Iterator[str]:
    between = [one for one in stood if one.since < until and (one.until is None or after < one.until)]
    yield from (one.told() for one in between[-SHOWN:])
