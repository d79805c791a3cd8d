"""Commands for tasks, runs and the schema."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from reconcile.decide.attempt_ends import AttemptOutcome
from reconcile.decide.authority import Caller
from revisions.clock import HandClock
from revisions.store import logs
from revisions.store.database import Database
from revisions.store.runs import Run
from revisions.store.tables import SCHEMA
from tests.controller.conftest import ON_SQLITE, Cli, Write
from tests.waiting import PATIENCE
from tests.world import World, key, task_document, trigger_document

T = "acme/production/report/tick"
ROOT = Path(__file__).parents[2]


class Followed(NamedTuple):
    """A running run in its world, and the process that follows its log."""

    world: World
    run: Run
    child: subprocess.Popen[str]


@pytest.fixture
def deployed(cli: Cli, write: Write) -> None:
    assert cli("task", "register", write("task.yaml", task_document())).status == 0
    assert cli("deploy", write("trigger.yaml", trigger_document())).status == 0


def test_every_task_of_a_file_is_registered(cli: Cli, write: Write) -> None:
    """R-12, R-23: registering the same spec repeated changes nothing, another spec is a conflict."""
    file = write("tasks.yaml", task_document("v1"), task_document("v2"))
    registered = json.loads(cli("--output", "json", "task", "register", file).out)["items"]
    assert [(task["version"], task["changed"]) for task in registered] == [("v1", True), ("v2", True)]
    repeated = json.loads(cli("--output", "json", "task", "register", file).out)["items"]
    assert [task["changed"] for task in repeated] == [False, False]
    assert cli("task", "register", write("other.yaml", task_document("v1", timeout="5m"))).status == 4
    assert len(json.loads(cli("--output", "json", "task", "list").out)["items"]) == 2


@pytest.mark.parametrize("name", ["acme/production/report@v1", "acme/production/report/v1"])
def test_a_task_is_shown_and_deleted_by_name(cli: Cli, deployed: None, name: str) -> None:
    """R-12, R-14: its triggers are deleted with it."""
    assert json.loads(cli("--output", "json", "task", "show", name).out)["trigger_name"] == "tick"
    assert cli("task", "delete", name).status == 0
    assert cli("task", "show", name).status == 3
    assert json.loads(cli("--output", "json", "show", T).out)["deleted"] is True


def test_a_run_is_fired_listed_shown_and_cancelled(cli: Cli, deployed: None) -> None:
    """X-11: a second fire is refused with the live run's id, unless --overlap allows it."""
    run = json.loads(cli("--output", "json", "fire", T, "--input", '{"since": 1}').out)
    assert (run["source"], run["input"], run["status"], run.pop("warnings")) == ("manual", {"since": 1}, "pending", [])
    refused = cli("fire", T)
    assert refused.status == 4
    assert run["id"] in refused.err
    assert cli("fire", T, "--overlap", "allow").status == 0
    listed = json.loads(cli("--output", "json", "runs", "list", "--trigger", T, "--status", "pending").out)["items"]
    assert run in listed
    assert len(listed) == 2
    assert json.loads(cli("--output", "json", "runs", "show", run["id"].lower()).out) == run | {"waits_for": None}
    assert json.loads(cli("--output", "json", "runs", "cancel", run["id"]).out)["status"] == "cancelled"
    assert cli("runs", "logs", run["id"]).out == ""
    assert json.loads(cli("runs", "list", "--limit", "1", "--output", "json").out)["next_cursor"]


def test_cancelling_a_finished_run_notes_that_it_stays(cli: Cli, world: World) -> None:
    """X-11, U-01: cancelling a waiting one needs no note."""
    world.create(retry={"max_attempts": 1}, overlap="allow")
    world.advance(minutes=1)
    world.resync()
    world.finish()
    [done] = world.runs()
    result = cli("runs", "cancel", done.id)
    assert (result.status, result.err) == (0, "note: the run had succeeded before, and stays so\n")
    world.advance(minutes=1)
    world.resync()
    [waiting] = [run for run in world.runs() if run.status == "pending"]
    assert cli("runs", "cancel", waiting.id).err == ""


