"""Audit of a trigger: its scheduled occurrences against the records (U-07), and explanations of one instant (U-03)."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from controller.api.answers import (
    Answer,
    CursorQuery,
    LimitQuery,
    ListOut,
    Time,
    instant_in,
    pack,
    page,
    time_text,
)
from controller.api.catchup import BacklogOut
from controller.api.history import OccurrenceOut, occurrence_out
from controller.api.parameters import ServicesDep, TriggerPath, moment, optional_moment
from controller.api.preview import FireOut, LeftOutOut, fire_out, left_out_out
from controller.api.runs import RunOut, run_out
from controller.api.triggers import ONE
from controller.auth.requirements import Projects, require
from reconcile.decide.authority import Role
from reconcile.queries.audit import Place, audit_trigger
from reconcile.queries.explain import Explained, explain_trigger
from reconcile.report.audit import AuditLine, AuditResult, AuditSummary
from revisions.history.triggers import Trigger
from revisions.ids import TriggerKey, utc_text
from revisions.store.occurrences import Occurrence

router = APIRouter(prefix="/triggers", tags=["audit"])
_VIEW = require(Role.VIEWER, Projects.NAMED)

FromQuery = Annotated[str, Query(alias="from", description="beginning of the range, included")]
ToQuery = Annotated[str | None, Query(alias="to", description="end of the range, excluded; at most now, the default")]
AtQuery = Annotated[str | None, Query(description="an instant; left out: the newest occurrence")]


class AuditLineOut(Answer):
    """One occurrence and its records. `revision` was in force then; of an unexpected record it is the record's own."""

    occurrence_id: str
    scheduled_at: Time
    kind: Literal["on_time", "late", "skipped", "inactive", "undecided", "not_kept", "missing", "unexpected"]
    outcome: str | None
    reason: str
    revision: int
    run_id: str | None
    decided_at: Time | None


class CauseOut(Answer):
    """Number of occurrences that were skipped for one reason."""

    outcome: str
    reason: str
    count: int


class AuditSummaryOut(Answer):
    """Number of occurrences of each kind; `clean` if none is missing or unexpected."""

    clean: bool
    on_time: int
    late: int
    skipped: int
    inactive: int
    undecided: int
    not_kept: int
    missing: int
    unexpected: int
    causes: list[CauseOut]


class AuditOut(Answer):
    """Occurrences in [from, to) with their records. The summary covers the whole range; on later pages it is null."""

    since: Time = Field(serialization_alias="from")
    until: Time = Field(serialization_alias="to")
    trigger: str
    summary: AuditSummaryOut | None
    items: list[AuditLineOut]
    next_cursor: str | None


class InForceOut(Answer):
    """The revision that was in force at an instant."""

    revision: int
    changed_at: Time
    changed_by: str
    active: bool
    deleted: bool
    paused_until: Time | None
    deactivated_reason: str | None


class DecidedOut(Answer):
    """Decided part of a trigger's schedule: everything up to the watermark, except the backlogs."""

    watermark: Time
    backlogs: list[BacklogOut]
    rate_waiting_since: Time | None


class ExplanationOut(Answer):
    """Why a trigger fired at an instant, or did not. `before` and `after`: the nearest fires of the schedule then."""

    trigger: str
    at: Time
    verdict: Literal[
        "not_there",
        "ahead",
        "inactive",
        "not_named",
        "over",
        "started",
        "skipped",
        "undecided",
        "not_kept",
        "missing",
    ]
    sentences: list[str]
    in_force: InForceOut | None
    occurrence: FireOut | None
    before: FireOut | None
    after: FireOut | None
    left_out: list[LeftOutOut]
    run: RunOut | None
    skip: OccurrenceOut | None
    decided: DecidedOut


@router.get(f"{ONE}/audit", dependencies=[_VIEW])
def audit(
    key: TriggerPath,
    services: ServicesDep,
    since: FromQuery,
    until: ToQuery = None,
    limit: LimitQuery = 100,
    cursor: CursorQuery = None,
) -> AuditOut:
    """Return each occurrence in [from, to) with its records, oldest first. The summary is on the first page."""
    start = instant_in(cursor, 2)
    place = Place(start[0], start[1][0]) if start else None
    result = audit_trigger(
        services.database,
        services.settings.pace.grace,
        key,
        moment(since, "from"),
        optional_moment(until, "to"),
        limit + 1,
        place,
    )
    lines = page(ListOut[AuditLineOut], result.lines, limit, _line, _cursor)
    return AuditOut(
        since=utc_text(result.since),
        until=utc_text(result.until),
        trigger=str(key),
        summary=_summary(result.summary) if result.summary else None,
        items=lines.items,
        next_cursor=lines.next_cursor,
    )


@router.get(f"{ONE}/explain", dependencies=[_VIEW])
def explain(key: TriggerPath, services: ServicesDep, at: AtQuery = None) -> ExplanationOut:
    """Explain why the trigger fired at an instant, or did not: in one word, in sentences, and with the facts."""
    return _explanation(explain_trigger(services.database, key, optional_moment(at, "at")), key)


def _cursor(line: AuditLine) -> str:
    return pack(utc_text(line.at), line.occurrence_id)


def _line(line: AuditLine) -> AuditLineOut:
    return AuditLineOut(
        occurrence_id=line.occurrence_id,
        scheduled_at=utc_text(line.at),
        kind=line.kind.value,
        outcome=line.outcome or None,
        reason=line.reason,
        revision=line.revision,
        run_id=line.run_id,
        decided_at=time_text(line.decided_at),
    )


def _summary(summary: AuditSummary) -> AuditSummaryOut:
    causes = sorted(summary.skips.items())
    return AuditSummaryOut(
        clean=summary.is_clean,
        **{kind.value: summary.kinds[kind] for kind in AuditResult},
        causes=[CauseOut(outcome=outcome, reason=reason, count=count) for (outcome, reason), count in causes],
    )


def _explanation(made: Explained, key: TriggerKey) -> ExplanationOut:
    instant, status = made.instant, made.past.status
    backlogs = made.past.standing.backlogs
    return ExplanationOut(
        trigger=str(key),
        at=utc_text(instant.at),
        verdict=made.explanation.verdict.value,
        sentences=list(made.explanation.sentences),
        in_force=_in_force(instant.period.trigger) if instant.period else None,
        occurrence=fire_out(instant.fire) if instant.fire else None,
        before=fire_out(instant.before) if instant.before else None,
        after=fire_out(instant.after) if instant.after else None,
        left_out=[left_out_out(missing) for missing in instant.left_out],
        run=run_out(made.run, {made.run.trigger_id: key}) if made.run else None,
        skip=occurrence_out(Occurrence.of(made.skip), key) if made.skip else None,
        decided=DecidedOut(
            watermark=utc_text(status.watermark),
            backlogs=[BacklogOut(after=utc_text(after), until=utc_text(until)) for after, until in backlogs],
            rate_waiting_since=time_text(status.rate_waiting_since),
        ),
    )


def _in_force(trigger: Trigger) -> InForceOut:
    return InForceOut(
        revision=trigger.revision,
        changed_at=utc_text(trigger.changed_at),
        changed_by=trigger.changed_by,
        active=trigger.active,
        deleted=trigger.deleted,
        paused_until=time_text(trigger.until),
        deactivated_reason=trigger.deactivated_reason,
    )
