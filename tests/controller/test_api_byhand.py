"""Backfills, retries and firing of many triggers over HTTP."""

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


def end_runs(database: Database, status: str, *ids: str) -> None:
    """Set the runs to a final status."""
    with database.write() as connection:
        connection.execute(update(runs).where(runs.c.id.in_(ids)).values(status=status))


def fire(api: Api, path: str = T) -> str:
    run: str = api.post(f"{path}/fire", {"overlap": "allow"}).json()["id"]
    return run


def test_a_backfill_lists_the_runs_it_made(api: Api) -> None:
    """X-11: the answer counts new and existing runs and lists their ids; runs can be listed by source."""
    api.create()
    response = api.post(f"{T}/backfill", SPAN | {"input": {"x": 1}})
    assert response.status_code == 200
    answer = response.json()
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


def test_a_dry_run_makes_no_runs(api: Api) -> None:
    """X-11: the answer has the same shape, with `run_id` null."""
    api.create()
    answer = api.post(f"{T}/backfill", SPAN | {"dry_run": True}).json()
    assert (answer["dry_run"], answer["made"]) == (True, 2)
    assert [item["run_id"] for item in answer["items"]] == [None, None]
    assert api.get("/runs").json()["items"] == []


def test_a_backfill_reports_progress_as_lines(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """U-01: for clients that accept lines; the last line is the answer or the problem."""
    monkeypatch.setattr(backfill, "BATCH", 1)
    monkeypatch.setattr("controller.api.answers.PROGRESS_SECONDS", 0.0)
    api.create()
    lines = {"accept": "application/x-ndjson", "content_type": "application/json"}
    body = json.dumps(SPAN).encode()
    received = [json.loads(line) for line in api.send("POST", f"{T}/backfill", body, **lines).text.splitlines()]
    assert received[:2] == [{"progress": {"done": 1, "total": 2}}, {"progress": {"done": 2, "total": 2}}]
    assert received[-1]["answer"]["made"] == 2
    assert api.post("/freeze", {"reason": "x"}).status_code == 201
    [line] = api.send("POST", f"{T}/backfill", body, **lines).text.splitlines()
    assert json.loads(line)["problem"]["code"] == "conflict"


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
def test_an_invalid_backfill_is_refused(api: Api, body: Any, path: str) -> None:
    """R-18, X-11: errors name the field; also a period with more occurrences than one request may make."""
    api.create()
    refused = api.post(f"{T}/backfill", body)
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, path)
    assert api.get("/runs").json()["items"] == []


def test_a_backfill_of_a_missing_trigger_is_not_found(api: Api) -> None:
    """X-11: also of a deleted one."""
    assert api.post(f"{T}/backfill", SPAN).status_code == 404
    api.create()
    assert api.delete(T, {"If-Match": '"1"'}).status_code == 200
    assert api.post(f"{T}/backfill", SPAN).status_code == 404


def test_retrying_a_run(api: Api, database: Database) -> None:
    """X-11: the run becomes pending; 409 while it has not ended; 404 for an unknown id."""
    api.create()
    run = fire(api)
    assert api.post(f"/runs/{run}/retry").status_code == 409
    end_runs(database, "failed", run)
    assert api.post(f"/runs/{run}/retry").json()["status"] == "pending"
    assert api.post("/runs/01KJ0000000000000000000000/retry").status_code == 404
    assert api.post("/runs/nothing/retry").status_code == 404


def test_dead_runs_are_listed(api: Api, database: Database) -> None:
    """X-16: runs that failed for good, by trigger, project or task; a retried run is no longer listed."""
    api.create()
    api.create(f"/triggers/{OTHER}")
    first, second, third, other = fire(api), fire(api), fire(api), fire(api, f"/triggers/{OTHER}")
    end_runs(database, "failed", first, other)
    end_runs(database, "timed_out", second)
    end_runs(database, "cancelled", third)

    def dead(**filters: str) -> set[str]:
        return {run["id"] for run in api.get("/runs", dead="true", **filters).json()["items"]}

    assert dead() == {first, second, other}
    assert dead(trigger=NAME) == dead(trigger=NAME, project="acme", task="report") == {first, second}
    assert dead(project="other") == set()
    assert api.post(f"/runs/{first}/retry").status_code == 200
    assert dead() == {second, other}


def test_firing_triggers_by_tag(api: Api) -> None:
    """X-11: each trigger gets its run or its own problem; a repeated request gets the same runs."""
    for name, tags in (("a", ["x"]), ("b", ["x", "y"]), ("c", ["y"])):
        manifest = {"metadata": {"tags": tags}, "spec": {"task_version": "v1", "schedule": {"every": "1m"}}}
        assert api.put(f"/triggers/acme/production/report/{name}", manifest, {"If-None-Match": "*"}).status_code == 201
    running = fire(api, "/triggers/acme/production/report/b")
    key = {"Idempotency-Key": "k"}
    first, second = api.post("/triggers:fire", {"tag": "x", "input": {"n": 1}}, key).json()["items"]
    assert (first["trigger"], first["refused"]) == ("acme/production/report/a", None)
    assert (first["run"]["source"], first["run"]["input"]) == ("manual", {"n": 1})
    assert (second["trigger"], second["run"], second["refused"]["status"]) == ("acme/production/report/b", None, 409)
    assert running in second["refused"]["detail"]
    assert api.post("/triggers:fire", {"tag": "x", "input": {"n": 1}}, key).json()["items"][0] == first
    assert api.post("/triggers:fire", {"tag": "z"}).json() == {"items": [], "next_cursor": None}


def test_firing_triggers_by_name(api: Api, clock: HandClock) -> None:
    """X-11: in order of name; a missing trigger is reported among them."""
    api.create()
    items = api.post("/triggers:fire", {"names": [NAME, OTHER]}).json()["items"]
    assert [(item["trigger"], item["run"] is None) for item in items] == [(OTHER, True), (NAME, False)]
    assert items[0]["refused"]["code"] == "not_found"


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
def test_an_invalid_request_to_fire_many_fires_none(api: Api, body: Any, path: str) -> None:
    """R-18: the error names the field."""
    api.create()
    refused = api.post("/triggers:fire", body)
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, path)
    assert api.get("/runs").json()["items"] == []
