"""Resync, due pass and catch-up pass, called directly."""

import threading
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from sqlalchemy import text

from reconcile.decide.admission import Pace
from reconcile.decide.authority import Caller
from reconcile.decide.job_changes import JobChanges
from reconcile.observations.passes import LoopFailed, TriggerQuarantined
from revisions.errors import TriggerctlError
from revisions.ids import utc_text
from revisions.store import history_rows
from revisions.store import runs as run_store
from revisions.store import status as status_store
from tests.observing import only
from tests.waiting import PATIENCE
from tests.world import World, key


def minutes(world: World, name: str = "tick") -> list[int]:
    """Scheduled minutes of the runs, counted from the start of the world."""
    return [round((run.scheduled_at - world.start).total_seconds() / 60) for run in world.runs(name)]


def test_jobs_follow_the_active_triggers(world: World) -> None:
    """L-01: a resync adds, replaces and removes jobs as the triggers say; a second one changes nothing."""
    for name in ("a", "b", "c"):
        world.create(name)
    a, b, c = (world.id(name) for name in ("a", "b", "c"))
    assert world.loop.resync() == JobChanges(added=tuple(sorted((a, b, c))), replaced=(), removed=())
    assert not world.loop.resync()
    world.update("a", 1, description="new")
    world.deactivate("b", 1)
    world.delete("c", 1)
    changes = world.loop.resync()
    assert (changes.added, changes.replaced, set(changes.removed)) == ((), (a,), {b, c})
    assert world.loop.timers.jobs() == {a: 2}
    assert not world.loop.resync()


def test_an_alarm_waits_for_the_next_fire(world: World) -> None:
    """L-01: the alarm is set for the next fire on this host's clock, whatever the server's clock shows."""
    world.create()
    world.advance(seconds=20)
    world.resync()
    alarm = world.loop.timers.next_alarm(world.id("tick"))
    world.loop.timers.set("reference", 1, timedelta(seconds=40))
    reference = world.loop.timers.next_alarm("reference")
    assert alarm is not None
    assert reference is not None
    assert abs(alarm - reference) < timedelta(seconds=10)


def test_a_lost_alarm_costs_one_interval(world: World) -> None:
    """L-03: each resync reads from the database what is due, so an occurrence starts even if no alarm goes off."""
    world.create()
    world.resync()
    world.loop.timers.remove(world.id("tick"))
    world.advance(minutes=1)
    world.resync()
    assert minutes(world) == [1]


def test_a_doubled_or_early_alarm_does_nothing(world: World) -> None:
    """L-03: an alarm that goes off twice or too early starts nothing that is not due."""
    world.create()
    world.resync()
    ids = [world.id("tick")]
    world.loop.due(ids)
    world.advance(minutes=1)
    world.loop.due(ids)
    world.loop.due(ids)
    assert minutes(world) == [1]


@pytest.mark.parametrize("policy", ["all", "latest", "none"])
def test_registering_never_fires_the_past(world: World, policy: str) -> None:
    """L-05: a new trigger, under any policy, fires no occurrence from before its registration."""
    world.create(catchup={"policy": policy}, schedule={"every": "1m", "anchor": "2026-01-01T00:00:00Z"})
    world.resync()
    assert (world.runs(), world.skips()) == ([], [])


def test_policy_none_starts_only_live_occurrences(world: World) -> None:
    """L-06: under `none` the newest occurrence starts if it is live; older ones are recorded as missed."""
    world.create(catchup={"policy": "none"}, schedule={"every": "10m"})
    world.advance(minutes=21)
    world.resync()
    assert minutes(world) == [20]
    world.advance(minutes=22)
    world.resync()
    assert minutes(world) == [20]
    assert [(skip.outcome, skip.count) for skip in world.skips()] == [("missed", 1), ("missed", 2)]


def test_policy_latest_starts_the_newest_however_old(world: World) -> None:
    """L-06, S-06: under `latest` the newest occurrence starts, live or not; the others are one missed range."""
    world.create(schedule={"every": "15m"})
    world.advance(hours=3, minutes=7)
    world.resync()
    assert minutes(world) == [180]
    (skip,) = world.skips()
    assert (skip.outcome, skip.reason, skip.count) == ("missed", "", 11)
    world.resync()
    assert len(world.runs()) == 1


