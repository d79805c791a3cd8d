"""Callbacks and heartbeats over HTTP."""

from datetime import timedelta
from typing import Any

import pytest

from reconcile.observations.observation import Observations
from reconcile.runs.claim import claim_runs
from revisions.clock import HandClock
from revisions.store.database import Database
from tests.controller.asking import Api, T


@pytest.fixture
def run(api: Api, database: Database, clock: HandClock) -> str:
    """A run in its first attempt."""
    api.create()
    run: str = api.post(f"{T}/fire").json()["id"]
    lease = timedelta(seconds=60)
    claim_runs(database, Observations(), claimed_by="w", lease=lease, limit=1, max_running=1)
    return run


def test_a_callback_with_success_and_output(api: Api, run: str) -> None:
    """X-10: the answer is the run as stored; another callback is a conflict that names the run's status."""
    answer = api.post(f"/runs/{run}/complete", {"attempt": 1, "outcome": "succeeded", "output": {"rows": 7}})
    assert answer.status_code == 200
    assert answer.json() | {"waits_for": None} == api.get(f"/runs/{run}").json()
    assert (answer.json()["status"], answer.json()["output"]) == ("succeeded", {"rows": 7})
    repeated = api.post(f"/runs/{run}/complete", {"attempt": 1, "outcome": "failed"})
    assert (repeated.status_code, repeated.json()["code"]) == (409, "conflict")
    assert "the run is succeeded in attempt 1" in repeated.json()["detail"]
    assert repeated.json()["errors"][0]["hint"]


def test_a_callback_with_failure_and_error(api: Api, run: str) -> None:
    """X-06, X-07: error and output are stored, and the run waits for its next attempt."""
    body = {"attempt": 1, "outcome": "failed", "error": "out of paper", "output": {"state": 1}}
    answer = api.post(f"/runs/{run}/complete", body).json()
    assert (answer["status"], answer["error"], answer["output"]) == ("pending", "out of paper", {"state": 1})
    assert api.post(f"/runs/{run}/heartbeat", {"attempt": 1}).status_code == 409


def test_a_success_needs_no_output(api: Api, run: str) -> None:
    """X-10: the output is then an empty object."""
    assert api.post(f"/runs/{run}/complete", {"attempt": 1, "outcome": "succeeded"}).json()["output"] == {}


def test_a_heartbeat_is_answered_with_a_requested_cancellation(api: Api, run: str) -> None:
    """X-05, X-11: so that the service can stop."""
    beat = {"id": run, "status": "running", "attempt": 1, "cancel_requested": False}
    answer = api.post(f"/runs/{run}/heartbeat", {"attempt": 1})
    assert (answer.status_code, answer.json()) == (200, beat)
    api.post(f"/runs/{run}/cancel")
    assert api.post(f"/runs/{run}/heartbeat", {"attempt": 1}).json() == beat | {"cancel_requested": True}


INVALID_BODIES: dict[str, tuple[str, Any, str]] = {
    "no attempt": ("complete", {"outcome": "succeeded"}, "attempt"),
    "no outcome": ("complete", {"attempt": 1}, "outcome"),
    "attempt as text": ("complete", {"attempt": "1", "outcome": "failed"}, "attempt"),
    "another outcome": ("complete", {"attempt": 1, "outcome": "lost"}, "outcome"),
    "error beside success": ("complete", {"attempt": 1, "outcome": "succeeded", "error": "x"}, "error"),
    "output that is no object": ("complete", {"attempt": 1, "outcome": "succeeded", "output": [1]}, "output"),
    "unknown field": ("complete", {"attempt": 1, "outcome": "failed", "reason": "x"}, "reason"),
    "NUL": ("complete", {"attempt": 1, "outcome": "succeeded", "output": {"a": "\0"}}, "output.a"),
    "heartbeat without an attempt": ("heartbeat", {}, "attempt"),
    "true as an attempt": ("heartbeat", {"attempt": True}, "attempt"),
}


@pytest.mark.parametrize(("route", "body", "path"), INVALID_BODIES.values(), ids=INVALID_BODIES)
def test_an_invalid_body_changes_nothing(api: Api, run: str, route: str, body: Any, path: str) -> None:
    """R-18: 422, and the error names the field."""
    before = api.get(f"/runs/{run}").json()
    answer = api.post(f"/runs/{run}/{route}", body)
    assert answer.status_code == 422, answer.text
    assert path in [fault["path"] for fault in answer.json()["errors"]]
    assert api.get(f"/runs/{run}").json() == before


@pytest.mark.parametrize("id", ["01KJ0000000000000000000000", "x", "01KJ00000000000000000000%00"])
def test_an_unknown_run_is_not_found(api: Api, id: str) -> None:
    """R-18: also for an id that cannot exist."""
    assert api.post(f"/runs/{id}/complete", {"attempt": 1, "outcome": "failed"}).status_code == 404
    assert api.post(f"/runs/{id}/heartbeat", {"attempt": 1}).status_code == 404


def test_a_pending_run_refuses_callbacks(api: Api) -> None:
    """X-05: no attempt of it is running."""
    api.create()
    run = api.post(f"{T}/fire").json()["id"]
    assert api.post(f"/runs/{run}/complete", {"attempt": 0, "outcome": "succeeded"}).status_code == 409
    assert api.get(f"/runs/{run}").json()["status"] == "pending"
