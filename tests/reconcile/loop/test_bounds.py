"""Bounds of schedules in the loop: start and end, count, closed days, spread, and the fire that a run requests."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from reconcile.decide.attempt_ends import AttemptOutcome, requested_fire
from reconcile.decide.authority import Caller
from reconcile.decide.preconditions import Expected
from reconcile.decide.terms import offset
from reconcile.observations.passes import PassDecided
from reconcile.observations.runs import FireRequested
from reconcile.queries.audit import audit_faults
from reconcile.runs.attempt import Ended
from reconcile.runs.settle import settle
from reconcile.triggers.calendars import delete_calendar, deploy_calendar
from revisions.errors import Conflict, Invalid
from revisions.ids import utc_text
from revisions.spec.manifest import CalendarManifest
from revisions.store import status as status_store
from revisions.store.runs import Run
from tests.observing import only
from tests.world import World, key


def minutes(world: World, name: str = "tick") -> list[int]:
    """Return the scheduled minutes of the runs, counted from the start of the world."""
    return [round((run.scheduled_at - world.start).total_seconds() / 60) for run in world.runs(name)]


def at(world: World, **span: float) -> str:
    return utc_text(world.start + timedelta(**span))


def resync_after_each(world: World, passes: int, **span: float) -> None:
    """Advance the clock by `span` several times, with a resync after each step."""
    for _ in range(passes):
        world.advance(**span)
        world.resync()


def test_nothing_fires_before_its_start_or_after_its_end(world: World) -> None:
    """S-07: from `start` to `until`, both included; then the trigger is completed."""
    world.create(
        schedule={"every": "1m", "start": at(world, minutes=3), "until": at(world, minutes=5)}, overlap="allow"
    )
    resync_after_each(world, 7, minutes=1)
    assert minutes(world) == [3, 4, 5]
    assert world.history()[0].reason == "completed"


def test_a_trigger_is_completed_after_count_starts(world: World) -> None:
    """S-07: after `count` starts the trigger is completed, and cannot be activated until its spec is changed."""
    world.create(schedule={"every": "1m", "count": 3}, overlap="allow")
    resync_after_each(world, 5, minutes=1)
    assert minutes(world) == [1, 2, 3]
    assert world.history()[0].reason == "completed"
    with pytest.raises(Invalid, match="all 3 occurrences have started"):
        world.activate("tick", 2)
    world.update("tick", 2, schedule={"every": "1m", "count": 4}, active=True, overlap="allow")
    resync_after_each(world, 6, minutes=1)
    assert len(world.runs()) == 3 + 4


def test_skipped_occurrences_do_not_count(world: World) -> None:
    """S-07: `count` counts only started occurrences, and a new baseline sets the number to zero."""
    world.create(schedule={"every": "1m", "count": 3}, overlap="skip")
    resync_after_each(world, 3, minutes=1)
    assert (minutes(world), world.status().started_count) == ([1], 1)
    world.deactivate("tick", 1)
    world.activate("tick", 2)
    assert world.status().started_count == 0


def test_count_limits_live_and_caught_up_starts_together(world: World) -> None:
    """S-07: occurrences of the backlog beyond the count are recorded as missed with the reason `count`."""
    world.create(schedule={"every": "1m", "count": 3}, catchup={"policy": "all"})
    world.advance(minutes=10)
    world.resync()
    assert minutes(world) == [1, 9, 10]
    assert [(skip.outcome, skip.reason, skip.count) for skip in world.skips()] == [("missed", "count", 7)]
    world.advance(minutes=1)
    world.resync()
    assert world.history()[0].reason == "completed"


def test_excluded_days_have_no_occurrences(world: World) -> None:
    """S-07: nothing fires on an excluded day, and nothing is recorded for it."""
    first = world.start.date() + timedelta(days=1)
    days = f"{first}/{first + timedelta(days=1)}"
    world.create(schedule={"cron": "0 9 * * *", "exclude": [days]}, overlap="allow")
    resync_after_each(world, 5, days=1)
    offsets = [(run.scheduled_at.date() - world.start.date()).days for run in world.runs()]
    assert (offsets, world.skips()) == ([0, 3, 4], [])


@pytest.mark.parametrize(
    ("schedule", "path", "message"),
    [
        ({"every": "1m", "until": "2020-01-01T00:00:00Z"}, "spec.schedule.until", "is past"),
        ({"every": "1m", "start": "2030-01-01"}, "spec.schedule.start", "not an instant"),
        ({"every": "1m", "count": 0}, "spec.schedule.count", "not a number of starts"),
        ({"every": "1m", "spread": "2d"}, "spec.schedule.spread", "not between 1s and 1d"),
        ({"cron": "0 0 25 12 *", "exclude": ["12-25"]}, "spec.schedule.exclude[0]", "is not a date"),
        ({"cron": "0 0 25 12 *", "exclude": ["2026-02-30"]}, "spec.schedule.exclude[0]", "is not a date"),
        ({"at": "2099-01-01T00:00:00Z", "count": 2}, "spec.schedule.count", "only beside cron and every"),
        ({"every": "1m", "calendars": ["nowhere"]}, "spec.schedule.calendars[0]", "no calendar 'nowhere'"),
        (
            {"every": "1m", "start": "2099-01-02T00:00:00Z", "until": "2099-01-01T00:00:00Z"},
            "spec.schedule.until",
            "lies before start",
        ),
        (
            {"cron": "0 0 1 1 *", "start": "2098-01-02T00:00:00Z", "until": "2098-02-01T00:00:00Z"},
            "spec.schedule.cron",
            "no fire ahead within start, until",
        ),
    ],
)
def test_meaningless_bounds_are_refused(world: World, schedule: dict[str, Any], path: str, message: str) -> None:
    """S-02: each error names the field and says why."""
    with pytest.raises(Invalid, match=message) as refused:
        world.create(schedule=schedule)
    assert refused.value.errors[0].path == path


def test_spread_delays_the_start_and_keeps_the_scheduled_time(world: World) -> None:
    """S-12: each trigger starts a fixed delay after its nominal time, which remains the scheduled time."""
    names = [f"t{number}" for number in range(6)]
    for name in names:
        world.create(name, schedule={"every": "1h", "spread": "10m"}, overlap="allow")
    late = {name: offset(timedelta(minutes=10), str(key(name))) for name in names}
    assert len(set(late.values())) > 3
    world.advance(hours=1)
    for _ in range(10 * 60 // 15):
        world.resync()
        for name in names:
            is_due = world.clock_now() >= world.start + timedelta(hours=1) + late[name]
            assert minutes(world, name) == ([60] if is_due else [])
        world.advance(seconds=15)
    world.resync()
    assert all(world.status(name).next_fire_at == world.start + timedelta(hours=2) + late[name] for name in names)


def test_a_pass_before_the_end_of_the_spread_delay_starts_nothing(world: World) -> None:
    """S-12: such a pass follows, for example, the change of a calendar."""
    world.create(schedule={"every": "1h", "spread": "30m"})
    delay = offset(timedelta(minutes=30), str(key("tick")))
    assert delay > timedelta(minutes=1)
    world.advance(hours=1, seconds=30)
    with world.database.write() as connection:
        status_store.recompute_next_fire(connection, [world.id("tick")], world.clock_now())
    world.resync()
    assert world.runs() == []
    assert world.status().next_fire_at == world.start + timedelta(hours=1) + delay
    world.advance(minutes=30)
    world.resync()
    assert minutes(world) == [60]


def holidays(world: World, days: list[str], **spec: Any) -> CalendarManifest:
    return CalendarManifest.read(
        {
            "apiVersion": "triggerctl/v1",
            "kind": "Calendar",
            "metadata": {"project": "acme", "name": "holidays"},
            "spec": {"owner": "ann", "dates": days, **spec},
        }
    )


def test_a_closed_day_has_no_occurrences_and_a_changed_calendar_moves_the_next_fire(world: World) -> None:
    """S-13: the change of a calendar appends no revision to the triggers that name it."""
    tomorrow = world.start.date() + timedelta(days=1)
    deploy_calendar(
        world.database, world.observations, holidays(world, [str(tomorrow)]), Expected(absent=True), Caller("ann")
    )
    world.create(schedule={"cron": "0 9 * * *", "calendars": ["holidays"]})
    world.advance(hours=2)
    world.resync()
    assert world.status().next_fire_at == world.start + timedelta(days=2, hours=1)
    deploy_calendar(world.database, world.observations, holidays(world, []), Expected(revision=1), Caller("ann"))
    world.resync()
    assert world.status().next_fire_at == world.start + timedelta(days=1, hours=1)
    assert len(world.history()) == 1


def claim_oldest(world: World) -> Run:
    """Claim the oldest pending run and return it."""
    (run,) = world.claim(limit=1)
    return run


def succeed(world: World, **output: Any) -> None:
    settle(world.database, world.observations, claim_oldest(world), Ended(AttemptOutcome.SUCCEEDED, output=output))


def test_a_run_requests_the_next_fire(world: World) -> None:
    """S-08: it replaces the schedule once; the scheduled occurrences before it are recorded as one superseded range."""
    world.create()
    world.advance(minutes=1)
    world.resync()
    first = world.runs()[0]
    succeed(world, next_fire_at=at(world, minutes=4, seconds=30))
    resync_after_each(world, 3, minutes=1)
    assert minutes(world) == [1]
    resync_after_each(world, 2, minutes=1)
    assert [run.occurrence_id for run in world.runs()[1:]] == [f"next/{first.id}"]
    assert [(skip.outcome, skip.reason, skip.count) for skip in world.skips()][:1] == [
        ("superseded", "next_fire_at", 3)
    ]
    succeed(world)
    resync_after_each(world, 2, minutes=1)
    assert minutes(world)[-1] in (6, 7)


def test_a_later_request_replaces_the_requested_fire_and_a_baseline_clears_it(world: World) -> None:
    """S-08: pausing and resuming the trigger declares the baseline."""
    world.create(overlap="allow")
    resync_after_each(world, 2, minutes=1)
    succeed(world, next_fire_at=at(world, hours=1))
    succeed(world, next_fire_at=at(world, hours=2))
    assert world.status().asked_fire_at == world.start + timedelta(hours=2)
    assert world.status().next_fire_at == world.start + timedelta(hours=2)
    world.deactivate("tick", 1)
    world.activate("tick", 2)
    assert world.status().asked_fire_at is None
    assert world.status().next_fire_at == world.start + timedelta(minutes=3)


def test_a_requested_fire_in_the_past_is_moved_to_one_second_ahead(world: World) -> None:
    """S-08: a value that is not an instant is ignored. The log tells either."""
    now = datetime.fromisoformat("2026-03-02T08:00:00+00:00")
    clamped = requested_fire({"next_fire_at": "2026-03-02T07:00:00Z"}, now)
    assert clamped is not None
    assert (clamped.at, "was not ahead" in clamped.note) == (now + timedelta(seconds=1), True)
    wrong = requested_fire({"next_fire_at": "tomorrow"}, now)
    assert wrong is not None
    assert (wrong.at, "not an instant" in wrong.note) == (None, True)
    world.create()
    world.advance(minutes=1)
    world.resync()
    succeed(world, next_fire_at=at(world, minutes=-5))
    world.advance(seconds=1)
    world.resync()
    assert len(world.runs()) == 2
    assert "was not ahead" in (only(FireRequested, world.observed)[0].note or "")


def test_closing_a_past_day_records_its_undecided_occurrences(world: World) -> None:
    """S-13, invariant 4: they become one superseded range; decided occurrences of the day stay."""
    deploy_calendar(world.database, world.observations, holidays(world, []), Expected(absent=True), Caller("ann"))
    world.create(schedule={"every": "1h", "calendars": ["holidays"]}, overlap="allow", catchup={"policy": "all"})
    world.loop = world.another_loop_without_catch_up()
    world.advance(days=1, hours=4)
    world.resync()
    assert [run.scheduled_at for run in world.runs()] == [world.start + timedelta(days=1, hours=4)]
    deploy_calendar(
        world.database,
        world.observations,
        holidays(world, [str(world.start.date())]),
        Expected(revision=1),
        Caller("ann"),
    )
    superseded = [(skip.outcome, skip.reason, skip.count) for skip in world.skips()]
    assert superseded == [("superseded", "calendar", 15)]
    world.loop = world.another_loop()
    world.advance(minutes=1)
    world.resync()
    assert len(world.runs()) == 1 + 12
    assert audit_faults(world.database, timedelta(minutes=1), key("tick")) == []


@pytest.mark.parametrize("how", ["deactivated", "deleted"])
@pytest.mark.parametrize("closes", [True, False], ids=["closed", "opened"])
def test_closing_or_opening_a_day_of_inactive_time_that_counts(world: World, how: str, closes: bool) -> None:
    """S-13, R-21, invariant 4: closing the day records its undecided occurrences; opening one restores none.

    The same holds for an active trigger.
    """
    today, open_day = [str(world.start.date())], list[str]()
    before, after = (open_day, today) if closes else (today, open_day)
    deploy_calendar(world.database, world.observations, holidays(world, before), Expected(absent=True), Caller("ann"))
    spec: dict[str, Any] = {
        "schedule": {"every": "1h", "calendars": ["holidays"]},
        "catchup": {"policy": "all", "inactive": True},
    }
    world.create(**spec)
    change = world.deactivate if how == "deactivated" else world.delete
    change("tick", 1)
    world.advance(hours=4)
    deploy_calendar(world.database, world.observations, holidays(world, after), Expected(revision=1), Caller("ann"))
    recorded = [(skip.outcome, skip.reason, skip.count) for skip in world.skips()]
    assert recorded == ([("superseded", "calendar", 4)] if closes else [])
    if how == "deactivated":
        world.activate("tick", 2)
    else:
        world.create(**spec)
    world.advance(minutes=1)
    world.resync()
    assert world.runs() == []
    assert audit_faults(world.database, timedelta(minutes=1), key("tick")) == []


def test_a_calendar_that_only_deleted_triggers_name_can_be_deleted(world: World) -> None:
    """S-13: even if the inactive time of these triggers counts."""
    made = deploy_calendar(
        world.database, world.observations, holidays(world, []), Expected(absent=True), Caller("ann")
    )
    world.create(schedule={"every": "1h", "calendars": ["holidays"]}, catchup={"inactive": True})
    with pytest.raises(Conflict, match="is named by acme/production/report/tick"):
        delete_calendar(world.database, world.observations, made.calendar.key, Expected(revision=1), Caller("ann"))
    world.delete("tick", 1)
    assert delete_calendar(
        world.database, world.observations, made.calendar.key, Expected(revision=1), Caller("ann")
    ).calendar.deleted


def test_a_missed_requested_fire_is_skipped_once(world: World) -> None:
    """S-08, E-05: under `catchup: none` it is observed and recorded once, and the schedule continues."""
    world.create(catchup={"policy": "none"})
    resync_after_each(world, 1, minutes=1)
    succeed(world, next_fire_at=at(world, minutes=4, seconds=30))
    world.observed.clear()
    world.advance(hours=1)
    world.resync()
    world.resync()
    decided = [decided.skips for decided in only(PassDecided, world.observed)]
    asked_for = [skip for skips in decided for skip in skips if skip.occurrence_id.startswith("next/")]
    assert [(skip.outcome, skip.count) for skip in asked_for] == [("missed", 1)]
    assert minutes(world) == [1, 61]