def test_a_fire_is_repeated_safely_with_an_idempotency_key(cli: Cli, deployed: None) -> None:
    """X-11: the answer is the first run."""
    first = cli("--output", "json", "fire", T, "--idempotency-key", "k")
    assert cli("--output", "json", "fire", T, "--idempotency-key", "k").out == first.out


@pytest.mark.parametrize("text", ["{", "[]", '{"a": NaN}'])
def test_an_input_that_is_no_json_object_is_refused(cli: Cli, deployed: None, text: str) -> None:
    """R-18: no run is created."""
    assert cli("fire", T, "--input", text).status == 5
    assert json.loads(cli("--output", "json", "runs", "list").out)["items"] == []


def test_db_downgrades_and_upgrades_the_schema(cli: Cli, database_url: str) -> None:
    """R-19: unknown versions are refused."""

    def version(*arguments: str) -> str | None:
        result = cli("--output", "json", "db", *arguments)
        assert result.status == 0, result.err
        schema: str | None = json.loads(result.out)["schema"]
        return schema

    assert version("current") == SCHEMA
    assert version("downgrade", "base") is None
    assert version("current") is None
    assert cli("list").status == 7
    assert cli("db", "upgrade", "0999").status == 5
    assert version("upgrade") == SCHEMA
    assert cli("list").status == 0
    assert cli("--server", "http://127.0.0.1:9", "db", "current", database=None).status == 2


def test_db_separate_makes_another_installation(cli: Cli, database: Database) -> None:
    """X-10: `db current` shows its id."""

    def shown(command: str) -> str:
        installation: str = json.loads(cli("--output", "json", "db", command).out)["installation"]
        return installation

    before = shown("current")
    assert shown("separate") == shown("current") != before


def test_only_db_upgrade_creates_a_database(cli: Cli, database: Database) -> None:
    """R-19: other commands create no file."""
    assert cli("list", database="sqlite:///new.db").status == 7
    assert cli("db", "current", database="sqlite:///new.db").status == 7
    assert cli("db", "upgrade", database="sqlite:///new.db").status == 0
    assert cli("list", database="sqlite:///new.db").status == 0


@pytest.fixture
def followed(database: Database, database_url: str, clock: HandClock) -> Iterator[Followed]:
    """A running run, and `runs logs --follow` of it as a process."""
    world = World(database, clock)
    world.register()
    world.create(retry={"max_attempts": 2})
    world.fire(key("tick"), None, Caller("ann"))
    (run,) = world.claim()
    command = [sys.executable, "-m", "controller.cli.main", "--database-url", database_url]
    child = subprocess.Popen(
        [*command, "runs", "logs", run.id, "--follow"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    yield Followed(world, run, child)
    child.kill()
    child.communicate()


@ON_SQLITE
def test_logs_follow_prints_the_log_through_later_attempts_to_the_end_of_the_run(followed: Followed) -> None:
    """X-17: as it grows; then the command ends by itself."""
    world, run, child = followed
    assert child.stdout is not None
    prints(world, run, 0, b"one\n")
    assert child.stdout.readline() == "one\n"
    prints(world, run, 4, b"two\n")
    assert child.stdout.readline() == "two\n"
    world.settle(run, AttemptOutcome.FAILED)
    world.advance(seconds=10)
    (again,) = world.claim()
    prints(world, again, 0, b"three\n")
    assert child.stdout.readline() == "three\n"
    world.settle(again)
    out, err = child.communicate(timeout=PATIENCE)
    assert (child.returncode, out) == (0, "")
    assert "attempt 2" in err


def prints(world: World, run: Run, position: int, data: bytes) -> None:
    with world.database.write() as connection:
        logs.append(connection, {(run.id, run.attempt): [logs.LogPiece(position, data)]})
