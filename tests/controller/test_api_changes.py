"""The change feed over HTTP."""

from typing import Any

import pytest

from tests.controller.asking import NAME, Api, T, at, manifest


def changes(api: Api, **params: Any) -> tuple[list[tuple[str, int]], str]:
    answer = api.get("/changes", **params)
    assert answer.status_code == 200, answer.text
    page = answer.json()
    return [(item["trigger"], item["revision"]) for item in page["items"]], page["next_cursor"]


def read_rest(api: Api, after: str, known: set[tuple[str, int]], limit: int) -> tuple[set[tuple[str, int]], str]:
    """Return the changes after a position that are not known yet, read to the end, and the last position."""
    new: set[tuple[str, int]] = set()
    while True:
        items, after = changes(api, after=after, limit=limit)
        new |= set(items) - known
        if len(items) < limit:
            return new, after


def test_the_feed_from_its_beginning(api: Api) -> None:
    """R-17: trigger, revision and time of every change, in order, and always a position from which to continue."""
    assert changes(api)[0] == []
    api.create()
    api.post(f"{T}/deactivate", None, at(1))
    api.post(f"{T}/rename", {"name": "tock"}, at(2))
    tock = NAME.replace("tick", "tock")
    items, after = changes(api)
    assert items == [(NAME, 1), (NAME, 2), (tock, 3)]
    assert api.get("/changes").json()["items"][0] == {"trigger": NAME, "revision": 1, "at": "2026-03-02T08:00:00Z"}
    api.delete(T.replace("tick", "tock"), at(3))
    assert read_rest(api, after, set(items), 100)[0] == {(tock, 4)}


@pytest.mark.parametrize("limit", [1, 2])
def test_the_feed_in_pages(api: Api, limit: int) -> None:
    """R-17: a page that is not full is the last for now, and reading continues at its position."""
    api.create()
    for revision in (1, 2, 3):
        api.put(T, manifest(description=str(revision)), at(revision))
    items, after = changes(api, limit=limit)
    known = set(items)
    assert len(items) == limit
    new, after = read_rest(api, after, known, limit)
    assert known | new == {(NAME, revision) for revision in (1, 2, 3, 4)}
    api.put(T, manifest(description="4"), at(4))
    assert read_rest(api, after, known | new, limit)[0] == {(NAME, 5)}


@pytest.mark.parametrize("after", ["x", "", "1.2", "0.9999999999999999999.0", "%00"])
def test_an_invalid_position_is_refused(api: Api, after: str) -> None:
    """R-17: the error names `after`."""
    answer = api.get(f"/changes?after={after}")
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "after")
