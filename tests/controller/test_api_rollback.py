"""Rollbacks and renames over HTTP."""

from typing import Any

import pytest

from tests.controller.asking import IS_NEW, Api, T, at, manifest

TOCK = T.replace("tick", "tock")


def test_a_rollback_answers_the_new_revision(api: Api) -> None:
    """R-09: with ETag and `changed`; its reason names the revision that was deployed again."""
    api.create(tags=["a"], description="first")
    api.put(T, manifest(description="second"), at(1))
    answer = api.post(f"{T}/rollback", {"to": 1, "reason": "too early"}, at(2))
    assert (answer.status_code, answer.headers["ETag"]) == (200, '"3"')
    trigger = answer.json()
    assert (trigger["revision"], trigger["changed"], trigger["spec"]["description"], trigger["tags"]) == (
        3,
        True,
        "first",
        ["a"],
    )
    assert api.get(f"{T}/revisions/3").json()["reason"] == "rollback to revision 1: too early"
    assert api.post(f"{T}/rollback", {"to": 1}, at(3)).json()["changed"] is False


def test_a_rollback_needs_the_expected_revision(api: Api) -> None:
    """R-04: without it 428 with the current one, with a stale one 412."""
    api.create()
    missing = api.post(f"{T}/rollback", {"to": 1})
    assert (missing.status_code, missing.json()["code"]) == (428, "precondition_required")
    assert "stands at revision 1" in missing.json()["detail"]
    assert api.post(f"{T}/rollback", {"to": 1}, at(7)).status_code == 412
    assert api.post(f"{TOCK}/rollback", {"to": 1}, at(1)).status_code == 404


def test_a_rollback_restores_a_deleted_trigger(api: Api) -> None:
    """R-22: by deploying the revision before the deletion."""
    api.create()
    api.delete(T, at(1))
    trigger = api.post(f"{T}/rollback", {"to": 1}, at(2)).json()
    assert (trigger["revision"], trigger["deleted"], trigger["active"], trigger["changed"]) == (3, False, True, True)
    assert [item["name"] for item in api.get("/triggers").json()["items"]] == ["tick"]


def test_a_rollback_to_a_deleted_task_version_is_refused(api: Api) -> None:
    """R-14: the error names the versions there are; the trigger is unchanged."""
    api.put("/tasks/acme/production/report/v2", {"spec": {"launcher": "process", "process": {"command": ["true"]}}})
    api.create()
    api.put(T, manifest(task_version="v2"), at(1))
    assert api.delete("/tasks/acme/production/report/v1").status_code == 200
    answer = api.post(f"{T}/rollback", {"to": 1}, at(2))
    assert (answer.status_code, answer.json()["errors"][0]["hint"]) == (422, "registered are v2")
    assert api.get(T).json()["revision"] == 2


def test_a_rename_keeps_history_and_runs(api: Api) -> None:
    """R-22: it is one more revision. Existing runs show the new name, and the old name is free again."""
    api.create()
    run = api.post(f"{T}/fire").json()
    answer = api.post(f"{T}/rename", {"name": "tock", "reason": "clearer"}, at(1))
    assert (answer.status_code, answer.headers["ETag"]) == (200, '"2"')
    assert (answer.json()["name"], answer.json()["changed"]) == ("tock", True)
    history = api.get(f"{TOCK}/revisions").json()["items"]
    assert [(item["revision"], item["action"], item["reason"]) for item in history] == [
        (2, "DEPLOY", "clearer"),
        (1, "DEPLOY", ""),
    ]
    assert api.get(f"/runs/{run['id']}").json()["trigger"] == "acme/production/report/tock"
    assert [item["id"] for item in api.get("/runs", trigger="acme/production/report/tock").json()["items"]] == [
        run["id"]
    ]
    assert api.get(T).status_code == 404
    assert api.put(T, manifest(), IS_NEW).json()["revision"] == 1


def test_a_name_in_use_is_refused(api: Api) -> None:
    """R-22: 409, whether its trigger is live or deleted; 412 for a stale revision, 428 without one."""
    api.create()
    api.create(TOCK)
    assert api.post(f"{T}/rename", {"name": "tock"}).status_code == 428
    assert api.post(f"{T}/rename", {"name": "tock"}, at(2)).status_code == 412
    live = api.post(f"{T}/rename", {"name": "tock"}, at(1))
    assert (live.status_code, live.json()["code"]) == (409, "conflict")
    api.delete(TOCK, at(1))
    assert api.post(f"{T}/rename", {"name": "tock"}, at(1)).status_code == 409
    assert api.post(f"{TOCK}/rename", {"name": "tack"}, at(2)).status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "status", "where"),
    [
        ("rollback", None, 422, "to"),
        ("rollback", {"to": "1"}, 422, "to"),
        ("rollback", {"to": True}, 422, "to"),
        ("rollback", {"to": 1.5}, 422, "to"),
        ("rollback", {"to": 1, "reasn": "x"}, 422, "reasn"),
        ("rollback", {"to": 0}, 404, "to"),
        ("rollback", {"to": 2**40}, 404, "to"),
        ("rename", {}, 422, "name"),
        ("rename", {"name": "Tock"}, 422, "name"),
        ("rename", {"name": "a/b"}, 422, "name"),
        ("rename", {"name": 7}, 422, "name"),
    ],
)
def test_an_invalid_field_is_refused(api: Api, path: str, body: Any, status: int, where: str) -> None:
    """R-18: the error names the field; an unknown revision is not found."""
    api.create()
    answer = api.post(f"{T}/{path}", body, at(1))
    assert answer.status_code == status, answer.text
    assert [fault["path"] for fault in answer.json()["errors"]] == [where]
    assert api.actions() == ["DEPLOY"]
