"""History of triggers: revisions (R-09), occurrences (E-05), missed deadlines (X-16), the feed of changes (R-17)."""

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from controller.api.answers import (
    LARGEST_NUMBER,
    Answer,
    CursorQuery,
    LimitQuery,
    ListOut,
    Object,
    Time,
    instant_in,
    number_in,
    pack,
    page,
    time_text,
)
from controller.api.parameters import ReachDep, ServicesDep, TriggerPath
from controller.api.triggers import ONE, existing
from controller.auth.requirements import Projects, require
from controller.services import Services
from reconcile.decide.authority import Role
from revisions.errors import NotFound
from revisions.history import triggers
from revisions.history.triggers import FieldDifference, Revision, Trigger
from revisions.ids import TriggerKey, utc_text
from revisions.store import expectations, occurrences
from revisions.store import revisions as revision_store
from revisions.store.database import Connection
from revisions.store.expectations import MissedDeadline
from revisions.store.occurrences import Occurrence
from revisions.store.revisions import FeedEntry

router = APIRouter(prefix="/triggers", tags=["history"])
deadlines_router = APIRouter(prefix="/triggers", tags=["deadlines"])
feed_router = APIRouter(prefix="/changes", tags=["changes"])
_VIEW = require(Role.VIEWER, Projects.NAMED)
_SKIP, _RUN = "skip", "run"

AfterQuery = Annotated[str | None, Query(description="`next_cursor` of the page before; left out: from the beginning")]


class RevisionOut(Answer):
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


class DifferenceOut(Answer):
    """One path at which two revisions differ; `before` is null for added, `after` for removed values."""

    path: str
    kind: Literal["added", "removed", "changed"]
    before: Any
    after: Any


class DiffOut(Answer):
    """Differences between two revisions, by path."""

    first: int = Field(serialization_alias="from")
    second: int = Field(serialization_alias="to")
    differences: list[DifferenceOut]


class OccurrenceOut(Answer):
    """Decision on an occurrence, or on a range of skipped ones, whose number is `count`."""

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


class MissedDeadlineOut(Answer):
    """A missed deadline: no run since the occurrence had succeeded by `due_at`. `revision` was in force then."""

    trigger: str
    kind: str
    due_at: Time
    scheduled_at: Time
    occurrence_id: str
    revision: int
    noticed_at: Time


class ChangeOut(Answer):
    """One revision in the feed, with the name that the trigger had after it."""

    trigger: str
    revision: int
    at: Time


@router.get(f"{ONE}/revisions", dependencies=[_VIEW])
def revisions(
    key: TriggerPath, services: ServicesDep, limit: LimitQuery = 100, cursor: CursorQuery = None
) -> ListOut[RevisionOut]:
    """List the revisions of a trigger, newest first."""
    return list_revisions(services, key, limit, cursor)


def list_revisions(services: Services, key: TriggerKey, limit: int, cursor: str | None) -> ListOut[RevisionOut]:
    """Return a page of a trigger's revisions, newest first. Raises NotFound, and Invalid for a bad cursor."""
    before = number_in(cursor)
    with services.database.read() as connection:
        trigger = existing(connection, key)
        rows = revision_store.page(connection, trigger.trigger_id, before, limit + 1)
    return page(ListOut[RevisionOut], rows, limit, revision_out, lambda row: pack(str(row.revision)))


@router.get(f"{ONE}/revisions/{{number}}", dependencies=[_VIEW])
def revision(key: TriggerPath, number: int, services: ServicesDep) -> RevisionOut:
    """Return one revision in full."""
    return read_revision(services, key, number)


def read_revision(services: Services, key: TriggerKey, number: int) -> RevisionOut:
    """Return one revision of a trigger. Raises NotFound."""
    with services.database.read() as connection:
        return revision_out(_existing_revision(connection, existing(connection, key), number))


@router.get(f"{ONE}/diff", dependencies=[_VIEW])
def diff(
    key: TriggerPath,
    services: ServicesDep,
    first: Annotated[int, Query(alias="from", description="a revision")],
    second: Annotated[int, Query(alias="to", description="a revision")],
) -> DiffOut:
    """Return the differences between any two revisions, by path (R-09)."""
    with services.database.read() as connection:
        trigger = existing(connection, key)
        before, after = (_existing_revision(connection, trigger, number) for number in (first, second))
    return DiffOut(
        first=first, second=second, differences=[_difference(field) for field in triggers.diff(before, after)]
    )


@router.get(f"{ONE}/occurrences", dependencies=[_VIEW])
def ledger(
    key: TriggerPath, services: ServicesDep, limit: LimitQuery = 100, cursor: CursorQuery = None
) -> ListOut[OccurrenceOut]:
    """List runs and skips together, newest first."""
    return list_occurrences(services, key, limit, cursor)


