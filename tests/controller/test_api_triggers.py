"""Triggers over HTTP: deploying, reading, pausing, deleting, listing."""

import pytest

from revisions.clock import HandClock
from revisions.store.database import Database
from tests.controller.asking import IS_NEW, NAME, Api, T, at, manifest
from tests.world import key


def test_a_new_trigger_is_returned_in_full(api: Api) -> None:
    """R-01, R-03: 201 with revision 1, its ETag, and the documented shape."""
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


def test_creating_an_existing_trigger_is_refused(api: Api) -> None:
    """R-04, R-05: `If-None-Match: *` gets 412 with revision, author and time."""
    api.create()
    answer = api.put(T, manifest(), IS_NEW)
    assert answer.status_code == 412
    conflict = answer.json()
    assert (conflict["code"], conflict["current_revision"]) == ("conflict", 1)
    assert (conflict["changed_by"], conflict["changed_at"]) == ("local", "2026-03-02T08:00:00Z")


def test_a_change_needs_the_expected_revision(api: Api) -> None:
    """R-04: without one 428; with a stale one or 0 412, even if nothing would change."""
    api.create()
    assert api.put(T, manifest()).status_code == 428
    assert api.put(T, manifest(), at(0)).status_code == 412
    assert api.put(T, manifest(description="new"), at(1)).json()["revision"] == 2
    stale = api.put(T, manifest(description="new"), at(1))
    assert (stale.status_code, stale.json()["current_revision"]) == (412, 2)
    assert api.actions() == ["DEPLOY", "DEPLOY"]


def test_a_new_trigger_needs_no_precondition(api: Api) -> None:
    """R-05: without a precondition only a new trigger is created."""
    assert api.put(T, manifest()).status_code == 201


def test_an_expected_revision_of_an_unknown_trigger_is_a_conflict(api: Api) -> None:
    """R-04: `If-Match` gets 412."""
    assert api.put(T, manifest(), at(1)).status_code == 412


def test_an_identical_deploy_appends_nothing(api: Api) -> None:
    """R-06: with the right revision it is answered 200, `changed: false`."""
    api.create()
    answer = api.put(T, manifest(), at(1))
    assert (answer.status_code, answer.json()["changed"], answer.json()["revision"]) == (200, False, 1)
    assert api.actions() == ["DEPLOY"]


def test_a_full_manifest_is_accepted(api: Api) -> None:
    """R-01: with apiVersion, kind and metadata that agree with the path."""
    full_manifest = manifest() | {
        "apiVersion": "triggerctl/v1",
        "kind": "Trigger",
        "metadata": {"project": "acme", "domain": "production", "task": "report", "name": "tick"},
    }
    assert api.put(T, full_manifest, IS_NEW).status_code == 201


def test_metadata_that_disagrees_with_the_path_is_refused(api: Api) -> None:
    """R-01: the path and the metadata must name the same trigger."""
    answer = api.put(T, manifest() | {"metadata": {"name": "tock"}}, IS_NEW)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["path"] == "metadata.name"
    assert api.get(T).status_code == 404


def test_a_manifest_may_be_yaml(api: Api) -> None:
    """U-01: by its content type."""
    text = b"spec:\n  task_version: v1\n  schedule: {every: 1m}\n"
    answer = api.send("PUT", T, text, content_type="application/yaml", if_none_match="*")
    assert answer.status_code == 201


def test_a_repeated_request_with_its_key_gets_the_first_answer(api: Api) -> None:
    """R-04: for a creation and an update; another body under the same key is a conflict."""
    headers = IS_NEW | {"Idempotency-Key": "first"}
    first = api.put(T, manifest(), headers)
    repeated = api.put(T, manifest(), headers)
    assert (repeated.status_code, repeated.json()) == (201, first.json())
    other = api.put(T, manifest(description="other"), headers)
    assert (other.status_code, other.json()["code"]) == (409, "conflict")
    update = at(1) | {"Idempotency-Key": "second"}
    assert api.put(T, manifest(description="x"), update).json()["revision"] == 2
    assert api.put(T, manifest(description="x"), update).json()["revision"] == 2
    assert api.actions() == ["DEPLOY", "DEPLOY"]


def test_an_empty_key_is_refused(api: Api) -> None:
    """R-04: it could not tell requests apart."""
    assert api.put(T, manifest(), IS_NEW | {"Idempotency-Key": ""}).status_code == 422


def test_pausing_and_resuming(api: Api, clock: HandClock) -> None:
    """R-03, R-08, R-20: a pause has a reason and may have an end; repeating a change appends nothing."""
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


def test_a_deploy_does_not_end_a_pause(api: Api) -> None:
    """R-20: unless its manifest has `active`."""
    api.create()
    api.post(f"{T}/deactivate", {"reason": "by hand"}, at(1))
    assert api.put(T, manifest(description="ci"), at(2)).json()["active"] is False
    assert api.put(T, manifest(description="ci", active=True), at(3)).json()["active"] is True


@pytest.mark.parametrize("verb", ["activate", "deactivate"])
def test_activation_needs_the_expected_revision(api: Api, verb: str) -> None:
    """R-04: activate and deactivate get 428 without one, 412 with a stale one."""
    api.create()
    assert api.post(f"{T}/{verb}").status_code == 428
    assert api.post(f"{T}/{verb}", None, at(7)).status_code == 412
    assert api.post("/triggers/acme/production/report/none/activate", None, at(1)).status_code == 404


def test_a_deleted_trigger(api: Api) -> None:
    """R-05, R-08: it can be read, lists leave it out; changes get 404, and a PUT with `If-Match` 412."""
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
    """R-05: answered 201, and its numbering continues."""
    api.create()
    api.delete(T, at(1))
    answer = api.put(T, manifest(), IS_NEW)
    assert (answer.status_code, answer.json()["revision"], answer.json()["active"]) == (201, 3, True)


def test_triggers_are_listed_in_pages_and_filtered(api: Api) -> None:
    """U-01: by tag, activation, and parts of the name."""
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


def test_the_actor_cannot_be_set_by_a_header(api: Api, database: Database) -> None:
    """R-03: over HTTP without access control it is `local`."""
    answer = api.put(T, manifest(), IS_NEW | {"X-Actor": "root", "triggerctl.actor": "root", "Triggerctl-Actor": "x"})
    assert answer.json()["changed_by"] == "local"
    assert str(key("tick")) == NAME
