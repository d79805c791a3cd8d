"""Runs: made once per occurrence, claimed one claimer at a time, fenced by the claim's number, settled."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from revisions.store.database import insert_if_absent
from revisions.store.tables import runs


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to be made; (trigger, occurrence) is its claim on existence (X-01)."""

    id: str
    trigger_id: str
    occurrence_id: str
    revision: int
    project: str
    domain: str
    task: str
    task_version: str
    source: str
    overlap: str
    max_attempts: int
    scheduled_at: datetime
    created_at: datetime
    input: str


def create(connection: Connection, new: Sequence[NewRun]) -> int:
    """Inserts pending runs and answers how many; an occurrence that has its run keeps it."""
    return insert_if_absent(connection, runs, *map(_columns, new)) if new else 0


def _columns(run: NewRun) -> dict[str, Any]:
    values = {name: getattr(run, name) for name in NewRun.__slots__}
    return values | {"available_at": run.created_at, "status": "pending", "attempt": 0, "claim": 0}
