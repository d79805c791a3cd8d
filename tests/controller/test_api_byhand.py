"""Backfills, retries and firing many over HTTP."""

import json
from typing import Any

import pytest
from sqlalchemy import update

from reconcile.runs.manual import backfill
from revisions.clock import HandClock
from revisions.store.database import Database
from revisions.store.run_tables import runs
from tests.controller.asking import NAME, Api, T

OTHER = "acme/production/report/other"
SPAN = {"from": "2026-03-02T07:57:00Z", "to": "2026-03-02T07:59:00Z"}


def ended(database: Database, status: str, *ids: str) -> None:
    """As if these runs had ended so."""
    with database.write() as connection:
        connection.execute(update(runs).where(runs.c.id.in_(ids)).values(status=status))


def fired(api: Api, path: str = T) -> str:
    run: str = api.post(f"{path}/fire", {"overlap": "allow"}).json()["id"]
    return run


def test_a_backfill_and_what_it_made(api: Api) -> None:
    """X-11: how many were made and how many were there, with ids; the runs can be listed by their source."""
    api.create()
    made = api.post(f"{T}/backfill", SPAN | {"input": {"x": 1}})
    assert made.status_code == 200
    answer = made.json()
    ids = [item.pop("run_id") for item in answer["items"]]
    assert answer == {
        "trigger": NAME,
        **SPAN,
        "force": False,
        "dry_run": False,
        "made": 2,
        "existing": 0,
        "undecided": 0,
        "items": [
            {"id": f"every/{at}", "utc": at, "local": at} for at in ("2026-03-02T07:57:00Z", "2026-03-02T07:58:00Z")
        ],
        "warnings": [],
    }
    listed = api.get("/runs", source="backfill").json()["items"]
    assert sorted(run["id"] for run in listed) == sorted(ids)
    assert {run["input"]["x"] for run in listed} == {1}
    assert api.get("/runs", source="manual").json()["items"] == []
    again = api.post(f"{T}/backfill", SPAN).json()
    assert (again["made"], again["existing"], again["items"]) == (0, 2, [])
    forced = api.post(f"{T}/backfill", SPAN | {"force": True}, {"Idempotency-Key": "k"}).json()
    assert (forced["made"], forced["existing"]) == (2, 0)
    assert api.post(f"{T}/backfill", SPAN | {"force": True}, {"Idempotency-Key": "k"}).json()["existing"] == 2


def test_a_dry_run_makes_nothing(api: Api) -> None:
    """X-11: the same answer, without runs."""
    api.create()
    answer = api.post(f"{T}/backfill", SPAN | {"dry_run": True}).json()
    assert (answer["dry_run"], answer["made"]) == (True, 2)
    assert [item["run_id"] for item in answer["items"]] == [None, None]
    assert api.get("/runs").json()["items"] == []


def test_how_far_a_backfill_is_line_by_line(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """U-01: for who accepts lines; a refusal on the way is the last of them."""
    monkeypatch.setattr(backfill, "BATCH", 1)
    monkeypatch.setattr("controller.api.answers.PROGRESS_SECONDS", 0.0)
    api.create()
    lines = {"accept": "application/x-ndjson", "content_type": "application/json"}
    body = json.dumps(SPAN).encode()
    told = [json.loads(line) for line in api.send("POST", f"{T}/backfill", body, **lines).text.splitlines()]
    assert told[:2] == [{"progress": {"done": 1, "total": 2}}, {"progress": {"done": 2, "total": 2}}]
    assert told[-1]["answer"]["made"] == 2
    assert api.post("/freeze", {"reason": "x"}).status_code == 201
    [last] = api.send("POST", f"{T}/backfill", body, **lines).text.splitlines()
    assert json.loads(last)["problem"]["code"] == "conflict"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"to": SPAN["to"]}, "from"),
        (SPAN | {"from": "yesterday"}, "from"),
        (SPAN | {"from": SPAN["to"]}, "from"),
        (SPAN | {"force": "yes"}, "force"),
        (SPAN | {"overlap": "skip"}, "overlap"),
        (SPAN | {"from": "2026-01-01T00:00:00Z"}, "to"),
    ],
)
def test_a_backfill_that_says_something_wrong(api: Api, body: Any, path: str) -> None:
    """R-18, X-11: named field by field; more than a call takes too."""
    api.create()
    refused = api.post(f"{T}/backfill", body)
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, path)
    assert api.get("/runs").json()["items"] == []


