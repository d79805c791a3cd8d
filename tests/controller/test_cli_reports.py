"""Commands that audit and explain a trigger."""

import json
import re
from datetime import timedelta

import pytest
from sqlalchemy import delete

from reconcile.loop.loop import Loop
from revisions.clock import HandClock
from revisions.store.database import Database
from revisions.store.run_tables import runs
from tests.controller.conftest import ON_SQLITE, Cli, Write
from tests.world import World, task_document, trigger_document

pytestmark = ON_SQLITE  # test_api_*.py test the same requests on PostgreSQL too

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


def test_audit_groups_equal_occurrences_in_a_row(cli: Cli) -> None:
    """U-07: kind, cause, first, last and count; the last line is the total."""
    result = cli("audit", T, "--from", BEGINNING)
    assert (result.status, result.err) == (0, "")
    lines = result.out.splitlines()
    assert [re.split(r" {2,}", line) for line in lines[:-1]] == [
        ["KIND", "CAUSE", "FROM", "UNTIL", "COUNT"],
        ["skipped", "missed", "2026-03-02T08:01:00Z", "2026-03-02T08:11:00Z", "11"],
        ["on time", "-", "2026-03-02T08:12:00Z", "2026-03-02T08:14:00Z", "3"],
    ]
    assert lines[-1] == "14 occurrences: 3 on time, 11 skipped"


def test_audit_exits_with_1_if_a_run_is_missing(cli: Cli, database: Database, clock: HandClock) -> None:
    """U-07: also if the fault is beyond the items listed."""
    with database.write() as connection:
        connection.execute(delete(runs))
    result = cli("audit", T, "--from", BEGINNING)
    assert result.status == 1
    assert result.out.splitlines()[-1] == "14 occurrences: 11 skipped, 3 missing"
    assert cli("audit", T, "--from", BEGINNING, "--limit", "2").status == 1
    assert cli("audit", T, "--from", BEGINNING, "--to", "2026-03-02T08:12:00Z").status == 0


def test_audit_as_json_has_each_occurrence(cli: Cli) -> None:
    """U-07: in the API's shape, and in pages with --limit."""
    document = json.loads(cli("--output", "json", "audit", T, "--from", BEGINNING).out)
    assert (len(document["items"]), document["next_cursor"], document["summary"]["skipped"]) == (14, None, 11)
    result = cli("audit", T, "--from", BEGINNING, "--limit", "5")
    [cursor] = re.findall(r"--cursor (\S+),", result.err)
    rest = json.loads(cli("--output", "json", "audit", T, "--from", BEGINNING, "--cursor", cursor).out)
    assert (rest["items"], rest["summary"]) == (document["items"][5:], None)


def test_audit_joins_the_pages_of_a_long_period(cli: Cli, write: Write, loop: Loop, clock: HandClock) -> None:
    """U-07: into one answer."""
    cli("deploy", write("often.yaml", trigger_document("often", schedule={"every": "1s"})))
    clock.advance(timedelta(minutes=45))
    loop.resync()
    clock.advance(timedelta(milliseconds=1))
    result = cli("audit", "acme/production/report/often", "--from", BEGINNING)
    assert result.out.splitlines()[-1] == "2,700 occurrences: 1 on time, 2,699 skipped"


def test_explain_prints_sentences(cli: Cli) -> None:
    """U-03: one line each; JSON has the API's shape."""
    result = cli("explain", T, "--at", "2026-03-02T08:05:00Z")
    assert (result.status, result.err) == (0, "")
    assert result.out.splitlines()[0] == (
        "It did not fire at 2026-03-02T08:05:00Z: its time passed while nothing could start it, and the catch-up policy"
        " leaves it out."
    )
    assert json.loads(cli("--output", "json", "explain", T).out)["verdict"] == "undecided"


def test_audit_and_explain_refuse_wrong_arguments(cli: Cli) -> None:
    """U-01, U-03, U-07: wrong usage, not found, invalid."""
    assert cli("audit", T).status == 2
    assert cli("audit", f"{T}-x", "--from", BEGINNING).status == 3
    assert cli("explain", f"{T}-x").status == 3
    assert cli("audit", T, "--from", "yesterday").status == 5
    assert cli("explain", T, "--at", "noon").status == 5
