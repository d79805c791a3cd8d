"""What is older than it is to be kept goes, and nothing else does; what is gone is never called missing (O-07)."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, text

from reconcile.decide.admission import Pace
from reconcile.decide.attempt_ends import AttemptOutcome
from reconcile.decide.authority import Caller
from reconcile.decide.retention import Retention
from reconcile.loop.deadlines import judge_deadlines
from reconcile.loop.pruning import SWEEP_INTERVAL, prune_page
from reconcile.observations.passes import RecordsPruned
from reconcile.queries.audit import audit_faults, audit_trigger
from reconcile.queries.explain import explain_trigger
from reconcile.report.audit import AuditResult
from reconcile.report.verdicts import Verdict
from reconcile.runs.manual import backfill
from reconcile.runs.manual.backfill import BackfillRequest, backfill_trigger
from revisions.errors import Invalid, NotFound
from revisions.store import costs, logs, retention, revisions, runs
from revisions.store import status as status_store
from revisions.store.database import Connection
from revisions.store.logs import LogPiece
from revisions.store.run_tables import missed_deadlines, run_logs
from revisions.store.runs import Run
from tests.world import World, key

DAY = timedelta(days=1)
EVERY_DAY = {"every": "1d", "anchor": "2026-03-02T08:00:00Z"}
DAILY: dict[str, Any] = {"schedule": EVERY_DAY, "catchup": {"policy": "all"}}
KEPT = Retention(runs=12 * DAY, logs=4 * DAY, occurrences=60 * DAY, costs=400 * DAY, changes=30 * DAY)


def prune(world: World, kept: Retention = KEPT) -> None:
    """All sweeps to their end."""
    while prune_page(world.database, world.observations, kept):
        pass


def live(world: World, days: int, **output: Any) -> None:
    """Time in which everything that is due is done at once."""
    for _ in range(days):
        world.advance(days=1)
        world.resync()
        for run in world.claim():
            with world.database.write() as connection:
                logs.append(connection, {(run.id, run.attempt): [LogPiece(0, b"printed")]})
            world.settle(run, **output)


def day(world: World, at: datetime) -> int:
    return (at - world.start) // DAY


def days(world: World) -> list[int]:
    """Of which days runs are there."""
    return [day(world, run.scheduled_at) for run in world.runs()]


def logged(world: World) -> int:
    """Of how many runs there are logs."""
    with world.database.read() as connection:
        number: int = connection.execute(select(func.count(run_logs.c.run_id.distinct()))).scalar_one()
    return number


def kinds(world: World) -> dict[AuditResult, list[int]]:
    """The days of each kind of line in an audit of everything."""
    found: dict[AuditResult, list[int]] = {}
    for line in audit_trigger(world.database, Pace().grace, key("tick"), world.start, None, 1_000).lines:
        found.setdefault(line.kind, []).append(day(world, line.at))
    return found


def test_old_runs_go(world: World) -> None:
    """O-07: with their logs, twelve days after their end; logs alone after four; sweeps come again by themselves."""
    world.create(**DAILY)
    live(world, 20)
    prune(world)
    assert days(world) == list(range(8, 21))
    assert logged(world) == 5
    live(world, 5)
    prune(world)
    assert days(world) == list(range(13, 26))
    assert RecordsPruned("runs", 7) in world.observed


def test_an_input_named_count_keeps_no_runs(world: World) -> None:
    """O-07, S-07: only a schedule that counts its starts keeps all of its runs."""
    world.register("v2", inputs={"count": {}})
    world.create("input", task_version="v2", input={"count": 3}, **DAILY)
    world.create("counts", **DAILY | {"schedule": EVERY_DAY | {"count": 100}})
    live(world, 20)
    prune(world)
    assert len(world.runs("input")) == 13
    assert len(world.runs("counts")) == 20


def test_what_is_gone_is_not_called_missing(world: World) -> None:
    """O-07, U-07, U-03: `audit` and `explain` say that nothing is kept of that time; what is missing since still is."""
    world.create(**DAILY)
    live(world, 20)
    prune(world)
    with world.database.write() as connection:
        gone = {"at": world.runs()[-3].id}
        connection.execute(text("DELETE FROM runs WHERE id = :at"), gone)
    found = kinds(world)
    assert (found[AuditResult.NOT_KEPT], found[AuditResult.MISSING]) == (list(range(1, 8)), [18])
    assert len(audit_faults(world.database, Pace().grace, key("tick"))) == 1
    explained = explain_trigger(world.database, key("tick"), world.start + 3 * DAY).explanation
    assert explained.verdict is Verdict.NOT_KEPT
    assert explained.sentences[0].startswith("Nothing is kept of 2026-03-05T08:00:00Z")


def test_the_newest_ten_stay_however_old(world: World) -> None:
    """O-07, X-08: they say what one more may cost, and when it ran last."""
    world.create(**DAILY)
    live(world, 15, cost=2.0)
    world.deactivate("tick", 1)
    world.advance(days=1_000)
    prune(world)
    assert days(world) == list(range(6, 16))
    assert world.status().last_run_id == world.runs()[-1].id
    with world.database.read() as connection:
        assert costs.highest_recent(connection, world.id("tick"), 10) == 2.0


def test_what_it_cost_outlives_the_run(world: World) -> None:
    """O-07, X-08: costs have a span of their own."""
    world.create(**DAILY)
    live(world, 20, cost=1.0)
    prune(world)
    with world.database.read() as connection:
        assert costs.since(connection, [world.id("tick")], world.start) == {world.id("tick"): 20.0}
    world.deactivate("tick", 1)
    world.advance(days=390)
    prune(world)
    with world.database.read() as connection:
        assert costs.since(connection, [world.id("tick")], world.start) == {world.id("tick"): 11.0}


def test_what_goes_on_stays(world: World) -> None:
    """O-07, X-11: a run that nobody took, and one that was begun again years after it had failed."""
    world.create(**DAILY)
    live(world, 3)
    failed = world.fire(key("tick"), None, Caller("ann"), "allow").id
    (run,) = world.claim()
    world.settle(run, AttemptOutcome.FAILED)
    with world.database.write() as connection:
        connection.execute(text("UPDATE runs SET status = 'failed', finished_at = started_at WHERE status = 'pending'"))
    live(world, 12)
    waits = world.fire(key("tick"), None, Caller("ann"), "allow").id
    world.deactivate("tick", 1)
    world.advance(days=400)
    world.retry(failed, Caller("ann"))
    prune(world)
    assert {failed, waits} <= {run.id for run in world.runs()}
    assert len(world.runs()) == 12


def test_a_run_of_what_is_still_to_be_caught_up_stays(world: World) -> None:
    """O-07, X-01: a backfill was ahead of a backlog; its runs keep the catch-up from making them again."""
    world.create(**DAILY)
    live(world, 2)
    world.advance(days=30)
    world.another_loop_without_catch_up().resync()
    ahead = {world.finish().id for _ in world.backfill(5 * 1440, 25 * 1440).made}
    world.advance(days=100)
    world.another_loop_without_catch_up().resync()
    prune(world)
    assert ahead <= {run.id for run in world.runs()}
    world.loop.resync()
    assert days(world) == list(range(3, 133))


def test_a_backfill_of_what_is_gone(world: World) -> None:
    """O-07, X-01: nobody knows any more what ran, so it is refused; --force makes runs under ids of their own."""
    world.create(**DAILY)
    live(world, 20)
    prune(world)
    with pytest.raises(Invalid, match="removed") as refused:
        world.backfill(4 * 1440, 12 * 1440)
    assert "--force" in refused.value.errors[0].hint
    assert world.backfill(8 * 1440, 12 * 1440).made == []
    assert len(world.backfill(4 * 1440, 6 * 1440, force=True).made) == 2


def test_what_goes_while_a_backfill_is_under_way_does_not_run_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O-07, X-01: it is broken off, as it is refused before; what it made by then stays."""
    monkeypatch.setattr(backfill, "BATCH", 5)
    world.create(**DAILY)
    live(world, 20)
    wish = BackfillRequest(world.start + DAY, world.start + 8 * DAY)
    with pytest.raises(Invalid, match="removed"):
        backfill_trigger(
            world.database, world.observations, key("tick"), wish, Caller("ann"), lambda done, total: prune(world)
        )
    assert days(world) == list(range(8, 21))


