"""Origin of a trigger, the folder from which it was applied, over HTTP."""

import pytest

from tests.controller.asking import IS_NEW, Api, T, at, manifest


def origins(api: Api) -> list[str | None]:
    return [item["origin"] for item in api.get(f"{T}/revisions").json()["items"]]


def test_a_deploy_records_its_origin_and_reason(api: Api) -> None:
    """R-22, R-03: from the query; a deploy without an origin keeps the recorded one."""
    assert api.put(f"{T}?origin=team-a&reason=ticket%2042", manifest(), IS_NEW).status_code == 201
    assert api.put(T, manifest(description="by hand"), at(1)).status_code == 200
    assert api.put(f"{T}?origin=team-b", manifest(description="by hand"), at(2)).json()["revision"] == 3
    assert origins(api) == ["team-b", "team-a", "team-a"]
    assert api.get(f"{T}/revisions/1").json()["reason"] == "ticket 42"


def test_the_same_origin_again_is_no_change(api: Api) -> None:
    """R-06: another origin would be a change; another reason is none."""
    api.put(f"{T}?origin=team-a", manifest(), IS_NEW)
    assert api.put(f"{T}?origin=team-a&reason=again", manifest(), at(1)).json()["changed"] is False


@pytest.mark.parametrize("origin", ["", "Team", "a/b", "..", "%00"])
def test_an_invalid_origin_is_refused(api: Api, origin: str) -> None:
    """R-01, R-22: it is a name, not a path."""
    answer = api.put(f"{T}?origin={origin}", manifest(), IS_NEW)
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "origin")


def test_triggers_are_listed_by_origin(api: Api) -> None:
    """R-22: the whole name must match."""
    api.put(f"{T}?origin=team-a", manifest(), IS_NEW)
    api.put("/triggers/acme/production/report/other", manifest(), IS_NEW)
    assert [item["name"] for item in api.get("/triggers", origin="team-a").json()["items"]] == ["tick"]
    assert api.get("/triggers", origin="team").json()["items"] == []
