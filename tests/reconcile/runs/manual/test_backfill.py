"""Backfills: which runs are created, which occurrences are left alone, and what is refused (X-11)."""

import threading
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest

from reconcile.decide.admission import Pace
from reconcile.decide.authority import Caller
from reconcile.observations.runs import RunsBackfilled
from reconcile.queries.audit import audit_faults, audit_trigger
from reconcile.queries.explain import explain_trigger
from reconcile.report.audit import AuditResult
from reconcile.runs.manual.backfill import Backfilled, BackfillRequest, backfill_trigger, preview_backfill
from reconcile.triggers import holds
from revisions.errors import Conflict, Invalid, NotFound
from revisions.store import occurrences
from revisions.store.runs import Run
from tests.observing import only
from tests.world import UNLIMITED, World, key

MINUTE = timedelta(minutes=1)
EVERY_SECOND = {"every": "1s"}
"""Schedule whose occurrences fill several batches within minutes."""


def minutes(world: World) -> list[int]:
    """Return the scheduled times of all runs, in minutes after eight o'clock."""
    return [round((run.scheduled_at - world.start) / MINUTE) for run in world.runs()]


def ids(result: Backfilled) -> list[str]:
    """Return the ids of the occurrences that got a run."""
    return [fire.id for fire, _ in result.made]


def is_clean(world: World) -> bool:
    return audit_faults(world.database, Pace().grace, key("tick")) == []


def claimed(world: World, number: int = 10) -> list[int]:
    """Claim runs, and return their scheduled times in minutes after eight o'clock."""
    return [round((run.scheduled_at - world.start) / MINUTE) for run in world.claim(limit=number)]


def seconds(runs: Iterable[Run], world: World) -> list[int]:
    """Return the scheduled times of runs, in seconds after eight o'clock."""
    return [round((run.scheduled_at - world.start).total_seconds()) for run in runs]


def test_each_occurrence_of_the_range_gets_a_run(world: World) -> None:
    """X-02, X-11: from the first instant to the last, which is excluded; with its actor, one after the other."""
    world.create(input={"region": "emea", "size": 1})
    world.deactivate("tick", 1)
    world.advance(minutes=10)
    result = world.backfill(1, 4, input={"size": 2})
    assert [fire.at for fire, _ in result.made] == [world.start + minute * MINUTE for minute in (1, 2, 3)]
    assert (minutes(world), result.existing, result.undecided) == ([1, 2, 3], 0, 0)
    [first, *_] = world.runs()
    assert (first.id, first.occurrence_id) == (result.made[0][1], "every/2026-03-02T08:01:00Z")
    assert (first.source, first.actor, first.overlap, first.revision) == ("backfill", "ann", "queue_all", 2)
    assert (first.input, first.created_at) == ('{"region":"emea","size":2}', world.clock_now())
    assert (world.status().run_count, world.status().last_run_id) == (3, result.made[-1][1])
    assert claimed(world) == [1]


def test_a_range_before_the_trigger_existed_can_be_backfilled(world: World) -> None:
    """X-11: by its current schedule; the audit of the trigger's own lifetime stays clean."""
    world.create()
    assert len(world.backfill(-60, 0).made) == 60
    assert minutes(world)[0] == -60
    assert is_clean(world)


def test_repeating_a_backfill_creates_nothing(world: World) -> None:
    """X-01, X-11: an occurrence keeps the run that it has, whoever created it; also in several batches."""
    world.create(schedule=EVERY_SECOND, overlap="allow")
    world.advance(minutes=2)
    world.resync()
    [by_loop] = world.runs()
    first = world.backfill(-8, 3)
    assert (len(first.made), first.existing) == (600, 1)
    again = world.backfill(-8, 3)
    assert (again.made, again.existing) == ([], 601)
    assert by_loop in world.runs()
    assert len(world.runs()) == 601


def test_the_range_ends_now(world: World) -> None:
    """X-11: future occurrences belong to the loop; under a spread they come after their nominal time."""
    world.create()
    world.advance(minutes=3)
    result = world.backfill(1, 60)
    assert minutes(world) == [1, 2, 3]
    assert result.until == world.clock_now()
    world.create("wide", schedule={"every": "1h", "spread": "59m"})
    assert world.backfill(0, 60, "wide").made == []


def test_the_loop_finds_backfilled_runs_of_due_occurrences(world: World) -> None:
    """X-11, S-05: it creates no second run, and counts each once."""
    world.create(catchup={"policy": "all"}, overlap="allow")
    world.advance(minutes=30)
    world.backfill(1, 20)
    world.resync()
    assert minutes(world) == list(range(1, 31))
    assert world.status().run_count == 30
    assert is_clean(world)


