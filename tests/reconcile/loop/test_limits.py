"""What ends a trigger by itself: its time, its successes, its budget."""

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


def standing(world: World) -> tuple[bool, str, datetime | None]:
    """Whether it is active, why it changed last, and when a pause ends."""
    newest = world.history()[0]
    return newest.active, newest.reason, newest.until


def spend(world: World, *costs: float) -> None:
    for cost in costs:
        world.finish(cost=cost)


def test_a_trigger_ends_when_it_expires(world: World) -> None:
    """X-08: from `expires_at` on nothing fires; then it is deactivated for that."""
    at = world.start + timedelta(minutes=2, seconds=30)
    world.create(overlap="allow", limits={"expires_at": utc_text(at)})
    minute(world, 2)
    assert standing(world)[0]
    assert world.status().next_fire_at == at
    world.advance(seconds=29)
    world.resync()
    assert standing(world)[0]
    world.advance(seconds=1)
    world.resync()
    assert standing(world) == (False, "expired", None)
    minute(world, 2)
    assert len(world.runs()) == 2
    assert world.skips() == []


def test_what_was_missed_before_it_expired_is_caught_up_first(world: World) -> None:
    """X-08: a controller that was down leaves nothing out."""
    world.create(overlap="allow", catchup={"policy": "all"}, limits={"expires_at": in_minutes(world, 30)})
    world.advance(hours=2)
    world.resync()
    world.resync()
    assert len(world.runs()) == 29
    assert standing(world) == (False, "expired", None)


def test_the_expiry_can_be_moved_while_it_has_not_come(world: World) -> None:
    """X-08: earlier and later, without a new baseline."""

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
    assert (len(world.runs()), standing(world)) == (2, (False, "expired", None))


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
def test_limits_that_mean_nothing_are_refused(
    world: World, limits: dict[str, object], schedule: dict[str, object], path: str
) -> None:
    """X-08: at the field, before anything is stored."""
    with pytest.raises(Invalid) as refused:
        world.create(limits=limits, schedule=schedule)
    assert path in [fault.path for fault in refused.value.errors]


def test_so_many_successes_are_enough(world: World) -> None:
    """X-08: failures do not count; to activate it has them counted anew."""
    world.create(overlap="allow", limits={"max_runs": 2}, retry={"max_attempts": 1})
    for outcome in (AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED, AttemptOutcome.SUCCEEDED):
        assert standing(world)[0]
        minute(world)
        world.finish(outcome)
    assert standing(world) == (False, "max_runs", None)
    world.activate("tick", 2)
    assert world.status().success_count == 0
    minute(world)
    world.finish()
    assert standing(world)[0]


@pytest.mark.parametrize("overlap", ["allow", "queue_all"])
def test_no_more_go_on_than_are_still_to_succeed(world: World, overlap: str) -> None:
    """X-08: what goes on is counted, and one that fails makes room for another; so the last success is the last run."""
    world.create(overlap=overlap, limits={"max_runs": 3}, retry={"max_attempts": 1})
    minute(world, 5)
    assert len(world.runs()) == 3
    assert [(skip.outcome, skip.reason, skip.count) for skip in world.skips()] == [("concurrency", "max_runs", 1)] * 2
    world.finish(AttemptOutcome.FAILED)
    minute(world, 2)
    assert len(world.runs()) == 4
    for _ in range(3):
        world.finish()
    assert standing(world) == (False, "max_runs", None)
    assert [run.status for run in world.runs()].count(RunStatus.SUCCEEDED) == 3


def test_a_backlog_waits_for_what_is_still_to_succeed(world: World) -> None:
    """X-08: what is live takes all places; when one of them fails the oldest that waits takes its."""
    world.create(overlap="allow", catchup={"policy": "all"}, limits={"max_runs": 2}, retry={"max_attempts": 1})
    world.advance(minutes=30)
    for _ in range(3):
        world.resync()
    assert len(world.runs()) == 2
    world.finish(AttemptOutcome.FAILED)
    world.resync()
    assert [run.scheduled_at.minute for run in world.runs()] == [1, 29, 30]
    assert world.skips() == []


