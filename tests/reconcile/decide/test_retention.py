"""Which old runs and skips may be removed."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reconcile.decide.retention import Needs, Old, gone_until, runs_to_go, skips_to_go

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


def at(hour: float) -> datetime:
    return START + timedelta(hours=hour)


def old(hour: float, id: str = "R5", trigger: str = "T", occurrence: str = "every/x") -> Old:
    return Old(id, trigger, occurrence, at(hour))


def needs(**more: Any) -> Needs:
    """A trigger all of whose past is decided, with more than enough newer runs."""
    return Needs(**{"decided_until": at(9), "newest_from": "R9", **more})


@pytest.mark.parametrize(
    ("of_trigger", "run_goes", "skip_goes"),
    [
        pytest.param(None, True, True, id="a trigger that is not there any more"),
        pytest.param(needs(), True, True, id="nothing needs it"),
        pytest.param(needs(decided_until=at(1)), True, True, id="decided just so"),
        pytest.param(needs(decided_until=at(0.9)), False, False, id="not decided"),
        pytest.param(needs(judged_from=at(1.1)), True, True, id="its deadlines are judged"),
        pytest.param(needs(judged_from=at(1)), False, False, id="a deadline is still to be judged"),
        pytest.param(needs(counts=True), False, True, id="its schedule counts starts"),
        pytest.param(needs(newest_from=None), False, True, id="one of few runs"),
        pytest.param(needs(newest_from="R5"), False, True, id="the oldest of its newest runs"),
        pytest.param(needs(newest_from="R6"), True, True, id="older than its newest runs"),
        pytest.param(needs(newest_from="R4"), False, True, id="among its newest runs"),
        pytest.param(needs(named=frozenset({"R5"})), False, True, id="named by its status"),
        pytest.param(needs(named=frozenset({"R4"})), True, True, id="another is named"),
    ],
)
def test_what_something_needs_stays(of_trigger: Needs | None, run_goes: bool, skip_goes: bool) -> None:
    """O-07, X-01, X-08, X-16, S-07: runs are needed for more than skips are."""
    given = {} if of_trigger is None else {"T": of_trigger}
    assert runs_to_go([old(1)], given) == ([old(1)] if run_goes else [])
    assert skips_to_go([old(1)], given) == ([old(1)] if skip_goes else [])


def test_each_is_judged_by_its_own_trigger() -> None:
    """O-07: in the order given."""
    records = [old(1, trigger="A"), old(2, trigger="B"), old(3, trigger="A")]
    assert runs_to_go(records, {"A": needs(), "B": needs(counts=True)}) == [records[0], records[2]]


@pytest.mark.parametrize(
    ("occurrence", "counts"),
    [
        pytest.param("cron/2026-03-02T09:00:00/UTC", True, id="cron"),
        pytest.param("every/2026-03-02T09:00:00Z", True, id="every"),
        pytest.param("at/2026-03-02T09:00:00Z", True, id="at"),
        pytest.param("next/R1", True, id="asked for by a run"),
        pytest.param("manual/R1", False, id="fired by hand"),
    ],
)
def test_only_what_was_on_a_schedule_is_missed_later(occurrence: str, counts: bool) -> None:
    """O-07, U-03: a run by hand leaves no hole."""
    assert gone_until([old(1, occurrence=occurrence)]) == ({"T": at(1)} if counts else {})


def test_up_to_the_newest_that_went_nothing_is_sure_to_be_kept() -> None:
    """O-07: by trigger, whatever the order."""
    gone = [old(3), old(1), old(2, trigger="B")]
    assert gone_until(gone) == {"T": at(3), "B": at(2)}
    assert gone_until(gone[::-1]) == {"T": at(3), "B": at(2)}
    assert gone_until([]) == {}
