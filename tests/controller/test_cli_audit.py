"""The account of a trigger, by command."""

import json
import re
from datetime import timedelta

import pytest
from sqlalchemy import delete

from reconcile.loop.loop import Loop
from revisions.clock import HandClock
from revisions.store.database import Database
from revisions.store.run_tables import runs
from tests.controller.conftest import Cli, Write
from tests.world import World, task_document, trigger_document

T = "acme/production/report/tick"
BEGINNING = "2026-03-02T08:00:00Z"


@pytest.fixture
def loop(database: Database, clock: HandClock) -> Loop:
    return World(database, clock).loop


@pytest.fixture(autouse=True)
def _lived(cli: Cli, write: Write, loop: Loop, clock: HandClock) -> None:
    """Twelve minutes without a loop, then three with one."""
    assert cli("task", "register", write("task.yaml", task_document())).status == 0
    assert cli("deploy", write("tick.yaml", trigger_document(overlap="allow"))).status == 0
    clock.advance(timedelta(minutes=12))
    for _ in range(3):
        loop.resync()
        clock.advance(timedelta(minutes=1))


def test_like_occurrences_are_one_line(cli: Cli) -> None:
    """U-07: kind, cause, first, last and how many; then all of it in one line."""
    said = cli("audit", T, "--from", BEGINNING)
    assert (said.status, said.err) == (0, "")
    lines = said.out.splitlines()
    assert [re.split(r" {2,}", line) for line in lines[:-1]] == [
        ["KIND", "CAUSE", "FROM", "UNTIL", "COUNT"],
        ["skipped", "missed", "2026-03-02T08:01:00Z", "2026-03-02T08:11:00Z", "11"],
        ["on time", "-", "2026-03-02T08:12:00Z", "2026-03-02T08:14:00Z", "3"],
    ]
    assert lines[-1] == "14 occurrences: 3 on time, 11 skipped"


def test_something_missing_is_a_failure(cli: Cli, database: Database, clock: HandClock) -> None:
    """U-07: exit code 1, also where the fault lies beyond what is listed."""
    with database.write() as connection:
        connection.execute(delete(runs))
    said = cli("audit", T, "--from", BEGINNING)
    assert said.status == 1
    assert said.out.splitlines()[-1] == "14 occurrences: 11 skipped, 3 missing"
    assert cli("audit", T, "--from", BEGINNING, "--limit", "2").status == 1
    assert cli("audit", T, "--from", BEGINNING, "--to", "2026-03-02T08:12:00Z").status == 0


def test_json_has_each_occurrence(cli: Cli) -> None:
    """U-07: in the API's shape; in parts when asked."""
    found = json.loads(cli("--output", "json", "audit", T, "--from", BEGINNING).out)
    assert (len(found["items"]), found["next_cursor"], found["summary"]["skipped"]) == (14, None, 11)
    said = cli("audit", T, "--from", BEGINNING, "--limit", "5")
    [cursor] = re.findall(r"--cursor (\S+),", said.err)
    rest = json.loads(cli("--output", "json", "audit", T, "--from", BEGINNING, "--cursor", cursor).out)
    assert (rest["items"], rest["summary"]) == (found["items"][5:], None)


def test_more_than_one_request_holds(cli: Cli, write: Write, loop: Loop, clock: HandClock) -> None:
    """U-07: all parts are one answer."""
    cli("deploy", write("often.yaml", trigger_document("often", schedule={"every": "1s"})))
    clock.advance(timedelta(minutes=45))
    loop.resync()
    clock.advance(timedelta(milliseconds=1))
    said = cli("audit", "acme/production/report/often", "--from", BEGINNING)
    assert said.out.splitlines()[-1] == "2700 occurrences: 1 on time, 2699 skipped"


def test_an_explanation_is_sentences(cli: Cli) -> None:
    """U-03: one line each; the API's shape as JSON."""
    said = cli("explain", T, "--at", "2026-03-02T08:05:00Z")
    assert (said.status, said.err) == (0, "")
    assert said.out.splitlines()[0] == (
        "It did not fire at 2026-03-02T08:05:00Z: its time passed while nothing could start it, and the catch-up policy"
        " leaves it out."
    )
    assert json.loads(cli("--output", "json", "explain", T).out)["verdict"] == "undecided"


def test_what_cannot_be_told(cli: Cli) -> None:
    """U-01, U-03, U-07: usage, not found, invalid."""
    assert cli("audit", T).status == 2
    assert cli("audit", f"{T}-x", "--from", BEGINNING).status == 3
    assert cli("explain", f"{T}-x").status == 3
    assert cli("audit", T, "--from", "yesterday").status == 5
    assert cli("explain", T, "--at", "noon").status == 5
