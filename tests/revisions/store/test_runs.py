"""Runs in the database: creation, claims, leases, cancellation, pages and counts."""

import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import literal_column, select, text, update

from reconcile.observations.observation import Observations
from reconcile.runs.claim import claim_runs
from revisions.clock import HandClock
from revisions.ids import TaskKey
from revisions.outcomes import RunStatus
from revisions.store import claims, counts, run_orders, run_tables, runs
from revisions.store.claims import Claimed
from revisions.store.database import Database
from revisions.store.sessions import write
from tests.rows import Rows, new_run

LEASE = timedelta(seconds=60)
SECOND = timedelta(seconds=1)


@pytest.fixture
def rows(database: Database) -> Rows:
    rows = Rows(database)
    rows.task()
    return rows


def claim(database: Database, by: str = "worker", limit: int = 100, max_running: int = 100) -> list[Claimed]:
    batch = claim_runs(database, Observations(), claimed_by=by, lease=LEASE, limit=limit, max_running=max_running)
    return [*batch.claimed]


def claimed_ids(database: Database, **options: Any) -> list[str]:
    return [claimed.run.id for claimed in claim(database, **options)]


def get(database: Database, run_id: str) -> runs.Run:
    with database.read() as connection:
        run = runs.get(connection, run_id)
    assert run is not None
    return run


def finish(database: Database, run: runs.Run) -> None:
    with database.write() as connection:
        now = database.clock.now(connection)
        write(connection, claims.finish_write(run, now, RunStatus.SUCCEEDED, claims.AttemptResult()))


def test_creating_a_run_again_keeps_the_first(database: Database, rows: Rows) -> None:
    """X-01: a trigger has one run per occurrence."""
    trigger = rows.trigger()
    first = rows.run(trigger, "every/2026-03-02T08:00:00Z")
    with database.write() as connection:
        again = new_run(trigger, rows.now, "every/2026-03-02T08:00:00Z")
        assert runs.create(connection, [again]) == 0
        assert runs.get(connection, first) is not None
        assert runs.get(connection, again.id) is None


def test_a_claim_returns_run_task_and_trigger(database: Database, rows: Rows) -> None:
    """X-04: the trigger is that of the revision that created the run."""
    trigger = rows.trigger(input={"a": 1})
    run_id = rows.run(trigger)
    rows.redeploy(trigger, input={"a": 2})
    (claimed,) = claim(database)
    run = claimed.run
    assert run.id == run_id
    assert (run.status, run.attempt, run.claim, run.claimed_by) == ("running", 1, 1, "worker")
    assert (run.started_at, run.lease_until) == (rows.now, rows.now + LEASE)
    assert json.loads(claimed.task_spec or "")["launcher"] == "scripted"
    assert str(claimed.trigger) == "acme/production/report/morning"
    assert json.loads(claimed.trigger_spec or "")["input"] == {"a": 1}
    assert claimed.last_success_at is None
    assert get(database, run_id) == run


def test_concurrent_claimers_claim_each_run_once(database: Database, rows: Rows) -> None:
    """X-04: twenty claimers, five due runs."""
    trigger = rows.trigger()
    due = {rows.run(trigger) for _ in range(5)}
    barrier = threading.Barrier(20)

    def race(number: int) -> list[str]:
        barrier.wait()
        return claimed_ids(database, by=f"worker-{number}", limit=5)

    with ThreadPoolExecutor(20) as threads:
        claims_per_run = Counter(run_id for ids in threads.map(race, range(20)) for run_id in ids)
    assert claims_per_run == dict.fromkeys(due, 1)


def test_the_global_limit_is_exact_under_concurrent_claimers(database: Database, rows: Rows) -> None:
    """X-04: sixteen claimers that finish their runs never have more than three running at once."""
    trigger = rows.trigger()
    with database.write() as connection:
        runs.create(connection, [new_run(trigger, rows.now) for _ in range(60)])
    barrier = threading.Barrier(16)
    seen: list[int] = []

    def work(number: int) -> int:
        barrier.wait()
        done = 0
        while True:
            with database.read() as connection:
                depth = counts.count_installation(connection, database.clock).live
            seen.append(depth.get("running", 0))
            if not depth:
                return done
            for claimed in claim(database, f"worker-{number}", limit=2, max_running=3):
                finish(database, claimed.run)
                done += 1

    with ThreadPoolExecutor(16) as threads:
        assert sum(threads.map(work, range(16))) == 60
    assert max(seen) <= 3


