"""Faults of manifests, field by field."""

from typing import Any

import pytest

from revisions.errors import Fault, Invalid
from revisions.spec import manifest
from revisions.spec.manifest import CalendarManifest
from revisions.spec.task import TaskManifest
from revisions.spec.trigger import TriggerManifest
from tests.world import task_document, trigger_document


def faults(document: dict[str, Any]) -> list[Fault]:
    with pytest.raises(Invalid) as refused:
        manifest.read(document)
    return list(refused.value.errors)


def calendar(**spec: Any) -> dict[str, Any]:
    metadata = {"project": "acme", "name": "holidays"}
    spec = {"owner": "ann", "dates": ["2026-12-25"]} | spec
    return {"apiVersion": "triggerctl/v1", "kind": "Calendar", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("field", "path", "message", "hint"),
    [
        ({"schedule": {"every": "0s"}}, "schedule.every", "'0s' is shorter than a second", "write 1s or more"),
        (
            {"schedule": {"every": 5}},
            "schedule.every",
            "5 is not a string",
            'quote it, so that it stays as written: "5"',
        ),
        ({"schedule": {"every": None}}, "schedule.every", "is null; leave the field out instead", ""),
        ({"schedule": {"evry": "1m"}}, "schedule.evry", "is not a known field", "did you mean every?"),
        ({"schedule": {"webhook": {}}}, "schedule.webhook", "is not supported by this version", "leave it out"),
        ({"schedule": 5}, "schedule", "must be a mapping", ""),
        ({"overlap": "both"}, "overlap", "'both' is not known", None),
        ({"catchup": {"window": "P1M"}}, "catchup.window", "'P1M' counts months, which have no fixed length", None),
        ({"start_within": "2y"}, "start_within", "'2y' is not between 1s and 1y", "write a span such as 10m"),
        ({"expect": {"within": "32d"}}, "expect.within", "'32d' is not between 1s and 31d", "write a span such as 2h"),
        ({"limits": {"budget_period": None}}, "limits.budget_period", "is null; leave the field out instead", ""),
        ({"retry": {"max_attempts": 0}}, "retry.max_attempts", "input should be greater than or equal to 1", ""),
    ],
)
def test_a_fault_of_a_trigger_has_path_message_and_hint(
    field: dict[str, Any], path: str, message: str, hint: str | None
) -> None:
    """R-18, S-01, S-02: one case per kind of fault."""
    [fault] = faults(trigger_document(**field))
    assert (fault.path, fault.message) == (f"spec.{path}", message)
    assert hint is None or fault.hint == hint


def test_one_error_lists_all_faults() -> None:
    """R-18: faults of durations and instants are listed together with those of types."""
    reported = faults(trigger_document(schedule={"every": "x", "count": 0, "later": 1}, start_within="x", retry=1))
    assert [fault.path.removeprefix("spec.") for fault in reported] == [
        *("schedule.every", "schedule.count", "schedule.later", "start_within", "retry"),
    ]


@pytest.mark.parametrize(
    ("field", "path", "message"),
    [
        ({"timeout": "soon"}, "timeout", "'soon' is not a span of time"),
        ({"block": {}}, "block", "is not a known field"),
        ({"process": None}, "process", "is missing"),
        ({"python": {}}, "python", "is not a known field"),
        ({"secrets": ["A", "A"]}, "secrets[1]", "A stands there twice"),
    ],
)
def test_a_fault_of_a_task_has_path_and_message(field: dict[str, Any], path: str, message: str) -> None:
    """R-12, R-18: also for a missing launcher block and the block of another launcher."""
    [fault] = faults(task_document(**field))
    assert (fault.path, fault.message) == (f"spec.{path}", message)


@pytest.mark.parametrize(
    ("field", "path", "message"),
    [
        ({"dates": ["2026-12-25", "soon"]}, "dates[1]", "'soon' is not a date"),
        ({"dates": ["2026-12-26/2026-12-25"]}, "dates[0]", "'2026-12-26/2026-12-25' runs backwards"),
        ({"dates": ["1990-01-01/2000-01-01", "2001-01-01/2009-01-01"]}, "dates", "closes more than 4000 days"),
        ({"until": "soon"}, "until", "'soon' is not an instant"),
        ({"owner": ""}, "owner", "string should have at least 1 character"),
    ],
)
def test_a_fault_of_a_calendar_has_path_and_message(field: dict[str, Any], path: str, message: str) -> None:
    """S-13, R-18: for entries of `dates` the path has their index."""
    [fault] = faults(calendar(**field))
    assert (fault.path, fault.message) == (f"spec.{path}", message)


def test_a_manifest_keeps_the_spec_as_it_was_written() -> None:
    """R-10: without defaults, and for a trigger without `active`."""
    read = TriggerManifest.read(trigger_document(active=False, schedule={"every": "60s"}))
    assert read.spec.active is False
    assert read.written == trigger_document()["spec"] | {"schedule": {"every": "60s"}}
    task = task_document()
    assert TaskManifest.read(task).written == task["spec"]
    assert CalendarManifest.read(calendar()).written == {"owner": "ann", "dates": ["2026-12-25"]}
