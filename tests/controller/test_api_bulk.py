"""Changes of many triggers in one request."""

from typing import Any

import pytest

from tests.controller.asking import Api, at

BASE = "acme/production/report"


def named(**revisions: int) -> list[dict[str, Any]]:
    return [{"trigger": f"{BASE}/{name}", "revision": revision} for name, revision in revisions.items()]


@pytest.fixture
def three_triggers(api: Api) -> Api:
    """The API with the triggers a, b and c; a and b have the tag x."""
    for name, tags in (("a", ["x"]), ("b", ["x", "y"]), ("c", ["z"])):
        api.create(f"/triggers/{BASE}/{name}", tags=tags)
    return api


def actions(api: Api) -> list[list[str]]:
    return [api.actions(f"/triggers/{BASE}/{name}") for name in ("a", "b", "c")]


def test_changes_by_name_and_revision(three_triggers: Api) -> None:
    """R-16: the answer lists the old and new revision of each trigger."""
    answer = three_triggers.post("/triggers:deactivate", {"names": named(c=1, a=1), "reason": "quiet"})
    assert answer.status_code == 200
    assert answer.json() == {
        "items": [
            {"trigger": f"{BASE}/a", "old_revision": 1, "new_revision": 2, "changed": True, "warnings": []},
            {"trigger": f"{BASE}/c", "old_revision": 1, "new_revision": 2, "changed": True, "warnings": []},
        ],
        "next_cursor": None,
    }
    assert three_triggers.get(f"/triggers/{BASE}/a").json()["status"]["deactivated_reason"] == "quiet"
    again = three_triggers.post("/triggers:deactivate", {"names": named(a=2)}).json()["items"]
    assert again == [{"trigger": f"{BASE}/a", "old_revision": 2, "new_revision": 2, "changed": False, "warnings": []}]
    three_triggers.post("/triggers:activate", {"names": named(a=2, c=2)})
    three_triggers.post("/triggers:delete", {"names": named(c=3)})
    assert actions(three_triggers) == [
        ["DEPLOY", "DEACTIVATE", "ACTIVATE"],
        ["DEPLOY"],
        ["DEPLOY", "DEACTIVATE", "ACTIVATE", "DELETE"],
    ]


def test_changes_by_tag(three_triggers: Api) -> None:
    """R-16: all triggers with the tag, here paused until a time; a tag without triggers is no error."""
    paused = three_triggers.post("/triggers:deactivate", {"tag": "x", "until": "2026-03-03T00:00:00Z"}).json()
    assert [item["trigger"] for item in paused["items"]] == [f"{BASE}/a", f"{BASE}/b"]
    assert three_triggers.get(f"/triggers/{BASE}/b").json()["status"]["paused_until"] == "2026-03-03T00:00:00Z"
    assert three_triggers.post("/triggers:delete", {"tag": "none"}).json()["items"] == []
    assert actions(three_triggers)[2] == ["DEPLOY"]


def test_one_stale_revision_refuses_all(three_triggers: Api) -> None:
    """R-16: 409 with a fault for each trigger that conflicts, under its name; nothing is changed."""
    three_triggers.post(f"/triggers/{BASE}/b/deactivate", None, at(1))
    answer = three_triggers.post("/triggers:delete", {"names": named(a=1, b=1, c=1) + named(d=1)})
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert [fault["path"] for fault in answer.json()["errors"]] == [f"{BASE}/b", f"{BASE}/d"]
    assert "stands at revision 2" in answer.json()["errors"][0]["message"]
    assert actions(three_triggers) == [["DEPLOY"], ["DEPLOY", "DEACTIVATE"], ["DEPLOY"]]


INVALID_REQUESTS: dict[str, tuple[Any, str]] = {
    "nothing": (None, "names"),
    "both": ({"names": named(a=1), "tag": "x"}, "names"),
    "no names": ({"names": []}, "names"),
    "no tag": ({"tag": ""}, "names"),
    "a name twice": ({"names": named(a=1) + named(a=2)}, "names"),
    "a text": ({"names": "a"}, "names"),
    "a text for one": ({"names": [f"{BASE}/a"]}, "names[0]"),
    "no revision": ({"names": [{"trigger": f"{BASE}/a"}]}, "names[0].revision"),
    "true for a revision": ({"names": [{"trigger": f"{BASE}/a", "revision": True}]}, "names[0].revision"),
    "no trigger": ({"names": [*named(b=1), {"revision": 1}]}, "names[1].trigger"),
    "half a name": ({"names": [{"trigger": "a", "revision": 1}]}, "names[0].trigger"),
    "a wrong name": ({"names": [{"trigger": f"{BASE}/A", "revision": 1}]}, "names[0].trigger.name"),
    "another field": ({"names": [{**named(a=1)[0], "revison": 1}]}, "names[0].revison"),
    "an unknown field": ({"tag": "x", "untill": "2027-01-01T00:00:00Z"}, "untill"),
    "a past end": ({"tag": "x", "until": "2020-01-01T00:00:00Z"}, "until"),
    "no instant": ({"tag": "x", "until": "soon"}, "until"),
}


@pytest.mark.parametrize(("body", "where"), INVALID_REQUESTS.values(), ids=INVALID_REQUESTS)
def test_an_invalid_selection_is_refused(three_triggers: Api, body: Any, where: str) -> None:
    """R-16, R-18: either names with revisions, each once, or a tag; the error names the path; nothing is changed."""
    answer = three_triggers.post("/triggers:deactivate", body)
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, where), answer.text
    assert actions(three_triggers) == [["DEPLOY"]] * 3


def test_only_a_pause_has_an_end(three_triggers: Api) -> None:
    """R-18: `until` is refused for the other two actions."""
    for verb in ("activate", "delete"):
        answer = three_triggers.post(f"/triggers:{verb}", {"tag": "x", "until": "2027-01-01T00:00:00Z"})
        assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "until")


def test_a_request_repeated_under_its_key(three_triggers: Api) -> None:
    """R-04: the same request under one key gets the same answer; another request is a conflict."""
    body, key = {"names": named(a=1, b=1)}, {"Idempotency-Key": "k"}
    first = three_triggers.post("/triggers:delete", body, key)
    assert three_triggers.post("/triggers:delete", body, key).json() == first.json()
    assert three_triggers.post("/triggers:deactivate", body, key).status_code == 409
    assert actions(three_triggers)[0] == ["DEPLOY", "DELETE"]