def test_a_run_that_takes_anothers_place_is_still_wanted(world: World) -> None:
    """X-08, X-09: under `cancel` what goes on is not counted on."""
    world.create(overlap="cancel", limits={"max_runs": 1})
    minute(world, 2)
    assert [run.status for run in world.runs()] == ["cancelled", "pending"]


def test_a_pause_between_does_not_count_successes_anew(world: World) -> None:
    """X-08: only what ended for them begins anew."""
    world.create(overlap="allow", limits={"max_runs": 2})
    minute(world)
    world.finish()
    world.deactivate("tick", 1)
    world.activate("tick", 2)
    assert world.status().success_count == 1


def test_a_trigger_that_comes_back_counts_successes_anew(world: World) -> None:
    """X-08, R-05: deleting it ended what was counted."""
    world.create(limits={"max_runs": 2})
    minute(world)
    world.finish()
    world.delete("tick", 1)
    world.create(limits={"max_runs": 2})
    assert world.status().success_count == 0


def test_what_was_killed_before_it_stopped_the_trigger_starts_nothing_more(world: World) -> None:
    """X-08, L-16: the due pass refuses at the limit, and stops the trigger itself."""
    world.create(overlap="allow", limits={"max_runs": 1})
    minute(world)
    (run,) = world.claim()
    assert settle(world.database, world.observations, run, Ended(AttemptOutcome.SUCCEEDED, output={})).stop
    world.advance(minutes=1)
    world.resync()
    assert len(world.runs()) == 1
    assert standing(world) == (False, "max_runs", None)


def test_what_a_person_gives_as_a_reason_is_not_the_systems_word(world: World) -> None:
    """X-08: whoever pauses with `budget` holds back no run, and with `max_runs` has nothing counted anew."""
    world.create(overlap="queue_all", limits={"max_runs": 9})
    minute(world, 2)
    world.finish()
    world.deactivate("tick", 1, "budget")
    world.finish()
    world.activate("tick", 2)
    world.deactivate("tick", 3, "max_runs")
    world.activate("tick", 4)
    assert world.status().success_count == 2


def test_a_budget_of_one_stops_after_the_run_that_crosses_it(world: World) -> None:
    """X-08: until the calendar month ends, and then it goes on by itself."""
    world.create(overlap="allow", limits={"max_cost": 1, "estimate": 0.1})
    for cost in (0.7, 0.7):
        minute(world)
        spend(world, cost)
    april = datetime(2026, 4, 1, tzinfo=UTC)
    assert standing(world) == (False, "budget", april)
    minute(world, 3)
    assert len(world.runs()) == 2
    world.advance(days=30)
    world.resync()
    minute(world, 2)
    assert standing(world) == (True, "pause ended", None)
    assert len(world.runs()) > 2


def test_what_the_budget_does_not_buy_becomes_no_run(world: World) -> None:
    """X-08: what goes on is set aside at what it is expected to cost, and no run row is made beyond."""
    world.create(overlap="allow", limits={"max_cost": 1, "estimate": 0.4})
    minute(world, 4)
    assert [run.reserved for run in world.runs()] == [0.4, 0.4]
    assert [(skip.outcome, skip.count) for skip in world.skips()] == [("budget", 1)] * 2
    assert standing(world)[0]
    spend(world, 0.1, 0.1)
    minute(world)
    assert len(world.runs()) == 3


def test_the_dearest_of_the_last_ten_runs_is_set_aside(world: World) -> None:
    """X-08: where the trigger names no estimate; while nobody knows what a run costs they go one at a time."""
    world.create(overlap="allow", limits={"max_cost": 100})
    minute(world, 2)
    assert [skip.outcome for skip in world.skips()] == ["budget"]
    spend(world, 3.0)
    for _ in range(2):
        minute(world)
        spend(world, 1.0)
    minute(world)
    assert world.runs()[-1].reserved == 3.0


