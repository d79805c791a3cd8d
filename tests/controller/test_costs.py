"""What was spent, over HTTP and by the command."""

import pytest

from reconcile.revising import Caller
from revisions.clock import HandClock
from revisions.store.database import Database
from tests.controller.asking import Api, at
from tests.controller.conftest import Cli
from tests.world import World, key


@pytest.fixture(autouse=True)
def _spent(api: Api, database: Database, clock: HandClock) -> None:
    world = World(database, clock)
    world.create("a", overlap="allow", tags=["eu"])
    world.create("b", overlap="allow")
    world.advance(minutes=1)
    world.resync()
    for run in world.claim():
        world.settle(run, cost=0.5 if run.trigger_id == world.id("a") else 2)


def test_costs_over_http(api: Api) -> None:
    """X-08: the dearest first; all together beside them, also what bears no tag."""
    a, b = "acme/production/report/a", "acme/production/report/b"
    items = [{"name": b, "cost": 2.0, "runs": 1}, {"name": a, "cost": 0.5, "runs": 1}]
    assert api.get("/costs").json() == {"items": items, "next_cursor": None, "cost": 2.5, "runs": 2}
    assert api.get("/costs?by=tag").json()["items"] == [{"name": "eu", "cost": 0.5, "runs": 1}]
    assert api.get("/costs?by=project&project=other").json()["items"] == []
    assert api.get("/costs?by=project&to=2026-03-02T08:01:00Z").json()["cost"] == 0
    refused = api.get("/costs?by=owner")
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, "by")
    assert api.get("/costs?from=yesterday").json()["errors"][0]["path"] == "from"


def test_activating_what_has_used_up_its_budget_warns(api: Api, database: Database, clock: HandClock, cli: Cli) -> None:
    """X-08: until when nothing starts; nothing is said while there is something left."""
    world, path = World(database, clock), "acme/production/report/c"
    world.create("c", active=False, limits={"max_cost": 4, "estimate": 1})
    assert cli("activate", path).err.count("budget") == 0
    world.firing.fire(key("c"), None, Caller("ann"))
    world.finish(cost=5)
    assert world.history("c")[0].reason == "budget"
    answer = api.post(f"/triggers/{path}/activate", headers=at(3))
    assert answer.json()["warnings"] == [
        "its budget is used up, 5 of 4 are spent in this month: nothing starts before 2026-04-01T00:00:00Z, "
        "unless limits.max_cost is raised"
    ]
    assert "warning: its budget is used up" in cli("activate", path).err


def test_activating_many_warns_of_each(api: Api, database: Database, clock: HandClock, cli: Cli) -> None:
    """X-08, R-16: by its name; of what still buys something nothing is said."""
    world, path = World(database, clock), "acme/production/report/c"
    world.create("c", tags=["mine"], limits={"max_cost": 4, "estimate": 1})
    world.create("d", tags=["mine"], active=False, limits={"max_cost": 4})
    world.firing.fire(key("c"), None, Caller("ann"))
    world.finish(cost=5)
    warned = cli("activate", "--tag", "mine").err
    assert warned.startswith(f"warning: {path}: its budget is used up")
    assert len(warned.splitlines()) == 1
    again = api.post("/triggers:activate", {"tag": "mine"}).json()["items"]
    assert [len(item["warnings"]) for item in again] == [1, 0]


def test_costs_by_the_command(cli: Cli) -> None:
    """X-08, U-01: a table with its sum."""
    said = cli("costs", "--by", "project")
    assert said.status == 0, said.err
    assert said.out == "PROJECT  COST  RUNS\nacme     2.5   2\n2.5 in 2 runs\n"
