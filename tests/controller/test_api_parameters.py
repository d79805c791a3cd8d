"""Query parameters: unknown ones are refused."""

import pytest
from fastapi import FastAPI

from tests.controller.asking import Api, T, manifest


@pytest.mark.parametrize(
    ("path", "where", "hint"),
    [
        ("/triggers?projet=x", "projet", "did you mean project?"),
        ("/triggers?limit=1&curser=x", "curser", "did you mean cursor?"),
        (f"{T}?asof=2026-03-02T08:00:00Z", "asof", "did you mean as_of?"),
        (f"{T}/diff?from=1&too=1", "too", "did you mean to?"),
        (f"{T}/revisions?cursors=x", "cursors", "did you mean cursor?"),
        ("/tasks?nam=x", "nam", "did you mean name?"),
        ("/runs?state=x", "state", "did you mean"),
        ("/changes?cursor=x", "cursor", "known are after, limit"),
        ("/tasks/acme/production/report/v1?x=1", "x", "this takes none"),
        ("/triggers?project=a&project=b", "project", "send it once"),
    ],
)
def test_a_parameter_that_is_not_known_is_refused(api: Api, path: str, where: str, hint: str) -> None:
    """R-18: 422 that names the nearest known one, instead of an answer to another question."""
    answer = api.get(path)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    (fault,) = answer.json()["errors"]
    assert fault["path"] == where
    assert hint in fault["hint"]


def test_changes_are_refused_too(api: Api) -> None:
    """R-18: nothing is written by a request that says something not understood."""
    answer = api.put(f"{T}?orgin=x", manifest(), {"If-None-Match": "*"})
    assert (answer.status_code, answer.json()["errors"][0]["hint"]) == (422, "did you mean origin?")
    assert api.get(T).status_code == 404


def test_no_route_is_left_out(api: Api, app: FastAPI) -> None:
    """R-18: whatever a route is, one parameter that nobody has is refused before anything else."""
    tried = 0
    for path, methods in app.openapi()["paths"].items():
        for method in methods:
            if path.startswith("/api/v1"):
                filled = path.replace("{project}/{domain}/{task}/{name}", "a/b/c/d")
                for name in ("project", "domain", "name", "version", "id"):
                    filled = filled.replace(f"{{{name}}}", "x")
                answer = api.client.request(method, f"{filled.replace('{number}', '1')}?nobody_has_this=1")
                assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "nobody_has_this"), path
                tried += 1
    assert tried > 20


def test_no_parameter_takes_what_the_database_cannot(api: Api, app: FastAPI) -> None:
    """R-18: a NUL character is refused where it stands, in whatever parameter of a route that reads."""
    api.create()
    tried = 0
    for path, methods in app.openapi()["paths"].items():
        asked = [one for one in methods.get("get", {}).get("parameters", []) if one["in"] == "query"]
        if path.startswith("/api/v1") and not (set("{}") & set(path.replace("{project}/{domain}/{task}/{name}", ""))):
            filled = path.replace("{project}/{domain}/{task}/{name}", T.removeprefix("/triggers/"))
            needed = {one["name"]: "2026-03-02T07:00:00Z" for one in asked if one["required"]}
            for name in (one["name"] for one in asked):
                answer = api.client.get(filled, params=needed | {name: "\0"})
                assert answer.status_code == 422, (filled, name)
                assert name in [fault["path"] for fault in answer.json()["errors"]], (filled, name)
                tried += 1
    assert tried > 40
