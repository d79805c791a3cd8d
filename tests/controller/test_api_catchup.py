"""Backlogs over HTTP: size and estimated end, dropping one, and setting a watermark back."""

from datetime import timedelta

import pytest

from reconcile.decide.admission import Pace
from revisions.clock import HandClock
from revisions.store.database import Database
from tests.controller.asking import NAME, Api, T, task_manifest
from tests.world import World

CATCHUP = f"{T}/catchup"


@pytest.fixture
def world(api: Api, database: Database, clock: HandClock) -> World:
    """The loop over the API's database."""
    return World(database, clock)


@pytest.fixture
def world_behind(api: Api, world: World) -> World:
    """A trigger of every minute that was not decided for so long that 1,240 occurrences are in its backlog."""
    api.create(overlap="allow", catchup={"policy": "all"})
    world.advance(minutes=1242)
    world.another_loop_without_catch_up().resync()
    return world


def test_a_trigger_without_a_backlog(api: Api) -> None:
    """L-17: only its watermark is shown."""
    api.create()
    assert api.get(CATCHUP).json() == {
        "trigger": NAME,
        "watermark": "2026-03-02T08:00:00Z",
        "is_ahead": False,
        "ranges": [],
        "remaining": 0,
        "sharing": 0,
        "ends_at": None,
        "takes_seconds": None,
        "held": None,
    }
    refused = api.post(f"{CATCHUP}/drop")
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert "has no backlog" in refused.json()["detail"]
    for path in ("", "/drop", "/rebase"):
        send = api.get if path == "" else api.post
        assert send(f"/triggers/acme/production/report/none/catchup{path}").status_code == 404


def test_a_backlog_with_an_estimate_of_its_end(api: Api, world_behind: World) -> None:
    """L-17: with 100 starts in 30 seconds, 1,240 occurrences take a little more than six minutes."""
    backlog = api.get(CATCHUP).json()
    assert backlog["ranges"] == [{"after": "2026-03-02T08:00:00Z", "until": "2026-03-03T04:40:00Z"}]
    assert (backlog["remaining"], backlog["sharing"], backlog["takes_seconds"]) == (1240, 0, 372.0)
    assert backlog["ends_at"] == "2026-03-03T04:48:12Z"
    world_behind.loop.catch_up()
    assert api.get(CATCHUP).json()["remaining"] == 0


def test_backlogs_share_the_limit_on_catch_up_runs(api: Api, world_behind: World) -> None:
    """L-06, L-17: beside a second backlog it takes twice as long."""
    api.create("/triggers/acme/production/report/tock", overlap="allow", catchup={"policy": "all"})
    world_behind.advance(minutes=10)
    world_behind.another_loop_without_catch_up().resync()
    backlog = api.get(CATCHUP).json()
    assert (backlog["sharing"], len(backlog["ranges"])) == (1, 2)
    assert backlog["takes_seconds"] == pytest.approx(backlog["remaining"] * 2 * 0.3)


def test_a_frozen_backlog_has_no_estimated_end(api: Api, world_behind: World) -> None:
    """L-17, S-13: nothing is caught up under a freeze, and the answer names the freeze."""
    api.post("/freeze", {"project": "acme", "reason": "stocktaking"})
    world_behind.loop.catch_up()
    backlog = api.get(CATCHUP).json()
    assert (backlog["remaining"], backlog["ends_at"], backlog["takes_seconds"]) == (1240, None, None)
    assert (backlog["held"]["kind"], backlog["held"]["reason"]) == ("freeze", "stocktaking")


def test_a_frozen_backlog_does_not_hold_up_others(api: Api, world_behind: World) -> None:
    """L-06, S-13: it has waited longest, and still another project's backlog is served within the limit."""
    assert api.put("/tasks/other/production/report/v1", task_manifest()).status_code == 201
    api.create("/triggers/other/production/report/tick", overlap="allow", catchup={"policy": "all"})
    world_behind.advance(minutes=10)
    world_behind.another_loop_without_catch_up().resync()
    before = len(api.get("/runs", project="other").json()["items"])
    api.post("/freeze", {"project": "acme", "reason": "stocktaking"})
    world_behind.another_loop(Pace(execution_qps=0, max_catchup_runs_per_loop=1)).catch_up()
    assert len(api.get("/runs", project="other").json()["items"]) == before + 1


def test_a_dropped_backlog_is_recorded_as_a_skip(api: Api, world_behind: World) -> None:
    """L-17: one skipped range with actor and reason; none of it starts, later occurrences do."""
    dropped = api.post(f"{CATCHUP}/drop", {"reason": "nobody needs them"}).json()
    assert (dropped["ranges"], dropped["remaining"]) == ([], 0)
    assert dropped["dropped"] == api.get(f"{T}/occurrences", limit=3).json()["items"][2]
    assert (dropped["dropped"]["outcome"], dropped["dropped"]["count"]) == ("missed", None)
    assert dropped["dropped"]["reason"] == "dropped by local: nobody needs them"
    assert dropped["dropped"]["scheduled_at"] == "2026-03-02T08:01:00Z"
    assert dropped["dropped"]["scheduled_until"] == "2026-03-03T04:40:00Z"
    world_behind.loop.catch_up()
    assert len(world_behind.runs()) == 2
    world_behind.advance(minutes=1)
    world_behind.resync()
    assert len(world_behind.runs()) == 3
    assert api.post(f"{CATCHUP}/drop").status_code == 409


def test_a_watermark_ahead_of_now_is_set_back(api: Api, world: World, clock: HandClock) -> None:
    """L-12: by a revision that records the old value, and only while it is ahead. Nothing fires twice afterwards."""
    trigger = api.create(overlap="allow")
    world.advance(minutes=5)
    world.resync()
    clock.step(-timedelta(minutes=3))
    backlog = api.get(CATCHUP).json()
    assert (backlog["is_ahead"], backlog["watermark"]) == (True, "2026-03-02T08:05:00Z")
    answer = api.post(f"{CATCHUP}/rebase", {"reason": "the clock was wrong"})
    assert (answer.status_code, answer.headers["ETag"], answer.json()["changed"]) == (200, '"2"', True)
    assert (answer.json()["spec"], answer.json()["active"]) == (trigger["spec"], True)
    assert api.get(CATCHUP).json()["watermark"] == "2026-03-02T08:02:00Z"
    newest = api.get(f"{T}/revisions").json()["items"][0]
    assert newest["action"] == "DEPLOY"
    assert newest["reason"] == "watermark set back from 2026-03-02T08:05:00Z: the clock was wrong"
    repeated = api.post(f"{CATCHUP}/rebase")
    assert (repeated.status_code, repeated.json()["code"]) == (409, "conflict")
    assert "is not ahead of now" in repeated.json()["detail"]
    world.advance(minutes=1)
    world.resync()
    assert [run.occurrence_id for run in world.runs()] == ["every/2026-03-02T08:03:00Z", "every/2026-03-02T08:05:00Z"]


@pytest.mark.parametrize("path", ["drop", "rebase"])
def test_an_unknown_field_is_refused(api: Api, path: str) -> None:
    """R-18: the error suggests the known field."""
    answer = api.post(f"{CATCHUP}/{path}", {"reson": "x"})
    assert (answer.status_code, answer.json()["errors"][0]["hint"]) == (422, "did you mean reason?")
