"""Runs for a time that has passed: what is made, what is left alone, and what is refused (X-11)."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from reconcile.decide.admission import Pace
from reconcile.observations.runs import RunsBackfilled
from reconcile.queries.audit import audit_faults, audit_trigger
from reconcile.queries.explain import explain_trigger
from reconcile.report.audit import AuditResult
from reconcile.runs.manual import backfill
from reconcile.runs.manual.backfill import Backfilled, BackfillRequest
from reconcile.triggers.caller import Caller
from reconcile.triggers.holds import Holds
from revisions.errors import Conflict, Invalid, NotFound
from revisions.store import occurrences
from tests.observing import only
from tests.world import UNLIMITED, World, key

MINUTE = timedelta(minutes=1)
LEASE = timedelta(seconds=60)


def minutes(world: World) -> list[int]:
    """The scheduled minutes of the runs, counted from eight o'clock."""
    return [round((run.scheduled_at - world.start) / MINUTE) for run in world.runs()]


def ids(done: Backfilled) -> list[str]:
    return [fire.id for fire, _ in done.made]


def is_clean(world: World) -> bool:
    return audit_faults(world.database, Pace().grace, key("tick")) == []


def claimed(world: World, number: int = 10) -> list[int]:
    """The scheduled minutes of what a worker gets that asks for some runs."""
    return [round((run.scheduled_at - world.start) / MINUTE) for run in world.claim(limit=number)]


def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill, "BATCH", 3)


def test_each_occurrence_of_the_time_gets_its_run(world: World) -> None:
    """X-02, X-11: from the first instant up to the last, which is out; by whom, for when, and one after the other."""
    world.create(input={"region": "emea", "size": 1})
    world.deactivate("tick", 1)
    world.advance(minutes=10)
    done = world.backfill(1, 4, input={"size": 2})
    assert [fire.at for fire, _ in done.made] == [world.start + minute * MINUTE for minute in (1, 2, 3)]
    assert (minutes(world), done.existing, done.undecided) == ([1, 2, 3], 0, 0)
    [first, *_] = world.runs()
    assert (first.id, first.occurrence_id) == (done.made[0][1], "every/2026-03-02T08:01:00Z")
    assert (first.source, first.actor, first.overlap, first.revision) == ("backfill", "ann", "queue_all", 2)
    assert (first.input, first.created_at) == ('{"region":"emea","size":2}', world.clock_now())
    assert (world.status().run_count, world.status().last_run_id) == (3, done.made[-1][1])
    assert claimed(world) == [1]


def test_a_time_before_the_trigger_was_there(world: World) -> None:
    """X-11: the current schedule says what belongs to it; the audit of the trigger's own life stays clean."""
    world.create()
    assert len(world.backfill(-60, 0).made) == 60
    assert minutes(world)[0] == -60
    assert is_clean(world)


def test_once_more_makes_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-01, X-11: what has its run keeps it, whoever made it; in batches of any size."""
    in_parts(monkeypatch)
    world.create(overlap="allow")
    world.advance(minutes=2)
    world.resync()
    [by_loop] = world.runs()
    first = world.backfill(-6, 3)
    assert (len(first.made), first.existing) == (8, 1)
    again = world.backfill(-6, 3)
    assert (again.made, again.existing) == ([], 9)
    assert by_loop in world.runs()
    assert len(world.runs()) == 9


def test_nothing_later_than_now(world: World) -> None:
    """X-11: what is still to come is the schedule's own; under a spread it comes later than its nominal time."""
    world.create()
    world.advance(minutes=3)
    done = world.backfill(1, 60)
    assert minutes(world) == [1, 2, 3]
    assert done.until == world.clock_now()
    world.create("wide", schedule={"every": "1h", "spread": "59m"})
    assert world.backfill(0, 60, "wide").made == []


def test_what_was_not_decided_yet_is_not_made_twice(world: World) -> None:
    """X-11, S-05: the loop finds the runs that a backfill made of what is due, and counts each once."""
    world.create(catchup={"policy": "all"}, overlap="allow")
    world.advance(minutes=30)
    world.backfill(1, 20)
    world.resync()
    assert minutes(world) == list(range(1, 31))
    assert world.status().run_count == 30
    assert is_clean(world)


def test_a_schedule_that_counts_its_starts_keeps_what_is_undecided(world: World) -> None:
    """S-07, X-11: a backfill is no start of the schedule's; what that has still to decide is left to it, and told."""
    world.create(schedule={"every": "1m", "count": 3}, catchup={"policy": "all"}, overlap="allow")
    world.advance(minutes=2)
    world.resync()
    world.advance(minutes=3)
    done = world.backfill(-2, 6)
    assert (len(done.made), done.existing, done.undecided) == (3, 2, 3)
    assert len(world.backfill(3, 6, force=True).made) == 3
    world.resync()
    scheduled = [run for run in world.runs() if run.source == "schedule"]
    assert len(scheduled) == 3
    assert is_clean(world)


