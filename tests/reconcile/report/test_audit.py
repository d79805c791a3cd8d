"""The audit as a pure function: revisions and records in, lines out."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from time import perf_counter
from typing import Any

import pytest

from reconcile.decide.in_force import RevisionPeriod, following, named, newest, observing, periods, size
from reconcile.report import audit, explain, verdicts
from reconcile.report.audit import AuditLine, AuditResult, AuditSummary, DecidedSpan, RecordedRun, RecordedSkip
from revisions.history.chain import canonical
from revisions.history.triggers import SYSTEM, Action, Revision
from revisions.ids import TriggerKey
from revisions.outcomes import OccurrenceOutcome

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
GRACE = timedelta(seconds=60)
EVERY_MINUTE: dict[str, Any] = {"schedule": {"every": "1m"}}
FIVES: dict[str, Any] = {"schedule": {"every": "5m"}}
COUNTS: dict[str, Any] = EVERY_MINUTE | {"catchup": {"inactive": True}}


def at(minute: float) -> datetime:
    return START + minute * MINUTE


def history(*changes: tuple[Any, ...]) -> list[Revision]:
    """Revisions of (minute, action, active, spec, …): who made it and when its pause ends may follow."""
    found = []
    for number, (minute, action, active, spec, *more) in enumerate(changes, 1):
        who = more[0] if more else "ann"
        until = more[1] if len(more) > 1 else None
        found.append(
            Revision(
                trigger_id="x",
                key=TriggerKey("acme", "production", "report", "tick"),
                revision=number,
                action=Action(action),
                actor=who,
                reason="",
                at=at(minute),
                active=active,
                tags=(),
                until=at(until) if until is not None else None,
                origin=None,
                idempotency_key=None,
                resolved="{}",
                scopes="[]",
                spec=canonical({"task_version": "v1", **spec}),
                previous_hash="",
                hash="",
            )
        )
    return found


def run(minute: float, late: float = 0, occurrence: str | None = None, **more: Any) -> RecordedRun:
    """A run of a minute's occurrence, made some minutes later."""
    id = occurrence or f"every/{at(minute):%Y-%m-%dT%H:%M:%SZ}"
    return RecordedRun(at(minute), id, at(minute + late), 1, f"run-{minute}", **more)


def skip(
    first: float, last: float, outcome: OccurrenceOutcome = OccurrenceOutcome.MISSED, reason: str = ""
) -> RecordedSkip:
    """A recorded range from one minute to another."""
    return RecordedSkip(at(first), f"every/{at(first):%Y-%m-%dT%H:%M:%SZ}", at(last), at(last), 1, outcome, reason)


def judged(
    revisions: Sequence[Revision],
    runs: Sequence[RecordedRun] = (),
    skips: Sequence[RecordedSkip] = (),
    watermark: float = 10,
    backlogs: Sequence[tuple[float, float]] = (),
    window: tuple[float, float] = (0, 10),
    started: int = 0,
) -> list[AuditLine]:
    standing = DecidedSpan(at(watermark), [(at(after), at(until)) for after, until in backlogs])
    low, high = map(at, window)
    return list(audit.lines(periods(revisions), standing, low, high, runs, skips, grace=GRACE, started=started))


def told(lines: Sequence[AuditLine]) -> list[tuple[int, str]]:
    return [(int((line.at - START) / MINUTE), line.kind.value) for line in lines]


