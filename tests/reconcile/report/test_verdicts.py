"""An instant in a trigger's life, and what there is to say of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reconcile.decide.in_force import RevisionPeriod, periods
from reconcile.report.audit import DecidedSpan, RecordedSkip
from reconcile.report.verdicts import (
    SHOWN,
    InstantFacts,
    InstantView,
    Made,
    RunStart,
    Verdict,
    asked_for,
    look,
    verdict,
)
from revisions.history.chain import canonical
from revisions.history.triggers import Action, Revision
from revisions.ids import TriggerKey
from revisions.outcomes import OccurrenceOutcome, RunSource, RunStatus

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


def at(hour: float) -> datetime:
    return START + timedelta(hours=hour)


def revision(hour: float, action: str, **spec: Any) -> Revision:
    return Revision(
        trigger_id="T",
        key=TriggerKey("acme", "production", "report", "tick"),
        revision=1 + int(hour),
        action=Action(action),
        actor="ann",
        reason="",
        at=at(hour),
        active=action in ("DEPLOY", "ACTIVATE"),
        tags=(),
        until=None,
        origin=None,
        idempotency_key=None,
        resolved="{}",
        scopes="[]",
        spec=canonical({"task_version": "v1", "schedule": {"every": "1h"}, **spec}),
        previous_hash="",
        hash="",
    )


def life(*revisions: Revision) -> list[RevisionPeriod]:
    return periods(revisions or [revision(0, "DEPLOY")])


PAUSED = life(revision(0, "DEPLOY"), revision(3, "DEACTIVATE"))


def facts(now: float = 5, watermark: float = 5, **more: Any) -> InstantFacts:
    return InstantFacts("tick", at(now), DecidedSpan(at(watermark), **more.pop("standing", {})), **more)


def run(is_by_hand: bool = False) -> Made:
    return Made("R1", RunSource.SCHEDULE, "ann", at(2), RunStart(at(2), None), RunStatus.PENDING, None, is_by_hand)


SKIP = RecordedSkip(at(2), "every/x", at(2), at(2), 1, OccurrenceOutcome.MISSED, "")


def hours(instant: InstantView) -> list[float | None]:
    """The fires at the instant, before it and after it."""
    found = (instant.fire, instant.before, instant.after)
    return [None if fire is None else (fire.at - START) / timedelta(hours=1) for fire in found]


@pytest.mark.parametrize(
    ("found", "hour", "expected"),
    [
        pytest.param(life(), 2, [2, 1, 3], id="a fire"),
        pytest.param(life(), 2.5, [None, 2, 3], id="between two"),
        pytest.param(life(), 1, [1, None, 2], id="the first"),
        pytest.param(life(), 0, [None, None, 1], id="before it was there"),
        pytest.param(PAUSED, 3, [3, 2, None], id="the last before a pause"),
        pytest.param(PAUSED, 4, [4, None, None], id="in a pause"),
    ],
)
def test_an_instant_is_seen_with_the_fires_around_it(
    found: list[RevisionPeriod], hour: float, expected: list[float | None]
) -> None:
    """U-03."""
    instant = look(found, at(hour))
    assert hours(instant) == expected
    assert (instant.period is None) is (hour == 0)
    assert instant.left_out == ()


def test_what_was_left_out_around_an_unnamed_instant_is_shown() -> None:
    """U-03, S-13: closed days between the nearest fires, a bounded number."""
    spec = {"schedule": {"cron": "0 9 * * *", "exclude": ["2026-03-04/2026-03-05"]}}
    found = life(revision(0, "DEPLOY", **spec))
    day = look(found, datetime(2026, 3, 4, 9, tzinfo=UTC))
    assert [(out.local, out.reason) for out in day.left_out] == [
        ("2026-03-04T09:00:00", "exclude"),
        ("2026-03-05T09:00:00", "exclude"),
    ]
    assert look(found, datetime(2026, 3, 3, 9, tzinfo=UTC)).left_out == ()
    often = life(revision(0, "DEPLOY", schedule={"cron": "* * * * *", "exclude": ["2026-03-03"]}))
    assert len(look(often, datetime(2026, 3, 3, 9, tzinfo=UTC)).left_out) == SHOWN
    ended = life(
        revision(
            0, "DEPLOY", schedule={"cron": "0 9 * * *", "exclude": ["2026-03-03"], "until": "2026-03-03T12:00:00Z"}
        )
    )
    assert look(ended, datetime(2026, 3, 3, 12, tzinfo=UTC)).left_out[0].local == "2026-03-03T09:00:00"


@pytest.mark.parametrize(
    ("found", "now", "expected"),
    [
        pytest.param(life(), 2.5, 2, id="the newest"),
        pytest.param(life(), 2, 2, id="at now"),
        pytest.param(life(), 0.5, 0.5, id="none yet: now"),
    ],
)
def test_without_an_instant_the_newest_occurrence_is_meant(
    found: list[RevisionPeriod], now: float, expected: float
) -> None:
    """U-03."""
    assert asked_for(found, at(now)) == at(expected)


COUNTED = life(revision(0, "DEPLOY", schedule={"every": "1h", "count": 3}))


@pytest.mark.parametrize(
    ("found", "hour", "known", "expected"),
    [
        pytest.param(life(), -1, facts(), Verdict.NOT_THERE, id="before the first revision"),
        pytest.param(life(), -1, facts(run=run(is_by_hand=True)), Verdict.STARTED, id="by hand, at any time"),
        pytest.param(life(), 2.5, facts(run=run(is_by_hand=True)), Verdict.STARTED, id="by hand, between two"),
        pytest.param(life(), 2.5, facts(run=run()), Verdict.NOT_NAMED, id="a run of another instant"),
        pytest.param(life(), 2, facts(run=run(), skip=SKIP), Verdict.STARTED, id="a run"),
        pytest.param(life(), 2, facts(skip=SKIP), Verdict.SKIPPED, id="a skip"),
        pytest.param(life(), 2.5, facts(skip=SKIP), Verdict.NOT_NAMED, id="a skip of another instant"),
        pytest.param(PAUSED, 4, facts(), Verdict.INACTIVE, id="in a pause"),
        pytest.param(PAUSED, 9, facts(), Verdict.INACTIVE, id="in a pause, ahead"),
        pytest.param(PAUSED, 4, facts(skip=SKIP), Verdict.SKIPPED, id="a skip in a pause"),
        pytest.param(life(), 6, facts(), Verdict.AHEAD, id="ahead"),
        pytest.param(life(), 5, facts(watermark=4), Verdict.UNDECIDED, id="due now"),
        pytest.param(life(), 5.5, facts(), Verdict.AHEAD, id="ahead and not named"),
        pytest.param(life(), 4.5, facts(), Verdict.NOT_NAMED, id="not named"),
        pytest.param(COUNTED, 4, facts(started=3), Verdict.OVER, id="the count was used up"),
        pytest.param(COUNTED, 4, facts(started=2), Verdict.MISSING, id="the count was not used up"),
        pytest.param(life(), 4, facts(watermark=3), Verdict.UNDECIDED, id="after the watermark"),
        pytest.param(life(), 4, facts(standing={"backlogs": [(at(3), at(4))]}), Verdict.UNDECIDED, id="in a backlog"),
        pytest.param(PAUSED, 2, facts(watermark=1), Verdict.MISSING, id="after the watermark, but closed since"),
        pytest.param(life(), 4, facts(standing={"forgotten_until": at(4)}), Verdict.NOT_KEPT, id="removed since"),
        pytest.param(
            life(), 4, facts(standing={"forgotten_until": at(3)}), Verdict.MISSING, id="neither kept nor removed"
        ),
    ],
)
def test_there_is_one_thing_to_say_of_an_instant(
    found: list[RevisionPeriod], hour: float, known: InstantFacts, expected: Verdict
) -> None:
    """U-03, S-07, O-07: what is recorded comes before what should be."""
    assert verdict(look(found, at(hour)), known) is expected