def test_undecided_occurrences_of_a_counting_schedule_are_left_to_the_loop(world: World) -> None:
    """S-07, X-11: backfilled runs are no starts of the schedule; the number left is reported."""
    world.create(schedule={"every": "1m", "count": 3}, catchup={"policy": "all"}, overlap="allow")
    world.advance(minutes=2)
    world.resync()
    world.advance(minutes=3)
    result = world.backfill(-2, 6)
    assert (len(result.made), result.existing, result.undecided) == (3, 2, 3)
    assert len(world.backfill(3, 6, force=True).made) == 3
    world.resync()
    scheduled = [run for run in world.runs() if run.source == "schedule"]
    assert len(scheduled) == 3
    assert is_clean(world)


def test_skipped_occurrences_can_be_backfilled(world: World) -> None:
    """X-11, E-05: the ledger shows both, the audit the skip with the later run, the explanation the run."""
    world.create(overlap="allow")
    world.advance(minutes=5)
    world.resync()
    assert [(skip.outcome, skip.count) for skip in world.skips()] == [("missed", 4)]
    world.backfill(2, 3)
    [backfilled, _] = world.runs()
    with world.database.read() as connection:
        ledger = occurrences.ledger(connection, world.id("tick"), None, 10)
    assert [line.outcome for line in ledger] == ["started", "started", "missed"]
    audited = audit_trigger(world.database, Pace().grace, key("tick"), world.start, None, 10)
    [line] = [line for line in audited.lines if line.at == backfilled.scheduled_at]
    assert (line.kind, line.outcome, line.run_id) == (AuditResult.SKIPPED, "missed", backfilled.id)
    assert is_clean(world)
    sentence = explain_trigger(world.database, key("tick"), backfilled.scheduled_at).explanation.sentences[0]
    assert sentence.startswith(f"Run {backfilled.id} was made by ann at 2026-03-02T08:05:00Z")
    assert sentence.endswith("(backfill).")


def test_force_creates_another_run_for_each_occurrence(world: World) -> None:
    """S-05, X-11: under an id of its own that names the occurrence, each time."""
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


def test_a_forced_backfill_is_recognised_by_its_idempotency_key(world: World) -> None:
    """R-04, X-11: a repetition creates nothing; with another input it is another request."""
    world.create()
    world.advance(minutes=2)
    ann = Caller("ann", idempotency_key="k")
    assert len(world.backfill(1, 3, caller=ann, force=True).made) == 2
    again = world.backfill(1, 3, caller=ann, force=True)
    assert (again.made, again.existing) == ([], 2)
    with pytest.raises(Conflict, match="another backfill"):
        world.backfill(1, 3, caller=ann, force=True, input={"size": 2})
    assert len(world.runs()) == 2


def test_a_preview_creates_nothing(world: World) -> None:
    """X-11: it returns what would be created, also under a freeze."""
    world.create()
    world.advance(minutes=5)
    world.backfill(2, 3)
    holds.freeze(world.database, world.observations, None, None, Caller("ann", "x"))
    request = BackfillRequest(world.start + MINUTE, world.start + 4 * MINUTE)
    preview = preview_backfill(world.database, key("tick"), request, Caller("ann"))
    assert ids(preview) == ["every/2026-03-02T08:01:00Z", "every/2026-03-02T08:03:00Z"]
    assert ([run_id for _, run_id in preview.made], preview.existing) == ([None, None], 1)
    assert len(world.runs()) == 1


def test_a_repeated_hour_has_two_occurrences(world: World) -> None:
    """S-04, S-05: with an id each, as for the schedule."""
    world.create(schedule={"cron": "30 2 * * *", "timezone": "Europe/Berlin", "fold": "both"})
    day = (world.start.replace(month=10, day=25, year=2025, hour=23) - timedelta(days=2) - world.start) / MINUTE
    result = world.backfill(day, day + 3 * 24 * 60)
    assert "cron/2025-10-26T02:30:00/Europe/Berlin" in ids(result)
    assert "cron/2025-10-26T02:30:00/Europe/Berlin/2" in ids(result)


def test_backfilled_runs_start_together_on_request(world: World) -> None:
    """X-09, X-11: under `allow`; policies that mean nothing for many runs at once are refused."""
    world.create()
    world.advance(minutes=3)
    world.backfill(1, 4, overlap="allow")
    assert sorted(claimed(world)) == [1, 2, 3]
    with pytest.raises(Invalid, match="not for backfills"):
        world.backfill(1, 4, overlap="skip")


def test_max_running_limits_backfilled_runs(world: World) -> None:
    """X-09, L-10: and the execution rate does not."""
    world.loop = world.another_loop(Pace(execution_qps=0.001, execution_burst=1))
    world.create()
    world.advance(minutes=9)
    assert len(world.backfill(1, 10, overlap="allow").made) == 9
    assert len(world.claim(limit=9, max_running=4)) == 4


@pytest.mark.parametrize(("first", "end"), [(4, 4), (5, 4)])
def test_an_empty_range_is_refused(world: World, first: int, end: int) -> None:
    """X-11: it must end after it begins."""
    world.create()
    with pytest.raises(Invalid, match="lies not before"):
        world.backfill(first, end)


