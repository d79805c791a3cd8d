"""The change feed over HTTP."""

from typing import Any

import pytest

from tests.controller.asking import NAME, Api, T, at, manifest


def changes(api: Api, **params: Any) -> tuple[list[tuple[str, int]], str]:
    answer = api.get("/changes", **params)
    assert answer.status_code == 200, answer.text
    page = answer.json()
    return [(item["trigger"], item["revision"]) for item in page["items"]], page["next_cursor"]


def rest(api: Api, after: str, told: set[tuple[str, int]], limit: int) -> tuple[set[tuple[str, int]], str]:
    """What is new after a position, read to its end as the documentation says."""
    new: set[tuple[str, int]] = set()
    while True:
        part, after = changes(api, after=after, limit=limit)
        new |= set(part) - told
        if len(part) < limit:
            return new, after


def test_the_feed_from_its_beginning(api: Api) -> None:
    """R-17: trigger, revision and time of every change, in order; there is always a position to go on from."""
    assert changes(api)[0] == []
    api.create()
    api.post(f"{T}/deactivate", None, at(1))
    api.post(f"{T}/rename", {"name": "tock"}, at(2))
    tock = NAME.replace("tick", "tock")
    found, after = changes(api)
    assert found == [(NAME, 1), (NAME, 2), (tock, 3)]
    assert api.get("/changes").json()["items"][0] == {"trigger": NAME, "revision": 1, "at": "2026-03-02T08:00:00Z"}
    api.delete(T.replace("tick", "tock"), at(3))
    assert rest(api, after, set(found), 100)[0] == {(tock, 4)}


@pytest.mark.parametrize("limit", [1, 2])
def test_the_feed_in_parts(api: Api, limit: int) -> None:
    """R-17: a part that is not full is the last for now, and its position is where the next change is told."""
    api.create()
    for revision in (1, 2, 3):
        api.put(T, manifest(description=str(revision)), at(revision))
    found, after = changes(api, limit=limit)
    told = set(found)
    assert len(found) == limit
    new, after = rest(api, after, told, limit)
    assert told | new == {(NAME, revision) for revision in (1, 2, 3, 4)}
    api.put(T, manifest(description="4"), at(4))
    assert rest(api, after, told | new, limit)[0] == {(NAME, 5)}


@pytest.mark.parametrize("after", ["x", "", "1.2", "0.9999999999999999999.0", "%00"])
def test_what_is_no_position(api: Api, after: str) -> None:
    """R-17: 422 by name."""
    answer = api.get(f"/changes?after={after}")
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "after")
