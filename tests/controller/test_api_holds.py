"""Freezes and blackouts over HTTP."""

from typing import Any

import pytest

from revisions.clock import HandClock
from revisions.store.database import Database
from tests.controller.asking import NAME, Api, T
from tests.world import World

NONE = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
TEN_PAST = "2026-03-02T08:10:00Z"


@pytest.fixture
def world(api: Api, database: Database, clock: HandClock) -> World:
    """The loop over what the API has."""
    return World(database, clock)


def minutes(world: World, name: str = "tick") -> list[int]:
    """The scheduled minutes of the runs, counted from eight o'clock."""
    return [round((run.scheduled_at - world.start).total_seconds() / 60) for run in world.runs(name)]


def live_through(world: World, number: int) -> None:
    for _ in range(number):
        world.advance(minutes=1)
        world.resync()


def black_out(api: Api, until: str = TEN_PAST, **said: Any) -> dict[str, Any]:
    answer = api.post("/blackouts", {"until": until, "reason": "the move", **said})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def test_a_freeze_in_its_shape(api: Api) -> None:
    """S-13: who, why, for whom and until when; freezing again changes the one in force, lifting it ends it now."""
    made = api.post("/freeze", {"project": "acme", "reason": "stocktaking", "until": TEN_PAST})
    assert made.status_code == 201
    assert made.json() == {
        "id": made.json()["id"],
        "kind": "freeze",
        "state": "in_force",
        "project": "acme",
        "tag": None,
        "trigger": None,
        "from": "2026-03-02T08:00:00Z",
        "until": TEN_PAST,
        "mode": None,
        "owner": "local",
        "reason": "stocktaking",
        "revision": 1,
        "changed_at": "2026-03-02T08:00:00Z",
        "changed_by": "local",
    }
    longer = api.post("/freeze", {"project": "acme", "reason": "it takes longer"})
    assert (longer.status_code, longer.json()["id"]) == (200, made.json()["id"])
    assert (longer.json()["revision"], longer.json()["until"]) == (2, None)
    assert api.get("/holds").json()["items"] == [longer.json()]
    lifted = api.post("/unfreeze", {"project": "acme"}).json()["items"]
    assert [(one["id"], one["state"], one["until"]) for one in lifted] == [
        (made.json()["id"], "over", "2026-03-02T08:00:00Z")
    ]
    assert api.get("/holds").json()["items"] == []
    assert api.get("/holds", all=True).json()["items"] == lifted


def test_a_freeze_holds_schedules_and_lifts(api: Api, world: World) -> None:
    """S-13: nothing is decided while it lasts; afterwards the policy decides, and both are seen at once."""
    api.create(overlap="allow")
    live_through(world, 1)
    api.post("/freeze", {"reason": "stocktaking"})
    live_through(world, 3)
    assert minutes(world) == [1]
    held = api.get(T).json()["status"]["held"]
    assert (held["kind"], held["until"], held["owner"], held["reason"]) == ("freeze", None, "local", "stocktaking")
    assert api.get("/triggers").json()["items"][0]["status"]["held"] == held
    api.post("/unfreeze")
    assert api.get(T).json()["status"]["held"] is None
    world.resync()
    assert minutes(world) == [1, 4]


def test_a_manual_fire_is_refused_with_reason_and_end(api: Api) -> None:
    """S-13: and a repeated fire that was answered before the freeze is still answered."""
    api.create(overlap="allow")
    key = {"Idempotency-Key": "k"}
    first = api.post(f"{T}/fire", {}, key).json()
    api.post("/freeze", {"project": "acme", "reason": "stocktaking", "until": TEN_PAST})
    refused = api.post(f"{T}/fire", {"overlap": "allow"})
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    for word in ("acme is frozen", TEN_PAST, "stocktaking"):
        assert word in refused.json()["detail"]
    assert "triggerctl unfreeze --project acme" in refused.json()["errors"][0]["hint"]
    assert api.post(f"{T}/fire", {}, key).json()["id"] == first["id"]


def test_another_projects_freeze_is_no_matter(api: Api, world: World) -> None:
    """S-13: only the project's own starts are stopped."""
    api.create(overlap="allow")
    api.post("/freeze", {"project": "other", "reason": "stocktaking"})
    assert api.get(T).json()["status"]["held"] is None
    live_through(world, 1)
    assert minutes(world) == [1]


@pytest.mark.parametrize(
    ("mode", "runs", "skips"),
    [
        ("drop", [1, 5], [("blackout", 3)]),
        ("one", [1, 4, 5], [("blackout", 2)]),
        ("defer", [1, 2, 3, 4, 5], []),
    ],
)
def test_a_blackout_by_its_mode(api: Api, world: World, mode: str, runs: Any, skips: Any) -> None:
    """S-13: from 08:01:30 to 08:04:30 nothing starts; its end drops all, keeps the newest, or starts all of it."""
    api.create(overlap="allow")
    black_out(api, "2026-03-02T08:04:30Z", mode=mode, **{"from": "2026-03-02T08:01:30Z"})
    live_through(world, 4)
    assert minutes(world) == [1]
    assert api.get(T).json()["status"]["held"]["mode"] == mode
    world.advance(seconds=30)
    world.resync()
    world.resync()
    assert minutes(world) == runs[:-1]
    assert [(skip.outcome, skip.count) for skip in world.skips()] == skips
    world.advance(seconds=30)
    world.resync()
    assert minutes(world) == runs