def test_policy_latest_respects_its_window(world: World) -> None:
    """L-06: an occurrence older than the window does not start."""
    world.create(schedule={"every": "1d"}, catchup={"policy": "latest", "window": "1h"})
    world.advance(hours=30)
    world.resync()
    assert world.runs() == []
    assert [skip.outcome for skip in world.skips()] == ["missed"]


def test_policy_all_starts_live_occurrences_and_stores_the_missed(world: World) -> None:
    """L-06: under `all` every live occurrence fires at once and the missed range is a backlog, oldest first, capped."""
    world.loop = world.another_loop(Pace(execution_qps=0, max_catchup_runs_per_loop=4))
    world.create(catchup={"policy": "all"})
    world.advance(minutes=10)
    world.resync()
    assert minutes(world) == [1, 2, 3, 4, 9, 10]
    world.resync()
    assert len(world.runs()) == 6, "the cap holds for the whole slot of the interval"
    world.advance(seconds=30)
    world.resync()
    assert minutes(world) == [*range(1, 11)]
    assert world.skips() == []


def test_the_cap_holds_for_all_replicas_together(world: World) -> None:
    """L-06: two loops share the cap of an interval; occurrences beyond it start in a later interval."""
    pace = Pace(execution_qps=0, max_catchup_runs_per_loop=5)
    first, second = world.another_loop(pace), world.another_loop(pace)
    world.create(catchup={"policy": "all"})
    world.advance(minutes=30)
    first.resync()
    live = 2
    second.resync()
    assert len(world.runs()) == 5 + live
    for _ in range(5):
        world.advance(seconds=30)
        second.resync()
        first.resync()
    assert minutes(world)[:28] == [*range(1, 29)]


def test_the_least_recently_served_backlog_goes_first(world: World) -> None:
    """L-06: under the cap the backlogs take turns."""
    world.loop = world.another_loop(Pace(execution_qps=0, max_catchup_runs_per_loop=1))
    for name in ("a", "b", "c"):
        world.create(name, catchup={"policy": "all"}, schedule={"every": "1h"})
    world.advance(hours=10, minutes=30)
    for _ in range(6):
        world.resync()
        world.advance(seconds=30)
    assert [len(world.runs(name)) for name in ("a", "b", "c")] == [2, 2, 2]


def test_a_backlog_gives_up_what_lies_before_its_window(world: World) -> None:
    """L-06: occurrences of a backlog that are older than `window` become one missed range."""
    world.create(catchup={"policy": "all", "window": "1h"}, schedule={"every": "10m"})
    world.advance(hours=10, minutes=5)
    world.resync()
    assert minutes(world) == [550, 560, 570, 580, 590, 600]
    (skip,) = world.skips()
    assert (skip.outcome, skip.count) == ("missed", 54)


def test_every_occurrence_is_decided_exactly_once(world: World) -> None:
    """L-06: after outages of any length every minute has either one run or one recorded skip."""
    world.loop = world.another_loop(Pace(execution_qps=0, max_catchup_runs_per_loop=7))
    world.create("all", catchup={"policy": "all"}, overlap="allow")
    world.create("latest", overlap="allow")
    for outage in (90, 30, 3000, 61, 59, 700, 30, 30, 1, 4000):
        world.advance(seconds=outage)
        world.resync()
    for _ in range(60):
        world.advance(seconds=30)
        world.resync()
    for name in ("all", "latest"):
        decided = [run.scheduled_at for run in world.runs(name)]
        for skip in world.skips(name):
            at = skip.scheduled_at
            while at <= skip.scheduled_until:
                decided.append(at)
                at += timedelta(minutes=1)
        assert all(second - first == timedelta(minutes=1) for first, second in pairwise(sorted(decided)))
        assert sorted(decided)[0] == world.start + timedelta(minutes=1)


def test_catch_up_runs_on_start(world: World) -> None:
    """L-07: the first resync of a new controller catches up what was missed while none ran."""
    world.create(catchup={"policy": "all"})
    world.advance(hours=1)
    world.another_loop().resync()
    assert minutes(world) == [*range(1, 61)]


def test_a_year_of_missed_minutes_costs_as_much_as_the_cap(world: World) -> None:
    """L-08: only as many occurrences as the cap allows are computed, and the backlog is one row."""
    world.loop = world.another_loop(Pace(execution_qps=0, max_catchup_runs_per_loop=3))
    world.create(catchup={"policy": "all"})
    world.advance(days=365)
    world.resync()
    assert len(world.runs()) == 3 + 2
    with world.database.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM catchup_backlogs")).scalar() == 1


