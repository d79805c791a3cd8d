"""The doctor, plans that ask for too many starts, and triggers that cannot be decided."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from revisions.store import schema
from revisions.store.database import Database
from tests.controller.conftest import Cli
from tests.world import World, trigger_document

T = "acme/production/report/tick"
Fill = Callable[..., None]


@pytest.fixture
def fill(tmp_path: Path) -> Fill:
    """Create the folder `f` with these triggers and the origin `team`."""

    def fill(**schedules: dict[str, Any]) -> None:
        root = tmp_path / "f"
        root.mkdir(exist_ok=True)
        (root / "triggerctl.yaml").write_text("origin: team\n")
        documents = [trigger_document(name, **spec) for name, spec in schedules.items()]
        (root / "t.yaml").write_text("\n---\n".join(map(json.dumps, documents)))

    return fill


def every(span: str, **spec: Any) -> dict[str, Any]:
    return {"schedule": {"every": span}, **spec}


def test_doctor_prints_a_line_for_each_check(cli: Cli, world: World) -> None:
    """O-05, U-01: and one for the result."""
    world.resync()
    result = cli("doctor")
    assert result.status == 0, result.out
    lines = result.out.splitlines()
    assert lines[-1] == ("All is well." if world.database.is_sqlite else "1 warning.")  # ours is a superuser
    assert [line.split()[:2] for line in lines[:3]] == [["ok", "database"], ["ok", "pooler"], ["ok", "notices"]]


def test_a_warning_leaves_the_exit_status_0(cli: Cli, world: World) -> None:
    """L-14, U-01: what to do is on the next line."""
    result = cli("doctor")
    assert (result.status, result.err) == (0, "")
    place = next(number for number, line in enumerate(result.out.splitlines()) if line.startswith("warning  replicas"))
    assert result.out.splitlines()[place + 1].strip().startswith("start `triggerctl up`")
    assert result.out.endswith("1 warning.\n" if world.database.is_sqlite else "2 warnings.\n")


def test_a_fault_exits_with_1(cli: Cli, world: World) -> None:
    """R-02, U-01: as a table and as JSON."""
    with world.database.write() as connection:
        schema.drop_guards(connection, "trigger_revisions")
    result = cli("doctor")
    assert result.status == 1
    assert "fault    guards       history can be changed" in result.out
    assert result.out.endswith("1 fault, 1 warning.\n" if world.database.is_sqlite else "1 fault, 2 warnings.\n")
    result = cli("--output", "json", "doctor")
    answer = json.loads(result.out)
    assert (result.status, answer["ok"]) == (1, False)
    assert [check["name"] for check in answer["items"] if not check["ok"]] == ["guards"]


def test_doctor_reports_a_missing_database_as_a_fault(cli: Cli, world: World, tmp_path: Path) -> None:
    """O-05: with what to do, and without an error message."""
    result = cli("doctor", database=f"sqlite:///{tmp_path}/none.db")
    assert (result.status, result.err) == (1, "")
    assert "no such file" in result.out
    assert "run `triggerctl db upgrade`" in result.out


def test_a_plan_warns_of_too_many_starts(cli: Cli, world: World, fill: Fill) -> None:
    """L-18: new, changed and deleted triggers count; `apply` warns too, and continues."""
    fill(**{f"t{number}": every("1s") for number in range(7)})
    assert "execution_qps" not in cli("plan", "f").out
    fill(**{f"t{number}": every("1s") for number in range(8)})
    result = cli("plan", "f")
    assert result.status == 0
    assert "! with this the schedules ask for 8 starts a second, 80% of execution_qps (10): above 70%" in result.out
    planned = json.loads(cli("--output", "json", "plan", "f").out)
    assert planned["demand"] == {"asked_rate": 8.0, "execution_qps": 10.0, "is_too_much": True}
    applied = cli("apply", "f", "--yes")
    assert (applied.status, "80% of execution_qps" in applied.out) == (0, True)
    assert "80% of execution_qps" in cli("plan", "f").out
    fill(**{f"t{number}": every("1s" if number < 6 else "1m") for number in range(8)})
    assert json.loads(cli("--output", "json", "plan", "f").out)["demand"]["is_too_much"] is False
    fill(**{f"t{number}": every("1s") for number in range(5)})
    assert json.loads(cli("--output", "json", "plan", "f").out)["demand"]["asked_rate"] == 8.0
    assert json.loads(cli("--output", "json", "plan", "f", "--prune").out)["demand"]["asked_rate"] == 5.0


def test_paused_triggers_and_single_fires_count_as_no_starts(cli: Cli, world: World, fill: Fill) -> None:
    """L-18, R-20: a paused trigger stays paused unless its file says otherwise."""
    fill(a=every("1s"), b=every("1s", active=False), once={"schedule": {"at": "2027-01-01T00:00:00Z"}})
    assert cli("apply", "f", "--yes").status == 0
    world.deactivate("a", 1)
    fill(a=every("500s"), b=every("1s", active=True), soon={"schedule": {"in": "48h"}})
    assert json.loads(cli("--output", "json", "plan", "f").out)["demand"]["asked_rate"] == 1.0


def test_a_quarantined_trigger_is_shown_with_the_reason(cli: Cli, database: Database, world: World) -> None:
    """L-13: by list, show and the doctor."""
    world.create()
    assert "quarantined" not in cli("list").out
    with database.write() as connection:
        connection.execute(text("UPDATE triggers SET spec = replace(spec, '\"1m\"', '\"1 fortnight\"')"))
    world.advance(minutes=1)
    world.loop.resync()
    listed = cli("list").out
    assert "quarantined until 2026-03-02T08:01:30Z" in listed
    assert "fortnight" in listed
    shown = cli("show", T).out
    assert "until 2026-03-02T08:01:30Z, tried 1 time since 2026-03-02T08:01:00Z: " in shown
    examined = cli("doctor")
    assert (examined.status, T in examined.out) == (1, True)