@pytest.mark.parametrize("asked", ["retry", "approve"])
def test_a_run_that_goes_before_it_is_locked_is_not_there(
    world: World, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """O-07: whoever asked for it is told so."""
    world.create(**DAILY, retry={"max_attempts": 1})
    failed = world.fire(key("tick"), None, Caller("ann")).id
    world.finish(AttemptOutcome.FAILED)
    looked = runs.get

    def look_and_remove(connection: Connection, run_id: str) -> Run | None:
        found = looked(connection, run_id)
        retention.remove_runs(connection, [run_id], world.clock_now() + DAY)
        return found

    monkeypatch.setattr(runs, "get", look_and_remove)
    work = {"retry": world.retry, "approve": world.approve}[asked]
    with pytest.raises(NotFound, match=f"no run {failed}"):
        work(failed, Caller("ann"))


def test_a_schedule_that_counts_keeps_its_runs(world: World) -> None:
    """O-07, S-07: there are no more than it counts."""
    world.create(**DAILY | {"schedule": EVERY_DAY | {"count": 15}})
    live(world, 30)
    prune(world)
    assert days(world) == list(range(1, 16))
    assert AuditResult.MISSING not in kinds(world)


def test_a_deadline_is_judged_by_what_was_kept_for_it(world: World) -> None:
    """O-07, X-16: a success that a deadline is still to be judged by does not go before, though ten failed since."""
    world.create(**DAILY, expect={"within": "20d"}, retry={"max_attempts": 1}, deactivate_after=100)
    live(world, 1)
    for _ in range(19):
        world.advance(days=1)
        world.resync()
        world.finish(AttemptOutcome.FAILED)
        prune(world, Retention(runs=DAY, logs=DAY, occurrences=DAY))
        assert judge_deadlines(world.database, world.observations) == 0
    world.advance(days=2)
    assert judge_deadlines(world.database, world.observations) == 1


def test_old_skips_and_missed_deadlines_go(world: World) -> None:
    """O-07: sixty days after they were decided; also a range, which is judged by its end."""
    world.create(schedule=EVERY_DAY, expect={"within": "1h"}, retry={"max_attempts": 1}, deactivate_after=100)
    for _ in range(20):
        world.advance(days=10)
        world.resync()
        for run in world.claim():
            world.settle(run, AttemptOutcome.FAILED)
        judge_deadlines(world.database, world.observations)
    prune(world)
    assert {day(world, skip.decided_at) for skip in world.skips()} == set(range(140, 201, 10))
    with world.database.read() as connection:
        first = connection.execute(select(func.min(missed_deadlines.c.noticed_at))).scalar_one()
    assert first >= world.start + 140 * DAY
    assert AuditResult.MISSING not in kinds(world)


def test_of_old_changes_the_newest_of_each_trigger_stays(world: World) -> None:
    """O-07, R-17: a reader that never read, or stopped long ago, learns of every trigger that changed since."""
    world.create("other")
    world.create("tick")
    with world.database.read() as connection:
        long_ago = revisions.read(connection, revisions.BEGINNING, 100).position
    for revision in range(1, 6):
        world.update("tick", revision, description=str(revision))
    world.advance(days=31)
    prune(world)
    with world.database.read() as connection:
        for position, expected in ((revisions.BEGINNING, {("other", 1), ("tick", 6)}), (long_ago, {("tick", 6)})):
            told = {(one.key.name, one.revision) for one in revisions.read(connection, position, 100).items}
            assert expected <= told
            assert ("tick", 3) not in told
    assert [revision.revision for revision in world.history("tick")] == [6, 5, 4, 3, 2, 1]
    world.update("tick", 6, description="new")
    with world.database.read() as connection:
        assert ("tick", 7) in {(one.key.name, one.revision) for one in revisions.read(connection, long_ago, 100).items}


def test_a_span_of_nothing_keeps_for_ever(world: World) -> None:
    """O-07."""
    never = timedelta(0)
    world.create(**DAILY)
    live(world, 12)
    world.advance(days=5_000)
    prune(world, Retention(never, never, never, never, never))
    assert days(world) == list(range(1, 13))
    assert logged(world) == 12


def test_one_replica_at_a_time(world: World) -> None:
    """O-07: a sweep that another replica is at is left to it; what it began is gone on with."""
    skips_only = Retention(0 * DAY, 0 * DAY, DAY, 0 * DAY, 0 * DAY)
    assert prune_page(world.database, world.observations, skips_only)
    assert not prune_page(world.database, world.observations, skips_only)
    world.advance(seconds=SWEEP_INTERVAL.total_seconds())
    if not world.database.is_sqlite:
        with world.database.write() as connection:
            assert retention.take_sweep(connection, ["occurrences"], world.clock_now()) is not None
            assert not prune_page(world.database, world.observations, skips_only)
    assert prune_page(world.database, world.observations, skips_only)


def test_many_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """O-07: page by page, none is passed over, whatever its size."""
    monkeypatch.setattr(retention, "PAGE", 7)
    monkeypatch.setattr(retention, "LOGS", 3)
    world.create(**DAILY)
    live(world, 20)
    for revision in range(1, 20):
        world.update("tick", revision, **DAILY, description=str(revision))
    world.advance(days=40)
    world.resync()
    prune(world)
    assert days(world) == [*range(11, 21), *days(world)[10:]]
    with world.database.read() as connection:
        assert status_store.get(connection, world.id("tick")) is not None
        assert len(revisions.read(connection, revisions.BEGINNING, 100).items) == 1
