"""What should have happened, against what did."""

from typing import Literal

from typing_extensions import TypedDict

from controller.shapes.common import Since, Time, time_text
from reconcile.report.audit import AuditLine, AuditResult, AuditSummary
from revisions.ids import utc_text


class JudgedShape(TypedDict):
    """One occurrence and what became of it; `revision` is the one in force then, of an unexpected record its own."""

    occurrence_id: str
    scheduled_at: Time
    kind: Literal["on_time", "late", "skipped", "inactive", "undecided", "not_kept", "missing", "unexpected"]
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
    not_kept: int
    missing: int
    unexpected: int
    causes: list[CauseShape]


class AuditShape(Since):
    """What should have happened in [from, to) against what did; the summary is of all, and null in later parts."""

    to: Time
    trigger: str
    summary: SummaryShape | None
    items: list[JudgedShape]
    next_cursor: str | None


def judged_shape(line: AuditLine) -> JudgedShape:
    return {
        "occurrence_id": line.occurrence_id,
        "scheduled_at": utc_text(line.at),
        "kind": line.kind.value,
        "outcome": line.outcome or None,
        "reason": line.reason,
        "revision": line.revision,
        "run_id": line.run_id,
        "decided_at": time_text(line.decided_at),
    }


def summary_shape(made: AuditSummary) -> SummaryShape:
    causes = sorted(made.skips.items())
    return {
        "clean": made.is_clean,
        **{kind.value: made.kinds[kind] for kind in AuditResult},  # type: ignore[typeddict-item]  # each kind is a member
        "causes": [{"outcome": outcome, "reason": reason, "count": count} for (outcome, reason), count in causes],
    }
