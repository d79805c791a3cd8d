"""The state of a trigger over HTTP."""

import pytest

from reconcile.decide.attempt_ends import LARGEST
from reconcile.observations.observation import Observation, Observations
from reconcile.observations.specs import StateChanged
from tests.controller.asking import NAME, Api, T, at
from tests.observing import only

STATE = f"{T}/state"
NONE = {"trigger": NAME, "state": None, "changed_at": None, "changed_by": None, "run_id": None}


@pytest.fixture(autouse=True)
def _trigger(api: Api) -> None:
    api.create()


def test_seeding_reading_and_removing(api: Api, observations: Observations) -> None:
    """X-03: the value is the body; the answer says since when and by whom."""
    told: list[Observation] = []
    observations.subscribe(told.append)
    assert api.get(STATE).json() == NONE
    seeded = {**NONE, "state": {"cursor": [1, "ü"]}, "changed_at": "2026-03-02T08:00:00Z", "changed_by": "local"}
    answer = api.put(STATE, {"cursor": [1, "ü"]})
    assert (answer.status_code, answer.json()) == (200, {**seeded, "changed": True})
    assert api.put(STATE, {"cursor": [1, "ü"]}).json() == {**seeded, "changed": False}
    assert api.get(STATE).json() == seeded
    assert api.delete(STATE).json() == {**seeded, "state": None, "changed": True}
    assert api.delete(STATE).json() == {**seeded, "state": None, "changed": False}
    assert [changed.actor for changed in only(StateChanged, told)] == ["local"] * 2


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}, 1.5, "a"])
def test_any_json_is_a_state(api: Api, value: object) -> None:
    """X-03: read back as it was written."""
    assert api.put(STATE, value).status_code == 200
    assert api.get(STATE).json()["state"] == value


def test_yaml_is_taken_too(api: Api) -> None:
    """X-03: as everywhere."""
    assert api.send("PUT", STATE, b"cursor: 2026-01-01", Content_Type="application/yaml").status_code == 200
    assert api.get(STATE).json()["state"] == {"cursor": "2026-01-01"}


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"", 400, "malformed"),
        (b"{", 400, "malformed"),
        (b'{"a": 1, "a": 2}', 400, "malformed"),
        (b"9007199254740993", 422, "invalid"),
        (b"NaN", 422, "invalid"),
        (b'"' + b"x" * LARGEST + b'"', 422, "invalid"),
        (b'"' + b"x" * 2**20 + b'"', 413, "too_large"),
    ],
    ids=["nothing", "half", "twice", "beyond 2^53", "no number", "more than 64 KiB", "more than 1 MiB"],
)
def test_what_is_no_state(api: Api, content: bytes, status: int, code: str) -> None:
    """X-06, R-18: refused, and the old one stays."""
    api.put(STATE, "old")
    answer = api.send("PUT", STATE, content, Content_Type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert api.get(STATE).json()["state"] == "old"


def test_triggers_that_are_not_there(api: Api) -> None:
    """X-03: 404 for a name that was never used; of a deleted trigger the state can be read, not changed."""
    none = "/triggers/acme/production/report/none/state"
    assert [answer.status_code for answer in (api.get(none), api.put(none, 1), api.delete(none))] == [404] * 3
    api.put(STATE, 1)
    api.delete(T, at(1))
    assert api.get(STATE).json()["state"] == 1
    assert [answer.status_code for answer in (api.put(STATE, 2), api.delete(STATE))] == [404] * 2