def test_a_blackout_ended_early(api: Api, world: World) -> None:
    """S-13: what it held starts at once; ending it again is a conflict, ending none not found."""
    api.create(overlap="allow")
    made = black_out(api, mode="defer")
    live_through(world, 2)
    assert minutes(world) == []
    ended = api.delete(f"/blackouts/{made['id']}")
    assert (ended.status_code, ended.json()["until"]) == (200, "2026-03-02T08:02:00Z")
    assert (ended.json()["state"], ended.json()["reason"]) == ("over", "the move")
    world.resync()
    world.resync()
    assert minutes(world) == [1, 2]
    again = api.delete(f"/blackouts/{made['id']}")
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    assert "was over at 2026-03-02T08:02:00Z" in again.json()["detail"]
    assert api.delete(f"/blackouts/{NONE}").status_code == 404


def test_a_blackout_that_is_to_come_can_be_taken_back(api: Api, world: World) -> None:
    """S-13: it never begins, and is no longer among those to come."""
    api.create(overlap="allow")
    made = black_out(api, **{"from": "2026-03-02T08:02:00Z"})
    assert (made["state"], made["mode"]) == ("to_come", "drop")
    taken = api.delete(f"/blackouts/{made['id']}").json()
    assert (taken["state"], taken["from"] == taken["until"]) == ("over", True)
    assert api.get("/holds").json()["items"] == []
    live_through(world, 3)
    assert minutes(world) == [1, 2, 3]


def test_a_blackout_of_a_tag_and_of_one_trigger(api: Api, world: World) -> None:
    """S-13: whom it does not name fires; the trigger is told by its name, also by the one it gets later."""
    for name, tags in (("a", ["x"]), ("b", None), ("c", None)):
        api.create(f"/triggers/acme/production/report/{name}", overlap="allow", tags=tags)
    black_out(api, tag="x")
    made = black_out(api, trigger="acme/production/report/b")
    assert (made["trigger"], made["project"]) == ("acme/production/report/b", "acme")
    live_through(world, 2)
    assert (minutes(world, "a"), minutes(world, "b"), minutes(world, "c")) == ([], [], [1, 2])
    items = api.get("/triggers").json()["items"]
    assert [item["status"]["held"] is not None for item in items] == [True, True, False]
    api.post("/triggers/acme/production/report/b/rename", {"name": "d"}, {"If-Match": '"1"'})
    assert [one["trigger"] for one in api.get("/holds").json()["items"] if one["trigger"]] == [
        "acme/production/report/d"
    ]


def test_the_newest_comes_first_and_lists_have_parts(api: Api, world: World) -> None:
    """S-13: what is over stands in the history alone."""
    over = black_out(api, "2026-03-02T08:01:00Z")
    world.advance(minutes=2)
    lasting, to_come = black_out(api), black_out(api, "2026-03-03T00:00:00Z", **{"from": "2026-03-02T12:00:00Z"})
    assert {one["id"] for one in api.get("/holds").json()["items"]} == {lasting["id"], to_come["id"]}
    first = api.get("/holds", all=True, limit=2).json()
    rest = api.get("/holds", all=True, limit=2, cursor=first["next_cursor"]).json()
    assert [one["id"] for one in rest["items"]] == [over["id"]]
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
        ("/blackouts", {"until": TEN_PAST}, "reason"),
        ("/blackouts", {"reason": "x", "until": "2026-03-02T07:00:00Z"}, "until"),
        ("/blackouts", {"reason": "x", "until": TEN_PAST, "from": TEN_PAST}, "until"),
        ("/blackouts", {"reason": "x", "until": TEN_PAST, "from": "soon"}, "from"),
        ("/blackouts", {"reason": "x", "until": TEN_PAST, "mode": "later"}, "mode"),
        ("/blackouts", {"reason": "x", "until": TEN_PAST, "mode": ""}, "mode"),
        ("/blackouts", {"reason": "x", "until": TEN_PAST, "project": "A b"}, "project"),
        ("/blackouts", {"reason": "x", "until": TEN_PAST, "tag": ""}, "tag"),
        ("/blackouts", {"reason": "x", "until": TEN_PAST, "trigger": "tick"}, "trigger"),
        ("/blackouts", {"reason": "x", "until": TEN_PAST, "trigger": NAME, "tag": "x"}, "trigger"),
    ],
)
def test_what_holds_nothing_is_refused(api: Api, path: str, body: Any, field: str) -> None:
    """R-18, S-13: each error names the field and the way out; nothing is written."""
    answer = api.post(path, body)
    assert (answer.status_code, [fault["path"] for fault in answer.json()["errors"]]) == (422, [field])
    assert answer.json()["errors"][0]["hint"] or "must be" in answer.json()["detail"]
    assert api.get("/holds", all=True).json()["items"] == []


def test_what_is_not_there(api: Api) -> None:
    """S-13: no freeze to lift, no trigger to black out."""
    assert api.post("/unfreeze", {"project": "acme"}).status_code == 404
    assert api.post("/unfreeze").status_code == 404
    assert api.post("/blackouts", {"reason": "x", "until": TEN_PAST, "trigger": NAME}).status_code == 404
