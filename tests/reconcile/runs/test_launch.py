"""The input document of an attempt, from plain values."""

from datetime import UTC, datetime
from typing import Any

import pytest

from reconcile.runs.launch import input_document
from revisions.history.chain import canonical
from revisions.ids import TriggerKey
from revisions.outcomes import RunSource, RunStatus
from revisions.store.claims import Claimed
from revisions.store.runs import Run

NOW = datetime(2026, 3, 2, 8, 0, 5, tzinfo=UTC)
SCHEDULED_AT = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
YESTERDAY = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)


def run_of(*, attempt: int = 1, source: RunSource = RunSource.SCHEDULE, input: Any = None) -> Run:
    return Run(
        id="R1",
        trigger_id="T",
        occurrence_id="every/2026-03-02T08:00:00Z",
        revision=3,
        project="acme",
        domain="production",
        task="report",
        task_version="v1",
        source=source,
        overlap="allow",
        max_attempts=3,
        actor="ann",
        scheduled_at=SCHEDULED_AT,
        created_at=NOW,
        available_at=NOW,
        started_at=None,
        finished_at=None,
        status=RunStatus.RUNNING,
        attempt=attempt,
        claim=1,
        claimed_by="worker",
        lease_until=None,
        cancel_requested_at=None,
        cancel_requested_by=None,
        input=canonical(input or {}),
        output=None,
        error=None,
        cost=None,
        caused_by_run_id=None,
        caused_by_trigger_id=None,
        start_by=None,
        serialize_key=None,
        task_limit=None,
        reserved=None,
        cancel_forced=False,
        parked=False,
        approved_at=None,
        approved_by=None,
        traceparent=None,
    )


def document_of(
    run: Run | None = None, *, last_success_at: datetime | None = None, state: str | None = None, **spec: Any
) -> dict[str, Any]:
    """The document of a run whose trigger has this spec."""
    claimed = Claimed(
        run=run or run_of(),
        task_spec="{}",
        trigger=TriggerKey("acme", "production", "report", "tick"),
        trigger_spec=canonical({"task_version": "v1", "schedule": {"every": "1h"}, **spec}),
        scopes=None,
        last_success_at=last_success_at,
        state=state,
    )
    return input_document(claimed, NOW, {"token": "s3cr3t"})


@pytest.mark.parametrize(
    ("attempt", "last_success_at", "is_first_run"),
    [
        pytest.param(1, None, True, id="the first attempt, none has succeeded"),
        pytest.param(2, None, True, id="the second attempt, none has succeeded"),
        pytest.param(1, YESTERDAY, False, id="the first attempt, one has succeeded"),
        pytest.param(2, YESTERDAY, False, id="the second attempt, one has succeeded"),
    ],
)
def test_a_run_is_the_first_until_one_has_succeeded(
    attempt: int, last_success_at: datetime | None, is_first_run: bool
) -> None:
    """X-03: an attempt that failed made nothing of the first run."""
    found = document_of(run_of(attempt=attempt), last_success_at=last_success_at)
    assert found["is_first_run"] is is_first_run
    assert found["last_success_at"] == ("2026-03-01T08:00:00Z" if last_success_at else None)
    assert found["run"]["attempt"] == attempt


@pytest.mark.parametrize(
    ("schedule", "input", "expected"),
    [
        pytest.param({}, {"a": 1}, {"a": 1}, id="not asked for"),
        pytest.param(
            {"kickoff_time_input": "at"}, {"a": 1}, {"a": 1, "at": "2026-03-02T08:00:00Z"}, id="beside others"
        ),
        pytest.param({"kickoff_time_input": "at"}, {"at": "x"}, {"at": "2026-03-02T08:00:00Z"}, id="before its own"),
    ],
)
def test_an_input_may_be_the_time_of_the_occurrence(
    schedule: dict[str, Any], input: dict[str, Any], expected: dict[str, Any]
) -> None:
    """X-03: the name that the schedule gives it wins over what the trigger wrote there."""
    assert document_of(run_of(input=input), schedule={"every": "1h", **schedule})["input"] == expected


def test_a_task_is_told_what_it_may_need() -> None:
    """X-03, X-06, X-12, E-15."""
    found = document_of(run_of(source=RunSource("webhook")), state='{"cursor":7}', allow_destructive=True)
    assert found["run"] == {
        "id": "R1",
        "project": "acme",
        "domain": "production",
        "task": "report",
        "task_version": "v1",
        "trigger": "acme/production/report/tick",
        "revision": 3,
        "source": "webhook",
        "attempt": 1,
        "scheduled_at": "2026-03-02T08:00:00Z",
    }
    assert (found["state"], found["now"], found["event"]) == ({"cursor": 7}, "2026-03-02T08:00:05Z", None)
    assert (found["secrets"], found["untrusted"], found["allow_destructive"]) == ({"token": "s3cr3t"}, True, True)
    assert (document_of()["state"], document_of()["untrusted"], document_of()["allow_destructive"]) == (
        None,
        False,
        False,
    )