LIVES: dict[str, tuple[list[tuple[Any, ...]], list[tuple[float, float | None, bool, bool]]]] = {
    "one revision": ([(0, "DEPLOY", True, FIVES)], [(0, None, True, False)]),
    "another description": (
        [(0, "DEPLOY", True, FIVES), (3, "DEPLOY", True, FIVES | {"description": "x"})],
        [(0, 3, True, False), (3, None, True, False)],
    ),
    "another schedule": (
        [(0, "DEPLOY", True, FIVES), (3, "DEPLOY", True, EVERY_MINUTE)],
        [(0, 3, True, True), (3, None, True, False)],
    ),
    "an input of the schedule's block": (
        [(0, "DEPLOY", True, FIVES), (3, "DEPLOY", True, {"schedule": {"every": "5m", "kickoff_time_input": "at"}})],
        [(0, 3, True, False), (3, None, True, False)],
    ),
    "a pause": (
        [(0, "DEPLOY", True, FIVES), (2, "DEACTIVATE", False, FIVES), (7, "ACTIVATE", True, FIVES)],
        [(0, 2, True, True), (2, 7, False, True), (7, None, True, False)],
    ),
    "a pause that ended by itself, found later": (
        [
            (0, "DEPLOY", True, FIVES),
            (2, "DEACTIVATE", False, FIVES, "ann", 4),
            (7, "ACTIVATE", True, FIVES, SYSTEM),
        ],
        [(0, 2, True, True), (2, 4, False, True), (4, None, True, False)],
    ),
    "a pause that somebody ended after its time": (
        [(0, "DEPLOY", True, FIVES), (2, "DEACTIVATE", False, FIVES, "ann", 4), (7, "ACTIVATE", True, FIVES)],
        [(0, 2, True, True), (2, 7, False, True), (7, None, True, False)],
    ),
    "a description given in a pause that is over": (
        [
            (0, "DEPLOY", True, FIVES),
            (2, "DEACTIVATE", False, FIVES, "ann", 4),
            (6, "DEPLOY", False, FIVES | {"description": "x"}, "ann", 4),
            (7, "ACTIVATE", True, FIVES | {"description": "x"}, SYSTEM),
        ],
        [(0, 2, True, True), (2, 4, False, True), (4, None, True, False)],
    ),
    "a schedule given in a pause that is over": (
        [
            (0, "DEPLOY", True, FIVES),
            (2, "DEACTIVATE", False, FIVES, "ann", 4),
            (6, "DEPLOY", False, EVERY_MINUTE, "ann", 4),
            (7, "ACTIVATE", True, EVERY_MINUTE, SYSTEM),
        ],
        [(0, 2, True, True), (2, 6, False, True), (6, None, True, False)],
    ),
    "a pause that counts": (
        [(0, "DEPLOY", True, COUNTS), (2, "DEACTIVATE", False, COUNTS), (7, "ACTIVATE", True, COUNTS)],
        [(0, 2, True, False), (2, 7, True, False), (7, None, True, False)],
    ),
    "a pause that counts from a deploy on": (
        [
            (0, "DEPLOY", True, EVERY_MINUTE),
            (2, "DEACTIVATE", False, EVERY_MINUTE),
            (5, "DEPLOY", False, COUNTS),
            (7, "ACTIVATE", True, COUNTS),
        ],
        [(0, 2, True, True), (2, 5, False, True), (5, 7, True, False), (7, None, True, False)],
    ),
    "deleted and back": (
        [(0, "DEPLOY", True, FIVES), (2, "DELETE", False, FIVES), (7, "DEPLOY", True, FIVES)],
        [(0, 2, True, True), (2, 7, False, True), (7, None, True, False)],
    ),
    "two changes at one instant": (
        [(0, "DEPLOY", True, FIVES), (2, "DEACTIVATE", False, FIVES), (2, "ACTIVATE", True, FIVES)],
        [(0, 2, True, True), (2, None, True, False)],
    ),
}


@pytest.mark.parametrize("life", LIVES)
def test_eras_of_a_life(life: str) -> None:
    """U-07, R-20, R-21: (after, until, counts, closed) of each time under one revision."""
    changes, expected = LIVES[life]
    found = [(period.after, period.until, period.counts, period.is_closed) for period in periods(history(*changes))]
    assert found == [(at(a), None if u is None else at(u), *more) for a, u, *more in expected]


