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
def test_an_unknown_parameter_is_refused(api: Api, path: str, where: str, hint: str) -> None:
    """R-18: the error names the nearest known parameter."""
    answer = api.get(path)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    (fault,) = answer.json()["errors"]
    assert fault["path"] == where
    assert hint in fault["hint"]


def test_a_change_with_an_unknown_parameter_is_refused(api: Api) -> None:
    """R-18: and nothing is written."""
    answer = api.put(f"{T}?orgin=x", manifest(), {"If-None-Match": "*"})
    assert (answer.status_code, answer.json()["errors"][0]["hint"]) == (422, "did you mean origin?")
    assert api.get(T).status_code == 404


def test_every_route_refuses_unknown_parameters(api: Api, app: FastAPI) -> None:
    """R-18: before anything else is checked."""
    tried = 0
    for path, methods in app.openapi()["paths"].items():
        for method in methods:
            if path.startswith("/api/v1"):
                target = path.replace("{project}/{domain}/{task}/{name}", "a/b/c/d")
                for name in ("project", "domain", "name", "version", "id"):
                    target = target.replace(f"{{{name}}}", "x")
                answer = api.client.request(method, f"{target.replace('{number}', '1')}?nobody_has_this=1")
                assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "nobody_has_this"), path
                tried += 1
    assert tried > 20


def test_every_parameter_refuses_nul_characters(api: Api, app: FastAPI) -> None:
    """R-18: PostgreSQL cannot store them; the error names the parameter."""
    api.create()
    tried = 0
    for path, methods in app.openapi()["paths"].items():
        parameters = [
            parameter for parameter in methods.get("get", {}).get("parameters", []) if parameter["in"] == "query"
        ]
        if path.startswith("/api/v1") and not (set("{}") & set(path.replace("{project}/{domain}/{task}/{name}", ""))):
            target = path.replace("{project}/{domain}/{task}/{name}", T.removeprefix("/triggers/"))
            required = {parameter["name"]: "2026-03-02T07:00:00Z" for parameter in parameters if parameter["required"]}
            for name in (parameter["name"] for parameter in parameters):
                answer = api.client.get(target, params=required | {name: "\0"})
                assert answer.status_code == 422, (target, name)
                assert name in [fault["path"] for fault in answer.json()["errors"]], (target, name)
                tried += 1
    assert tried > 40
