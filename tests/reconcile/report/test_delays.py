"""Why a run was made, or began, late."""

from datetime import UTC, datetime, timedelta

import pytest

from reconcile.report.verdicts import PastHold, RunStart, began_late, decided_late
from revisions.outcomes import HoldKind

DUE = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


def at(second: float) -> datetime:
    return DUE + timedelta(seconds=second)


def stood(
    begins: float, ends: float | None, kind: HoldKind = HoldKind.FREEZE, reason: str = "", owner: str = "ann"
) -> PastHold:
    return PastHold(kind, owner, reason, at(begins), None if ends is None else at(ends))


@pytest.mark.parametrize(
    ("hold", "expected"),
    [
        pytest.param(
            stood(0, 60),
            "A freeze by ann was in force from 2026-03-02T08:00:00Z to 2026-03-02T08:01:00Z.",
            id="over",
        ),
        pytest.param(
            stood(0, None, HoldKind.BLACKOUT, "inventory"),
            "A blackout by ann was in force from 2026-03-02T08:00:00Z on, and still is (inventory).",
            id="in force, with a reason",
        ),
    ],
)
def test_a_hold_is_reported_with_its_time_and_reason(hold: PastHold, expected: str) -> None:
    """U-03."""
    assert list(decided_late([hold], at(-1), at(30))) == [expected]


@pytest.mark.parametrize(
    ("hold", "late", "is_told"),
    [
        pytest.param(stood(0, 60), 5, False, id="five seconds are on time"),
        pytest.param(stood(0, 60), 5.1, True, id="more are not"),
        pytest.param(stood(-60, 0), 30, False, id="it ended when the occurrence was due"),
        pytest.param(stood(-60, 0.1), 30, True, id="it ended just after"),
        pytest.param(stood(30, 60), 30, False, id="it began with the decision"),
        pytest.param(stood(29.9, 60), 30, True, id="it began just before"),
        pytest.param(stood(-60, None), 30, True, id="it still lasts"),
    ],
)
def test_a_late_decision_names_what_was_in_force_meanwhile(hold: PastHold, late: float, is_told: bool) -> None:
    """U-03."""
    assert bool(list(decided_late([hold], DUE, at(late)))) is is_told


def test_only_the_newest_of_many_holds_are_reported() -> None:
    """U-03: five at most, so that the answer stays short."""
    holds = [stood(second, second + 0.5, owner=f"u{second}") for second in range(7)]
    assert [text.split(" ")[3] for text in decided_late(holds, DUE, at(60))] == ["u2", "u3", "u4", "u5", "u6"]


UNKNOWN = "What it waited for is not recorded: a limit, a key, a run before it, or a worker."


@pytest.mark.parametrize(
    ("run", "holds", "expected"),
    [
        pytest.param(RunStart(at(0), None), [], [], id="not begun"),
        pytest.param(RunStart(at(0), at(5)), [], [], id="on time"),
        pytest.param(
            RunStart(at(0), at(5.25)),
            [],
            ["It began 5.25 s after it was made, at 2026-03-02T08:00:05Z.", UNKNOWN],
            id="late, nobody knows why",
        ),
        pytest.param(
            RunStart(at(0), at(30)),
            [stood(1, 29), stood(1, 29, HoldKind.BLACKOUT)],
            [
                "It began 30 s after it was made, at 2026-03-02T08:00:30Z.",
                "A freeze by ann was in force from 2026-03-02T08:00:01Z to 2026-03-02T08:00:29Z.",
            ],
            id="late, a freeze: a blackout keeps no run",
        ),
        pytest.param(
            RunStart(at(0), None, at(10), "bob"),
            [],
            ["It waited 10 s for an approval, which bob gave at 2026-03-02T08:00:10Z."],
            id="approved, not begun",
        ),
        pytest.param(
            RunStart(at(0), at(20), at(10), "bob"),
            [stood(5, 10)],
            [
                "It waited 10 s for an approval, which bob gave at 2026-03-02T08:00:10Z.",
                "It began 10 s after it was approved, at 2026-03-02T08:00:20Z.",
                UNKNOWN,
            ],
            id="late after its approval",
        ),
    ],
)
def test_a_late_begin_names_what_is_known_of_it(run: RunStart, holds: list[PastHold], expected: list[str]) -> None:
    """U-03, X-14: counted from its making, or from its approval."""
    assert list(began_late(holds, run)) == expected
