"""Revisions and occurrences over HTTP."""

from datetime import timedelta

from revisions.clock import HandClock
from revisions.history.chain import ORIGIN
from revisions.store.database import Database
from tests.controller.asking import IS_NEW, NAME, Api, T, at, manifest
from tests.world import World


def test_the_history_is_listed_newest_first_in_pages(api: Api) -> None:
    """R-03, R-09: each revision is complete, and contains the hash of the one before."""
    api.create(tags=["x"])
    api.post(f"{T}/deactivate", {"reason": "quiet", "until": "2026-03-03T00:00:00Z"}, at(1))
    api.put(T, manifest(description="other"), at(2))
    first = api.get(f"{T}/revisions", limit=2).json()
    assert [item["revision"] for item in first["items"]] == [3, 2]
    rest = api.get(f"{T}/revisions", limit=2, cursor=first["next_cursor"]).json()
    assert (len(rest["items"]), rest["next_cursor"]) == (1, None)
    deploy, pause = rest["items"][0], first["items"][1]
    assert pause == api.get(f"{T}/revisions/2").json()
    assert pause.pop("hash") == first["items"][0]["previous_hash"]
    assert pause == {
        "revision": 2,
        "action": "DEACTIVATE",
        "actor": "local",
        "reason": "quiet",
        "at": "2026-03-02T08:00:00Z",
        "active": False,
        "tags": ["x"],
        "until": "2026-03-03T00:00:00Z",
        "origin": None,
        "resolved": {},
        "spec": {"schedule": {"every": "1m"}, "task_version": "v1"},
        "previous_hash": deploy["hash"],
    }
    assert deploy["previous_hash"] == ORIGIN


def test_a_revision_shows_the_resolved_instant_of_in(api: Api) -> None:
    """R-10, S-15: in `resolved`."""
    api.create(schedule={"in": "48h"})
    assert api.get(f"{T}/revisions/1").json()["resolved"] == {"at": "2026-03-04T08:00:00Z"}


def test_runs_and_skips_are_listed_together(api: Api, database: Database, clock: HandClock) -> None:
    """E-05, L-06: runs of the schedule, runs by hand and missed ranges, newest first and in pages."""
    api.create(overlap="allow")
    loop = World(database, clock).loop
    clock.advance(timedelta(minutes=10, seconds=5))
    loop.resync()
    assert api.post(f"{T}/fire", None, {"Idempotency-Key": "by-hand"}).status_code == 409
    run = api.post(f"{T}/fire", {"overlap": "allow"}, {"Idempotency-Key": "by-hand"}).json()
    items = api.get(f"{T}/occurrences").json()["items"]
    assert [item["outcome"] for item in items] == ["started", "started", "missed"]
    assert items[0]["run_id"] == run["id"]
    assert items[0]["occurrence_id"] == "manual/by-hand"
    assert items[1]["occurrence_id"] == "every/2026-03-02T08:10:00Z"
    assert items[2] == {
        "trigger": NAME,
        "occurrence_id": "every/2026-03-02T08:01:00Z",
        "scheduled_at": "2026-03-02T08:01:00Z",
        "scheduled_until": "2026-03-02T08:09:00Z",
        "decided_at": "2026-03-02T08:10:05Z",
        "outcome": "missed",
        "reason": "",
        "revision": 1,
        "run_id": None,
        "count": 9,
    }
    paged, cursor = [], None
    while True:
        page = api.get(f"{T}/occurrences", limit=1, **({"cursor": cursor} if cursor else {})).json()
        paged += page["items"]
        if (cursor := page["next_cursor"]) is None:
            break
    assert paged == items


def test_the_past_of_a_deleted_trigger_can_be_read(api: Api) -> None:
    """R-08: a deletion keeps revisions and occurrences."""
    api.create()
    api.delete(T, at(1))
    assert len(api.get(f"{T}/revisions").json()["items"]) == 2
    assert api.get(f"{T}/occurrences").status_code == 200
    assert api.put(T, manifest(), IS_NEW).status_code == 201
