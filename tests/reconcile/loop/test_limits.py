"""Limits that stop a trigger by themselves: expiry, number of successes and budget (X-08)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reconcile.decide.attempt_ends import AttemptOutcome
from reconcile.decide.authority import Caller
from reconcile.runs.attempt import Ended
from reconcile.runs.settle import settle
from reconcile.triggers.spending import sum_costs
from revisions.errors import Conflict, Invalid
from revisions.ids import utc_text
from revisions.outcomes import RunStatus
from tests.world import World, key

ANN = Caller("ann")


def minute(world: World, number: int = 1) -> None:
    for _ in range(number):
        world.advance(minutes=1)
        world.resync()


def last_change(world: World) -> tuple[bool, str, datetime | None]:
    """Return activation, reason and end of the pause from the newest revision."""
    newest = world.history()[0]
    return newest.active, newest.reason, newest.until


def spend(world: World, *costs: float) -> None:
    for cost in costs:
        world.finish(cost=cost)


def test_a_trigger_ends_when_it_expires(world: World) -> None:
    """X-08: nothing fires from `expires_at` on, and the system deactivates the trigger with the reason `expired`."""
    at = world.start + timedelta(minutes=2, seconds=30)
    world.create(overlap="allow", limits={"expires_at": utc_text(at)})
    minute(world, 2)
    assert last_change(world)[0]
    assert world.status().next_fire_at == at
    world.advance(seconds=29)
    world.resync()
    assert last_change(world)[0]
    world.advance(seconds=1)
    world.resync()
    assert last_change(world) == (False, "expired", None)
    minute(world, 2)
    assert len(world.runs()) == 2
    assert world.skips() == []


def test_occurrences_missed_before_the_expiry_are_caught_up_first(world: World) -> None:
    """X-08: also if the trigger expired while no controller ran."""
    world.create(overlap="allow", catchup={"policy": "all"}, limits={"expires_at": in_minutes(world, 30)})
    world.advance(hours=2)
    world.resync()
    world.resync()
    assert len(world.runs()) == 29
    assert last_change(world) == (False, "expired", None)


def test_an_expiry_ahead_can_be_moved(world: World) -> None:
    """X-08: to an earlier or a later instant, without a new baseline."""

    def until(number: int) -> dict[str, Any]:
        return {"overlap": "allow", "schedule": {"every": "3m"}, "limits": {"expires_at": in_minutes(world, number)}}

    world.create(**until(10))
    minute(world)
    world.update("tick", 1, **until(5))
    minute(world, 3)
    assert world.status().next_fire_at == world.start + timedelta(minutes=5)
    watermark = world.status().watermark
    world.update("tick", 2, **until(7))
    assert (world.status().watermark, world.status().next_fire_at) == (watermark, world.start + timedelta(minutes=6))
    minute(world, 3)
    assert (len(world.runs()), last_change(world)) == (2, (False, "expired", None))


@pytest.mark.parametrize(
    ("limits", "schedule", "path"),
    [
        ({"expires_at": "2026-01-01T00:00:00Z"}, {"every": "1m"}, "spec.limits.expires_at"),
        ({"expires_at": "soon"}, {"every": "1m"}, "spec.limits.expires_at"),
        ({"expires_at": "2026-03-02T08:00:10Z"}, {"every": "1m"}, "spec.schedule.every"),
        ({"expires_at": "2026-03-02T09:00:00Z"}, {"at": "2026-03-02T10:00:00Z"}, "spec.limits.expires_at"),
        ({"max_cost": 1, "estimate": 2}, {"every": "1m"}, "spec.limits.estimate"),
        ({"estimate": 2}, {"every": "1m"}, "spec.limits.estimate"),
        ({"budget_period": "day"}, {"every": "1m"}, "spec.limits.budget_period"),
        ({"max_cost": 0}, {"every": "1m"}, "spec.limits.max_cost"),
        ({"max_cost": 1e13}, {"every": "1m"}, "spec.limits.max_cost"),
        ({"max_cost": "1"}, {"every": "1m"}, "spec.limits.max_cost"),
        ({"max_runs": 0}, {"every": "1m"}, "spec.limits.max_runs"),
        ({"max_run": 3}, {"every": "1m"}, "spec.limits.max_run"),
    ],
)
def test_meaningless_limits_are_refused(
    world: World, limits: dict[str, object], schedule: dict[str, object], path: str
) -> None:
    """X-08: the error names the field."""
    with pytest.raises(Invalid) as refused:
        world.create(limits=limits, schedule=schedule)
    assert path in [fault.path for fault in refused.value.errors]


def test_a_trigger_is_deactivated_after_max_runs_successes(world: World) -> None:
    """X-08: failures do not count. Activating the trigger sets the number of successes to zero."""
    world.create(overlap="allow", limits={"max_runs": 2}, retry={"max_attempts": 1})
    for outcome in (AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED, AttemptOutcome.SUCCEEDED):
        assert last_change(world)[0]
        minute(world)
        world.finish(outcome)
    assert last_change(world) == (False, "max_runs", None)
    world.activate("tick", 2)
    assert world.status().success_count == 0
    minute(world)
    world.finish()
    assert last_change(world)[0]


@pytest.mark.parametrize("overlap", ["allow", "queue_all"])
def test_live_runs_count_towards_max_runs(world: World, overlap: str) -> None:
    """X-08: no more runs are live than successes are missing. A run that fails makes room for another."""
    world.create(overlap=overlap, limits={"max_runs": 3}, retry={"max_attempts": 1})
    minute(world, 5)
    assert len(world.runs()) == 3
    assert [(skip.outcome, skip.reason, skip.count) for skip in world.skips()] == [("concurrency", "max_runs", 1)] * 2
    world.finish(AttemptOutcome.FAILED)
    minute(world, 2)
    assert len(world.runs()) == 4
    for _ in range(3):
        world.finish()
    assert last_change(world) == (False, "max_runs", None)
    assert [run.status for run in world.runs()].count(RunStatus.SUCCEEDED) == 3


def test_a_backlog_waits_while_live_runs_fill_max_runs(world: World) -> None:
    """X-08: after a live run has failed, the oldest occurrence of the backlog starts."""
    world.create(overlap="allow", catchup={"policy": "all"}, limits={"max_runs": 2}, retry={"max_attempts": 1})
    world.advance(minutes=30)
    for _ in range(3):
        world.resync()
    assert len(world.runs()) == 2
    world.finish(AttemptOutcome.FAILED)
    world.resync()
    assert [run.scheduled_at.minute for run in world.runs()] == [1, 29, 30]
    assert world.skips() == []


def test_a_run_to_be_cancelled_does_not_count_towards_max_runs(world: World) -> None:
    """X-08, X-09: under `overlap: cancel` a new run starts although the live one could still succeed."""
    world.create(overlap="cancel", limits={"max_runs": 1})
    minute(world, 2)
    assert [run.status for run in world.runs()] == ["cancelled", "pending"]


def test_a_pause_keeps_the_number_of_successes(world: World) -> None:
    """X-08: only activating a trigger that `max_runs` stopped sets it to zero."""
    world.create(overlap="allow", limits={"max_runs": 2})
    minute(world)
    world.finish()
    world.deactivate("tick", 1)
    world.activate("tick", 2)
    assert world.status().success_count == 1


def test_a_trigger_created_again_has_no_successes(world: World) -> None:
    """X-08, R-05: successes from before the deletion do not count."""
    world.create(limits={"max_runs": 2})
    minute(world)
    world.finish()
    world.delete("tick", 1)
    world.create(limits={"max_runs": 2})
    assert world.status().success_count == 0


def test_a_crash_before_the_stop_lets_nothing_more_start(world: World) -> None:
    """X-08, L-16: at the limit the due pass starts nothing, and stops the trigger itself."""
    world.create(overlap="allow", limits={"max_runs": 1})
    minute(world)
    (run,) = world.claim()
    assert settle(world.database, world.observations, run, Ended(AttemptOutcome.SUCCEEDED, output={})).stop
    world.advance(minutes=1)
    world.resync()
    assert len(world.runs()) == 1
    assert last_change(world) == (False, "max_runs", None)


def test_a_reason_given_by_a_person_has_no_effect(world: World) -> None:
    """X-08: `budget` given by a person holds back no runs, and `max_runs` keeps the number of successes."""
    world.create(overlap="queue_all", limits={"max_runs": 9})
    minute(world, 2)
    world.finish()
    world.deactivate("tick", 1, "budget")
    world.finish()
    world.activate("tick", 2)
    world.deactivate("tick", 3, "max_runs")
    world.activate("tick", 4)
    assert world.status().success_count == 2


def test_a_run_beyond_the_budget_pauses_the_trigger(world: World) -> None:
    """X-08: the pause ends by itself with the calendar month."""
    world.create(overlap="allow", limits={"max_cost": 1, "estimate": 0.1})
    for cost in (0.7, 0.7):
        minute(world)
        spend(world, cost)
    april = datetime(2026, 4, 1, tzinfo=UTC)
    assert last_change(world) == (False, "budget", april)
    minute(world, 3)
    assert len(world.runs()) == 2
    world.advance(days=30)
    world.resync()
    minute(world, 2)
    assert last_change(world) == (True, "pause ended", None)
    assert len(world.runs()) > 2


def test_occurrences_beyond_the_budget_become_no_runs(world: World) -> None:
    """X-08: the expected cost of each live run is reserved, and occurrences beyond the rest are skipped."""
    world.create(overlap="allow", limits={"max_cost": 1, "estimate": 0.4})
    minute(world, 4)
    assert [run.reserved for run in world.runs()] == [0.4, 0.4]
    assert [(skip.outcome, skip.count) for skip in world.skips()] == [("budget", 1)] * 2
    assert last_change(world)[0]
    spend(world, 0.1, 0.1)
    minute(world)
    assert len(world.runs()) == 3


def test_without_an_estimate_the_highest_recent_cost_is_reserved(world: World) -> None:
    """X-08: until the first cost is known, one run is live at a time."""
    world.create(overlap="allow", limits={"max_cost": 100})
    minute(world, 2)
    assert [skip.outcome for skip in world.skips()] == ["budget"]
    spend(world, 3.0)
    for _ in range(2):
        minute(world)
        spend(world, 1.0)
    minute(world)
    assert world.runs()[-1].reserved == 3.0


def test_only_the_last_ten_costs_are_an_estimate(world: World) -> None:
    """X-08: the cost of the eleventh newest run is left out."""
    world.create(overlap="allow", limits={"max_cost": 100})
    reserved = []
    for cost in (3.0, *[1.0] * 10, 1.0):
        minute(world)
        reserved.append(world.runs()[-1].reserved)
        spend(world, cost)
    assert reserved[1:] == [*[3.0] * 10, 1.0]


def test_a_cost_at_the_first_instant_of_a_period_belongs_to_it(world: World) -> None:
    """X-08: a cost from a second before belongs to the former period."""
    world.create(overlap="allow", limits={"max_cost": 1, "estimate": 0.1, "budget_period": "day"})
    minute(world, 2)
    midnight = world.start.replace(hour=0) + timedelta(days=1)
    first, second = world.claim()
    world.advance(seconds=(midnight - world.clock_now()).total_seconds() - 1)
    world.settle(first, cost=0.9)
    world.advance(seconds=1)
    world.settle(second, cost=0.9)
    assert last_change(world)[0]
    assert world.fire(key("tick"), None, ANN).reserved == 0.1
    with pytest.raises(Conflict, match=r"0.9 is spent and 0.1 set aside"):
        world.fire(key("tick"), None, ANN, "allow")


def test_queued_runs_wait_while_the_budget_is_used_up(world: World) -> None:
    """X-08: raising the budget lets them start."""
    world.create(overlap="queue_all", limits={"max_cost": 1, "estimate": 0.1})
    minute(world, 3)
    spend(world, 5.0)
    assert world.claim() == []
    world.update("tick", 2, overlap="queue_all", limits={"max_cost": 10, "estimate": 0.1})
    assert len(world.claim()) == 1


@pytest.mark.parametrize("reason", ["holiday", "budget"])
def test_queued_runs_of_a_paused_trigger_keep_to_the_budget(world: World, reason: str) -> None:
    """X-08: they start until the budget is used up and continue in the next period, whatever reason was given."""
    world.create(overlap="queue_all", limits={"max_cost": 1, "estimate": 0.1})
    minute(world, 3)
    world.deactivate("tick", 1, reason)
    spend(world, 0.2, 5.0)
    assert world.claim() == []
    assert last_change(world) == (False, reason, None)
    world.advance(days=30)
    assert len(world.claim()) == 1


def test_queued_runs_keep_to_the_budget_after_a_stop_for_failures(world: World) -> None:
    """X-08: one run reaches the failure limit and uses up the budget at once."""
    limits = {"max_cost": 1, "estimate": 0.1}
    world.create(overlap="queue_all", limits=limits, deactivate_after=1, retry={"max_attempts": 1})
    minute(world, 2)
    world.finish(AttemptOutcome.FAILED, cost=5)
    assert last_change(world) == (False, "failures", None)
    assert world.claim() == []


def test_only_a_raised_budget_lets_queued_runs_start(world: World) -> None:
    """X-08: activating the trigger or deploying another change does not."""
    limits = {"max_cost": 1, "estimate": 0.1}
    world.create(overlap="queue_all", limits=limits)
    minute(world, 3)
    spend(world, 5.0)
    world.activate("tick", 2)
    assert world.claim() == []
    world.update("tick", 3, overlap="queue_all", limits=limits, description="the same")
    assert world.claim() == []
    world.update("tick", 4, overlap="queue_all", limits={"max_cost": 10, "estimate": 0.1})
    assert len(world.claim()) == 1


def test_lowering_the_budget_holds_back_queued_runs(world: World) -> None:
    """X-08: with the deploy, before an occurrence stops the trigger. The answer has a warning."""
    world.create(overlap="queue_all", limits={"max_cost": 10, "estimate": 1})
    minute(world, 3)
    spend(world, 1.0)
    lowered = world.update("tick", 1, overlap="queue_all", limits={"max_cost": 1})
    assert ["its budget is used up, 1 of 1" in warning for warning in lowered.warnings] == [True]
    assert world.claim() == []
    minute(world)
    assert last_change(world)[:2] == (False, "budget")
    assert world.claim() == []


def test_max_runs_lowered_to_the_number_of_successes_stops_the_trigger(world: World) -> None:
    """X-08: the answer has a warning. No run is created any more, and queued runs start as in any pause."""
    world.create(overlap="queue_all", limits={"max_runs": 9})
    minute(world, 4)
    world.finish()
    world.finish()
    lowered = world.update("tick", 1, overlap="queue_all", limits={"max_runs": 2})
    assert lowered.warnings == (
        "2 of its runs have succeeded, and limits.max_runs is 2: it is deactivated before anything more fires, unless "
        "limits.max_runs is raised",
    )
    minute(world)
    assert last_change(world) == (False, "max_runs", None)
    assert len(world.runs()) == 4
    world.finish()
    world.finish()
    assert [run.status for run in world.runs()] == ["succeeded"] * 4


def test_manual_runs_are_not_limited_by_max_runs_but_count(world: World) -> None:
    """X-08, X-11: a manual run that succeeds leaves one success less to the schedule."""
    world.create(overlap="allow", limits={"max_runs": 2})
    for _ in range(2):
        world.fire(key("tick"), None, ANN)
        world.finish()
    assert last_change(world) == (False, "max_runs", None)
    world.fire(key("tick"), None, ANN)
    assert world.finish().source == "manual"
    assert world.status().success_count == 3
    world.backfill(-2, 0)
    assert len(world.claim()) == 1


def test_a_trigger_stopped_by_max_runs_gets_no_warning(world: World) -> None:
    """X-08: because activating it sets the number of successes to zero."""
    world.create(limits={"max_runs": 1})
    minute(world)
    world.finish()
    assert world.update("tick", 2, limits={"max_runs": 1}, description="the same").warnings == ()
    assert world.activate("tick", 3).warnings == ()


@pytest.mark.parametrize(
    ("days", "expected"), [(7, ["it expires at 2026-03-09T08:00:00Z"]), (8, [])], ids=["near", "far"]
)
def test_an_expiry_within_a_week_is_a_warning(world: World, days: int, expected: list[str]) -> None:
    """X-08: deploying and activating the trigger return it."""
    made = world.create(active=False, limits={"expires_at": in_minutes(world, days * 24 * 60)})
    for changed in (made, world.activate("tick", 1)):
        assert [warning.partition(": ")[0] for warning in changed.warnings] == expected


def test_a_budget_below_the_cost_of_one_run_is_a_warning(world: World) -> None:
    """X-08: the highest recent cost is the estimate; one run starts in each period nevertheless."""
    world.create(overlap="allow", limits={"max_cost": 11, "budget_period": "day"})
    minute(world)
    spend(world, 5)
    world.advance(days=1)
    (warning,) = world.update("tick", 1, overlap="allow", limits={"max_cost": 4, "budget_period": "day"}).warnings
    assert warning.startswith("the dearest of its last runs cost 5, more than the 4 that it may spend: a single run")


def test_a_rest_of_the_budget_too_small_for_a_run_is_a_warning(world: World) -> None:
    """X-08: the warning names the expected cost of a run."""
    world.create(overlap="allow", limits={"max_cost": 11})
    minute(world)
    spend(world, 5)
    (warning,) = world.update("tick", 1, overlap="allow", limits={"max_cost": 9}).warnings
    assert warning.startswith("its budget is used up, 5 of 9 are spent in this month and a run is taken to cost 5: no")


def test_manual_runs_beyond_the_budget_are_refused(world: World) -> None:
    """X-08: the refusal of fire, backfill and retry names the rest and the beginning of the next period."""
    world.create(overlap="allow", retry={"max_attempts": 1}, limits={"max_cost": 1, "estimate": 0.6})
    world.fire(key("tick"), None, ANN)
    failed = world.finish(AttemptOutcome.FAILED, cost=0.5)
    for start in (
        lambda: world.fire(key("tick"), None, ANN),
        lambda: world.backfill(-5, 0),
        lambda: world.retry(failed.id, ANN),
    ):
        with pytest.raises(Conflict, match=r"may spend 1 in a month and has 0.5 left") as refused:
            start()
        assert "2026-04-01T00:00:00Z" in refused.value.errors[0].hint
    assert len(world.runs()) == 1


def test_costs_of_all_attempts_are_summed_by_trigger_tag_and_project(world: World) -> None:
    """X-08: failed attempts count. Triggers have their current names; one with two tags counts under both."""
    world.create("a", overlap="allow", tags=["client-7", "eu"])
    world.create("b", overlap="allow", tags=["eu"])
    minute(world)
    for run in world.claim():
        world.settle(run, AttemptOutcome.FAILED, cost=0.25)
    world.advance(seconds=10)
    for run in world.claim():
        world.settle(run, cost=1)
    world.rename("a", "c", 1)

    def shares(by: str, **span: datetime) -> list[tuple[str, float, int]]:
        account = sum_costs(world.database, by, **span)  # type: ignore[arg-type]
        return [(share.name, share.amount, share.runs) for share in account.shares]

    assert shares("trigger") == [("acme/production/report/b", 1.25, 1), ("acme/production/report/c", 1.25, 1)]
    assert shares("tag") == [("eu", 2.5, 2), ("client-7", 1.25, 1)]
    assert shares("project") == [("acme", 2.5, 2)]
    later = world.start + timedelta(minutes=1, seconds=5)
    assert shares("project", from_at=later) == [("acme", 2.0, 2)]
    assert shares("project", to_at=later) == [("acme", 0.5, 2)]
    assert [run.cost for name in "bc" for run in world.runs(name)] == [1.25, 1.25]


def in_minutes(world: World, number: int) -> str:
    return utc_text(world.start + timedelta(minutes=number))
