"""How many starts a second the schedules ask for once a plan is done."""

from datetime import UTC, datetime
from typing import Any

import pytest

from reconcile.decide.admission import Demanded
from reconcile.report.outlook import after
from reconcile.report.plan import Declared, PlannedTrigger, ServerState, decide
from revisions.ids import TaskKey
from revisions.spec import manifest
from tests.world import key, task_document, trigger_document

NOW = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
TASKS = {TaskKey("acme", "production", "report", "v1"): task_document()["spec"]}
EACH_SECOND, EACH_TWO = {"every": "1s"}, {"every": "2s"}


def row_of(schedule: dict[str, Any] | None, active: bool = True) -> PlannedTrigger:
    spec: dict[str, Any] = {"task_version": "v1"}
    return PlannedTrigger(3, active, (), spec if schedule is None else spec | {"schedule": schedule}, is_ours=True)


def asked(row: PlannedTrigger | None, *documents: dict[str, Any], standing: float = 5, prune: bool = False) -> float:
    """What is asked for after a folder of these documents was applied to a server with this trigger."""
    server = ServerState(TASKS, {key("tick"): row} if row else {})
    declared = [Declared("f.yaml", each, manifest.read(each)) for each in documents]
    found = after(decide(declared, server, "team", prune=prune), server, Demanded(standing, 9), NOW)
    assert found.allowed == 9
    return found.asked


@pytest.mark.parametrize(
    ("row", "document", "expected"),
    [
        pytest.param(None, {"schedule": EACH_TWO}, 5.5, id="a new trigger"),
        pytest.param(None, {"schedule": EACH_TWO, "active": False}, 5, id="a new one that is inactive"),
        pytest.param(None, {"schedule": {"in": "1h"}}, 5, id="a new one that fires once"),
        pytest.param(row_of(EACH_TWO), {"schedule": EACH_SECOND}, 5.5, id="more often"),
        pytest.param(row_of(EACH_SECOND), {"schedule": EACH_TWO}, 4.5, id="less often"),
        pytest.param(row_of(EACH_SECOND), {"schedule": EACH_SECOND}, 5, id="no change"),
        pytest.param(row_of(EACH_SECOND, active=False), {"schedule": EACH_TWO}, 5, id="inactive stays inactive"),
        pytest.param(
            row_of(EACH_SECOND, active=False), {"schedule": EACH_TWO, "active": True}, 5.5, id="activated by its file"
        ),
        pytest.param(row_of(EACH_SECOND), {"schedule": EACH_SECOND, "active": False}, 4, id="deactivated by its file"),
        pytest.param(row_of({"sometimes": True}), {"schedule": EACH_TWO}, 5.5, id="one that could not be read"),
        pytest.param(row_of(None), {"schedule": EACH_TWO}, 5.5, id="one without a schedule"),
        pytest.param(
            row_of({"cron": "* * * * * *"}), {"schedule": {"at": "2026-03-03T00:00:00Z"}}, 4, id="once instead of often"
        ),
    ],
)
def test_each_step_adds_and_takes_away(row: PlannedTrigger | None, document: dict[str, Any], expected: float) -> None:
    """L-18: to what is asked for now."""
    assert asked(row, trigger_document(**document)) == pytest.approx(expected)


def test_what_is_deleted_asks_for_nothing() -> None:
    """L-18: and never less than nothing is asked for."""
    assert asked(row_of(EACH_SECOND), prune=True) == 4
    assert asked(row_of(EACH_SECOND), prune=True, standing=0.5) == 0
    assert asked(row_of(EACH_SECOND, active=False), prune=True) == 5


def test_tasks_ask_for_nothing() -> None:
    """L-18."""
    assert asked(None, task_document("v2")) == 5