def test_no_run_is_claimed_at_the_global_limit(database: Database, rows: Rows) -> None:
    """X-04: the limit counts the running runs of all workers."""
    trigger = rows.trigger()
    for _ in range(5):
        rows.run(trigger)
    assert len(claim(database, "a", limit=2, max_running=3)) == 2
    assert len(claim(database, "b", limit=2, max_running=3)) == 1
    assert claim(database, "c", limit=2, max_running=3) == []


def test_the_longest_waiting_run_is_claimed_first_and_none_before_its_time(
    database: Database, rows: Rows, clock: HandClock
) -> None:
    """X-04: in the order of `available_at`; a run that waits for a retry is not claimed earlier."""
    trigger = rows.trigger()
    first = rows.run(trigger)
    clock.advance(SECOND)
    second = rows.run(trigger)
    assert claimed_ids(database, limit=1) == [first]
    with database.write() as connection:
        run = runs.get(connection, first)
        assert run is not None
        write(connection, claims.retry_write(run, rows.now + 2 * SECOND, claims.AttemptResult(None, "broken", None)))
    assert claimed_ids(database) == [second]
    clock.advance(SECOND)
    assert claimed_ids(database) == []
    clock.advance(SECOND)
    assert claimed_ids(database) == [first]
    assert get(database, first).attempt == 2


def test_queue_all_runs_one_at_a_time_oldest_first(database: Database, rows: Rows, clock: HandClock) -> None:
    """X-04, X-09: per trigger the run scheduled first is claimed when no other is live; other triggers do not wait."""
    queued, other = rows.trigger(), rows.trigger("other")
    late = rows.run(queued, overlap="queue_all", scheduled_at=rows.now + 60 * SECOND)
    early = rows.run(queued, overlap="queue_all", scheduled_at=rows.now + 30 * SECOND)
    elsewhere = rows.run(other, overlap="queue_all")
    assert set(claimed_ids(database)) == {early, elsewhere}
    assert claimed_ids(database) == []
    finish(database, get(database, early))
    assert claimed_ids(database) == [late]


def test_queue_all_waits_for_a_retry_of_an_earlier_run(database: Database, rows: Rows) -> None:
    """X-09: a run that waits for a retry keeps its place before runs scheduled later."""
    trigger = rows.trigger()
    first = rows.run(trigger, overlap="queue_all")
    rows.run(trigger, overlap="queue_all", scheduled_at=rows.now + SECOND)
    (claimed,) = claim(database)
    assert claimed.run.id == first
    with database.write() as connection:
        write(
            connection,
            claims.retry_write(claimed.run, rows.now + 2 * SECOND, claims.AttemptResult(None, "broken", None)),
        )
    assert claimed_ids(database) == []


def test_queue_all_waits_for_parked_and_waiting_runs(database: Database, rows: Rows) -> None:
    """X-09: these are live too."""
    trigger = rows.trigger()
    rows.run(trigger)
    (claimed,) = claim(database)
    rows.run(trigger, overlap="queue_all")
    for status in ("waiting", "parked"):
        with database.write() as connection:
            connection.exec_driver_sql(f"UPDATE runs SET status = '{status}' WHERE id = '{claimed.run.id}'")
        assert claimed_ids(database) == []


def test_concurrent_claimers_keep_queue_all_serial(database: Database, rows: Rows) -> None:
    """X-04, X-09: eight claimers run the twenty queued runs of a trigger one at a time, in order."""
    trigger = rows.trigger()
    with database.write() as connection:
        new = [new_run(trigger, rows.now, overlap="queue_all", scheduled_at=rows.now + n * SECOND) for n in range(20)]
        runs.create(connection, new)
    barrier = threading.Barrier(8)
    order: list[str] = []

    def work(number: int) -> None:
        barrier.wait()
        while len(order) < 20:
            for claimed in claim(database, f"worker-{number}"):
                order.append(claimed.run.id)
                finish(database, claimed.run)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert order == [run.id for run in new]


