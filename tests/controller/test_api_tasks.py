"""Tasks over HTTP."""

from tests.controller.asking import Api, T, at, manifest, task_manifest

V1, V2 = "/tasks/acme/production/report/v1", "/tasks/acme/production/report/v2"


def test_a_task_with_the_summary_of_its_triggers(api: Api) -> None:
    """R-12: name and automation are set only if exactly one trigger is bound to the version."""
    api.create()
    assert api.get(V1).json() == {
        "project": "acme",
        "domain": "production",
        "name": "report",
        "version": "v1",
        "spec": {"launcher": "process", "process": {"command": ["true"]}},
        "trigger_name": "tick",
        "total_triggers": 1,
        "active_triggers": 1,
        "trigger_automation": {"schedule": {"every": "1m"}},
    }
    api.create("/triggers/acme/production/report/tock", active=False)
    two = api.get(V1).json()
    assert (two["trigger_name"], two["trigger_automation"]) == (None, None)
    assert (two["total_triggers"], two["active_triggers"]) == (2, 1)


def test_a_version_is_immutable(api: Api) -> None:
    """R-23: the same spec again changes nothing; another spec is a conflict with author and time."""
    repeated = api.put(V1, task_manifest())
    assert (repeated.status_code, repeated.json()["changed"]) == (200, False)
    other = api.put(V1, task_manifest(timeout="5m"))
    assert (other.status_code, other.json()["code"]) == (409, "conflict")
    assert (other.json()["changed_by"], other.json()["changed_at"]) == ("local", "2026-03-02T08:00:00Z")
    assert api.put(V2, task_manifest(timeout="5m")).status_code == 201


def test_an_invalid_task_is_refused(api: Api) -> None:
    """R-18, R-12: fields, launcher and spans are checked; for an unknown field the nearest is suggested."""
    answer = api.put(V2, task_manifest(timout="5m"))
    assert (answer.status_code, answer.json()["errors"][0]["hint"]) == (422, "did you mean timeout?")
    assert api.put(V2, {"spec": {"launcher": "proces", "proces": {}}}).status_code == 422
    assert api.put("/tasks/acme/production/report/a b", task_manifest()).json()["errors"][0]["path"] == "version"
    assert api.get(V2).json()["detail"].endswith("there are v1")


def test_deleting_a_version_deletes_its_triggers(api: Api) -> None:
    """R-14: each by its own revision; pending runs are cancelled. The version can return only with the same spec."""
    api.create()
    run = api.post(f"{T}/fire").json()
    deleted = api.delete(V1)
    assert (deleted.status_code, deleted.json()["total_triggers"]) == (200, 0)
    assert api.actions() == ["DEPLOY", "DELETE"]
    assert api.get(f"/runs/{run['id']}").json()["status"] == "cancelled"
    assert api.get(V1).status_code == 404
    assert api.delete(V1).status_code == 404
    assert api.get("/tasks").json()["items"] == []
    assert api.put(T, manifest(), at(2)).status_code == 412
    assert api.put(V1, task_manifest(timeout="5m")).status_code == 409
    assert api.put(V1, task_manifest()).status_code == 201


def test_tasks_are_listed_in_pages(api: Api) -> None:
    """U-01: filtered by name."""
    api.put(V2, task_manifest())
    api.put("/tasks/acme/production/env.Main/v1", task_manifest())
    first = api.get("/tasks", limit=2).json()
    rest = api.get("/tasks", limit=2, cursor=first["next_cursor"]).json()
    versions = [(item["name"], item["version"]) for item in first["items"] + rest["items"]]
    assert sorted(versions) == [("env.Main", "v1"), ("report", "v1"), ("report", "v2")]
    assert len(api.get("/tasks", name="report").json()["items"]) == 2


def test_a_version_without_an_output_in_use_warns(api: Api) -> None:
    """R-15: `warnings` names the output and the active triggers that use it."""
    assert api.put(V2, task_manifest(outputs={"state": {"type": "object"}})).json()["warnings"] == []
    api.create(task_version="v2")
    answer = api.put("/tasks/acme/production/report/v3", task_manifest())
    assert answer.status_code == 201
    (warning,) = answer.json()["warnings"]
    assert "'state'" in warning
    assert "acme/production/report/tick" in warning
