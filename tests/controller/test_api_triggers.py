"""Triggers over HTTP: deploying, reading, changing."""

import pytest

from revisions.clock import HandClock
from revisions.store.database import Database
from tests.controller.asking import IS_NEW, NAME, Api, T, at, manifest
from tests.world import key


def test_a_new_trigger_is_answered_whole(api: Api) -> None:
    """R-01, R-03: creating answers 201 with revision 1, its ETag, and the shape that others rely on."""
    answer = api.put(T, manifest(tags=["b", "a"], description="ticks"), IS_NEW)
    assert answer.status_code == 201
    assert answer.headers["ETag"] == '"1"'
    trigger = answer.json()
    assert trigger.pop("hash")
    assert trigger == {
        "project": "acme",
        "domain": "production",
        "task": "report",
        "name": "tick",
        "revision": 1,
        "active": True,
        "deleted": False,
        "tags": ["a", "b"],
        "spec": {"description": "ticks", "schedule": {"every": "1m"}, "task_version": "v1"},
        "changed_at": "2026-03-02T08:00:00Z",
        "changed_by": "local",
        "status": {
            "next_fire_at": "2026-03-02T08:01:00Z",
            "last_fired_at": None,
            "last_success_at": None,
            "last_outcome": None,
            "last_outcome_at": None,
            "last_run_id": None,
            "last_error": None,
            "run_count": 0,
            "consecutive_failures": 0,
            "deactivated_reason": None,
            "stopped_for": None,
            "paused_until": None,
            "held": None,
            "quarantined": None,
        },
        "warnings": [],
        "changed": True,
    }


def test_creating_what_exists_is_refused_with_who_made_it(api: Api) -> None:
    """R-04, R-05: `If-None-Match: *` on an existing trigger answers 412 with revision, author and time."""
    api.create()
    answer = api.put(T, manifest(), IS_NEW)
    assert answer.status_code == 412
    conflict = answer.json()
    assert (conflict["code"], conflict["current_revision"]) == ("conflict", 1)
    assert (conflict["changed_by"], conflict["changed_at"]) == ("local", "2026-03-02T08:00:00Z")


def test_a_change_needs_the_revision_last_read(api: Api) -> None:
    """R-04: without a revision 428, with a stale one or 0 412, even if nothing would change, and nothing is changed."""
    api.create()
    assert api.put(T, manifest()).status_code == 428
    assert api.put(T, manifest(), at(0)).status_code == 412
    assert api.put(T, manifest(description="new"), at(1)).json()["revision"] == 2
    stale = api.put(T, manifest(description="new"), at(1))
    assert (stale.status_code, stale.json()["current_revision"]) == (412, 2)
    assert api.actions() == ["DEPLOY", "DEPLOY"]


def test_naming_no_precondition_creates_what_is_not_there(api: Api) -> None:
    """R-05: without a precondition only a new trigger is made."""
    assert api.put(T, manifest()).status_code == 201


def test_a_revision_of_what_is_not_there_is_a_conflict(api: Api) -> None:
    """R-04: `If-Match` on a trigger that never was answers 412."""
    assert api.put(T, manifest(), at(1)).status_code == 412


def test_deploying_the_same_appends_nothing(api: Api) -> None:
    """R-06: an identical deploy with the right revision answers 200, `changed: false`."""
    api.create()
    answer = api.put(T, manifest(), at(1))
    assert (answer.status_code, answer.json()["changed"], answer.json()["revision"]) == (200, False, 1)
    assert api.actions() == ["DEPLOY"]


def test_a_manifest_in_full_is_taken_too(api: Api) -> None:
    """R-01: apiVersion, kind and metadata may stand in the body when they agree with the path."""
    full = manifest() | {
        "apiVersion": "triggerctl/v1",
        "kind": "Trigger",
        "metadata": {"project": "acme", "domain": "production", "task": "report", "name": "tick"},
    }
    assert api.put(T, full, IS_NEW).status_code == 201


def test_metadata_that_disagrees_with_the_path_is_refused(api: Api) -> None:
    """R-01: the path and the metadata must name the same trigger."""
    answer = api.put(T, manifest() | {"metadata": {"name": "tock"}}, IS_NEW)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["path"] == "metadata.name"
    assert api.get(T).status_code == 404


def test_a_manifest_may_be_yaml(api: Api) -> None:
    """U-01: YAML is taken by its content type."""
    text = b"spec:\n  task_version: v1\n  schedule: {every: 1m}\n"
    answer = api.send("PUT", T, text, content_type="application/yaml", if_none_match="*")
    assert answer.status_code == 201


def test_a_retry_with_its_key_answers_what_the_first_made(api: Api) -> None:
    """R-04: the same Idempotency-Key and body answer the first result; another body is a conflict, 409."""
    headers = IS_NEW | {"Idempotency-Key": "first"}
    first = api.put(T, manifest(), headers)
    again = api.put(T, manifest(), headers)
    assert (again.status_code, again.json()) == (201, first.json())
    other = api.put(T, manifest(description="other"), headers)
    assert (other.status_code, other.json()["code"]) == (409, "conflict")
    update = at(1) | {"Idempotency-Key": "second"}
    assert api.put(T, manifest(description="x"), update).json()["revision"] == 2
    assert api.put(T, manifest(description="x"), update).json()["revision"] == 2
    assert api.actions() == ["DEPLOY", "DEPLOY"]