def test_only_the_holder_of_a_claim_renews_its_lease(database: Database, rows: Rows, clock: HandClock) -> None:
    """X-05: renewing returns for each claim if it is still held, and if its run is to be cancelled."""
    trigger = rows.trigger()
    kept, lost, cancelled = (rows.run(trigger) for _ in range(3))
    ours = {claimed.run.id: claimed.run for claimed in claim(database)}
    with database.write() as connection:
        claims.take_over(connection, [ours[lost]], rows.now, claimed_by="other", lease=LEASE)
        run_orders.request_cancel(connection, cancelled, rows.now, "ann")
    clock.advance(20 * SECOND)
    with database.write() as connection:
        renewed = claims.renew(connection, ours.values(), rows.now, LEASE)
        assert claims.claim_states(connection, ours.values()) == renewed
        assert claims.renew(connection, [], rows.now, LEASE) == {}
    assert {key[0]: (state.held, state.cancel_requested) for key, state in renewed.items()} == {
        kept: (True, False),
        lost: (False, False),
        cancelled: (True, True),
    }
    assert get(database, kept).lease_until == rows.now + LEASE
    assert get(database, lost).lease_until == rows.now + 40 * SECOND


def test_a_lapsed_lease_is_taken_over_once(database: Database, rows: Rows, clock: HandClock) -> None:
    """X-05: two workers that find it do not both take it over; a lease renewed in the meantime stays."""
    trigger = rows.trigger()
    rows.run(trigger), rows.run(trigger)
    claim(database)
    with database.read() as connection:
        assert claims.lapsed(connection, rows.now + 59 * SECOND, 10) == []
    clock.advance(LEASE)
    with database.read() as connection:
        lapsed = claims.lapsed(connection, rows.now, 10)
        assert claims.running_of(connection, ["worker"]) == sorted(lapsed, key=lambda run: run.id)
    assert len(lapsed) == 2
    with database.write() as connection:
        claims.renew(connection, [lapsed[0]], rows.now, LEASE)
        (claimed,) = claims.take_over(connection, lapsed, rows.now, claimed_by="a", lease=LEASE)
        assert claims.take_over(connection, lapsed, rows.now, claimed_by="b", lease=LEASE) == []
    run = claimed.run
    assert (run.id, run.claim, run.attempt, run.claimed_by) == (lapsed[1].id, 2, 1, "a")


def test_a_write_under_an_old_claim_changes_nothing(database: Database, rows: Rows) -> None:
    """X-05: the claim number is a fencing token."""
    run_id = rows.run(rows.trigger())
    (claimed,) = claim(database)
    with database.write() as connection:
        claims.take_over(connection, [claimed.run], rows.now, claimed_by="other", lease=LEASE)
        taken_over = runs.get(connection, run_id)
        write(
            connection,
            claims.finish_write(claimed.run, rows.now, RunStatus.SUCCEEDED, claims.AttemptResult("{}", None, 1.0)),
        )
        write(connection, claims.retry_write(claimed.run, rows.now, claims.AttemptResult(None, "late", None)))
        write(connection, claims.hand_back_write(claimed.run, rows.now))
        assert runs.get(connection, run_id) == taken_over
        assert taken_over is not None
        assert not claims.holds_claim(taken_over, claimed.run)


def test_a_cancel_request_depends_on_the_status_of_the_run(database: Database, rows: Rows, clock: HandClock) -> None:
    """X-11: a pending run is cancelled at once, the request to a running one is stored once, a finished run stays."""
    trigger = rows.trigger()
    running, finished = rows.run(trigger), rows.run(trigger)
    for claimed in claim(database):
        if claimed.run.id == finished:
            finish(database, claimed.run)
    pending = rows.run(trigger)
    with database.write() as connection:
        requested_at = rows.now
        for run_id in (running, finished, pending):
            run_orders.request_cancel(connection, run_id, requested_at, "ann")
        clock.advance(SECOND)
        again = run_orders.request_cancel(connection, running, rows.now, "bob")
        assert run_orders.request_cancel(connection, "unknown", rows.now, "ann") is None
    assert again is not None
    assert (again.status, again.cancel_requested_at) == ("running", requested_at)
    assert get(database, finished).status == "succeeded"
    assert (get(database, pending).status, get(database, pending).finished_at) == ("cancelled", requested_at)


