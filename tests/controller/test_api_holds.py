"""Freezes and blackouts over HTTP."""

from typing import Any

import pytest

from revisions.clock import HandClock
from revisions.store.database import Database
from tests.controller.asking import NAME, Api, T
from tests.world import World

UNKNOWN_ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
TEN_PAST_EIGHT = "2026-03-02T08:10:00Z"


@pytest.fixture
def world(api: Api, database: Database, clock: HandClock) -> World:
    """The loop over the API's database."""
    return World(database, clock)


def run_minutes(world: World, name: str = "tick") -> list[int]:
    """Return the scheduled minutes of a trigger's runs, counted from 08:00."""
    return [round((run.scheduled_at - world.start).total_seconds() / 60) for run in world.runs(name)]


def let_minutes_pass(world: World, number: int) -> None:
    for _ in range(number):
        world.advance(minutes=1)
        world.resync()


def start_blackout(api: Api, until: str = TEN_PAST_EIGHT, **fields: Any) -> dict[str, Any]:
    answer = api.post("/blackouts", {"until": until, "reason": "the move", **fields})
    assert answer.status_code == 201, answer.text
    blackout: dict[str, Any] = answer.json()
    return blackout


def test_the_shape_of_a_freeze(api: Api) -> None:
    """S-13: owner, reason, scope and end; freezing again changes the freeze in force, and lifting it ends it now."""
    created = api.post("/freeze", {"project": "acme", "reason": "stocktaking", "until": TEN_PAST_EIGHT})
    assert created.status_code == 201
    assert created.json() == {
        "id": created.json()["id"],
        "kind": "freeze",
        "state": "in_force",
        "project": "acme",
        "tag": None,
        "trigger": None,
        "from": "2026-03-02T08:00:00Z",
        "until": TEN_PAST_EIGHT,
        "mode": None,
        "owner": "local",
        "reason": "stocktaking",
        "revision": 1,
        "changed_at": "2026-03-02T08:00:00Z",
        "changed_by": "local",
    }
    changed = api.post("/freeze", {"project": "acme", "reason": "it takes longer"})
    assert (changed.status_code, changed.json()["id"]) == (200, created.json()["id"])
    assert (changed.json()["revision"], changed.json()["until"]) == (2, None)
    assert api.get("/holds").json()["items"] == [changed.json()]
    lifted = api.post("/unfreeze", {"project": "acme"}).json()["items"]
    assert [(hold["id"], hold["state"], hold["until"]) for hold in lifted] == [
        (created.json()["id"], "over", "2026-03-02T08:00:00Z")
    ]
    assert api.get("/holds").json()["items"] == []
    assert api.get("/holds", all=True).json()["items"] == lifted


def test_a_frozen_trigger_fires_again_when_the_freeze_is_lifted(api: Api, world: World) -> None:
    """S-13: nothing is decided during the freeze; then catch-up decides. The trigger's status shows the hold."""
    api.create(overlap="allow")
    let_minutes_pass(world, 1)
    api.post("/freeze", {"reason": "stocktaking"})
    let_minutes_pass(world, 3)
    assert run_minutes(world) == [1]
    held = api.get(T).json()["status"]["held"]
    assert (held["kind"], held["until"], held["owner"], held["reason"]) == ("freeze", None, "local", "stocktaking")
    assert api.get("/triggers").json()["items"][0]["status"]["held"] == held
    api.post("/unfreeze")
    assert api.get(T).json()["status"]["held"] is None
    world.resync()
    assert run_minutes(world) == [1, 4]


def test_a_fire_by_hand_is_refused_under_a_freeze(api: Api) -> None:
    """S-13: the error names reason and end; a repeated request that was answered before still gets its answer."""
    api.create(overlap="allow")
    key = {"Idempotency-Key": "k"}
    first = api.post(f"{T}/fire", {}, key).json()
    api.post("/freeze", {"project": "acme", "reason": "stocktaking", "until": TEN_PAST_EIGHT})
    refused = api.post(f"{T}/fire", {"overlap": "allow"})
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    for word in ("acme is frozen", TEN_PAST_EIGHT, "stocktaking"):
        assert word in refused.json()["detail"]
    assert "triggerctl unfreeze --project acme" in refused.json()["errors"][0]["hint"]
    assert api.post(f"{T}/fire", {}, key).json()["id"] == first["id"]