def test_what_was_skipped_may_be_made_up_for(world: World) -> None:
    """X-11, E-05: the ledger tells both, the audit the skip with the later run, the explanation the run."""
    world.create(overlap="allow")
    world.advance(minutes=5)
    world.resync()
    assert [(skip.outcome, skip.count) for skip in world.skips()] == [("missed", 4)]
    world.backfill(2, 3)
    [made, _] = world.runs()
    with world.database.read() as connection:
        ledger = occurrences.ledger(connection, world.id("tick"), None, 10)
    assert [line.outcome for line in ledger] == ["started", "started", "missed"]
    audited = audit_trigger(world.database, Pace().grace, key("tick"), world.start, None, 10)
    [line] = [line for line in audited.lines if line.at == made.scheduled_at]
    assert (line.kind, line.outcome, line.run_id) == (AuditResult.SKIPPED, "missed", made.id)
    assert is_clean(world)
    told = explain_trigger(world.database, key("tick"), made.scheduled_at).explanation.sentences[0]
    assert told.startswith(f"Run {made.id} was made by ann at 2026-03-02T08:05:00Z")
    assert told.endswith("(backfill).")


def test_force_makes_new_ones(world: World) -> None:
    """S-05, X-11: under ids of their own, which name the occurrence; once more makes them once more."""
    world.create()
    world.advance(minutes=2)
    world.backfill(1, 3)
    world.backfill(1, 3, force=True)
    assert len(world.backfill(1, 3, force=True).made) == 2
    assert minutes(world) == [1, 1, 1, 2, 2, 2]
    forced = [run.occurrence_id for run in world.runs() if run.occurrence_id.startswith("forced/")]
    assert len(set(forced)) == 4
    assert all(name.endswith(("/every/2026-03-02T08:01:00Z", "/every/2026-03-02T08:02:00Z")) for name in forced)
    assert is_clean(world)


def test_a_forced_backfill_is_recognised_by_its_key(world: World) -> None:
    """R-04, X-11: a repetition makes nothing more; with another input it is another request."""
    world.create()
    world.advance(minutes=2)
    ann = Caller("ann", idempotency_key="k")
    assert len(world.backfill(1, 3, caller=ann, force=True).made) == 2
    again = world.backfill(1, 3, caller=ann, force=True)
    assert (again.made, again.existing) == ([], 2)
    with pytest.raises(Conflict, match="another backfill"):
        world.backfill(1, 3, caller=ann, force=True, input={"size": 2})
    assert len(world.runs()) == 2


def test_a_look_makes_nothing(world: World) -> None:
    """X-11: a dry run answers what would be made, also under a freeze."""
    world.create()
    world.advance(minutes=5)
    world.backfill(2, 3)
    Holds(world.database, world.observations).freeze(None, None, Caller("ann", "x"))
    wish = BackfillRequest(world.start + MINUTE, world.start + 4 * MINUTE)
    seen = world.backfilling.preview(key("tick"), wish, Caller("ann"))
    assert ids(seen) == ["every/2026-03-02T08:01:00Z", "every/2026-03-02T08:03:00Z"]
    assert ([run_id for _, run_id in seen.made], seen.existing) == ([None, None], 1)
    assert len(world.runs()) == 1


def test_local_times_bear_their_own_ids(world: World) -> None:
    """S-04, S-05: the hour that comes twice is two occurrences, as it is for the schedule."""
    world.create(schedule={"cron": "30 2 * * *", "timezone": "Europe/Berlin", "fold": "both"})
    day = (world.start.replace(month=10, day=25, year=2025, hour=23) - timedelta(days=2) - world.start) / MINUTE
    done = world.backfill(day, day + 3 * 24 * 60)
    assert "cron/2025-10-26T02:30:00/Europe/Berlin" in ids(done)
    assert "cron/2025-10-26T02:30:00/Europe/Berlin/2" in ids(done)


def test_runs_side_by_side_when_asked(world: World) -> None:
    """X-09, X-11: `allow` starts them beside each other; what has no meaning for many at once is refused."""
    world.create()
    world.advance(minutes=3)
    world.backfill(1, 4, overlap="allow")
    assert sorted(claimed(world)) == [1, 2, 3]
    with pytest.raises(Invalid, match="not for backfills"):
        world.backfill(1, 4, overlap="skip")


def test_the_limit_of_running_runs_holds(world: World) -> None:
    """X-09, L-10: the rate does not limit a backfill, `max_running` does."""
    world.loop = world.another_loop(Pace(execution_qps=0.001, execution_burst=1))
    world.create()
    world.advance(minutes=9)
    assert len(world.backfill(1, 10, overlap="allow").made) == 9
    assert len(world.claim(limit=9, max_running=4)) == 4