def test_too_many_occurrences_are_refused(world: World) -> None:
    """X-11: as a whole, with how far one request may go; a second request covers the rest."""
    world.create(schedule=EVERY_SECOND)
    world.advance(minutes=200)
    with pytest.raises(Invalid, match="more than 10,000 occurrences") as refused:
        world.backfill(0, 180)
    assert refused.value.errors[0].hint == "go up to 2026-03-02T10:46:40Z first, then on from there"
    assert world.runs() == []
    edge, until = world.start + timedelta(seconds=10_000), world.start + 180 * MINUTE
    requests = BackfillRequest(world.start, edge), BackfillRequest(edge, until)
    parts = [preview_backfill(world.database, key("tick"), request, Caller("ann")) for request in requests]
    assert [len(part.made) for part in parts] == [10_000, 800]


def test_an_unknown_or_deleted_trigger_cannot_be_backfilled(world: World) -> None:
    """X-11: the error names the revision of the deletion."""
    with pytest.raises(NotFound):
        world.backfill(1, 2)
    world.create()
    world.delete("tick", 1)
    with pytest.raises(NotFound, match="deleted at revision 2"):
        world.backfill(1, 2)


def test_a_freeze_refuses_a_backfill(world: World) -> None:
    """S-13: as it refuses a fire, with owner and reason."""
    world.create()
    world.advance(minutes=5)
    holds.freeze(world.database, world.observations, "acme", None, Caller("bob", "stocktaking"))
    with pytest.raises(Conflict, match="by bob, so nothing is started: stocktaking"):
        world.backfill(1, 3)
    assert world.runs() == []


def test_an_undeclared_input_is_refused(world: World) -> None:
    """X-11: before any run is created."""
    world.register("v2", inputs={"since": {"type": "string"}})
    world.create(task_version="v2")
    with pytest.raises(Invalid, match="is not an input of the task"):
        world.backfill(-2, 0, input={"until": "x"})
    assert len(world.backfill(-2, 0, input={"since": "x"}).made) == 2


def test_each_batch_uses_the_schedule_in_force(world: World) -> None:
    """L-15: a deploy between two batches applies to the second."""
    world.create(schedule=EVERY_SECOND)
    world.advance(minutes=10)

    def deploy(done: int, total: int) -> None:
        if world.status().revision == 1:
            world.update("tick", 1, schedule={"every": "10s"})

    request = BackfillRequest(world.start, world.start + 10 * MINUTE)
    backfill_trigger(world.database, world.observations, key("tick"), request, Caller("ann"), deploy)
    by_revision = {number: [run for run in world.runs() if run.revision == number] for number in (1, 2)}
    assert seconds(by_revision[1], world) == list(range(500))
    assert seconds(by_revision[2], world) == list(range(500, 600, 10))


def test_progress_and_batches_are_reported(world: World) -> None:
    """U-01, O-05: progress after each batch, and an observation of each batch that created runs."""
    world.create(schedule=EVERY_SECOND)
    world.backfill(-5, -4)
    progress: list[tuple[int, int]] = []
    request = BackfillRequest(world.start - 10 * MINUTE, world.start)
    backfill_trigger(
        world.database,
        world.observations,
        key("tick"),
        request,
        Caller("bob"),
        lambda *counts: progress.append(counts),
    )
    assert progress == [(500, 600), (600, 600)]
    batches = only(RunsBackfilled, world.observed)
    assert [(batch.actor, batch.number) for batch in batches] == [("ann", 60), ("bob", 440), ("bob", 100)]


def test_concurrent_backfills_create_each_run_once(world: World) -> None:
    """X-01, X-11: two backfills and a loop at the same time leave one run per occurrence."""
    world.create(schedule=EVERY_SECOND, overlap="allow", catchup={"policy": "all"})
    world.advance(minutes=10)
    barrier = threading.Barrier(3)
    results: list[Backfilled] = []
    request = BackfillRequest(world.start - 10 * MINUTE, world.start + 11 * MINUTE)

    def backfill() -> None:
        barrier.wait()
        results.append(
            backfill_trigger(
                world.database, world.observations, key("tick"), request, Caller("ann"), lambda *counts: None
            )
        )

    def loop() -> None:
        barrier.wait()
        world.another_loop(UNLIMITED).resync()

    in_threads(backfill, backfill, loop)
    world.resync()
    assert seconds(world.runs(), world) == list(range(-600, 601))
    by_hand = [run for run in world.runs() if run.source == "backfill"]
    assert sum(len(result.made) for result in results) == len(by_hand)
    assert all(len(result.made) + result.existing == 1201 for result in results)
    assert world.status().run_count == 1201
    assert is_clean(world)


def in_threads(*functions: Callable[[], Any]) -> None:
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