def test_a_dear_run_is_forgotten_after_ten_others(world: World) -> None:
    """X-08: the eleventh newest says nothing any more."""
    world.create(overlap="allow", limits={"max_cost": 100})
    reserved = []
    for cost in (3.0, *[1.0] * 10, 1.0):
        minute(world)
        reserved.append(world.runs()[-1].reserved)
        spend(world, cost)
    assert reserved[1:] == [*[3.0] * 10, 1.0]


def test_what_is_paid_at_the_periods_first_instant_is_that_periods(world: World) -> None:
    """X-08: and what was paid before it is not."""
    world.create(overlap="allow", limits={"max_cost": 1, "estimate": 0.1, "budget_period": "day"})
    minute(world, 2)
    midnight = world.start.replace(hour=0) + timedelta(days=1)
    first, second = world.claim()
    world.advance(seconds=(midnight - world.clock_now()).total_seconds() - 1)
    world.settle(first, cost=0.9)
    world.advance(seconds=1)
    world.settle(second, cost=0.9)
    assert standing(world)[0]
    assert world.fire(key("tick"), None, ANN).reserved == 0.1
    with pytest.raises(Conflict, match=r"0.9 is spent and 0.1 set aside"):
        world.fire(key("tick"), None, ANN, "allow")


def test_queued_runs_wait_for_the_next_period_too(world: World) -> None:
    """X-08: a run that crosses the budget does not let those behind it overspend further; raising it frees them."""
    world.create(overlap="queue_all", limits={"max_cost": 1, "estimate": 0.1})
    minute(world, 3)
    spend(world, 5.0)
    assert world.claim() == []
    world.update("tick", 2, overlap="queue_all", limits={"max_cost": 10, "estimate": 0.1})
    assert len(world.claim()) == 1


@pytest.mark.parametrize("reason", ["holiday", "budget"])
def test_queued_runs_of_a_paused_trigger_keep_to_the_budget(world: World, reason: str) -> None:
    """X-08: whoever paused it, what waits goes on until the budget is used up, and then in the next period."""
    world.create(overlap="queue_all", limits={"max_cost": 1, "estimate": 0.1})
    minute(world, 3)
    world.deactivate("tick", 1, reason)
    spend(world, 0.2, 5.0)
    assert world.claim() == []
    assert standing(world) == (False, reason, None)
    world.advance(days=30)
    assert len(world.claim()) == 1


def test_queued_runs_keep_to_the_budget_whatever_else_stops_the_trigger(world: World) -> None:
    """X-08: the run that fails once too often is the one that crosses the budget, too."""
    limits = {"max_cost": 1, "estimate": 0.1}
    world.create(overlap="queue_all", limits=limits, deactivate_after=1, retry={"max_attempts": 1})
    minute(world, 2)
    world.finish(AttemptOutcome.FAILED, cost=5)
    assert standing(world) == (False, "failures", None)
    assert world.claim() == []


def test_activating_frees_nothing_while_the_budget_is_used_up(world: World) -> None:
    """X-08: a deploy that raises it does, and one that changes something else does not."""
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


def test_lowering_the_budget_holds_back_what_waits(world: World) -> None:
    """X-08: at once, and not only when an occurrence stops the trigger for it; the answer says so."""
    world.create(overlap="queue_all", limits={"max_cost": 10, "estimate": 1})
    minute(world, 3)
    spend(world, 1.0)
    lowered = world.update("tick", 1, overlap="queue_all", limits={"max_cost": 1})
    assert ["its budget is used up, 1 of 1" in warning for warning in lowered.warnings] == [True]
    assert world.claim() == []
    minute(world)
    assert standing(world)[:2] == (False, "budget")
    assert world.claim() == []


