"""Which deadlines there are, by wall clock and by span, without a database."""

from datetime import UTC, datetime
from typing import Any

import pytest

from reconcile.decide.changes import faults
from reconcile.decide.expectations import Deadline, Life, Occasion, Success, deadlines, is_met
from reconcile.decide.in_force import periods
from revisions.errors import Invalid
from revisions.history.chain import canonical
from revisions.history.triggers import SYSTEM, Action, Revision
from revisions.outcomes import DeadlineKind
from revisions.spec import reading
from revisions.spec.trigger import TriggerManifest
from tests.world import key, trigger_document

MONDAY = datetime(2026, 3, 2, 8, tzinfo=UTC)
BERLIN = {"timezone": "Europe/Berlin"}


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def revision(
    number: int, since: datetime, actor: str = "ann", active: bool = True, reason: str = "", **spec: Any
) -> Revision:
    action = Action.DEPLOY if active else Action.DEACTIVATE
    text = canonical({"task_version": "v1", **spec})
    return Revision(
        "T", key("tick"), number, action, actor, reason, since, active, (), None, None, None, "{}", "[]", text, "", ""
    )


def due(*revisions: Revision, after: str, until: str, **life: Any) -> list[str]:
    """The deadlines, as instants in UTC without their zone."""
    found = deadlines(Life(periods(revisions), **life), at(after), at(until))
    return [one.at.strftime("%m-%d %H:%M") for one in found]


@pytest.mark.parametrize(
    ("schedule", "by", "after", "until", "expected"),
    [
        ({"cron": "0 8 * * 1-5"}, "09:30", "2026-03-06T00:00", "2026-03-10T00:00", ["03-06 09:30", "03-09 09:30"]),
        ({"cron": "0 8 * * *", **BERLIN}, "09:30", "2026-03-05T00:00", "2026-03-06T00:00", ["03-05 08:30"]),
        ({"cron": "0 22 * * 5", **BERLIN}, "06:00", "2026-03-05T00:00", "2026-03-09T00:00", ["03-07 05:00"]),
        ({"cron": "0 8,22 * * *"}, "09:30", "2026-03-05T00:00", "2026-03-06T00:00", ["03-05 09:30"]),
        ({"cron": "30 9 * * *"}, "09:30", "2026-03-05T00:00", "2026-03-06T12:00", ["03-05 09:30", "03-06 09:30"]),
        ({"every": "15m"}, "09:30", "2026-03-05T00:00", "2026-03-06T00:00", ["03-05 09:30"]),
        ({"at": "2026-03-05T08:00:00Z"}, "09:30", "2026-03-03T00:00", "2026-03-09T00:00", ["03-05 09:30"]),
        ({"cron": "0 1 * * *", **BERLIN}, "02:30", "2026-03-28T12:00", "2026-03-29T12:00", ["03-29 01:00"]),
        ({"cron": "0 1 * * *", **BERLIN}, "02:30", "2026-10-24T12:00", "2026-10-25T12:00", ["10-25 00:30"]),
        ({"cron": "30 2 * * *", **BERLIN}, "09:30", "2026-03-28T12:00", "2026-03-29T12:00", []),
    ],
    ids=[
        "working days", "in its zone", "over night", "twice a day", "at that very time", "often", "once",
        "the clock skips it", "the clock shows it twice", "no occurrence that night",
    ],
)  # fmt: skip
def test_success_by_is_a_wall_clock_time(
    schedule: dict[str, str], by: str, after: str, until: str, expected: list[str]
) -> None:
    """X-16: on each day with an occurrence before it, else since that time of the day before; through DST nights."""
    made = revision(1, MONDAY, schedule=schedule, expect={"success_by": by})
    assert due(made, after=after, until=until) == expected