def test_a_long_skipped_range_is_one_row(world: World) -> None:
    """L-06: the count of a range is exact up to 1,000 occurrences, and None above."""
    world.create()
    world.advance(days=365)
    world.resync()
    (skip,) = world.skips()
    assert (skip.count, skip.outcome) == (None, "missed")


def test_the_rate_holds_for_all_replicas_together(world: World) -> None:
    """L-10: two loops take from one bucket; an occurrence without a token stays undecided until it gets one."""
    pace = Pace(execution_qps=1, execution_burst=3)
    first, second = world.another_loop(pace), world.another_loop(pace)
    for number in range(10):
        world.create(f"t{number}")
    world.advance(minutes=1)
    first.resync()
    second.resync()
    names = [f"t{number}" for number in range(10)]
    assert sum(len(world.runs(name)) for name in names) == 3
    assert sum(len(world.skips(name)) for name in names) == 0
    for _ in range(7):
        world.advance(seconds=1)
        second.resync()
        first.resync()
    assert sum(len(world.runs(name)) for name in names) == 10


def test_an_occurrence_that_never_got_a_token_is_skipped_for_the_rate(world: World) -> None:
    """L-06: an occurrence that was live and never got a token is skipped with the reason `rate`."""
    world.create("first", overlap="allow")
    world.create("second", overlap="allow")
    world.loop = world.another_loop(Pace(execution_qps=0.001, execution_burst=1))
    world.advance(minutes=1)
    world.resync()
    world.loop = world.another_loop()
    world.advance(minutes=1)
    world.resync()
    waited = next(name for name in ("first", "second") if world.skips(name))
    assert [(skip.outcome, skip.reason) for skip in world.skips(waited)] == [("missed", "rate")]
    assert world.status(waited).rate_waiting_since is None


def test_the_rate_can_be_switched_off(world: World) -> None:
    """L-02: `execution_qps` 0 means no limit."""
    for number in range(50):
        world.create(f"t{number}")
    world.advance(minutes=1)
    world.resync()
    assert sum(len(world.runs(f"t{number}")) for number in range(50)) == 50


def test_grace_is_never_under_two_intervals() -> None:
    """L-06: live grace is at least two resync intervals."""
    assert Pace(resync_interval=timedelta(minutes=5)).grace == timedelta(minutes=10)
    assert Pace().grace == timedelta(seconds=60)