def test_a_backfill_of_what_is_not_there(api: Api) -> None:
    """X-11: 404, also for a deleted trigger."""
    assert api.post(f"{T}/backfill", SPAN).status_code == 404
    api.create()
    assert api.delete(T, {"If-Match": '"1"'}).status_code == 200
    assert api.post(f"{T}/backfill", SPAN).status_code == 404


def test_retrying_a_run(api: Api, database: Database) -> None:
    """X-11: answered pending; a conflict while it goes on; 404 for none."""
    api.create()
    run = fired(api)
    assert api.post(f"/runs/{run}/retry").status_code == 409
    ended(database, "failed", run)
    assert api.post(f"/runs/{run}/retry").json()["status"] == "pending"
    assert api.post("/runs/01KJ0000000000000000000000/retry").status_code == 404
    assert api.post("/runs/nothing/retry").status_code == 404


def test_the_dead_letters(api: Api, database: Database) -> None:
    """X-16: what failed for good, by trigger, project or task; retried ones are no longer among them."""
    api.create()
    api.create(f"/triggers/{OTHER}")
    first, second, third, other = fired(api), fired(api), fired(api), fired(api, f"/triggers/{OTHER}")
    ended(database, "failed", first, other)
    ended(database, "timed_out", second)
    ended(database, "cancelled", third)

    def dead(**narrowed: str) -> set[str]:
        return {run["id"] for run in api.get("/runs", dead="true", **narrowed).json()["items"]}

    assert dead() == {first, second, other}
    assert dead(trigger=NAME) == dead(trigger=NAME, project="acme", task="report") == {first, second}
    assert dead(project="other") == set()
    assert api.post(f"/runs/{first}/retry").status_code == 200
    assert dead() == {second, other}


def test_firing_all_with_a_tag(api: Api) -> None:
    """X-11: each by itself: its run, or the problem that kept it from one; a repetition answers the same runs."""
    for name, tags in (("a", ["x"]), ("b", ["x", "y"]), ("c", ["y"])):
        manifest = {"metadata": {"tags": tags}, "spec": {"task_version": "v1", "schedule": {"every": "1m"}}}
        assert api.put(f"/triggers/acme/production/report/{name}", manifest, {"If-None-Match": "*"}).status_code == 201
    going_on = fired(api, "/triggers/acme/production/report/b")
    key = {"Idempotency-Key": "k"}
    first, second = api.post("/triggers:fire", {"tag": "x", "input": {"n": 1}}, key).json()["items"]
    assert (first["trigger"], first["refused"]) == ("acme/production/report/a", None)
    assert (first["run"]["source"], first["run"]["input"]) == ("manual", {"n": 1})
    assert (second["trigger"], second["run"], second["refused"]["status"]) == ("acme/production/report/b", None, 409)
    assert going_on in second["refused"]["detail"]
    assert api.post("/triggers:fire", {"tag": "x", "input": {"n": 1}}, key).json()["items"][0] == first
    assert api.post("/triggers:fire", {"tag": "z"}).json() == {"items": [], "next_cursor": None}


def test_firing_some_by_name(api: Api, clock: HandClock) -> None:
    """X-11: by name, what is not there among them; in order of name."""
    api.create()
    found = api.post("/triggers:fire", {"names": [NAME, OTHER]}).json()["items"]
    assert [(one["trigger"], one["run"] is None) for one in found] == [(OTHER, True), (NAME, False)]
    assert found[0]["refused"]["code"] == "not_found"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "names"),
        ({"names": []}, "names"),
        ({"names": [NAME], "tag": "x"}, "names"),
        ({"names": [NAME, NAME]}, "names"),
        ({"names": [NAME, 1]}, "names[1]"),
        ({"names": ["a/b"]}, "names[0]"),
        ({"names": ["a/b/c/D"]}, "names[0].name"),
        ({"tag": "x", "overlap": "never"}, "overlap"),
    ],
)
def test_firing_many_that_says_something_wrong(api: Api, body: Any, path: str) -> None:
    """R-18: nothing is fired then."""
    api.create()
    refused = api.post("/triggers:fire", body)
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, path)
    assert api.get("/runs").json()["items"] == []
