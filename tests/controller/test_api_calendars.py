"""Calendars over HTTP."""

from datetime import timedelta
from typing import Any

import pytest

from revisions.clock import HandClock
from revisions.store.database import Database
from tests.controller.asking import IS_NEW, Api, T, at, manifest
from tests.world import World

HOLIDAYS = "/calendars/acme/holidays"
AT_NINE = {"cron": "0 9 * * *", "calendars": ["holidays"]}


def calendar(*dates: str, **spec: Any) -> dict[str, Any]:
    return {"spec": {"owner": "ann", "dates": list(dates), **spec}}


@pytest.fixture
def world(api: Api, database: Database, clock: HandClock) -> World:
    """The loop over the API's database."""
    return World(database, clock)


def test_the_life_of_a_calendar(api: Api) -> None:
    """S-13, R-04: created, read, changed under its revision, deleted, and created again under the next number."""
    created = api.put(HOLIDAYS, calendar("2026-12-24/2026-12-26", reason="public holidays"), IS_NEW)
    assert (created.status_code, created.headers["ETag"]) == (201, '"1"')
    assert created.json() == {
        "project": "acme",
        "name": "holidays",
        "revision": 1,
        "deleted": False,
        "spec": {"owner": "ann", "reason": "public holidays", "dates": ["2026-12-24/2026-12-26"]},
        "changed_at": "2026-03-02T08:00:00Z",
        "changed_by": "local",
        "changed": True,
    }
    shown = api.get(HOLIDAYS)
    assert (shown.headers["ETag"], shown.json()) == ('"1"', {k: v for k, v in created.json().items() if k != "changed"})
    same = api.put(HOLIDAYS, calendar("2026-12-24/2026-12-26", reason="public holidays"), at(1))
    assert (same.status_code, same.json()["revision"], same.json()["changed"]) == (200, 1, False)
    updated = api.put(HOLIDAYS, calendar("2026-12-25"), at(1))
    assert (updated.status_code, updated.json()["revision"], updated.headers["ETag"]) == (200, 2, '"2"')
    deleted = api.delete(HOLIDAYS, at(2))
    assert (deleted.status_code, deleted.json()["deleted"], deleted.json()["revision"]) == (200, True, 3)
    assert api.get(HOLIDAYS).json()["deleted"] is True
    assert api.get("/calendars").json()["items"] == []
    assert api.delete(HOLIDAYS, at(3)).status_code == 404
    restored = api.put(HOLIDAYS, calendar("2026-12-25"), IS_NEW)
    assert (restored.status_code, restored.json()["revision"], restored.json()["deleted"]) == (201, 4, False)
    history = api.get(f"{HOLIDAYS}/revisions").json()["items"]
    assert [(revision["revision"], revision["action"]) for revision in history] == [
        (4, "DEPLOY"),
        (3, "DELETE"),
        (2, "DEPLOY"),
        (1, "DEPLOY"),
    ]
    assert history[-1] == {
        "revision": 1,
        "action": "DEPLOY",
        "actor": "local",
        "at": "2026-03-02T08:00:00Z",
        "spec": {"owner": "ann", "reason": "public holidays", "dates": ["2026-12-24/2026-12-26"]},
    }


def test_a_stale_revision_changes_nothing(api: Api) -> None:
    """R-04, S-13: existing, stale and missing revisions are refused, each with the current revision and its author."""
    assert api.put(HOLIDAYS, calendar("2026-12-25"), at(1)).status_code == 412
    assert api.delete(HOLIDAYS, at(1)).status_code == 404
    api.put(HOLIDAYS, calendar("2026-12-25"), IS_NEW)
    repeated = api.put(HOLIDAYS, calendar(), IS_NEW)
    stale = api.put(HOLIDAYS, calendar(), at(7))
    for answer in (repeated, stale, api.delete(HOLIDAYS, at(7))):
        assert (answer.status_code, answer.json()["current_revision"]) == (412, 1)
        assert (answer.json()["changed_by"], answer.json()["changed_at"]) == ("local", "2026-03-02T08:00:00Z")
        assert "--expected-revision 1" in answer.json()["errors"][0]["hint"]
    for unnamed in (api.put(HOLIDAYS, calendar()), api.delete(HOLIDAYS)):
        assert (unnamed.status_code, unnamed.json()["code"]) == (428, "precondition_required")
    assert api.get(HOLIDAYS).json()["revision"] == 1


@pytest.mark.parametrize(
    ("spec", "path", "words"),
    [
        ({"dates": ["2026-12-32"]}, "spec.dates[0]", "is not a date"),
        ({"dates": ["2026-12-24", "christmas"]}, "spec.dates[1]", "2026-12-24/2026-12-26"),
        ({"dates": ["2026-12-26/2026-12-24"]}, "spec.dates[0]", "runs backwards"),
        ({"dates": ["1000-01-01/2026-01-01"]}, "spec.dates[0]", "4000 days"),
        ({"dates": "2026-12-24"}, "spec.dates", ""),
        ({"until": "tomorrow"}, "spec.until", "zone"),
        ({"owner": ""}, "spec.owner", "1 character"),
        ({"date": []}, "spec.date", "did you mean dates?"),
    ],
    ids=["no such day", "no date", "backwards", "too long", "no list", "no instant", "nobody's", "unknown field"],
)
def test_an_invalid_calendar_is_refused(api: Api, spec: Any, path: str, words: str) -> None:
    """R-18, S-13: each error names the field and the way out; nothing is written."""
    answer = api.put(HOLIDAYS, calendar() | {"spec": {"owner": "ann", "dates": []} | spec}, IS_NEW)
    assert answer.status_code == 422
    [fault] = [fault for fault in answer.json()["errors"] if fault["path"] == path]
    assert words in f"{fault['message']} {fault['hint']}"
    assert api.get(HOLIDAYS).status_code == 404