@pytest.mark.parametrize(("first", "end"), [(4, 4), (5, 4)])
def test_a_time_that_is_none(world: World, first: int, end: int) -> None:
    """X-11: it must end after it begins."""
    world.create()
    with pytest.raises(Invalid, match="lies not before"):
        world.backfill(first, end)


def test_more_than_one_call_takes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-11: refused as a whole, and told how far one call goes; the parts together make the whole."""
    monkeypatch.setattr(backfill, "MOST", 10)
    world.create()
    world.advance(minutes=20)
    with pytest.raises(Invalid, match="more than 10 occurrences") as refused:
        world.backfill(1, 21)
    assert refused.value.errors[0].hint == "go up to 2026-03-02T08:11:00Z first, then on from there"
    assert world.runs() == []
    world.backfill(1, 11)
    world.backfill(11, 21)
    assert minutes(world) == list(range(1, 21))


def test_who_may_not_be_backfilled(world: World) -> None:
    """X-11: a trigger that never was, and one that is deleted."""
    with pytest.raises(NotFound):
        world.backfill(1, 2)
    world.create()
    world.delete("tick", 1)
    with pytest.raises(NotFound, match="deleted at revision 2"):
        world.backfill(1, 2)


def test_a_freeze_refuses_a_backfill(world: World) -> None:
    """S-13: as it refuses a fire, with reason and owner."""
    world.create()
    world.advance(minutes=5)
    Holds(world.database, world.observations).freeze("acme", None, Caller("bob", "stocktaking"))
    with pytest.raises(Conflict, match="by bob, so nothing is started: stocktaking"):
        world.backfill(1, 3)
    assert world.runs() == []


def test_an_input_that_the_task_does_not_declare(world: World) -> None:
    """X-11: refused before anything is made."""
    world.register("v2", inputs={"since": {"type": "string"}})
    world.create(task_version="v2")
    with pytest.raises(Invalid, match="is not an input of the task"):
        world.backfill(-2, 0, input={"until": "x"})
    assert len(world.backfill(-2, 0, input={"since": "x"}).made) == 2


def test_a_schedule_that_changes_on_the_way(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """L-15: each batch goes by the revision that is in force when it is made."""
    in_parts(monkeypatch)
    world.create()
    world.advance(minutes=10)

    def deploy(done: int, total: int) -> None:
        if world.status().revision == 1:
            world.update("tick", 1, schedule={"every": "2m"})

    world.backfilling.backfill(
        key("tick"), BackfillRequest(world.start, world.start + 9 * MINUTE), Caller("ann"), deploy
    )
    assert [(run.revision, round((run.scheduled_at - world.start) / MINUTE)) for run in world.runs()] == [
        (1, 0),
        (1, 1),
        (1, 2),
        (2, 4),
        (2, 6),
        (2, 8),
    ]


def test_how_far_it_is_and_what_came_of_it_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """U-01, O-05: progress batch by batch for who waits, an observation of each that made something."""
    in_parts(monkeypatch)
    world.create()
    world.backfill(-5, -3)
    heard: list[tuple[int, int]] = []
    wish = BackfillRequest(world.start - 5 * MINUTE, world.start + 3 * MINUTE)
    world.backfilling.backfill(key("tick"), wish, Caller("bob"), lambda *told: heard.append(told))
    assert heard == [(3, 6), (6, 6)]
    told = only(RunsBackfilled, world.observed)
    assert [(backfilled.actor, backfilled.number) for backfilled in told] == [("ann", 2), ("bob", 1), ("bob", 3)]


def test_two_at_once_make_each_run_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-01, X-11: whoever is first makes a run, and nobody the second; a loop beside them changes nothing."""
    monkeypatch.setattr(backfill, "BATCH", 7)
    world.create(overlap="allow", catchup={"policy": "all"})
    world.advance(minutes=60)
    barrier = threading.Barrier(3)
    done: list[Backfilled] = []
    wish = BackfillRequest(world.start - 60 * MINUTE, world.start + 61 * MINUTE)

    def one() -> None:
        barrier.wait()
        done.append(world.backfilling.backfill(key("tick"), wish, Caller("ann"), lambda *told: None))

    def loop() -> None:
        barrier.wait()
        world.another_loop(UNLIMITED).resync()

    in_threads(one, one, loop)
    world.resync()
    assert minutes(world) == list(range(-60, 61))
    by_hand = [run for run in world.runs() if run.source == "backfill"]
    assert sum(len(one.made) for one in done) == len(by_hand)
    assert all(len(one.made) + one.existing == 121 for one in done)
    assert world.status().run_count == 121
    assert is_clean(world)


def in_threads(*work: Callable[[], Any]) -> None:
    threads = [threading.Thread(target=one) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