def test_a_freeze_of_another_project_has_no_effect(api: Api, world: World) -> None:
    """S-13: only the frozen project's triggers are held."""
    api.create(overlap="allow")
    api.post("/freeze", {"project": "other", "reason": "stocktaking"})
    assert api.get(T).json()["status"]["held"] is None
    let_minutes_pass(world, 1)
    assert run_minutes(world) == [1]


@pytest.mark.parametrize(
    ("mode", "runs", "skips"),
    [
        ("drop", [1, 5], [("blackout", 3)]),
        ("one", [1, 4, 5], [("blackout", 2)]),
        ("defer", [1, 2, 3, 4, 5], []),
    ],
)
def test_each_mode_of_a_blackout(api: Api, world: World, mode: str, runs: Any, skips: Any) -> None:
    """S-13: nothing starts from 08:01:30 to 08:04:30; at its end all are dropped, the newest starts, or all start."""
    api.create(overlap="allow")
    start_blackout(api, "2026-03-02T08:04:30Z", mode=mode, **{"from": "2026-03-02T08:01:30Z"})
    let_minutes_pass(world, 4)
    assert run_minutes(world) == [1]
    assert api.get(T).json()["status"]["held"]["mode"] == mode
    world.advance(seconds=30)
    world.resync()
    world.resync()
    assert run_minutes(world) == runs[:-1]
    assert [(skip.outcome, skip.count) for skip in world.skips()] == skips
    world.advance(seconds=30)
    world.resync()
    assert run_minutes(world) == runs


def test_a_blackout_ended_early(api: Api, world: World) -> None:
    """S-13: the held occurrences start at once; ending it again is a conflict, an unknown id is not found."""
    api.create(overlap="allow")
    blackout = start_blackout(api, mode="defer")
    let_minutes_pass(world, 2)
    assert run_minutes(world) == []
    ended = api.delete(f"/blackouts/{blackout['id']}")
    assert (ended.status_code, ended.json()["until"]) == (200, "2026-03-02T08:02:00Z")
    assert (ended.json()["state"], ended.json()["reason"]) == ("over", "the move")
    world.resync()
    world.resync()
    assert run_minutes(world) == [1, 2]
    again = api.delete(f"/blackouts/{blackout['id']}")
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    assert "was over at 2026-03-02T08:02:00Z" in again.json()["detail"]
    assert api.delete(f"/blackouts/{UNKNOWN_ID}").status_code == 404


def test_a_blackout_can_be_withdrawn_before_it_begins(api: Api, world: World) -> None:
    """S-13: it has no effect and is no longer listed."""
    api.create(overlap="allow")
    blackout = start_blackout(api, **{"from": "2026-03-02T08:02:00Z"})
    assert (blackout["state"], blackout["mode"]) == ("to_come", "drop")
    withdrawn = api.delete(f"/blackouts/{blackout['id']}").json()
    assert (withdrawn["state"], withdrawn["from"] == withdrawn["until"]) == ("over", True)
    assert api.get("/holds").json()["items"] == []
    let_minutes_pass(world, 3)
    assert run_minutes(world) == [1, 2, 3]


def test_a_blackout_of_a_tag_and_of_one_trigger(api: Api, world: World) -> None:
    """S-13: other triggers fire; a blackout of a trigger shows the trigger's current name, also after a rename."""
    for name, tags in (("a", ["x"]), ("b", None), ("c", None)):
        api.create(f"/triggers/acme/production/report/{name}", overlap="allow", tags=tags)
    start_blackout(api, tag="x")
    blackout = start_blackout(api, trigger="acme/production/report/b")
    assert (blackout["trigger"], blackout["project"]) == ("acme/production/report/b", "acme")
    let_minutes_pass(world, 2)
    assert (run_minutes(world, "a"), run_minutes(world, "b"), run_minutes(world, "c")) == ([], [], [1, 2])
    items = api.get("/triggers").json()["items"]
    assert [item["status"]["held"] is not None for item in items] == [True, True, False]
    api.post("/triggers/acme/production/report/b/rename", {"name": "d"}, {"If-Match": '"1"'})
    assert [hold["trigger"] for hold in api.get("/holds").json()["items"] if hold["trigger"]] == [
        "acme/production/report/d"
    ]


