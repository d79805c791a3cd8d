"""Pruning: records older than their retention are removed, and are never reported as missing (O-07)."""

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
    """Prune pages until all sweeps have ended."""
    while prune_page(world.database, world.observations, kept):
        pass


def live(world: World, days: int, **output: Any) -> None:
    """Live through days in which each due run succeeds at once and leaves a log."""
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
    """Return the scheduled days of the stored runs."""
    return [day(world, run.scheduled_at) for run in world.runs()]


def logged(world: World) -> int:
    """Return the number of runs that have logs."""
    with world.database.read() as connection:
        number: int = connection.execute(select(func.count(run_logs.c.run_id.distinct()))).scalar_one()
    return number


def kinds(world: World) -> dict[AuditResult, list[int]]:
    """Return the days of the lines of an audit since the start, by their result."""
    days_by_kind: dict[AuditResult, list[int]] = {}
    for line in audit_trigger(world.database, Pace().grace, key("tick"), world.start, None, 1_000).lines:
        days_by_kind.setdefault(line.kind, []).append(day(world, line.at))
    return days_by_kind


def test_old_runs_are_removed(world: World) -> None:
    """O-07: runs twelve days after their end, their logs after four. Sweeps repeat by themselves."""
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
    """O-07, S-07: only a schedule with `count` keeps all of its runs."""
    world.register("v2", inputs={"count": {}})
    world.create("input", task_version="v2", input={"count": 3}, **DAILY)
    world.create("counts", **DAILY | {"schedule": EVERY_DAY | {"count": 100}})
    live(world, 20)
    prune(world)
    assert len(world.runs("input")) == 13
    assert len(world.runs("counts")) == 20


def test_pruned_occurrences_are_not_reported_as_missing(world: World) -> None:
    """O-07, U-07, U-03: `audit` and `explain` say that nothing is kept of that time; later gaps are still reported."""
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


def test_the_newest_ten_runs_of_a_trigger_stay(world: World) -> None:
    """O-07, X-08: however old they are, because estimates of costs and the time of the last run are read from them."""
    world.create(**DAILY)
    live(world, 15, cost=2.0)
    world.deactivate("tick", 1)
    world.advance(days=1_000)
    prune(world)
    assert days(world) == list(range(6, 16))
    assert world.status().last_run_id == world.runs()[-1].id
    with world.database.read() as connection:
        assert costs.highest_recent(connection, world.id("tick"), 10) == 2.0


def test_costs_outlive_their_runs(world: World) -> None:
    """O-07, X-08: costs have a retention of their own."""
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


def test_live_runs_stay(world: World) -> None:
    """O-07, X-11: a run that was never claimed, and one that is retried long after its failure."""
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


def test_runs_within_a_backlog_stay(world: World) -> None:
    """O-07, X-01: a backfill made them before the catch-up, which would create them a second time."""
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


def test_a_backfill_of_pruned_time_is_refused_without_force(world: World) -> None:
    """O-07, X-01: it is unknown what ran then. `--force` creates runs with occurrence ids of their own."""
    world.create(**DAILY)
    live(world, 20)
    prune(world)
    with pytest.raises(Invalid, match="removed") as refused:
        world.backfill(4 * 1440, 12 * 1440)
    assert "--force" in refused.value.errors[0].hint
    assert world.backfill(8 * 1440, 12 * 1440).made == []
    assert len(world.backfill(4 * 1440, 6 * 1440, force=True).made) == 2


def test_a_backfill_stops_when_its_time_is_pruned_meanwhile(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """O-07, X-01: so that no pruned occurrence runs a second time; runs created before stay."""
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
def test_a_run_that_is_pruned_before_its_lock_is_not_found(
    world: World, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """O-07: a retry or an approval of it raises NotFound."""
    world.create(**DAILY, retry={"max_attempts": 1})
    failed = world.fire(key("tick"), None, Caller("ann")).id
    world.finish(AttemptOutcome.FAILED)
    read_run = runs.get

    def read_and_prune(connection: Connection, run_id: str) -> Run | None:
        run = read_run(connection, run_id)
        retention.remove_runs(connection, [run_id], world.clock_now() + DAY)
        return run

    monkeypatch.setattr(runs, "get", read_and_prune)
    work = {"retry": world.retry, "approve": world.approve}[asked]
    with pytest.raises(NotFound, match=f"no run {failed}"):
        work(failed, Caller("ann"))


def test_a_schedule_with_count_keeps_its_runs(world: World) -> None:
    """O-07, S-07: their number is limited by `count`."""
    world.create(**DAILY | {"schedule": EVERY_DAY | {"count": 15}})
    live(world, 30)
    prune(world)
    assert days(world) == list(range(1, 16))
    assert AuditResult.MISSING not in kinds(world)


def test_a_success_stays_until_its_deadline_is_judged(world: World) -> None:
    """O-07, X-16: even if ten later runs have failed since."""
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


def test_old_skips_and_missed_deadlines_are_removed(world: World) -> None:
    """O-07: sixty days after the decision; the age of a range is that of its end."""
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


def test_the_newest_change_of_each_trigger_stays(world: World) -> None:
    """O-07, R-17: a reader of the feed that starts late still learns of every trigger that changed."""
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
            read = {(change.key.name, change.revision) for change in revisions.read(connection, position, 100).items}
            assert expected <= read
            assert ("tick", 3) not in read
    assert [revision.revision for revision in world.history("tick")] == [6, 5, 4, 3, 2, 1]
    world.update("tick", 6, description="new")
    with world.database.read() as connection:
        changes = revisions.read(connection, long_ago, 100).items
    assert ("tick", 7) in {(change.key.name, change.revision) for change in changes}


def test_a_retention_of_zero_keeps_records_for_ever(world: World) -> None:
    """O-07: zero is no limit."""
    never = timedelta(0)
    world.create(**DAILY)
    live(world, 12)
    world.advance(days=5_000)
    prune(world, Retention(never, never, never, never, never))
    assert days(world) == list(range(1, 13))
    assert logged(world) == 12


def test_only_one_replica_sweeps_at_a_time(world: World) -> None:
    """O-07: a replica skips a sweep that another one is doing, and continues one that was left unfinished."""
    skips_only = Retention(0 * DAY, 0 * DAY, DAY, 0 * DAY, 0 * DAY)
    assert prune_page(world.database, world.observations, skips_only)
    assert not prune_page(world.database, world.observations, skips_only)
    world.advance(seconds=SWEEP_INTERVAL.total_seconds())
    if not world.database.is_sqlite:
        with world.database.write() as connection:
            assert retention.take_sweep(connection, ["occurrences"], world.clock_now()) is not None
            assert not prune_page(world.database, world.observations, skips_only)
    assert prune_page(world.database, world.observations, skips_only)


def test_a_sweep_of_many_pages_leaves_nothing_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """O-07: whatever the sizes of the pages."""
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