def test_within_counts_from_each_occurrence() -> None:
    """X-16: in elapsed time, over a change of the clock too."""
    made = revision(1, MONDAY, schedule={"cron": "0 1,8 * * *", **BERLIN}, expect={"within": "2h"})
    found = due(made, after="2026-03-28T12:00", until="2026-03-29T12:00")
    assert found == ["03-29 02:00", "03-29 08:00"]


def test_both_stand_in_one_order() -> None:
    """X-16: each is a deadline of its own, at one instant too."""
    made = revision(1, MONDAY, schedule={"cron": "0 8 * * *"}, expect={"success_by": "10:00", "within": "2h"})
    found = list(deadlines(Life(periods([made])), at("2026-03-03T00:00"), at("2026-03-04T09:00")))
    assert sorted(one.kind for one in found) == ["success_by", "within"]
    assert {(one.at, one.since) for one in found} == {(at("2026-03-03T10:00"), at("2026-03-03T08:00"))}


HOURLY = {"every": "1h"}
WITHIN_2H: dict[str, Any] = {"schedule": HOURLY, "expect": {"within": "2h"}}


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ({**WITHIN_2H, "description": "x"}, ["03-02 11:00", "03-02 12:00"]),
        ({"schedule": HOURLY, "expect": {"within": "150m"}}, ["03-02 11:30"]),
        ({"schedule": HOURLY}, []),
        ({**WITHIN_2H, "schedule": {"every": "6h"}}, ["03-02 11:00"]),
        ({**WITHIN_2H, "active": False}, []),
        ({**WITHIN_2H, "active": False, "actor": SYSTEM}, ["03-02 11:00"]),
    ],
    ids=["unchanged", "changed", "removed", "another schedule", "paused by a person", "stopped by the system"],
)
def test_a_deadline_is_judged_by_what_is_in_force_when_it_comes(second: dict[str, Any], expected: list[str]) -> None:
    """X-16: for occurrences of an earlier revision too; nine o'clock had come before the change at half past."""
    found = due(
        revision(1, MONDAY, **WITHIN_2H),
        revision(2, at("2026-03-02T09:30"), **second),
        after="2026-03-02T09:30",
        until="2026-03-02T12:00",
    )
    assert found == expected


def test_inactive_time_expects_nothing() -> None:
    """X-16: of what fell into it, also after its end."""
    found = due(
        revision(1, MONDAY, **WITHIN_2H),
        revision(2, at("2026-03-02T08:30"), active=False, **WITHIN_2H),
        revision(3, at("2026-03-02T10:30"), **WITHIN_2H),
        after="2026-03-02T08:00",
        until="2026-03-02T13:00",
    )
    assert found == ["03-02 13:00"]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("failures", ["03-02 11:00", "03-02 12:00"]),
        ("budget", ["03-02 11:00", "03-02 12:00"]),
        ("completed", ["03-02 11:00"]),
        ("expired", ["03-02 11:00"]),
        ("max_runs", ["03-02 11:00"]),
    ],
)
def test_a_stop_by_the_system_for_trouble_excuses_nothing(reason: str, expected: list[str]) -> None:
    """X-16: nor what falls due after it; where nothing is wanted any more, only what had fallen due before."""
    stopped = revision(2, at("2026-03-02T09:30"), SYSTEM, active=False, reason=reason, **WITHIN_2H)
    found = due(revision(1, MONDAY, **WITHIN_2H), stopped, after="2026-03-02T09:30", until="2026-03-02T12:00")
    assert found == expected


def test_what_nobody_expects_is_left_out_and_what_a_run_asked_for_is_not() -> None:
    """X-16, S-08: blackouts, and slots that a run's own next fire took the place of."""
    made = revision(1, MONDAY, **WITHIN_2H)
    voided, asked = [(at("2026-03-02T09:00"), at("2026-03-02T11:00"))], [Occasion(at("2026-03-02T10:20"), "next/R")]
    found = due(made, after="2026-03-02T08:00", until="2026-03-02T14:00", voided=voided, asked=asked)
    assert found == ["03-02 12:20", "03-02 14:00"]