def list_occurrences(services: Services, key: TriggerKey, limit: int, cursor: str | None) -> ListOut[OccurrenceOut]:
    """Return a page of a trigger's runs and skips, newest first. Raises NotFound, and Invalid for a bad cursor."""
    start = instant_in(cursor, 3)
    before = (start[0], start[1][0], start[1][1] == _SKIP) if start else None
    with services.database.read() as connection:
        trigger = existing(connection, key)
        rows = occurrences.ledger(connection, trigger.trigger_id, before, limit + 1)
    return page(
        ListOut[OccurrenceOut],
        rows,
        limit,
        lambda row: occurrence_out(row, key),
        lambda row: pack(utc_text(row.scheduled_at), row.occurrence_id, _RUN if row.run_id is not None else _SKIP),
    )


@deadlines_router.get(f"{ONE}/deadlines", dependencies=[_VIEW])
def missed_deadlines(
    key: TriggerPath, services: ServicesDep, limit: LimitQuery = 100, cursor: CursorQuery = None
) -> ListOut[MissedDeadlineOut]:
    """List the deadlines of `expect` by which no run had succeeded, newest first."""
    start = instant_in(cursor, 2)
    before = (start[0], start[1][0]) if start else None
    with services.database.read() as connection:
        trigger = existing(connection, key)
        rows = expectations.page(connection, trigger.trigger_id, before, limit + 1)
    return page(
        ListOut[MissedDeadlineOut],
        rows,
        limit,
        lambda row: _missed_deadline(row, key),
        lambda row: pack(utc_text(row.due_at), row.kind),
    )


@feed_router.get("", dependencies=[require(Role.VIEWER)])
def changes(
    services: ServicesDep, reach: ReachDep, after: AfterQuery = None, limit: LimitQuery = 100
) -> ListOut[ChangeOut]:
    """List every revision of every trigger. None is ever missed, some come twice: ignore the repeats.

    Of revisions older than `retain_changes` only the newest of each trigger is listed.

    `next_cursor` is always there: continue from it, now or at any later time. A page with fewer than `limit` items is
    the last for now.
    """
    position = revision_store.Position.parse(after) if after is not None else revision_store.BEGINNING
    with services.database.read() as connection:
        part = revision_store.read(connection, position, limit, projects=reach.projects)
    return ListOut[ChangeOut](items=[_change(change) for change in part.items], next_cursor=str(part.position))


def _existing_revision(connection: Connection, trigger: Trigger, number: int) -> Revision:
    row = revision_store.get(connection, trigger.trigger_id, number) if 0 < number <= LARGEST_NUMBER else None
    if row is None:
        raise NotFound.revision(trigger.key, number, trigger.revision)
    return row


def revision_out(row: Revision) -> RevisionOut:
    """Return a revision as the API shows it."""
    return RevisionOut(
        revision=row.revision,
        action=row.action.value,
        actor=row.actor,
        reason=row.reason,
        at=utc_text(row.at),
        active=row.active,
        tags=list(row.tags),
        until=time_text(row.until),
        origin=row.origin,
        resolved=json.loads(row.resolved),
        spec=json.loads(row.spec),
        previous_hash=row.previous_hash,
        hash=row.hash,
    )


def occurrence_out(row: Occurrence, key: TriggerKey) -> OccurrenceOut:
    """Return a decision on an occurrence as the API shows it."""
    return OccurrenceOut(
        trigger=str(key),
        occurrence_id=row.occurrence_id,
        scheduled_at=utc_text(row.scheduled_at),
        scheduled_until=utc_text(row.scheduled_until),
        decided_at=utc_text(row.decided_at),
        outcome=row.outcome,
        reason=row.reason,
        revision=row.revision,
        run_id=row.run_id,
        count=row.count,
    )


def _missed_deadline(row: MissedDeadline, key: TriggerKey) -> MissedDeadlineOut:
    return MissedDeadlineOut(
        trigger=str(key),
        kind=row.kind,
        due_at=utc_text(row.due_at),
        scheduled_at=utc_text(row.scheduled_at),
        occurrence_id=row.occurrence_id,
        revision=row.revision,
        noticed_at=utc_text(row.noticed_at),
    )


def _difference(difference: FieldDifference) -> DifferenceOut:
    return DifferenceOut(
        path=difference.path, kind=difference.kind.value, before=difference.before, after=difference.after
    )


def _change(row: FeedEntry) -> ChangeOut:
    return ChangeOut(trigger=str(row.key), revision=row.revision, at=utc_text(row.at))
