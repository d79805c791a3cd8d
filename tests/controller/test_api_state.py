"""The state of a trigger over HTTP."""

import pytest

from reconcile.decide.attempt_ends import LARGEST
from reconcile.observations.observation import Observation, Observations
from reconcile.observations.specs import StateChanged
from tests.controller.asking import NAME, Api, T, at
from tests.observing import only

STATE = f"{T}/state"
NO_STATE = {"trigger": NAME, "state": None, "changed_at": None, "changed_by": None, "run_id": None}


@pytest.fixture(autouse=True)
def _trigger(api: Api) -> None:
    api.create()


def test_writing_reading_and_removing_the_state(api: Api, observations: Observations) -> None:
    """X-03: the body is the value; the answer has time and actor of the change."""
    observed: list[Observation] = []
    observations.subscribe(observed.append)
    assert api.get(STATE).json() == NO_STATE
    stored = {**NO_STATE, "state": {"cursor": [1, "ü"]}, "changed_at": "2026-03-02T08:00:00Z", "changed_by": "local"}
    answer = api.put(STATE, {"cursor": [1, "ü"]})
    assert (answer.status_code, answer.json()) == (200, {**stored, "changed": True})
    assert api.put(STATE, {"cursor": [1, "ü"]}).json() == {**stored, "changed": False}
    assert api.get(STATE).json() == stored
    assert api.delete(STATE).json() == {**stored, "state": None, "changed": True}
    assert api.delete(STATE).json() == {**stored, "state": None, "changed": False}
    assert [changed.actor for changed in only(StateChanged, observed)] == ["local"] * 2


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}, 1.5, "a"])
def test_any_json_value_can_be_stored(api: Api, value: object) -> None:
    """X-03: it is read as it was written."""
    assert api.put(STATE, value).status_code == 200
    assert api.get(STATE).json()["state"] == value


def test_a_state_may_be_yaml(api: Api) -> None:
    """X-03: by its content type."""
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
    ids=["empty", "incomplete", "repeated key", "beyond 2^53", "not a number", "more than 64 KiB", "more than 1 MiB"],
)
def test_an_invalid_state_is_refused(api: Api, content: bytes, status: int, code: str) -> None:
    """X-06, R-18: the stored one is kept."""
    api.put(STATE, "old")
    answer = api.send("PUT", STATE, content, Content_Type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert api.get(STATE).json()["state"] == "old"


def test_states_of_unknown_and_deleted_triggers(api: Api) -> None:
    """X-03: unknown names are not found; a deleted trigger's state can be read but not changed."""
    unknown = "/triggers/acme/production/report/none/state"
    assert [answer.status_code for answer in (api.get(unknown), api.put(unknown, 1), api.delete(unknown))] == [404] * 3
    api.put(STATE, 1)
    api.delete(T, at(1))
    assert api.get(STATE).json()["state"] == 1
    assert [answer.status_code for answer in (api.put(STATE, 2), api.delete(STATE))] == [404] * 2