def test_an_empty_key_is_no_key(api: Api) -> None:
    """R-04: an Idempotency-Key that cannot tell requests apart is refused."""
    assert api.put(T, manifest(), IS_NEW | {"Idempotency-Key": ""}).status_code == 422


def test_pausing_and_resuming(api: Api, clock: HandClock) -> None:
    """R-03, R-08, R-20: a pause has a reason and may have an end; repeating either appends nothing."""
    api.create()
    paused = api.post(f"{T}/deactivate", {"reason": "quiet", "until": "2026-03-03T08:00:00+01:00"}, at(1))
    assert paused.status_code == 200
    assert paused.headers["ETag"] == '"2"'
    assert paused.json()["active"] is False
    assert paused.json()["status"]["deactivated_reason"] == "quiet"
    assert paused.json()["status"]["paused_until"] == "2026-03-03T07:00:00Z"
    assert paused.json()["status"]["next_fire_at"] is None
    assert api.post(f"{T}/deactivate", {"reason": "again"}, at(2)).json()["changed"] is False
    resumed = api.post(f"{T}/activate", None, at(2)).json()
    assert (resumed["revision"], resumed["active"], resumed["status"]["paused_until"]) == (3, True, None)
    assert api.post(f"{T}/activate", None, at(3)).json()["changed"] is False
    assert api.actions() == ["DEPLOY", "DEACTIVATE", "ACTIVATE"]


def test_a_deploy_leaves_a_pause_alone(api: Api) -> None:
    """R-20: a deploy that does not name `active` does not un-pause."""
    api.create()
    api.post(f"{T}/deactivate", {"reason": "by hand"}, at(1))
    assert api.put(T, manifest(description="ci"), at(2)).json()["active"] is False
    assert api.put(T, manifest(description="ci", active=True), at(3)).json()["active"] is True


@pytest.mark.parametrize("verb", ["activate", "deactivate"])
def test_a_toggle_needs_the_revision_too(api: Api, verb: str) -> None:
    """R-04: activate and deactivate without a revision answer 428, with a stale one 412."""
    api.create()
    assert api.post(f"{T}/{verb}").status_code == 428
    assert api.post(f"{T}/{verb}", None, at(7)).status_code == 412
    assert api.post("/triggers/acme/production/report/none/activate", None, at(1)).status_code == 404


def test_a_deleted_trigger(api: Api) -> None:
    """R-05, R-08: it can be read and says so, lists leave it out, changes answer 404 and `If-Match` on PUT 412."""
    api.create()
    assert api.delete(T).status_code == 428
    deleted = api.delete(T, at(1))
    assert (deleted.status_code, deleted.json()["deleted"], deleted.json()["changed"]) == (200, True, True)
    assert api.get(T).json()["deleted"] is True
    assert api.get("/triggers").json()["items"] == []
    for path in ("activate", "deactivate", "fire"):
        assert api.post(f"{T}/{path}", None, at(2)).status_code == 404
    assert api.delete(T, at(2)).status_code == 404
    assert api.get(f"{T}/next").status_code == 404
    assert api.put(T, manifest(), at(2)).status_code == 412
    assert api.actions() == ["DEPLOY", "DELETE"]


def test_deploying_a_deleted_trigger_creates_it_again(api: Api) -> None:
    """R-05: it counts as a creation, 201, and its numbering goes on."""
    api.create()
    api.delete(T, at(1))
    answer = api.put(T, manifest(), IS_NEW)
    assert (answer.status_code, answer.json()["revision"], answer.json()["active"]) == (201, 3, True)


def test_listing_by_part_by_tag_and_by_activation(api: Api) -> None:
    """U-01: lists come in parts by an opaque cursor, and can be narrowed."""
    for name in ("a", "b", "c"):
        api.create(f"/triggers/acme/production/report/{name}", tags=[f"tag-{name}", "all"])
    api.post("/triggers/acme/production/report/b/deactivate", None, at(1))

    def names(**params: object) -> list[str]:
        return [item["name"] for item in api.get("/triggers", **params).json()["items"]]

    first = api.get("/triggers", limit=2).json()
    assert [item["name"] for item in first["items"]] == ["a", "b"]
    rest = api.get("/triggers", limit=2, cursor=first["next_cursor"]).json()
    assert [item["name"] for item in rest["items"]] == ["c"]
    assert rest["next_cursor"] is None
    assert names(tag="tag-b") == ["b"]
    assert names(tag="tag") == []
    assert names(active=True) == ["a", "c"]
    assert names(active=False) == ["b"]
    assert names(project="acme", task="report", domain="production") == ["a", "b", "c"]
    assert names(project="other") == []


def test_the_header_of_a_stranger_names_nobody(api: Api, database: Database) -> None:
    """R-03: over HTTP the actor is `local`, whatever headers say."""
    answer = api.put(T, manifest(), IS_NEW | {"X-Actor": "root", "triggerctl.actor": "root", "Triggerctl-Actor": "x"})
    assert answer.json()["changed_by"] == "local"
    assert str(key("tick")) == NAME