def test_the_pending_runs_of_a_task_version_are_cancelled(database: Database, rows: Rows) -> None:
    """R-14: running ones, and those of another version, are not."""
    trigger = rows.trigger()
    rows.run(trigger)
    claim(database)
    rows.run(trigger), rows.run(trigger)
    newer = rows.run(trigger, task_version="v2")
    with database.write() as connection:
        key = TaskKey("acme", "production", "report", "v1")
        assert len(run_orders.cancel_pending_of_task(connection, key, rows.now, "ann")) == 2
        assert counts.count_installation(connection, database.clock).live == {"pending": 1, "running": 1}
    assert get(database, newer).status == "pending"


def test_runs_are_listed_newest_first(database: Database, rows: Rows, clock: HandClock) -> None:
    """X-02: by trigger, project, task and status, beginning at a cursor."""
    trigger, other = rows.trigger(), rows.trigger("other")
    ids = []
    for _ in range(4):
        ids.append(rows.run(trigger))
        clock.advance(SECOND)
    rows.run(other)
    with database.read() as connection:
        mine = runs.page(connection, None, 3, trigger_id=trigger.trigger_id)
        assert [run.id for run in mine] == ids[:0:-1]
        rest = runs.page(connection, mine[-1].id, 3, trigger_id=trigger.trigger_id, status=RunStatus.PENDING)
        assert [run.id for run in rest] == ids[:1]
        assert len(runs.page(connection, None, 10, project="acme", domain="production", task="report")) == 5
        assert runs.page(connection, None, 10, project="other") == []


def test_the_runs_of_the_queue_are_counted(database: Database, rows: Rows, clock: HandClock) -> None:
    """O-02: by status, with the time since which the oldest waits."""
    with database.read() as connection:
        measured = counts.count_installation(connection, clock)
    assert (measured.live, measured.waiting_since) == ({}, None)
    trigger = rows.trigger()
    rows.run(trigger)
    claim(database)
    waiting_since = rows.now
    rows.run(trigger)
    clock.advance(SECOND)
    rows.run(trigger)
    with database.read() as connection:
        measured = counts.count_installation(connection, clock)
    assert (measured.live, measured.waiting_since) == ({"pending": 2, "running": 1}, waiting_since)


def test_a_run_behind_a_long_queue_is_claimed(database: Database, rows: Rows, clock: HandClock) -> None:
    """X-04: a trigger's queue that is longer than a page does not delay other triggers."""
    queued, other = rows.trigger(), rows.trigger("other")
    now = rows.now
    with database.write() as connection:
        new = [new_run(queued, now, overlap="queue_all", scheduled_at=now + n * SECOND) for n in range(1200)]
        runs.create(connection, new[::-1])
    clock.advance(SECOND)
    behind = rows.run(other)
    assert claimed_ids(database, limit=2) == [new[0].id, behind]
    assert claimed_ids(database, limit=2) == []


@pytest.mark.parametrize(
    ("statuses", "column", "index"),
    [
        ((RunStatus.PENDING,), "available_at", "runs_pending_idx"),
        ((RunStatus.PENDING,), "start_by", "runs_start_by_idx"),
        ((RunStatus.RUNNING,), "lease_until", "runs_running_idx"),
        (runs.LIVE, "trigger_id", "runs_live_idx"),
    ],
)
def test_queries_of_live_runs_use_an_index(
    database: Database, rows: Rows, statuses: tuple[RunStatus, ...], column: str, index: str
) -> None:
    """X-04, X-18: the cost of a pass depends on the number of live runs, not on that of all runs."""
    trigger, begin = rows.trigger(), rows.now
    query = select(run_tables.runs.c.id).where(
        runs.in_status(*statuses), run_tables.runs.c[column] > literal_column("'2026-03-02T08:00:00Z'")
    )
    with database.write() as connection:
        runs.create(connection, [new_run(trigger, begin, scheduled_at=begin + n * SECOND) for n in range(2000)])
        ended = (
            update(run_tables.runs)
            .where(run_tables.runs.c.scheduled_at < begin + 1900 * SECOND)
            .values(status="succeeded")
        )
        connection.execute(ended)
        if not database.is_sqlite:
            connection.execute(text("ANALYZE runs"))  # otherwise the plan depends on statistics from other tests
        explain = "EXPLAIN QUERY PLAN" if database.is_sqlite else "EXPLAIN"
        plan = connection.execute(text(f"{explain} {query}")).all()
    assert index in str(plan)