@pytest.mark.parametrize(
    ("expect", "path"),
    [
        ({}, "spec.expect"),
        ({"success_by": "9:30"}, "spec.expect.success_by"),
        ({"success_by": "24:00"}, "spec.expect.success_by"),
        ({"success_by": "09:30:00"}, "spec.expect.success_by"),
        ({"within": "0s"}, "spec.expect.within"),
        ({"within": "32d"}, "spec.expect.within"),
        ({"within": "soon"}, "spec.expect.within"),
    ],
)
def test_what_can_be_no_expectation_is_refused(expect: dict[str, str], path: str) -> None:
    """X-16, S-02: at deploy, saying which part and how to write it."""
    with pytest.raises(Invalid) as refused:
        reading.refuse(faults(TriggerManifest.read(trigger_document(expect=expect))))
    [fault] = refused.value.errors
    assert fault.path == path
    assert fault.hint


def test_a_time_may_be_written_without_quotes() -> None:
    """X-16: YAML 1.2 reads 09:30 as a text."""
    assert faults(TriggerManifest.read(trigger_document(expect={"success_by": "09:30", "within": "31d"}))) == []


@pytest.mark.parametrize(
    ("scheduled", "finished", "met"),
    [
        pytest.param("08:00", "09:00", True, id="in time"),
        pytest.param("08:00", "09:30", True, id="at the deadline"),
        pytest.param("08:00", "09:31", False, id="after it"),
        pytest.param("08:30", "09:00", True, id="a later occurrence"),
        pytest.param("07:59", "09:00", False, id="an earlier occurrence"),
    ],
)
def test_a_success_in_time_meets_a_deadline(scheduled: str, finished: str, met: bool) -> None:
    """X-16: of the occurrence or a later one, at the deadline at the latest."""
    deadline = Deadline(at("2026-03-02T09:30"), DeadlineKind.SUCCESS_BY, at("2026-03-02T08:00"), "every/x", 1)
    success = Success(at(f"2026-03-02T{scheduled}"), at(f"2026-03-02T{finished}"))
    late = Success(at("2026-03-02T08:00"), at("2026-03-02T23:00"))
    assert is_met(deadline, [late, success]) is met
    assert not is_met(deadline, [])


@pytest.mark.parametrize(
    ("expect", "after", "until", "expected"),
    [
        pytest.param({"success_by": "09:30"}, "05T09:30", "06T09:30", ["03-06 09:30"], id="the end is inside"),
        pytest.param({"success_by": "09:30"}, "05T09:29", "06T09:29", ["03-05 09:30"], id="the beginning is not"),
        pytest.param({"within": "1h"}, "05T09:00", "06T09:00", ["03-06 09:00"], id="within: the end is inside"),
        pytest.param({"within": "1h"}, "05T08:59", "06T08:59", ["03-05 09:00"], id="within: the beginning is not"),
    ],
)
def test_a_deadline_comes_once(expect: dict[str, str], after: str, until: str, expected: list[str]) -> None:
    """X-16: windows that follow each other share none, so that it is judged once."""
    made = revision(1, MONDAY, schedule={"cron": "0 8 * * *"}, expect=expect)
    assert due(made, after=f"2026-03-{after}", until=f"2026-03-{until}") == expected


def test_an_occurrence_at_the_deadline_is_of_the_next_day() -> None:
    """X-16: by 09:30 nothing of 09:30 can have succeeded."""
    made = revision(1, MONDAY, schedule={"cron": "30 9 5 * *"}, expect={"success_by": "09:30"})
    [found] = deadlines(Life(periods([made])), at("2026-03-04T00:00"), at("2026-03-09T00:00"))
    assert (found.at, found.since) == (at("2026-03-06T09:30"), at("2026-03-05T09:30"))
    assert (found.kind, found.occurrence_id) == ("success_by", "cron/2026-03-05T09:30:00/UTC")
