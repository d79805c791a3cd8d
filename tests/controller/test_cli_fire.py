"""Commands that fire, backfill and retry."""

import json
from typing import Any

import pytest
from sqlalchemy import update

from revisions.store.database import Database
from revisions.store.run_tables import runs
from tests.controller.conftest import ON_SQLITE, Cli, Write
from tests.world import task_document, trigger_document

pytestmark = ON_SQLITE  # test_api_*.py test the same requests on PostgreSQL too

T, OTHER = "acme/production/report/tick", "acme/production/report/other"
SPAN = ("--from", "2026-03-02T07:57:00Z", "--to", "2026-03-02T07:59:00Z")


@pytest.fixture(autouse=True)
def _deployed(cli: Cli, write: Write) -> None:
    assert cli("task", "register", write("task.yaml", task_document())).status == 0
    assert cli("deploy", write("tick.yaml", trigger_document(tags=["x"]))).status == 0
    assert cli("deploy", write("other.yaml", trigger_document("other", tags=["x"]))).status == 0


def json_answer(cli: Cli, *arguments: str) -> Any:
    answer = cli("--output", "json", *arguments)
    assert answer.status == 0, answer.err
    return json.loads(answer.out)


def test_backfill_lists_on_a_dry_run_and_then_counts(cli: Cli) -> None:
    """X-11, U-01: occurrences that have a run already are counted apart."""
    dry_run = cli("backfill", T, *SPAN, "--dry-run")
    assert dry_run.status == 0, dry_run.err
    assert [line.split()[0] for line in dry_run.out.splitlines()] == [
        "OCCURRENCE",
        "every/2026-03-02T07:57:00Z",
        "every/2026-03-02T07:58:00Z",
        "2",
    ]
    assert dry_run.out.splitlines()[-1] == "2 runs would be made"
    assert json_answer(cli, "runs", "list")["items"] == []
    assert cli("--actor", "ann", "backfill", T, *SPAN, "--input", '{"n": 1}').out == "2 runs made\n"
    repeated = cli("backfill", T, *SPAN)
    assert repeated.out == "0 runs made\n"
    assert repeated.err == "2 occurrences had a run already: --force makes another one\n"
    assert (
        json_answer(cli, "backfill", T, *SPAN, "--force", "--overlap", "allow", "--idempotency-key", "k")["made"] == 2
    )
    assert len(json_answer(cli, "runs", "list", "--source", "backfill")["items"]) == 4


def test_backfill_refusals_name_the_next_step(cli: Cli) -> None:
    """U-01: each with its exit status."""
    assert cli("backfill", T, "--from", "2026-03-02T07:57:00Z").status == 2
    assert cli("backfill", T, *SPAN, "--input", "[]").status == 5
    assert cli("backfill", "acme/production/report/none", *SPAN).status == 3
    much = cli("backfill", T, "--from", "2026-01-01T00:00:00Z", "--to", "2026-03-01T00:00:00Z")
    assert much.status == 5
    assert "go up to 2026-01-07T22:40:00Z first, then on from there" in much.err
    assert cli("freeze", "--reason", "stocktaking").status == 0
    frozen = cli("backfill", T, *SPAN)
    assert (frozen.status, "stocktaking" in frozen.err) == (4, True)


def test_fire_with_a_tag_fires_each_trigger(cli: Cli) -> None:
    """X-11: a line for each; the exit status is that of the first refusal."""
    assert cli("fire").status == cli("fire", T, "--tag", "x").status == 2
    fired = json_answer(cli, "fire", "--tag", "x", "--input", '{"n": 1}')["items"]
    assert [(item["trigger"], item["run"]["input"]) for item in fired] == [(OTHER, {"n": 1}), (T, {"n": 1})]
    repeated = cli("fire", "--tag", "x")
    assert repeated.status == 4
    assert all(item["run"]["id"] in repeated.out for item in fired)
    assert "no trigger has the tag 'y'" in cli("fire", "--tag", "y").err


def test_retry_takes_one_run_or_all_dead_runs_of_a_trigger(cli: Cli, database: Database) -> None:
    """X-11, X-16: the dead ones oldest first."""
    run_ids = [json_answer(cli, "fire", name, "--overlap", "allow")["id"] for name in (T, T, T, OTHER)]
    assert cli("runs", "retry", run_ids[0]).status == 4
    with database.write() as connection:
        connection.execute(update(runs).values(status="failed"))
    assert json_answer(cli, "runs", "retry", run_ids[0].lower())["status"] == "pending"
    dead = json_answer(cli, "runs", "list", "--dead", "--trigger", T)["items"]
    assert sorted(run["id"] for run in dead) == sorted(run_ids[1:3])
    retried = json_answer(cli, "runs", "retry", "--dead", "--trigger", T)["items"]
    assert [(run["id"], run["status"]) for run in retried] == [(run["id"], "pending") for run in reversed(dead)]
    assert [run["id"] for run in json_answer(cli, "runs", "list", "--dead")["items"]] == run_ids[3:]
    assert json_answer(cli, "runs", "retry", "--dead", "--trigger", T)["items"] == []


@pytest.mark.parametrize(
    "words", [[], ["RUN", "--dead", "--trigger", T], ["--dead"], ["--trigger", T], ["RUN", "--trigger", T]]
)
def test_retry_requires_a_run_or_dead_and_a_trigger(cli: Cli, words: list[str]) -> None:
    """U-01: everything else is wrong usage."""
    assert cli("runs", "retry", *words).status == 2