def test_holds_are_listed_newest_first_in_pages(api: Api, world: World) -> None:
    """S-13: holds that are over are listed only with `all`."""
    ended = start_blackout(api, "2026-03-02T08:01:00Z")
    world.advance(minutes=2)
    current, future = (
        start_blackout(api),
        start_blackout(api, "2026-03-03T00:00:00Z", **{"from": "2026-03-02T12:00:00Z"}),
    )
    assert {hold["id"] for hold in api.get("/holds").json()["items"]} == {current["id"], future["id"]}
    first = api.get("/holds", all=True, limit=2).json()
    rest = api.get("/holds", all=True, limit=2, cursor=first["next_cursor"]).json()
    assert [hold["id"] for hold in rest["items"]] == [ended["id"]]
    assert (rest["items"][0]["state"], rest["next_cursor"]) == ("over", None)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/freeze", {}, "reason"),
        ("/freeze", {"reason": " "}, "reason"),
        ("/freeze", {"reason": "x", "project": "Acme"}, "project"),
        ("/freeze", {"reason": "x", "until": "later"}, "until"),
        ("/freeze", {"reason": "x", "until": "2026-03-02T07:00:00Z"}, "until"),
        ("/freeze", {"reason": "x", "tag": "y"}, "tag"),
        ("/blackouts", {"reason": "x"}, "until"),
        ("/blackouts", {"until": TEN_PAST_EIGHT}, "reason"),
        ("/blackouts", {"reason": "x", "until": "2026-03-02T07:00:00Z"}, "until"),
        ("/blackouts", {"reason": "x", "until": TEN_PAST_EIGHT, "from": TEN_PAST_EIGHT}, "until"),
        ("/blackouts", {"reason": "x", "until": TEN_PAST_EIGHT, "from": "soon"}, "from"),
        ("/blackouts", {"reason": "x", "until": TEN_PAST_EIGHT, "mode": "later"}, "mode"),
        ("/blackouts", {"reason": "x", "until": TEN_PAST_EIGHT, "mode": ""}, "mode"),
        ("/blackouts", {"reason": "x", "until": TEN_PAST_EIGHT, "project": "A b"}, "project"),
        ("/blackouts", {"reason": "x", "until": TEN_PAST_EIGHT, "tag": ""}, "tag"),
        ("/blackouts", {"reason": "x", "until": TEN_PAST_EIGHT, "trigger": "tick"}, "trigger"),
        ("/blackouts", {"reason": "x", "until": TEN_PAST_EIGHT, "trigger": NAME, "tag": "x"}, "trigger"),
    ],
)
def test_an_invalid_hold_is_refused(api: Api, path: str, body: Any, field: str) -> None:
    """R-18, S-13: the error names the field and the way out; nothing is written."""
    answer = api.post(path, body)
    assert (answer.status_code, [fault["path"] for fault in answer.json()["errors"]]) == (422, [field])
    assert answer.json()["errors"][0]["hint"] or "must be" in answer.json()["detail"]
    assert api.get("/holds", all=True).json()["items"] == []


def test_a_missing_freeze_or_trigger_is_not_found(api: Api) -> None:
    """S-13: no freeze to lift, no trigger to black out."""
    assert api.post("/unfreeze", {"project": "acme"}).status_code == 404
    assert api.post("/unfreeze").status_code == 404
    assert api.post("/blackouts", {"reason": "x", "until": TEN_PAST_EIGHT, "trigger": NAME}).status_code == 404
