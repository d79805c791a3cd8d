"""Backlogs over HTTP: how much is left and until when; given up, or a watermark set back."""

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
    """The loop over what the API has."""
    return World(database, clock)


@pytest.fixture
def behind(api: Api, world: World) -> World:
    """A trigger of every minute that stood still so long that 1,240 of its occurrences wait in a backlog."""
    api.create(overlap="allow", catchup={"policy": "all"})
    world.advance(minutes=1242)
    world.another_loop_without_catch_up().resync()
    return world


def test_nothing_to_catch_up(api: Api) -> None:
    """L-17: the watermark alone."""
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
        asked = api.get if path == "" else api.post
        assert asked(f"/triggers/acme/production/report/none/catchup{path}").status_code == 404


def test_a_backlog_with_an_estimate_of_its_end(api: Api, behind: World) -> None:
    """L-17: 100 starts in 30 seconds are its cap, so 1,240 take a little more than six minutes."""
    found = api.get(CATCHUP).json()
    assert found["ranges"] == [{"after": "2026-03-02T08:00:00Z", "until": "2026-03-03T04:40:00Z"}]
    assert (found["remaining"], found["sharing"], found["takes_seconds"]) == (1240, 0, 372.0)
    assert found["ends_at"] == "2026-03-03T04:48:12Z"
    behind.loop.catch_up()
    assert api.get(CATCHUP).json()["remaining"] == 0


def test_others_share_the_cap(api: Api, behind: World) -> None:
    """L-06, L-17: with as much beside it, it takes twice as long."""
    api.create("/triggers/acme/production/report/tock", overlap="allow", catchup={"policy": "all"})
    behind.advance(minutes=10)
    behind.another_loop_without_catch_up().resync()
    found = api.get(CATCHUP).json()
    assert (found["sharing"], len(found["ranges"])) == (1, 2)
    assert found["takes_seconds"] == pytest.approx(found["remaining"] * 2 * 0.3)


def test_while_it_is_held_no_end_is_foretold(api: Api, behind: World) -> None:
    """L-17, S-13: under a freeze nothing is caught up, and the answer says by what; others' backlogs go on."""
    api.post("/freeze", {"project": "acme", "reason": "stocktaking"})
    behind.loop.catch_up()
    found = api.get(CATCHUP).json()
    assert (found["remaining"], found["ends_at"], found["takes_seconds"]) == (1240, None, None)
    assert (found["held"]["kind"], found["held"]["reason"]) == ("freeze", "stocktaking")


def test_a_frozen_backlog_takes_nobodys_place(api: Api, behind: World) -> None:
    """L-06, S-13: it has waited longest, and still another project's is served within the cap."""
    assert api.put("/tasks/other/production/report/v1", task_manifest()).status_code == 201
    api.create("/triggers/other/production/report/tick", overlap="allow", catchup={"policy": "all"})
    behind.advance(minutes=10)
    behind.another_loop_without_catch_up().resync()
    before = len(api.get("/runs", project="other").json()["items"])
    api.post("/freeze", {"project": "acme", "reason": "stocktaking"})
    behind.another_loop(Pace(execution_qps=0, max_catchup_runs_per_loop=1)).catch_up()
    assert len(api.get("/runs", project="other").json()["items"]) == before + 1


def test_giving_a_backlog_up_is_recorded(api: Api, behind: World) -> None:
    """L-17: one skipped range that says who and why; nothing of it starts, what comes later does."""
    dropped = api.post(f"{CATCHUP}/drop", {"reason": "nobody needs them"}).json()
    assert (dropped["ranges"], dropped["remaining"]) == ([], 0)
    assert dropped["dropped"] == api.get(f"{T}/occurrences", limit=3).json()["items"][2]
    assert (dropped["dropped"]["outcome"], dropped["dropped"]["count"]) == ("missed", None)
    assert dropped["dropped"]["reason"] == "dropped by local: nobody needs them"
    assert dropped["dropped"]["scheduled_at"] == "2026-03-02T08:01:00Z"
    assert dropped["dropped"]["scheduled_until"] == "2026-03-03T04:40:00Z"
    behind.loop.catch_up()
    assert len(behind.runs()) == 2
    behind.advance(minutes=1)
    behind.resync()
    assert len(behind.runs()) == 3
    assert api.post(f"{CATCHUP}/drop").status_code == 409


def test_a_watermark_ahead_of_now_is_set_back(api: Api, world: World, clock: HandClock) -> None:
    """L-12: by a revision that says from where, and only while it is ahead; then it fires again, nothing twice."""
    made = api.create(overlap="allow")
    world.advance(minutes=5)
    world.resync()
    clock.step(-timedelta(minutes=3))
    found = api.get(CATCHUP).json()
    assert (found["is_ahead"], found["watermark"]) == (True, "2026-03-02T08:05:00Z")
    back = api.post(f"{CATCHUP}/rebase", {"reason": "the clock was wrong"})
    assert (back.status_code, back.headers["ETag"], back.json()["changed"]) == (200, '"2"', True)
    assert (back.json()["spec"], back.json()["active"]) == (made["spec"], True)
    assert api.get(CATCHUP).json()["watermark"] == "2026-03-02T08:02:00Z"
    newest = api.get(f"{T}/revisions").json()["items"][0]
    assert newest["action"] == "DEPLOY"
    assert newest["reason"] == "watermark set back from 2026-03-02T08:05:00Z: the clock was wrong"
    again = api.post(f"{CATCHUP}/rebase")
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    assert "is not ahead of now" in again.json()["detail"]
    world.advance(minutes=1)
    world.resync()
    assert [run.occurrence_id for run in world.runs()] == ["every/2026-03-02T08:03:00Z", "every/2026-03-02T08:05:00Z"]


@pytest.mark.parametrize("path", ["drop", "rebase"])
def test_a_body_with_something_else(api: Api, path: str) -> None:
    """R-18: an unknown field names the one there is."""
    answer = api.post(f"{CATCHUP}/{path}", {"reson": "x"})
    assert (answer.status_code, answer.json()["errors"][0]["hint"]) == (422, "did you mean reason?")
