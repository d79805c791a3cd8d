"""Differences between revisions, and triggers as of a time, over HTTP."""

from datetime import timedelta

import pytest

from revisions.clock import HandClock
from tests.controller.asking import Api, T, at, manifest


def test_differences_between_two_revisions(api: Api) -> None:
    """R-09: added, removed and changed, by path, in either direction."""
    api.create(tags=["a"], description="x", input={"n": 1, "a.b": 1})
    api.put(T, manifest(tags=["a", "b"], schedule={"cron": "0 8 * * *"}, input={"n": 2, "a.b": 1}), at(1))
    answer = api.get(f"{T}/diff", **{"from": 1, "to": 2})
    assert answer.status_code == 200
    assert answer.json() == {
        "from": 1,
        "to": 2,
        "differences": [
            {"path": "spec.description", "kind": "removed", "before": "x", "after": None},
            {"path": "spec.input.n", "kind": "changed", "before": 1, "after": 2},
            {"path": "spec.schedule.cron", "kind": "added", "before": None, "after": "0 8 * * *"},
            {"path": "spec.schedule.every", "kind": "removed", "before": "1m", "after": None},
            {"path": "tags[1]", "kind": "added", "before": None, "after": "b"},
        ],
    }
    reversed_differences = api.get(f"{T}/diff", **{"from": 2, "to": 1}).json()["differences"]
    assert [difference["kind"] for difference in reversed_differences] == [
        "added",
        "changed",
        "removed",
        "added",
        "removed",
    ]
    assert api.get(f"{T}/diff", **{"from": 2, "to": 2}).json()["differences"] == []


def test_differences_outside_the_spec(api: Api) -> None:
    """R-09: a pause, a rename and a deletion."""
    api.create()
    api.post(f"{T}/deactivate", {"until": "2026-03-03T00:00:00Z"}, at(1))
    api.post(f"{T}/rename", {"name": "tock"}, at(2))
    tock = T.replace("tick", "tock")
    api.delete(tock, at(3))

    def paths(first: int, second: int) -> list[str]:
        differences = api.get(f"{tock}/diff", **{"from": first, "to": second}).json()["differences"]
        return [difference["path"] for difference in differences]

    assert paths(1, 2) == ["active", "until"]
    assert paths(2, 3) == ["trigger"]
    assert paths(3, 4) == ["deleted", "until"]


@pytest.mark.parametrize(
    ("query", "status", "where"),
    [
        ("from=1", 422, ["to"]),
        ("from=1&to=x", 422, ["to"]),
        ("from=1&to=9", 404, ["revision"]),
        ("from=0&to=1", 404, ["revision"]),
        ("from=1&to=99999999999999", 404, ["revision"]),
        ("first=1&to=1", 422, ["first"]),
    ],
)
def test_a_diff_needs_two_existing_revisions(api: Api, query: str, status: int, where: list[str]) -> None:
    """R-09: both must be named, and exist."""
    api.create()
    answer = api.get(f"{T}/diff?{query}")
    assert (answer.status_code, [fault["path"] for fault in answer.json()["errors"]]) == (status, where)


def test_a_trigger_as_of_a_time(api: Api, clock: HandClock) -> None:
    """R-09: spec and pause as they were; the parts of the status that come from runs are null."""
    api.create(description="first")
    clock.advance(timedelta(hours=1))
    api.post(f"{T}/deactivate", {"reason": "quiet", "until": "2026-03-03T00:00:00Z"}, at(1))
    clock.advance(timedelta(hours=1))
    api.put(T, manifest(description="second"), at(2))
    api.delete(T, at(3))

    first = api.get(T, as_of="2026-03-02T08:30:00Z")
    assert first.headers["ETag"] == '"1"'
    assert (first.json()["revision"], first.json()["active"], first.json()["spec"]["description"]) == (1, True, "first")
    assert set(first.json()["status"].values()) == {None}
    assert first.json().keys() == api.get(T).json().keys()
    paused = api.get(T, as_of="2026-03-02T10:00:00+01:00").json()
    assert (paused["revision"], paused["active"]) == (2, False)
    assert paused["status"]["deactivated_reason"] == "quiet"
    assert paused["status"]["paused_until"] == "2026-03-03T00:00:00Z"
    now = api.get(T, as_of="2026-03-02T10:00:00Z").json()
    assert (now["revision"], now["deleted"]) == (4, True)
    assert api.get(T, as_of="2030-01-01T00:00:00Z").json() == now


def test_as_of_before_the_first_revision_is_not_found(api: Api) -> None:
    """R-09: so is an unknown trigger; a text that is no instant is invalid."""
    api.create()
    early = api.get(T, as_of="2026-03-02T07:59:59.999999Z")
    assert (early.status_code, early.json()["code"]) == (404, "not_found")
    assert api.get(T, as_of="2026-03-02T08:00:00Z").status_code == 200
    assert api.get(T.replace("tick", "tock"), as_of="2026-03-02T09:00:00Z").status_code == 404
    for text in ("yesterday", "2026-03-02", "", "2026-03-02T08:00:00"):
        refused = api.get(T, as_of=text)
        assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, "as_of")