def test_a_failed_creation_does_not_move_the_watermark(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """L-11: if the insert of runs fails, nothing of the pass is stored, and a later pass creates the run."""
    world.create()
    before = world.status().watermark
    world.advance(minutes=1)
    with monkeypatch.context() as broken:
        broken.setattr(run_store, "create", lambda *_: 1 / 0)
        world.loop.resync()
    assert world.status().watermark == before
    assert only(TriggerQuarantined, world.observed)
    world.observed.clear()
    world.resync()
    assert minutes(world) == []
    world.advance(seconds=30)
    world.resync()
    assert minutes(world) == [1]


def test_one_bad_row_does_not_hold_up_the_others(world: World) -> None:
    """L-13: a trigger that cannot be decided is put in quarantine; the rest of its batch commits."""
    for name in ("a", "bad", "c"):
        world.create(name)
    with world.database.write() as connection:
        connection.execute(
            text("UPDATE triggers SET spec = :spec WHERE name = 'bad'"),
            {"spec": '{"schedule":{"every":"often"},"task_version":"v1"}'},
        )
    world.advance(minutes=1)
    world.loop.resync()
    assert (minutes(world, "a"), minutes(world, "bad"), minutes(world, "c")) == ([1], [], [1])
    assert [apart.trigger_id for apart in only(TriggerQuarantined, world.observed)] == [world.id("bad")]


def test_a_pause_between_alarm_and_decision_starts_nothing(world: World) -> None:
    """L-15: a pass over a trigger that was paused since its alarm starts nothing, however long the pause lasts."""
    world.create(overlap="allow")
    world.resync()
    world.advance(minutes=1)
    world.deactivate("tick", 1)
    world.loop.due([world.id("tick")])
    world.advance(minutes=5)
    world.loop.due([world.id("tick")])
    assert world.runs() == []
    assert [(skip.outcome, skip.count) for skip in world.skips()] == [("superseded", 1)], "of the minute before"


def test_a_rename_leaves_what_is_undecided_to_the_next_pass(world: World) -> None:
    """R-21, R-22: a rename declares no baseline, so occurrences before it are started or caught up afterwards."""
    world.create(catchup={"policy": "all"})
    world.resync()
    world.advance(minutes=5)
    world.rename("tick", "tock", 1)
    assert world.skips("tock") == []
    world.resync()
    assert minutes(world, "tock") == [1, 2, 3, 4, 5]


def test_a_change_sets_the_alarm_again(world: World) -> None:
    """L-01: a deploy with another schedule moves the alarm to the new schedule's next fire."""
    world.create(schedule={"every": "1d"})
    world.resync()
    assert until_alarm(world) > timedelta(hours=15)
    world.update("tick", 1, schedule={"every": "1h"})
    world.resync()
    assert until_alarm(world) < timedelta(hours=1, seconds=10)


def test_a_revision_that_is_announced_again_sets_the_alarm_again(world: World) -> None:
    """L-01, R-17: the job has that revision already, but its next fire may have moved."""
    world.create(schedule={"every": "1d"})
    world.resync()
    with world.database.write() as connection:
        status_store.recompute_next_fire(connection, [world.id("tick")], world.start + timedelta(hours=1))
        history_rows.announce(connection, [(world.id("tick"), 1)])
    world.resync()
    assert until_alarm(world) < timedelta(hours=1, seconds=10)


def until_alarm(world: World) -> timedelta:
    """Time from now, by this host's clock, until the alarm of `tick`."""
    alarm = world.loop.timers.next_alarm(world.id("tick"))
    assert alarm is not None
    return alarm - datetime.now(UTC)


def test_a_trigger_with_a_backlog_is_not_completed(world: World) -> None:
    """S-15, L-06: with no fire left but a backlog the trigger stays active until the backlog is started."""
    until = utc_text(world.start + timedelta(minutes=5))
    world.create(schedule={"every": "1m", "until": until}, catchup={"policy": "all"})
    world.loop = world.another_loop_without_catch_up()
    world.advance(hours=1)
    world.resync()
    world.resync()
    assert (world.status().next_fire_at, world.runs()) == (None, [])
    assert len(world.history()) == 1
    world.loop = world.another_loop()
    world.resync()
    assert minutes(world) == [1, 2, 3, 4, 5]
    world.resync()
    assert world.history()[0].reason == "completed"


def test_catch_up_says_that_it_waits_for_a_token(world: World) -> None:
    """L-09, L-10: each caught-up start takes a token; without one the backlog waits, and the pass says so."""
    world.create(catchup={"policy": "all"}, schedule={"every": "10m"})
    world.loop = world.another_loop_without_catch_up()
    world.advance(minutes=48)
    world.resync()
    world.loop = world.another_loop(Pace(execution_qps=0.5, execution_burst=3))
    assert world.loop.catch_up()
    assert minutes(world) == [10, 20, 30]
    assert world.loop.catch_up()
    assert minutes(world) == [10, 20, 30]
    world.advance(seconds=10)
    assert not world.loop.catch_up()
    assert minutes(world) == [10, 20, 30, 40]


def test_a_run_carries_the_revision_in_force(world: World) -> None:
    """L-15: a run is decided from the revision that is current under the lock; its key is without it."""
    world.create()
    world.resync()
    world.advance(minutes=1)
    world.update("tick", 1, input={"n": 2})
    world.loop.due([world.id("tick")])
    (run,) = world.runs()
    assert (run.revision, run.input, run.occurrence_id) == (2, '{"n":2}', "every/2026-03-02T08:01:00Z")


def test_creating_a_run_again_keeps_the_first(world: World) -> None:
    """X-01: the unique key keeps one run per trigger and occurrence; a second insert changes nothing."""
    world.create(overlap="allow")
    world.advance(minutes=1)
    world.resync()
    (first,) = world.runs()
    with world.database.write() as connection:
        connection.execute(text("UPDATE trigger_status SET watermark = :at"), {"at": _stored(world)})
    world.resync()
    world.loop.due([world.id("tick")])
    assert world.runs() == [first]
    assert world.status().last_run_id == first.id


def _stored(world: World) -> object:
    """Return the start of the world as the database stores it."""
    return world.start if not world.database.is_sqlite else world.start.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def test_overlap_skip_records_overlapping_occurrences(world: World) -> None:
    """X-09: under `overlap: skip` an occurrence is skipped as `concurrency` while a run of the trigger is live."""
    world.create()
    for _ in range(3):
        world.advance(minutes=1)
        world.resync()
    assert minutes(world) == [1]
    assert [skip.outcome for skip in world.skips()] == ["concurrency", "concurrency"]
    assert world.status().last_outcome == "concurrency"


def test_overlap_allow_starts_every_occurrence(world: World) -> None:
    """X-09: runs of the trigger overlap."""
    world.create(overlap="allow")
    for _ in range(3):
        world.advance(minutes=1)
        world.resync()
    assert minutes(world) == [1, 2, 3]


def test_a_one_shot_fires_once_and_is_completed(world: World) -> None:
    """S-15: with no fire left the system deactivates the trigger with the reason `completed`; its run stays."""
    world.create(schedule={"at": "2026-03-02T09:00:00Z"})
    world.resync()
    world.advance(hours=5)
    world.resync()
    (run,) = world.runs()
    assert (run.occurrence_id, run.status) == ("at/2026-03-02T09:00:00Z", "pending")
    newest = world.history()[0]
    assert (newest.action, newest.actor, newest.reason) == ("DEACTIVATE", "system", "completed")
    world.resync()
    assert len(world.history()) == 2


def test_failures_at_the_limit_start_nothing_more(world: World) -> None:
    """X-07: at the failure limit the due pass starts nothing, and the trigger is deactivated with reason `failures`."""
    world.create(deactivate_after=2)
    with world.database.write() as connection:
        connection.execute(text("UPDATE trigger_status SET consecutive_failures = 2"))
    world.advance(minutes=1)
    world.resync()
    assert world.runs() == []
    assert world.history()[0].reason == "failures"
    world.activate("tick", 2)
    assert world.status().consecutive_failures == 0


def test_two_loops_woken_for_everything_start_nothing_twice(world: World) -> None:
    """L-14: all replicas decide all triggers at once; row locks split the work, and the unique key is the safety."""
    names = [f"t{number}" for number in range(40)]
    for name in names:
        world.create(name)
    ids = [world.id(name) for name in names]
    for _ in range(3):
        world.advance(minutes=1)
        loops = [world.another_loop() for _ in range(3)]
        threads = [threading.Thread(target=loop.due, args=(ids,)) for loop in loops]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    world.resync()
    for name in names:
        assert len(world.runs(name)) + sum(skip.count or 0 for skip in world.skips(name)) == 3
    assert only(TriggerQuarantined, world.observed) == []


def test_a_manual_run_needs_no_schedule_and_no_activation(world: World) -> None:
    """X-11: `fire` works on an inactive trigger, not on a deleted one; its input is merged over the trigger's."""
    world.create(active=False, input={"a": 1, "b": 1})
    run = world.fire(key("tick"), {"b": 2}, Caller("ann", idempotency_key="k"))
    assert (run.source, run.occurrence_id, run.input) == ("manual", "manual/k", '{"a":1,"b":2}')
    assert world.fire(key("tick"), {"b": 2}, Caller("ann", idempotency_key="k")) == run
    with pytest.raises(TriggerctlError, match="another fire"):
        world.fire(key("tick"), {"b": 3}, Caller("ann", idempotency_key="k"))
    with pytest.raises(TriggerctlError, match=run.id):
        world.fire(key("tick"), None, Caller("ann"))
    assert world.fire(key("tick"), None, Caller("ann"), overlap="allow").status == "pending"
    world.delete("tick", 1)
    with pytest.raises(TriggerctlError, match="deleted"):
        world.fire(key("tick"), None, Caller("ann"))


def test_stopping_waits_for_the_pass_that_is_under_way(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """L-14: a loop that is stopped during a pass completes it, including its alarms, without an error."""
    world.create()
    world.resync()
    world.loop.start()
    in_pass, stopping = threading.Event(), threading.Event()
    set_alarm = world.loop.timers.set

    def slow(*arguments: object) -> None:
        in_pass.set()
        assert stopping.wait(PATIENCE)
        set_alarm(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(world.loop.timers, "set", slow)
    world.advance(minutes=1)
    world.loop.wake()
    assert in_pass.wait(PATIENCE)
    stop = threading.Thread(target=world.loop.stop)
    stop.start()
    while world.loop.due_queue.is_open:
        stop.join(0.001)
    stopping.set()
    stop.join(PATIENCE)
    assert not stop.is_alive()
    assert only(LoopFailed, world.observed) == []
    assert minutes(world) == [1]