def test_a_manifest_must_agree_with_the_path(api: Api) -> None:
    """S-13: names are checked, and must be those of the path."""
    assert api.put("/calendars/acme/Holidays", calendar(), IS_NEW).json()["errors"][0]["path"] == "name"
    other = calendar() | {"metadata": {"name": "feasts"}}
    assert api.put(HOLIDAYS, other, IS_NEW).json()["errors"][0]["path"] == "metadata.name"


def test_calendars_are_listed_in_pages(api: Api) -> None:
    """S-13: filtered by project; so are their histories."""
    for project, name in (("acme", "a"), ("acme", "b"), ("other", "a")):
        api.put(f"/calendars/{project}/{name}", calendar(), IS_NEW)
    first = api.get("/calendars", limit=2).json()
    rest = api.get("/calendars", limit=2, cursor=first["next_cursor"]).json()
    assert [(item["project"], item["name"]) for item in first["items"] + rest["items"]] == [
        ("acme", "a"),
        ("acme", "b"),
        ("other", "a"),
    ]
    assert len(api.get("/calendars", project="acme").json()["items"]) == 2
    api.put("/calendars/acme/a", calendar("2026-12-25"), at(1))
    newest = api.get("/calendars/acme/a/revisions", limit=1).json()
    older = api.get("/calendars/acme/a/revisions", limit=1, cursor=newest["next_cursor"]).json()
    assert [item["revision"] for item in newest["items"] + older["items"]] == [2, 1]
    assert older["next_cursor"] is None
    assert api.get("/calendars/acme/a/revisions", cursor="x").status_code == 422
    assert api.get("/calendars/acme/none/revisions").status_code == 404


def test_a_calendar_that_triggers_name_cannot_be_deleted(api: Api) -> None:
    """S-13: the error names the triggers; deleted triggers and those that no longer name it do not count."""
    api.put(HOLIDAYS, calendar("2026-12-25"), IS_NEW)
    api.create(schedule=AT_NINE)
    refused = api.delete(HOLIDAYS, at(1))
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert "acme/production/report/tick" in refused.json()["detail"]
    assert api.get(HOLIDAYS).json()["deleted"] is False
    assert api.put(T, manifest(), at(1)).status_code == 200
    assert api.delete(HOLIDAYS, at(1)).status_code == 200


def test_a_trigger_cannot_name_an_unknown_calendar(api: Api) -> None:
    """S-13, R-18: the error names the field and the calendars that exist."""
    refused = api.put(T, manifest(schedule=AT_NINE), IS_NEW)
    assert refused.json()["errors"][0]["path"] == "spec.schedule.calendars[0]"
    api.put("/calendars/acme/feasts", calendar(), IS_NEW)
    refused = api.put(T, manifest(schedule=AT_NINE), IS_NEW)
    assert (refused.status_code, refused.json()["errors"][0]["hint"]) == (422, "there are feasts")


def test_a_changed_calendar_reschedules_its_triggers(api: Api, world: World) -> None:
    """S-13, L-01, L-05: without a new revision; reopening a day does not bring back occurrences of the past."""
    api.put(HOLIDAYS, calendar("2026-12-25"), IS_NEW)
    api.create(schedule=AT_NINE)
    api.create("/triggers/acme/production/report/tock", schedule={"cron": "0 9 * * *"})
    world.resync()
    assert api.get(T).json()["status"]["next_fire_at"] == "2026-03-02T09:00:00Z"
    api.put(HOLIDAYS, calendar("2026-03-02/2026-03-04"), at(1))
    world.resync()
    assert api.get(T).json()["status"]["next_fire_at"] == "2026-03-05T09:00:00Z"
    assert api.get("/triggers/acme/production/report/tock").json()["status"]["next_fire_at"] == "2026-03-02T09:00:00Z"
    world.advance(hours=1)
    world.resync()
    assert (world.runs("tick"), len(world.runs("tock"))) == ([], 1)
    api.put(HOLIDAYS, calendar(), at(2))
    world.resync()
    assert api.get(T).json()["status"]["next_fire_at"] == "2026-03-03T09:00:00Z"
    assert api.get(T).json()["revision"] == 1
    world.advance(days=1)
    world.resync()
    assert [run.scheduled_at for run in world.runs("tick")] == [world.start + timedelta(days=1, hours=1)]


def test_a_calendar_closes_no_days_after_its_end(api: Api) -> None:
    """S-13: `until` is its end; later days are open."""
    api.put(HOLIDAYS, calendar("2026-03-02", "2026-03-03", until="2026-03-02T23:00:00Z"), IS_NEW)
    api.create(schedule=AT_NINE)
    assert api.get(T).json()["status"]["next_fire_at"] == "2026-03-03T09:00:00Z"