ALIVE = [(0, "DEPLOY", True, EVERY_MINUTE)]
CASES: dict[str, tuple[dict[str, Any], list[tuple[int, str]]]] = {
    "on time, just so, and late": (
        {"runs": [run(1), run(2, 1), run(3, 1.01)], "watermark": 3, "window": (0, 3)},
        [(1, "on_time"), (2, "on_time"), (3, "late")],
    ),
    "skipped one by one and in a range": (
        {"skips": [skip(1, 1, OccurrenceOutcome.CONCURRENCY), skip(2, 4)], "watermark": 4, "window": (0, 4)},
        [(1, "skipped"), (2, "skipped"), (3, "skipped"), (4, "skipped")],
    ),
    "a range that reaches into the time and out of it": (
        {"skips": [skip(1, 9)], "window": (4, 6)},
        [(5, "skipped"), (6, "skipped")],
    ),
    "neither, up to the watermark": (
        {"watermark": 2, "window": (0, 4)},
        [(1, "missing"), (2, "missing"), (3, "undecided"), (4, "undecided")],
    ),
    "neither, in a backlog": (
        {"runs": [run(4)], "watermark": 4, "backlogs": [(1, 3)], "window": (0, 4)},
        [(1, "missing"), (2, "undecided"), (3, "undecided"), (4, "on_time")],
    ),
    "runs within a superseded range": (
        {"runs": [run(2)], "skips": [skip(1, 3, OccurrenceOutcome.SUPERSEDED)], "watermark": 3, "window": (0, 3)},
        [(1, "skipped"), (2, "on_time"), (3, "skipped")],
    ),
    "a run within a missed range": (
        {"runs": [run(2)], "skips": [skip(1, 3)], "watermark": 3, "window": (0, 3)},
        [(1, "skipped"), (2, "unexpected"), (3, "skipped")],
    ),
    "two ranges over one occurrence": (
        {"skips": [skip(1, 2), skip(2, 3, OccurrenceOutcome.CONCURRENCY)], "watermark": 3, "window": (0, 3)},
        [(1, "skipped"), (2, "unexpected"), (3, "skipped")],
    ),
    "a run off the schedule": (
        {"runs": [run(1), run(1.5)], "watermark": 1, "window": (0, 2)},
        [(1, "on_time"), (1, "unexpected"), (2, "undecided")],
    ),
    "a run under a foreign id": (
        {"runs": [run(1, occurrence="cron/2026-03-02T08:01:00/UTC")], "watermark": 1, "window": (0, 1)},
        [(1, "unexpected"), (1, "missing")],
    ),
    "a skip off the schedule covers nothing": (
        {"skips": [skip(0.5, 2)], "watermark": 1, "window": (0, 1)},
        [(0, "unexpected"), (1, "missing")],
    ),
    "a run and a skip of one foreign id are one": (
        {"runs": [run(0.5)], "skips": [skip(0.5, 0.5)], "watermark": 0, "window": (0, 0.9)},
        [(0, "unexpected")],
    ),
    "runs by hand": (
        {"runs": [run(1, occurrence="manual/x", by_hand=True), run(1, by_hand=True)], "watermark": 1, "window": (0, 1)},
        [(1, "on_time")],
    ),
    "a run that a run asked for": (
        {"runs": [run(1), run(1.2, occurrence="next/x")], "watermark": 1, "window": (0, 1.9)},
        [(1, "on_time")],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_lines(case: str) -> None:
    """U-07: what becomes of the minutes of a trigger that fires every minute."""
    facts, expected = CASES[case]
    assert told(judged(history(*ALIVE), **facts)) == expected


def test_only_the_newest_baseline_may_leave_anything_undecided() -> None:
    """U-07, R-21: what a baseline closed is missing, whatever the watermark says."""
    revisions = history((0, "DEPLOY", True, EVERY_MINUTE), (3, "DEPLOY", True, FIVES))
    lines = judged(revisions, watermark=3, window=(0, 6))
    assert told(lines) == [(1, "missing"), (2, "missing"), (3, "missing"), (5, "undecided")]
    assert [line.revision for line in lines] == [1, 1, 1, 2]


def test_after_as_many_starts_as_count_says_there_are_no_more() -> None:
    """U-07, S-07: what was started before the time asked for counts too; a new baseline begins anew."""
    two = {"schedule": {"every": "1m", "count": 2}}
    revisions = history((0, "DEPLOY", True, two), (5, "DEPLOY", True, {"schedule": {"every": "2m", "count": 1}}))
    runs = [run(1), run(3), run(6)]
    assert told(judged(revisions, runs, [skip(2, 2)])) == [
        (1, "on_time"),
        (2, "skipped"),
        (3, "on_time"),
        (6, "on_time"),
    ]
    assert told(judged(revisions, runs[1:2], window=(2, 4), started=1)) == [(3, "on_time")]
    assert told(judged(revisions, [], window=(2, 4), started=1)) == [(3, "missing"), (4, "missing")]


def test_days_off_are_those_of_the_calendar_in_force_then() -> None:
    """U-07, S-13: each period is cut where a calendar that it names changed."""
    spec = {"schedule": {"cron": "0 8 * * *", "calendars": ["holidays"]}}
    day = date(2026, 3, 4)
    lived = list(observing(periods(history((0, "DEPLOY", True, spec))), {"holidays": [(at(60), frozenset({day}))]}))
    assert [(period.after, period.until) for period in lived] == [(at(0), at(60)), (at(60), None)]
    assert [one.at.day for one in named(lived, at(0), at(4 * 24 * 60))] == [3, 5, 6]


def test_the_nearest_fires() -> None:
    """U-03: backwards no further than time that counts; forwards over time that does not."""
    lived = periods(history((0, "DEPLOY", True, FIVES), (6, "DEACTIVATE", False, FIVES), (12, "ACTIVATE", True, FIVES)))

    def minute_of(found: Any) -> int | None:
        return None if found is None else int((found.at - START) / MINUTE)

    assert [minute_of(newest(lived, at(minute))) for minute in (4, 5, 6, 8, 13, 15)] == [None, 5, 5, None, None, 15]
    assert [minute_of(following(lived, at(minute))) for minute in (0, 5, 12, 15)] == [5, 15, 15, 20]


def test_an_instant_after_the_last_start_that_count_allows() -> None:
    """U-03, S-07: nothing had to come of it, though it is decided and nothing is recorded."""
    lived = periods(history((0, "DEPLOY", True, {"schedule": {"every": "1m", "count": 2}})))
    instant = verdicts.look(lived, at(3))
    facts = verdicts.InstantFacts("acme/production/report/tick", at(9), DecidedSpan(at(9)), started=2)
    found = explain.explain(instant, facts)
    assert found.verdict is verdicts.Verdict.OVER
    assert (
        found.sentences[0] == "It did not fire at 2026-03-02T08:03:00Z: all 2 that `count` allows had started before."
    )
    assert explain.explain(instant, replace(facts, started=1)).verdict is verdicts.Verdict.MISSING


def test_the_size_is_known_without_working_it_out() -> None:
    """U-07: as many as are named, at most the limit."""
    lived = periods(history((0, "DEPLOY", True, EVERY_MINUTE), (10, "DEPLOY", True, FIVES)))
    assert size(lived, at(0), at(30), 1_000) == len(list(named(lived, at(0), at(30)))) == 14
    assert size(lived, at(0), at(30), 12) == 12


def test_a_hundred_thousand_occurrences_take_seconds() -> None:
    """U-07: three ordered streams are merged, once."""
    revisions = history((0, "DEPLOY", True, {"schedule": {"every": "1s"}}))
    lived: list[RevisionPeriod] = periods(revisions)
    seconds = [START + timedelta(seconds=number) for number in range(1, 100_001)]
    ids = [f"every/{second:%Y-%m-%dT%H:%M:%SZ}" for second in seconds]
    runs = [RecordedRun(second, id, second, 1, id) for second, id in zip(seconds, ids, strict=True)][::2]
    skips = [
        RecordedSkip(second, id, second, second, 1, OccurrenceOutcome.MISSED, "")
        for second, id in zip(seconds, ids, strict=True)
    ][1::2]
    summary, began = AuditSummary(), perf_counter()
    for line in audit.lines(lived, DecidedSpan(seconds[-1]), START, seconds[-1], runs, skips, grace=GRACE):
        summary.add(line)
    assert perf_counter() - began < 20  # some two seconds where nothing else runs
    assert summary.kinds == {AuditResult.ON_TIME: 50_000, AuditResult.SKIPPED: 50_000}
    assert summary.is_clean
