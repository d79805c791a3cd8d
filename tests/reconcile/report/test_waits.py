"""What a pending run waits for, in words."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reconcile.report.verdicts import Obstruction, PendingRun, waits_for

NOW = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)


def pending(**more: Any) -> PendingRun:
    """A run that could begin now."""
    of: dict[str, Any] = {
        "available_at": NOW,
        "overlap": "queue_all",
        "serialize_key": None,
        "concurrency_limit": None,
        "task_limit": None,
    }
    return PendingRun(**(of | more))


@pytest.mark.parametrize(
    ("run", "ahead", "expected"),
    [
        pytest.param(pending(), Obstruction(), "", id="nothing"),
        pytest.param(pending(), Obstruction(frozen_by="ann"), "the end of the freeze by ann", id="a freeze"),
        pytest.param(
            pending(available_at=LATER),
            Obstruction(),
            "its next attempt, at 2026-03-02T08:05:00Z",
            id="another attempt",
        ),
        pytest.param(
            pending(),
            Obstruction(over_budget_until=LATER),
            "the next period of its budget, which begins at 2026-03-02T08:05:00Z",
            id="its budget",
        ),
        pytest.param(
            pending(),
            Obstruction(before="R1"),
            "the end of run R1 of the same trigger (overlap queue_all)",
            id="the run before it",
        ),
        pytest.param(pending(overlap="allow"), Obstruction(before="R1"), "", id="allow waits for no run before it"),
        pytest.param(pending(overlap="skip"), Obstruction(before="R1"), "", id="nor does skip"),
        pytest.param(
            pending(serialize_key="db"),
            Obstruction(key_holder="R2"),
            "the end of run R2, which holds its serialize_key 'db'",
            id="its key",
        ),
        pytest.param(
            pending(concurrency_limit=2),
            Obstruction(of_trigger=2),
            "one of the 2 runs of its trigger to end (concurrency.limit 2)",
            id="its trigger's limit",
        ),
        pytest.param(pending(concurrency_limit=2), Obstruction(of_trigger=1), "", id="room below its trigger's limit"),
        pytest.param(
            pending(task_limit=3),
            Obstruction(of_task=4),
            "one of the 4 runs of its task to end (its concurrency.limit 3)",
            id="its task's limit",
        ),
        pytest.param(pending(task_limit=3), Obstruction(of_task=2), "", id="room below its task's limit"),
    ],
)
def test_a_pending_run_names_what_it_waits_for(run: PendingRun, ahead: Obstruction, expected: str) -> None:
    """U-03, X-04: nothing where only nobody has claimed it yet."""
    assert waits_for(run, ahead, NOW) == expected


def test_what_stands_first_in_its_way_is_named() -> None:
    """U-03: of all that does, from the freeze, which ends last of all, to the limits."""
    run = pending(serialize_key="db", concurrency_limit=1, task_limit=1)
    blocked: dict[str, Any] = {
        "frozen_by": "ann",
        "over_budget_until": LATER,
        "before": "R1",
        "key_holder": "R2",
        "of_trigger": 1,
        "of_task": 1,
    }
    kinds = list(blocked)
    named = [waits_for(run, Obstruction(**{kind: blocked[kind] for kind in kinds[first:]}), NOW) for first in range(6)]
    assert [text.split(",")[0].split(" (")[0] for text in named] == [
        "the end of the freeze by ann",
        "the next period of its budget",
        "the end of run R1 of the same trigger",
        "the end of run R2",
        "one of the 1 runs of its trigger to end",
        "one of the 1 runs of its task to end",
    ]
    again = pending(available_at=LATER)
    assert waits_for(again, Obstruction(over_budget_until=LATER, before="R1"), NOW).startswith("its next attempt")
    assert waits_for(again, Obstruction(frozen_by="ann"), NOW) == "the end of the freeze by ann"
