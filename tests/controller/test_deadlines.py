"""Missed deadlines, as the API, the command line and the metrics tell them."""

import json

from controller.settings import Settings
from controller.telemetry.metrics import Metrics
from tests.controller.asking import NAME, Api, T
from tests.controller.conftest import Cli
from tests.world import World

ITEM = {
    "trigger": NAME,
    "kind": "within",
    "due_at": "2026-03-02T08:02:30Z",
    "scheduled_at": "2026-03-02T08:02:00Z",
    "occurrence_id": "every/2026-03-02T08:02:00Z",
    "revision": 1,
    "noticed_at": "2026-03-02T08:03:00Z",
}


def missing(api: Api, world: World) -> None:
    """A trigger that has missed three deadlines."""
    api.create(expect={"within": "30s"})
    for _ in range(4):
        world.advance(minutes=1)
        world.resync()


def test_missed_deadlines_are_listed_newest_first(api: Api, cli: Cli, world: World) -> None:
    """X-16: with what nobody had done, in parts; of a trigger that never missed one nothing."""
    missing(api, world)
    first = api.get(f"{T}/deadlines", limit=2).json()
    rest = api.get(f"{T}/deadlines", limit=2, cursor=first["next_cursor"]).json()
    assert first["items"][1] == ITEM
    assert [len(first["items"]), len(rest["items"]), rest["next_cursor"]] == [2, 1, None]
    assert json.loads(cli("--output", "json", "deadlines", NAME).out)["items"] == first["items"] + rest["items"]
    assert "2026-03-02T08:02:30Z  within" in cli("deadlines", NAME).out
    api.create(T.replace("tick", "tock"))
    assert api.get(f"{T.replace('tick', 'tock')}/deadlines").json() == {"items": [], "next_cursor": None}


def test_they_of_a_trigger_that_is_none_are_not_found(api: Api) -> None:
    """X-16: nor can a cursor be made up."""
    assert api.get(f"{T}/deadlines").status_code == 404
    api.create()
    assert api.get(f"{T}/deadlines", cursor="x").json()["code"] == "invalid"


def test_they_are_counted_by_kind(api: Api, world: World) -> None:
    """X-16, O-02: a fault that alerts."""
    metrics = Metrics(world.database, lambda: False, Settings())
    world.observations.subscribe(metrics.count)
    missing(api, world)
    assert b'triggerctl_deadlines_missed_total{kind="within"} 3.0' in metrics.exposition()


def test_an_unknown_field_of_a_block_is_told_with_the_nearest(api: Api) -> None:
    """X-16, R-18: also in a block that may be left out."""
    answer = api.put(T, {"spec": {"task_version": "v1", "schedule": {"every": "1m"}, "expect": {"withn": "1h"}}})
    assert [(fault["path"], fault["hint"]) for fault in answer.json()["errors"]] == [
        ("spec.expect.withn", "did you mean within?")
    ]