def test_max_runs_below_what_has_succeeded_stops_the_trigger(world: World) -> None:
    """X-08: the answer says so, nothing more is made, and what waits already goes on as in every pause."""
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
    assert standing(world) == (False, "max_runs", None)
    assert len(world.runs()) == 4
    world.finish()
    world.finish()
    assert [run.status for run in world.runs()] == ["succeeded"] * 4


def test_runs_by_hand_are_not_held_to_max_runs_but_count(world: World) -> None:
    """X-08, X-11: who fires has decided; what succeeds leaves so much less to the schedule."""
    world.create(overlap="allow", limits={"max_runs": 2})
    for _ in range(2):
        world.fire(key("tick"), None, ANN)
        world.finish()
    assert standing(world) == (False, "max_runs", None)
    world.fire(key("tick"), None, ANN)
    assert world.finish().source == "manual"
    assert world.status().success_count == 3
    world.backfill(-2, 0)
    assert len(world.claim()) == 1


def test_what_was_stopped_for_its_successes_is_not_warned_of_again(world: World) -> None:
    """X-08: for whoever has it go on has them counted anew."""
    world.create(limits={"max_runs": 1})
    minute(world)
    world.finish()
    assert world.update("tick", 2, limits={"max_runs": 1}, description="the same").warnings == ()
    assert world.activate("tick", 3).warnings == ()


@pytest.mark.parametrize(("days", "told"), [(7, ["it expires at 2026-03-09T08:00:00Z"]), (8, [])], ids=["near", "far"])
def test_an_end_that_is_near_is_told(world: World, days: int, told: list[str]) -> None:
    """X-08: to whoever deploys or activates it."""
    made = world.create(active=False, limits={"expires_at": in_minutes(world, days * 24 * 60)})
    for changed in (made, world.activate("tick", 1)):
        assert [warning.partition(": ")[0] for warning in changed.warnings] == told


def test_a_budget_that_one_run_exceeds_is_told(world: World) -> None:
    """X-08: where the dearest of the last runs is the estimate; one a period starts all the same."""
    world.create(overlap="allow", limits={"max_cost": 11, "budget_period": "day"})
    minute(world)
    spend(world, 5)
    world.advance(days=1)
    (warning,) = world.update("tick", 1, overlap="allow", limits={"max_cost": 4, "budget_period": "day"}).warnings
    assert warning.startswith("the dearest of its last runs cost 5, more than the 4 that it may spend: a single run")


def test_a_rest_that_buys_nothing_is_told_with_what_a_run_costs(world: World) -> None:
    """X-08: though less is spent than there is."""
    world.create(overlap="allow", limits={"max_cost": 11})
    minute(world)
    spend(world, 5)
    (warning,) = world.update("tick", 1, overlap="allow", limits={"max_cost": 9}).warnings
    assert warning.startswith("its budget is used up, 5 of 9 are spent in this month and a run is taken to cost 5: no")


def test_people_start_no_more_than_the_budget_buys(world: World) -> None:
    """X-08: fire, backfill and retry are refused with what is left and when the next period begins; nothing is made."""
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


def test_every_attempt_counts_and_costs_are_summed_by_trigger_tag_and_project(world: World) -> None:
    """X-08: also what failed; under the names that are borne now, a trigger with two tags under both."""
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
        return [(one.name, one.amount, one.runs) for one in sum_costs(world.database, by, **span).shares]  # type: ignore[arg-type]

    assert shares("trigger") == [("acme/production/report/b", 1.25, 1), ("acme/production/report/c", 1.25, 1)]
    assert shares("tag") == [("eu", 2.5, 2), ("client-7", 1.25, 1)]
    assert shares("project") == [("acme", 2.5, 2)]
    later = world.start + timedelta(minutes=1, seconds=5)
    assert shares("project", from_at=later) == [("acme", 2.0, 2)]
    assert shares("project", to_at=later) == [("acme", 0.5, 2)]
    assert [run.cost for name in "bc" for run in world.runs(name)] == [1.25, 1.25]


def in_minutes(world: World, number: int) -> str:
    return utc_text(world.start + timedelta(minutes=number))
