"""Costs over HTTP and by command, and warnings about limits."""

import json
from pathlib import Path

import pytest

from reconcile.decide.attempt_ends import AttemptOutcome
from reconcile.decide.authority import Caller
from revisions.clock import HandClock
from revisions.store.database import Database
from tests.controller.asking import Api, at
from tests.controller.conftest import Cli
from tests.world import World, key, trigger_document


@pytest.fixture(autouse=True)
def _spent(api: Api, database: Database, clock: HandClock) -> None:
    world = World(database, clock)
    world.create("a", overlap="allow", tags=["eu"])
    world.create("b", overlap="allow")
    world.advance(minutes=1)
    world.resync()
    for run in world.claim():
        world.settle(run, cost=0.5 if run.trigger_id == world.id("a") else 2)


def test_costs_are_summed_over_http(api: Api) -> None:
    """X-08: the most expensive first, with a total that includes triggers without a tag."""
    a, b = "acme/production/report/a", "acme/production/report/b"
    items = [{"name": b, "cost": 2.0, "runs": 1}, {"name": a, "cost": 0.5, "runs": 1}]
    assert api.get("/costs").json() == {"items": items, "next_cursor": None, "cost": 2.5, "runs": 2}
    assert api.get("/costs?by=tag").json()["items"] == [{"name": "eu", "cost": 0.5, "runs": 1}]
    assert api.get("/costs?by=project&project=other").json()["items"] == []
    assert api.get("/costs?by=project&to=2026-03-02T08:01:00Z").json()["cost"] == 0
    refused = api.get("/costs?by=owner")
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, "by")
    assert api.get("/costs?from=yesterday").json()["errors"][0]["path"] == "from"


def test_activating_a_trigger_without_budget_left_warns(
    api: Api, database: Database, clock: HandClock, cli: Cli
) -> None:
    """X-08: with the time until which nothing starts."""
    world, path = World(database, clock), "acme/production/report/c"
    world.create("c", active=False, limits={"max_cost": 4, "estimate": 1})
    assert cli("activate", path).err.count("budget") == 0
    world.fire(key("c"), None, Caller("ann"))
    world.finish(cost=5)
    assert world.history("c")[0].reason == "budget"
    answer = api.post(f"/triggers/{path}/activate", headers=at(3))
    assert answer.json()["warnings"] == [
        "its budget is used up, 5 of 4 are spent in this month: nothing starts before 2026-04-01T00:00:00Z, "
        "unless limits.max_cost is raised"
    ]
    assert "warning: its budget is used up" in cli("activate", path).err


def test_activating_by_tag_warns_for_each_trigger(api: Api, database: Database, clock: HandClock, cli: Cli) -> None:
    """X-08, R-16: by name, and only for triggers whose budget is used up."""
    world, path = World(database, clock), "acme/production/report/c"
    world.create("c", tags=["mine"], limits={"max_cost": 4, "estimate": 1})
    world.create("d", tags=["mine"], active=False, limits={"max_cost": 4})
    world.fire(key("c"), None, Caller("ann"))
    world.finish(cost=5)
    warned = cli("activate", "--tag", "mine").err
    assert warned.startswith(f"warning: {path}: its budget is used up")
    assert len(warned.splitlines()) == 1
    again = api.post("/triggers:activate", {"tag": "mine"}).json()["items"]
    assert [len(item["warnings"]) for item in again] == [1, 0]


def test_a_plan_warns_of_limits(cli: Cli, api: Api, database: Database, clock: HandClock, tmp_path: Path) -> None:
    """U-02, X-08: for each trigger that it deploys, by its past costs and successes. The question changes nothing."""
    world = World(database, clock)
    for name in ("spent", "done", "rests"):
        world.create(name, overlap="allow", limits={"max_cost": 9, "max_runs": 9})
        world.fire(key(name), None, Caller("ann"))
        world.finish(cost=2)
    limits = {
        "spent": {"max_cost": 1, "max_runs": 9},
        "done": {"max_cost": 9, "max_runs": 1},
        "rests": {"max_cost": 9, "max_runs": 9},
        "new": {"max_cost": 1, "expires_at": "2026-03-04T00:00:00Z"},
    }
    (tmp_path / "f").mkdir()
    for name, its in limits.items():
        (tmp_path / "f" / f"{name}.json").write_text(json.dumps(trigger_document(name, overlap="allow", limits=its)))
    told = json.loads(cli("--output", "json", "plan", "f").out)["warnings"]
    assert [warning.removeprefix("acme/production/report/") for warning in told] == [
        "done: 1 of its runs have succeeded, and limits.max_runs is 1: it is deactivated before anything more fires, "
        "unless limits.max_runs is raised",
        "new: it expires at 2026-03-04T00:00:00Z: nothing fires from then on, unless limits.expires_at is moved",
        "spent: its budget is used up, 2 of 1 are spent in this month: nothing starts before 2026-04-01T00:00:00Z, "
        "unless limits.max_cost is raised",
    ]
    assert [len(world.history(name)) for name in ("spent", "done", "rests")] == [1, 1, 1]
    said = cli("apply", "f", "--yes")
    assert [f"warning: {warning}" in said.err for warning in told] == [True] * 3


def test_runs_by_hand_beyond_max_runs_warn_and_start(api: Api, database: Database, clock: HandClock, cli: Cli) -> None:
    """X-08, X-11: by fire, fire with a tag, backfill and retry."""
    world, path = World(database, clock), "acme/production/report/c"
    world.create("c", tags=["mine"], overlap="allow", retry={"max_attempts": 1}, limits={"max_runs": 1})
    assert api.post(f"/triggers/{path}/fire").json()["warnings"] == []
    world.finish()
    beyond = "1 of its runs have succeeded, and limits.max_runs is 1: runs by hand go beyond it"
    fired = api.post(f"/triggers/{path}/fire").json()
    assert (fired["status"], fired["warnings"]) == ("pending", [beyond])
    world.finish(AttemptOutcome.FAILED)
    assert api.post(f"/runs/{fired['id']}/retry").json()["warnings"] == [beyond]
    assert cli("fire", path, "--overlap", "allow").err == f"warning: {beyond}\n"
    assert cli("fire", "--tag", "mine", "--overlap", "allow").err == f"warning: {path}: {beyond}\n"
    span = ("--from", "2026-03-02T07:00:00Z", "--to", "2026-03-02T07:02:00Z")
    assert cli("backfill", path, *span).err == f"warning: {beyond}\n"
    assert cli("backfill", path, *span).err.count("warning") == 0


def test_the_costs_command_prints_a_table_with_the_total(cli: Cli) -> None:
    """X-08, U-01: of all runs."""
    said = cli("costs", "--by", "project")
    assert said.status == 0, said.err
    assert said.out == "PROJECT  COST  RUNS\nacme     2.5   2\n2.5 in 2 runs\n"
