"""Tasks, runs and the schema by command."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from reconcile.decide.retry import AttemptOutcome
from reconcile.triggers.caller import Caller
from revisions.clock import HandClock
from revisions.store import logs
from revisions.store.database import Database
from revisions.store.runs import Run
from revisions.store.tables import SCHEMA
from tests.controller.conftest import Cli, Write
from tests.waiting import PATIENCE
from tests.world import World, key, task_document, trigger_document

T = "acme/production/report/tick"
ROOT = Path(__file__).parents[2]


class Followed(NamedTuple):
    """A world with a run that is worked on, and the process that follows its log."""

    world: World
    run: Run
    child: subprocess.Popen[str]


@pytest.fixture
def deployed(cli: Cli, write: Write) -> None:
    assert cli("task", "register", write("task.yaml", task_document())).status == 0
    assert cli("deploy", write("trigger.yaml", trigger_document())).status == 0


def test_every_task_of_a_file_is_registered(cli: Cli, write: Write) -> None:
    """R-12, R-23: a file may hold several; again is no change, another spec a conflict."""
    file = write("tasks.yaml", task_document("v1"), task_document("v2"))
    made = json.loads(cli("--output", "json", "task", "register", file).out)["items"]
    assert [(task["version"], task["changed"]) for task in made] == [("v1", True), ("v2", True)]
    again = json.loads(cli("--output", "json", "task", "register", file).out)["items"]
    assert [task["changed"] for task in again] == [False, False]
    assert cli("task", "register", write("other.yaml", task_document("v1", timeout="5m"))).status == 4
    assert len(json.loads(cli("--output", "json", "task", "list").out)["items"]) == 2


@pytest.mark.parametrize("name", ["acme/production/report@v1", "acme/production/report/v1"])
def test_a_task_is_shown_and_deleted_by_name(cli: Cli, deployed: None, name: str) -> None:
    """R-12, R-14: with its summary; deleting it deletes its triggers."""
    assert json.loads(cli("--output", "json", "task", "show", name).out)["trigger_name"] == "tick"
    assert cli("task", "delete", name).status == 0
    assert cli("task", "show", name).status == 3
    assert json.loads(cli("--output", "json", "show", T).out)["deleted"] is True


def test_firing_listing_showing_and_cancelling(cli: Cli, deployed: None) -> None:
    """X-11: a run by hand, refused over a live one with its id, until told how to overlap."""
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


def test_cancelling_says_what_it_could_not(cli: Cli, world: World) -> None:
    """X-11, U-01: a run that has ended stays as it is; one that is cancelled needs no more words."""
    world.create(retry={"max_attempts": 1}, overlap="allow")
    world.advance(minutes=1)
    world.resync()
    world.finish()
    [done] = world.runs()
    said = cli("runs", "cancel", done.id)
    assert (said.status, said.err) == (0, "note: it had succeeded before, and stays so\n")
    world.advance(minutes=1)
    world.resync()
    [waiting] = [run for run in world.runs() if run.status == "pending"]
    assert cli("runs", "cancel", waiting.id).err == ""


def test_firing_again_under_its_key(cli: Cli, deployed: None) -> None:
    """X-11: `--idempotency-key` answers the first run."""
    first = cli("--output", "json", "fire", T, "--idempotency-key", "k")
    assert cli("--output", "json", "fire", T, "--idempotency-key", "k").out == first.out


@pytest.mark.parametrize("text", ["{", "[]", '{"a": NaN}'])
def test_an_input_that_is_no_object(cli: Cli, deployed: None, text: str) -> None:
    """R-18: `--input` must be a JSON object that JSON can carry."""
    assert cli("fire", T, "--input", text).status == 5
    assert json.loads(cli("--output", "json", "runs", "list").out)["items"] == []


def test_the_schema_goes_down_and_up(cli: Cli, database_url: str) -> None:
    """R-19: `db` shows, takes back and brings up the schema; unknown versions are refused."""

    def version(*arguments: str) -> str | None:
        said = cli("--output", "json", "db", *arguments)
        assert said.status == 0, said.err
        schema: str | None = json.loads(said.out)["schema"]
        return schema

    assert version("current") == SCHEMA
    assert version("downgrade", "base") is None
    assert version("current") is None
    assert cli("list").status == 7
    assert cli("db", "upgrade", "0999").status == 5
    assert version("upgrade") == SCHEMA
    assert cli("list").status == 0
    assert cli("--server", "http://127.0.0.1:9", "db", "current", database=None).status == 2


def test_a_copy_is_separated(cli: Cli, database: Database) -> None:
    """X-10: `db current` shows which installation it is, `db separate` makes it another."""

    def shown(command: str) -> str:
        installation: str = json.loads(cli("--output", "json", "db", command).out)["installation"]
        return installation

    before = shown("current")
    assert shown("separate") == shown("current") != before


def test_only_an_upgrade_creates_a_database(cli: Cli, database: Database) -> None:
    """R-19: asking a file that is not there creates none."""
    assert cli("list", database="sqlite:///new.db").status == 7
    assert cli("db", "current", database="sqlite:///new.db").status == 7
    assert cli("db", "upgrade", database="sqlite:///new.db").status == 0
    assert cli("list", database="sqlite:///new.db").status == 0


@pytest.fixture
def followed(database: Database, database_url: str, clock: HandClock) -> Iterator[Followed]:
    """A run that is worked on, and `runs logs --follow` of it in a process of its own."""
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


def test_following_a_log_to_the_end_of_its_run(followed: Followed) -> None:
    """X-17: as it is printed, through the next attempt, and then it ends by itself."""
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


def test_following_goes_on_where_an_attempt_begins_anew(followed: Followed) -> None:
    """X-17, X-07: one that a controller gave back is printed from its beginning, under the same number."""
    world, run, child = followed
    assert child.stdout is not None
    prints(world, run, 0, b"one\ntwo\n")
    assert [child.stdout.readline() for _ in range(2)] == ["one\n", "two\n"]
    world.settle(run, AttemptOutcome.HANDED_BACK)
    (again,) = world.claim()
    assert again.attempt == run.attempt
    prints(world, again, 0, b"anew\n")
    assert child.stdout.readline() == "anew\n"


def prints(world: World, run: Run, position: int, data: bytes) -> None:
    with world.database.write() as connection:
        logs.append(connection, {(run.id, run.attempt): [logs.LogPiece(position, data)]})
