"""Backfills, retries and firing many by command."""

import json
from typing import Any

import pytest
from sqlalchemy import update

from revisions.store.database import Database
from revisions.store.run_tables import runs
from tests.controller.conftest import Cli, Write
from tests.world import task_document, trigger_document

T, OTHER = "acme/production/report/tick", "acme/production/report/other"
SPAN = ("--from", "2026-03-02T07:57:00Z", "--to", "2026-03-02T07:59:00Z")


@pytest.fixture(autouse=True)
def _deployed(cli: Cli, write: Write) -> None:
    assert cli("task", "register", write("task.yaml", task_document())).status == 0
    assert cli("deploy", write("tick.yaml", trigger_document(tags=["x"]))).status == 0
    assert cli("deploy", write("other.yaml", trigger_document("other", tags=["x"]))).status == 0


def said(cli: Cli, *arguments: str) -> Any:
    answer = cli("--output", "json", *arguments)
    assert answer.status == 0, answer.err
    return json.loads(answer.out)


def test_looking_first_then_backfilling(cli: Cli) -> None:
    """X-11, U-01: a dry run lists each occurrence; then the numbers are told, and what was there already."""
    looked = cli("backfill", T, *SPAN, "--dry-run")
    assert looked.status == 0, looked.err
    assert [line.split()[0] for line in looked.out.splitlines()] == [
        "OCCURRENCE",
        "every/2026-03-02T07:57:00Z",
        "every/2026-03-02T07:58:00Z",
        "2",
    ]
    assert looked.out.splitlines()[-1] == "2 runs would be made"
    assert said(cli, "runs", "list")["items"] == []
    assert cli("--actor", "ann", "backfill", T, *SPAN, "--input", '{"n": 1}').out == "2 runs made\n"
    again = cli("backfill", T, *SPAN)
    assert (again.out, again.err) == ("0 runs made\n", "2 occurrences had a run already: --force makes another one\n")
    assert said(cli, "backfill", T, *SPAN, "--force", "--overlap", "allow", "--idempotency-key", "k")["made"] == 2
    assert len(said(cli, "runs", "list", "--source", "backfill")["items"]) == 4


def test_what_a_backfill_refuses(cli: Cli) -> None:
    """U-01: each with its exit status, and what to do next."""
    assert cli("backfill", T, "--from", "2026-03-02T07:57:00Z").status == 2
    assert cli("backfill", T, *SPAN, "--input", "[]").status == 5
    assert cli("backfill", "acme/production/report/none", *SPAN).status == 3
    much = cli("backfill", T, "--from", "2026-01-01T00:00:00Z", "--to", "2026-03-01T00:00:00Z")
    assert much.status == 5
    assert "go up to 2026-01-07T22:40:00Z first, then on from there" in much.err
    assert cli("freeze", "--reason", "stocktaking").status == 0
    frozen = cli("backfill", T, *SPAN)
    assert (frozen.status, "stocktaking" in frozen.err) == (4, True)


def test_firing_all_with_a_tag(cli: Cli) -> None:
    """X-11: a line for each; the exit status is that of the first refusal."""
    assert cli("fire").status == cli("fire", T, "--tag", "x").status == 2
    found = said(cli, "fire", "--tag", "x", "--input", '{"n": 1}')["items"]
    assert [(one["trigger"], one["run"]["input"]) for one in found] == [(OTHER, {"n": 1}), (T, {"n": 1})]
    again = cli("fire", "--tag", "x")
    assert again.status == 4
    assert all(one["run"]["id"] in again.out for one in found)
    assert "no trigger bears the tag 'y'" in cli("fire", "--tag", "y").err


def test_retrying_one_and_all_that_are_dead(cli: Cli, database: Database) -> None:
    """X-11, X-16: a run by its id, or all of a trigger's that failed for good, oldest first."""
    made = [said(cli, "fire", name, "--overlap", "allow")["id"] for name in (T, T, T, OTHER)]
    assert cli("runs", "retry", made[0]).status == 4
    with database.write() as connection:
        connection.execute(update(runs).values(status="failed"))
    assert said(cli, "runs", "retry", made[0].lower())["status"] == "pending"
    dead = said(cli, "runs", "list", "--dead", "--trigger", T)["items"]
    assert sorted(run["id"] for run in dead) == sorted(made[1:3])
    again = said(cli, "runs", "retry", "--dead", "--trigger", T)["items"]
    assert [(run["id"], run["status"]) for run in again] == [(run["id"], "pending") for run in reversed(dead)]
    assert [run["id"] for run in said(cli, "runs", "list", "--dead")["items"]] == made[3:]
    assert said(cli, "runs", "retry", "--dead", "--trigger", T)["items"] == []


@pytest.mark.parametrize(
    "words", [[], ["RUN", "--dead", "--trigger", T], ["--dead"], ["--trigger", T], ["RUN", "--trigger", T]]
)
def test_a_retry_of_nothing_in_particular(cli: Cli, words: list[str]) -> None:
    """U-01: wrong usage."""
    assert cli("runs", "retry", *words).status == 2
