"""The doctor by command; plans that ask for too much; triggers that cannot be decided, as they are shown."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from revisions.store import guards
from revisions.store.database import Database
from tests.controller.conftest import Cli
from tests.world import World, trigger_document

T = "acme/production/report/tick"
Fill = Callable[..., None]


@pytest.fixture
def fill(tmp_path: Path) -> Fill:
    """Makes the folder `f`, which calls itself `team`, of these triggers."""

    def fill(**schedules: dict[str, Any]) -> None:
        root = tmp_path / "f"
        root.mkdir(exist_ok=True)
        (root / "triggerctl.yaml").write_text("origin: team\n")
        found = [trigger_document(name, **spec) for name, spec in schedules.items()]
        (root / "t.yaml").write_text("\n---\n".join(map(json.dumps, found)))

    return fill


def every(span: str, **spec: Any) -> dict[str, Any]:
    return {"schedule": {"every": span}, **spec}


def test_all_is_well(cli: Cli, world: World) -> None:
    """O-05, U-01: a line for each check, and one for all."""
    world.resync()
    said = cli("doctor")
    assert said.status == 0, said.out
    lines = said.out.splitlines()
    assert lines[-1] == ("All is well." if world.database.is_sqlite else "1 warning.")  # ours is a superuser
    assert [line.split()[:2] for line in lines[:3]] == [["ok", "database"], ["ok", "pooler"], ["ok", "notices"]]


def test_a_warning_is_no_failure(cli: Cli, world: World) -> None:
    """L-14, U-01: what to do stands beneath; the exit status stays 0."""
    said = cli("doctor")
    assert (said.status, said.err) == (0, "")
    place = next(number for number, line in enumerate(said.out.splitlines()) if line.startswith("warning  replicas"))
    assert said.out.splitlines()[place + 1].strip().startswith("start `triggerctl up`")
    assert said.out.endswith("1 warning.\n" if world.database.is_sqlite else "2 warnings.\n")


def test_a_fault_is_a_failure(cli: Cli, world: World) -> None:
    """R-02, U-01: exit status 1, as a table and as JSON."""
    with world.database.write() as connection:
        guards.drop(connection, "trigger_revisions")
    said = cli("doctor")
    assert said.status == 1
    assert "fault    guards       history can be changed" in said.out
    assert said.out.endswith("1 fault, 1 warning.\n" if world.database.is_sqlite else "1 fault, 2 warnings.\n")
    said = cli("--output", "json", "doctor")
    answer = json.loads(said.out)
    assert (said.status, answer["ok"]) == (1, False)
    assert [check["name"] for check in answer["items"] if not check["ok"]] == ["guards"]


def test_a_database_nobody_made(cli: Cli, world: World, tmp_path: Path) -> None:
    """O-05: a fault with the way out, and no error beside."""
    said = cli("doctor", database=f"sqlite:///{tmp_path}/none.db")
    assert (said.status, said.err) == (1, "")
    assert "no such file" in said.out
    assert "run `triggerctl db upgrade`" in said.out


def test_a_plan_that_asks_for_too_much_is_warned_of(cli: Cli, world: World, fill: Fill) -> None:
    """L-18: what will be asked for, new, changed and deleted triggers counted; `apply` says it too, and goes on."""
    fill(**{f"t{number}": every("1s") for number in range(7)})
    assert "execution_qps" not in cli("plan", "f").out
    fill(**{f"t{number}": every("1s") for number in range(8)})
    said = cli("plan", "f")
    assert said.status == 0
    assert "! with this the schedules ask for 8 starts a second, 80% of execution_qps (10): above 70%" in said.out
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


def test_what_rests_asks_for_nothing(cli: Cli, world: World, fill: Fill) -> None:
    """L-18, R-20: a trigger that is paused stays so, unless its file says otherwise; a single fire is no rate."""
    fill(a=every("1s"), b=every("1s", active=False), once={"schedule": {"at": "2027-01-01T00:00:00Z"}})
    assert cli("apply", "f", "--yes").status == 0
    world.deactivate("a", 1)
    fill(a=every("500s"), b=every("1s", active=True), soon={"schedule": {"in": "48h"}})
    assert json.loads(cli("--output", "json", "plan", "f").out)["demand"]["asked_rate"] == 1.0


def test_a_trigger_that_cannot_be_decided_is_shown(cli: Cli, database: Database, world: World) -> None:
    """L-13: the list says until when and why, show says since when, explain and doctor know it."""
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
