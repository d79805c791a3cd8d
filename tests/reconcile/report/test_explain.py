"""Why a trigger fired, or did not, in words."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reconcile.decide.in_force import periods
from reconcile.report.audit import DecidedSpan, RecordedSkip
from reconcile.report.explain import explain
from reconcile.report.verdicts import (
    HoldInForce,
    InstantFacts,
    Made,
    Obstacles,
    QuarantineState,
    RunStart,
    Verdict,
    look,
)
from revisions.history.chain import canonical
from revisions.history.triggers import Action, Revision
from revisions.ids import TriggerKey
from revisions.outcomes import HoldKind, OccurrenceOutcome, RunSource, RunStatus

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


def at(hour: float) -> datetime:
    return START + timedelta(hours=hour)


def revision(hour: float, action: str = "DEPLOY", **schedule: Any) -> Revision:
    return Revision(
        trigger_id="T",
        key=TriggerKey("acme", "production", "report", "tick"),
        revision=1 + int(hour),
        action=Action(action),
        actor="ann",
        reason="holiday" if action == "DEACTIVATE" else "",
        at=at(hour),
        active=action == "DEPLOY",
        tags=(),
        until=None,
        origin=None,
        idempotency_key=None,
        resolved="{}",
        scopes="[]",
        spec=canonical({"task_version": "v1", "schedule": {"every": "1h", **schedule}}),
        previous_hash="",
        hash="",
    )


def said(hour: float, *revisions: Revision, watermark: float = 9, **known: Any) -> tuple[Verdict, tuple[str, ...]]:
    """What is explained of an hour, asked nine and a half hours after the start."""
    standing = known.pop("standing", DecidedSpan(at(watermark)))
    facts = InstantFacts("tick", at(9.5), standing, **known)
    found = explain(look(periods(revisions or [revision(0)]), at(hour)), facts)
    return found.verdict, found.sentences


def run(status: RunStatus = RunStatus.SUCCEEDED, source: RunSource = RunSource.SCHEDULE, **more: Any) -> Made:
    return Made("R1", source, "bob", at(2), RunStart(at(2), at(2)), status, None, **more)


SKIP = RecordedSkip(at(2), "every/x", at(2), at(2), 1, OccurrenceOutcome.BUDGET, "")


@pytest.mark.parametrize(
    ("found", "verdict", "first", "last"),
    [
        pytest.param(
            lambda: said(-1), Verdict.NOT_THERE, "there was no trigger tick yet", "history tick", id="too early"
        ),
        pytest.param(lambda: said(10), Verdict.AHEAD, "2026-03-02T18:00:00Z is still to come", "next tick", id="ahead"),
        pytest.param(
            lambda: said(10, obstacles=Obstacles(denied="no rights")),
            Verdict.AHEAD,
            "no rights",
            "next tick",
            id="denied",
        ),
        pytest.param(
            lambda: said(9.7), Verdict.AHEAD, "the schedule does not name it", "next tick", id="ahead, unnamed"
        ),
        pytest.param(
            lambda: said(3, revision(0), revision(2, "DEACTIVATE")),
            Verdict.INACTIVE,
            "it was inactive then, though its schedule names that instant",
            "`triggerctl activate tick` resumes it",
            id="inactive",
        ),
        pytest.param(
            lambda: said(3, revision(0), revision(2, "DELETE")),
            Verdict.INACTIVE,
            "it was deleted then",
            "Deploy it again",
            id="deleted",
        ),
        pytest.param(
            lambda: said(2.5),
            Verdict.NOT_NAMED,
            "its schedule does not name",
            "explain tick --at 2026-03-02T10:00:00Z",
            id="unnamed",
        ),
        pytest.param(
            lambda: said(4, revision(0, count=3), started=3),
            Verdict.OVER,
            "all 3 that `count` allows",
            "greater `count`",
            id="count used up",
        ),
        pytest.param(
            lambda: said(2, run=run()),
            Verdict.STARTED,
            "run R1 was made 0 s after that time",
            "Revision 1 is in force",
            id="started",
        ),
        pytest.param(
            lambda: said(2, run=run(RunStatus.PENDING, waits_for="a key")),
            Verdict.STARTED,
            "It fired at",
            "Revision 1 is in force",
            id="started, and waits",
        ),
        pytest.param(
            lambda: said(2.5, run=run(source=RunSource.MANUAL, is_by_hand=True)),
            Verdict.STARTED,
            "Run R1 was made by bob at 2026-03-02T10:00:00Z (manual)",
            "Revision 1 is in force",
            id="by hand",
        ),
        pytest.param(
            lambda: said(2.5, run=run(source=RunSource.BACKFILL, is_by_hand=True)),
            Verdict.STARTED,
            "for 2026-03-02T10:00:00Z (backfill)",
            "Revision 1 is in force",
            id="by hand, for an instant",
        ),
        pytest.param(
            lambda: said(2, skip=SKIP),
            Verdict.SKIPPED,
            "the budget of its period was used up",
            "Raise `limits.max_cost`",
            id="skipped",
        ),
        pytest.param(
            lambda: said(2, standing=DecidedSpan(at(9), forgotten_until=at(3))),
            Verdict.NOT_KEPT,
            "Nothing is kept of",
            "Revision 1 is in force",
            id="not kept",
        ),
        pytest.param(lambda: said(2), Verdict.MISSING, "nothing says why", "fire tick", id="missing"),
    ],
)
def test_the_first_sentence_answers_and_the_last_says_what_to_do(
    found: Callable[[], tuple[Verdict, tuple[str, ...]]], verdict: Verdict, first: str, last: str
) -> None:
    """U-03."""
    reached, sentences = found()
    assert reached is verdict
    assert first in sentences[0]
    assert last in sentences[-1]


FREEZE = HoldInForce(HoldKind.FREEZE, "ann", "inventory", at(12))
APART = QuarantineState(at(1), at(12), "no such zone")


@pytest.mark.parametrize(
    ("known", "why"),
    [
        pytest.param({"obstacles": Obstacles(hold=FREEZE)}, "A freeze by ann is in force until", id="a freeze"),
        pytest.param({"obstacles": Obstacles(quarantine=APART)}, "It could not be decided since", id="quarantine"),
        pytest.param({"standing": DecidedSpan(at(9), [(at(3), at(6))])}, "It waits in a backlog", id="a backlog"),
        pytest.param({"obstacles": Obstacles(asked_at=at(12))}, "A run asked for the next fire at", id="asked for"),
        pytest.param(
            {"obstacles": Obstacles(spread_offset=timedelta(hours=6))},
            "`spread` gives this trigger its place 21600 s",
            id="spread",
        ),
        pytest.param({"obstacles": Obstacles(rate_waiting_since=at(5))}, "It waits for its turn since", id="a token"),
        pytest.param({}, "Everything up to 2026-03-02T11:00:00Z is decided", id="nobody looked"),
        pytest.param(
            {"obstacles": Obstacles(hold=FREEZE, quarantine=APART)}, "A freeze by ann", id="a freeze before quarantine"
        ),
    ],
)
def test_what_is_undecided_says_what_it_waits_for(known: dict[str, Any], why: str) -> None:
    """U-03: what stands furthest before it first."""
    verdict, sentences = said(4, watermark=3, **known)
    assert verdict is Verdict.UNDECIDED
    assert why in sentences[1]
