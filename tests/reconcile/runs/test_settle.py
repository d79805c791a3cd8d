"""Settling attempts: what is stored, exactly once, and what follows for the run and its trigger."""

from datetime import timedelta
from random import Random
from typing import Any

import pytest

from reconcile.decide.attempt_ends import LARGEST, AnotherAttempt, AttemptOutcome, HandBack, RunEnd
from reconcile.decide.automatic_stops import Stop
from reconcile.observations.observation import Observation, Observations
from reconcile.observations.runs import ClaimLost, RunSettled
from reconcile.runs.attempt import Ended
from reconcile.runs.claim import claim_runs
from reconcile.runs.endings import LONGEST_ERROR, EndedAttempt, Settled
from reconcile.runs.settle import settle, settle_all
from revisions.clock import HandClock
from revisions.history.triggers import StopReason, Trigger
from revisions.outcomes import RunStatus
from revisions.spec.fields import LARGEST_COST
from revisions.store import claims, costs, logs, run_orders, runs, states, status
from revisions.store.database import Database
from revisions.store.logs import LogPiece
from revisions.store.runs import Run
from revisions.store.status import StatusRow
from tests.observing import only
from tests.rows import Rows

LEASE = timedelta(seconds=60)
OK, BROKEN = Ended(AttemptOutcome.SUCCEEDED, output={}), Ended(AttemptOutcome.FAILED, "broken")


class Scene:
    """A trigger whose runs are claimed and settled by hand."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.rows = Rows(database)
        self.rows.task()
        self.trigger = self.rows.trigger()
        self.observations = Observations()
        self.seen: list[Observation] = []
        self.observations.subscribe(self.seen.append)

    def claimed(self, trigger: Trigger | None = None, **values: Any) -> Run:
        self.rows.run(trigger or self.trigger, **values)
        return self.claim()

    def claim(self) -> Run:
        """Claim the next run of the queue."""
        batch = claim_runs(self.database, Observations(), claimed_by="w", lease=LEASE, limit=1, max_running=99)
        return batch.claimed[0].run

    def settle(self, run: Run, ended: Ended, *printed: LogPiece) -> Settled:
        return settle(self.database, self.observations, run, ended, printed)

    def claim_and_settle(self, ended: Ended, **values: Any) -> Settled:
        return self.settle(self.claimed(**values), ended)

    def run(self, run: Run) -> Run:
        with self.database.read() as connection:
            found = runs.get(connection, run.id)
        assert found is not None
        return found

    def traces(self, trigger: Trigger) -> dict[str, Any]:
        """Return what all runs of a trigger left in the database, without their ids and the trigger's."""
        with self.database.read() as connection:
            row, state = status.get(connection, trigger.trigger_id), states.get(connection, trigger.trigger_id)
            trigger_runs = sorted(
                runs.page(connection, None, 100, trigger_id=trigger.trigger_id), key=lambda run: run.id
            )
        assert row is not None
        columns = [(run.status, run.attempt, run.claim, run.output, run.error, run.cost) for run in trigger_runs]
        counts = (row.consecutive_failures, row.success_count, row.last_error, row.last_success_at)
        return {"runs": columns, "counts": counts, "held": row.over_budget_until, "state": state and state.state}

    @property
    def state(self) -> str | None:
        with self.database.read() as connection:
            found = states.get(connection, self.trigger.trigger_id)
        return found.state if found else None

    @property
    def status(self) -> StatusRow:
        with self.database.read() as connection:
            found = status.get(connection, self.trigger.trigger_id)
        assert found is not None
        return found


@pytest.fixture
def scene(database: Database) -> Scene:
    return Scene(database)


def test_success_ends_the_claim_and_stores_the_output(scene: Scene, clock: HandClock) -> None:
    """X-06: the whole output, the cost in its column, and the time of the trigger's last success."""
    run = scene.claimed()
    clock.advance(timedelta(seconds=5))
    settled = scene.settle(
        run, Ended(AttemptOutcome.SUCCEEDED, output={"cost": 2, "text": "Zürich"}), LogPiece(0, b"done\n")
    )
    after = scene.run(run)
    assert settled == Settled(RunEnd(RunStatus.SUCCEEDED))
    assert (after.status, after.finished_at, after.output) == ("succeeded", clock.now(), '{"cost":2,"text":"Zürich"}')
    assert (after.cost, after.error, after.claimed_by, after.lease_until) == (2.0, None, None, None)
    assert scene.status.last_success_at == clock.now()
    with scene.database.read() as connection:
        assert logs.read(connection, run.id, 1).head == b"done\n"
    assert scene.seen[-1] == RunSettled(run, None, RunStatus.SUCCEEDED, None, 5.0)


def test_a_failed_attempt_makes_the_run_pending_again(scene: Scene) -> None:
    """X-06, X-07: after the backoff, with error and output; the trigger's failures are not counted yet."""
    run = scene.claimed()
    at = scene.rows.now + timedelta(seconds=2)
    assert scene.settle(run, Ended(AttemptOutcome.FAILED, "broken", {"state": 1})) == Settled(AnotherAttempt(at))
    after = scene.run(run)
    assert (after.status, after.available_at, after.claimed_by, after.attempt) == ("pending", at, None, 1)
    assert (after.error, after.output, after.finished_at) == ("broken", '{"state":1}', None)
    assert (scene.status.consecutive_failures, scene.status.last_error) == (0, None)


def test_the_last_failed_attempt_fails_the_run(scene: Scene) -> None:
    """X-07: the trigger's status keeps the error until a run succeeds."""
    scene.claim_and_settle(BROKEN, max_attempts=1)
    assert (scene.status.consecutive_failures, scene.status.last_error) == (1, "broken")
    scene.claim_and_settle(Ended(AttemptOutcome.TIMED_OUT), max_attempts=1)
    assert (scene.status.consecutive_failures, scene.status.last_error) == (2, "timed out")
    scene.claim_and_settle(OK)
    assert (scene.status.consecutive_failures, scene.status.last_error) == (0, None)


def test_the_cost_of_a_run_is_the_sum_over_its_attempts(scene: Scene, clock: HandClock) -> None:
    """X-08: a failed attempt costs too; a negative cost, or one that is no number, is ignored."""
    scene.settle(run := scene.claimed(), Ended(AttemptOutcome.FAILED, "broken", {"cost": 1.5}))
    clock.advance(timedelta(seconds=2))
    scene.settle(scene.claim(), Ended(AttemptOutcome.SUCCEEDED, output={"cost": 1}))
    assert scene.run(run).cost == 2.5
    for wrong in (-1, True, "1", None):
        scene.settle(other := scene.claimed(), Ended(AttemptOutcome.SUCCEEDED, output={"cost": wrong}))
        assert scene.run(other).cost is None


def test_a_huge_cost_is_capped(scene: Scene) -> None:
    """X-08: otherwise the sum of two would overflow and could not be read."""
    for _ in range(2):
        scene.settle(run := scene.claimed(), Ended(AttemptOutcome.SUCCEEDED, output={"cost": 1.7e308}))
        assert scene.run(run).cost == LARGEST_COST
    with scene.database.read() as connection:
        assert [cost.amount for cost in costs.spent_within(connection, None, None)] == [2 * LARGEST_COST]


def test_handing_a_run_back_uses_no_attempt(scene: Scene) -> None:
    """X-07: the run is pending at once, as if the attempt had not begun, and its log is discarded."""
    run = scene.claimed(max_attempts=1)
    with scene.database.write() as connection:
        logs.append(connection, {(run.id, 1): [LogPiece(0, b"half")]})
    assert scene.settle(run, Ended(AttemptOutcome.HANDED_BACK)) == Settled(HandBack(scene.rows.now))
    after = scene.run(run)
    assert (after.status, after.attempt, after.available_at, after.started_at) == ("pending", 0, scene.rows.now, None)
    with scene.database.read() as connection:
        assert logs.read(connection, run.id, 1).head == b""


def test_settling_a_lost_claim_changes_nothing(scene: Scene) -> None:
    """X-05: neither run, trigger status nor log; an observation records it."""
    run = scene.claimed(max_attempts=1)
    with scene.database.write() as connection:
        claims.take_over(connection, [run], scene.rows.now, claimed_by="other", lease=LEASE)
    before, status_before = scene.run(run), scene.status
    assert scene.settle(run, BROKEN, LogPiece(0, b"late")) == Settled(None)
    assert (scene.run(run), scene.status) == (before, status_before)
    with scene.database.read() as connection:
        assert logs.sizes(connection, [(run.id, 1)]) == {}
    assert scene.seen == [ClaimLost(run, None, run.claim)]


def test_settling_twice_changes_nothing_the_second_time(scene: Scene) -> None:
    """Invariant 5: a worker settles again when the first commit was not confirmed."""
    run = scene.claimed(max_attempts=1)
    scene.settle(run, BROKEN)
    assert scene.settle(run, BROKEN) == Settled(None)
    assert scene.status.consecutive_failures == 1


def test_a_run_whose_cancellation_was_requested_ends_cancelled(scene: Scene) -> None:
    """X-11: no attempt follows, and the trigger's failures are not counted."""
    run = scene.claimed()
    with scene.database.write() as connection:
        run_orders.request_cancel(connection, run.id, scene.rows.now, "ann")
    assert scene.settle(run, BROKEN) == Settled(RunEnd(RunStatus.CANCELLED))
    assert scene.run(run).status == "cancelled"
    assert (scene.status.consecutive_failures, scene.status.last_error) == (0, None)


def test_five_failed_runs_in_a_row_stop_the_trigger(scene: Scene) -> None:
    """X-07: the default of `deactivate_after`; each run failed after its own retries."""
    reached = [scene.claim_and_settle(BROKEN, max_attempts=1).stop for _ in range(5)]
    assert reached == [None, None, None, None, Stop(StopReason.FAILURES)]


def test_deactivate_after_is_read_from_the_current_revision(scene: Scene) -> None:
    """X-07: not from the revision that made the run."""
    scene.trigger = scene.rows.redeploy(scene.trigger, deactivate_after=2)
    reached = [scene.claim_and_settle(BROKEN, max_attempts=1).stop for _ in range(2)]
    assert reached == [None, Stop(StopReason.FAILURES)]


def test_failures_of_an_older_revision_are_not_counted(scene: Scene) -> None:
    """X-07: a DEPLOY starts counting at zero; the error of an older run is still shown."""
    old = [scene.claimed(max_attempts=1) for _ in range(2)]
    scene.settle(old[0], BROKEN)
    assert scene.status.consecutive_failures == 1
    scene.trigger = scene.rows.redeploy(scene.trigger, input={"b": 1})
    assert scene.status.consecutive_failures == 0
    scene.settle(old[1], Ended(AttemptOutcome.FAILED, "old"))
    assert (scene.status.consecutive_failures, scene.status.last_error) == (0, "old")
    scene.claim_and_settle(BROKEN, max_attempts=1)
    assert scene.status.consecutive_failures == 1


def test_an_error_is_shortened_and_made_storable(scene: Scene) -> None:
    """L-13: NUL characters and lone surrogates are replaced."""
    run = scene.claimed(max_attempts=1)
    scene.settle(run, Ended(AttemptOutcome.FAILED, "\0\ud800" + "x" * 10_000))
    error = scene.run(run).error or ""
    assert error.startswith("\N{REPLACEMENT CHARACTER}?x")
    assert len(error) == LONGEST_ERROR
    assert scene.status.last_error == error


def ended_with_state(outcome: AttemptOutcome, state: Any) -> Ended:
    return Ended(outcome, None if outcome is AttemptOutcome.SUCCEEDED else "broken", {"state": state})


@pytest.mark.parametrize("attempts", [1, 3], ids=["last attempt", "attempts left"])
@pytest.mark.parametrize(
    "outcome", [AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED, AttemptOutcome.TIMED_OUT, AttemptOutcome.CANCELLED]
)
def test_a_state_is_stored_however_the_attempt_ended(scene: Scene, outcome: AttemptOutcome, attempts: int) -> None:
    """X-06: also after a failure and between two attempts, with the time and the run that wrote it."""
    run = scene.claimed(max_attempts=attempts)
    scene.settle(run, ended_with_state(outcome, {"b": 1.0, "a": "ü"}))
    with scene.database.read() as connection:
        stored = states.get(connection, scene.trigger.trigger_id)
    assert stored == states.StoredState(scene.trigger.trigger_id, '{"a":"ü","b":1}', scene.rows.now, "system", run.id)


def test_an_output_without_a_state_leaves_the_stored_one(scene: Scene) -> None:
    """X-06: a missing key differs from null, which is a state like any other JSON value."""
    scene.claim_and_settle(ended_with_state(AttemptOutcome.SUCCEEDED, [1]))
    for ended in (
        OK,
        Ended(AttemptOutcome.SUCCEEDED),
        BROKEN,
        Ended(AttemptOutcome.LOST, "gone"),
        Ended(AttemptOutcome.HANDED_BACK),
    ):
        scene.claim_and_settle(ended)
        assert scene.state == "[1]"
    for state, text in ((False, "false"), ("", '""'), (0, "0"), (None, "null")):
        scene.claim_and_settle(ended_with_state(AttemptOutcome.SUCCEEDED, state))
        assert scene.state == text


def test_a_state_of_64_kib_is_stored(scene: Scene) -> None:
    """X-06: the limit counts bytes of the canonical text, not characters."""
    largest = "ü" * (LARGEST // 2 - 1)
    assert scene.claim_and_settle(ended_with_state(AttemptOutcome.SUCCEEDED, largest)) == Settled(
        RunEnd(RunStatus.SUCCEEDED)
    )
    assert scene.state == f'"{largest}"'


def test_a_state_that_is_too_large_fails_the_run(scene: Scene) -> None:
    """X-06: without another attempt, which would produce it again; the old state stays, the output is stored."""
    scene.claim_and_settle(ended_with_state(AttemptOutcome.SUCCEEDED, "old"))
    run = scene.claimed(max_attempts=3)
    large = "x" * (LARGEST - 1)
    assert scene.settle(run, ended_with_state(AttemptOutcome.SUCCEEDED, large)) == Settled(RunEnd(RunStatus.FAILED))
    after = scene.run(run)
    assert (after.status, after.claimed_by, scene.state) == ("failed", None, '"old"')
    assert after.error == "state is 65,537 bytes as canonical JSON, at most 65,536 are kept"
    assert len(after.output or "") > LARGEST
    assert (scene.status.consecutive_failures, scene.status.last_error) == (1, after.error)
    assert only(RunSettled, scene.seen)[-1].error == after.error


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (AttemptOutcome.FAILED, "failed"),
        (AttemptOutcome.TIMED_OUT, "timed_out"),
        (AttemptOutcome.CANCELLED, "cancelled"),
    ],
)
def test_a_failure_with_a_state_that_is_too_large_reports_both_errors(
    scene: Scene, outcome: AttemptOutcome, status: RunStatus
) -> None:
    """X-06: the outcome of the attempt stays the outcome of the run."""
    run = scene.claimed()
    assert scene.settle(run, ended_with_state(outcome, "x" * LARGEST)) == Settled(RunEnd(status))
    assert (scene.run(run).error or "").startswith("broken; state is 65,538 bytes")
    assert scene.state is None


def test_a_lost_claim_stores_no_state(scene: Scene) -> None:
    """X-05, X-06: the state belongs to the worker that holds the claim."""
    run = scene.claimed()
    with scene.database.write() as connection:
        claims.take_over(connection, [run], scene.rows.now, claimed_by="other", lease=LEASE)
    assert scene.settle(run, ended_with_state(AttemptOutcome.SUCCEEDED, "late")) == Settled(None)
    assert scene.state is None


@pytest.mark.parametrize("seed", range(6))
def test_settling_together_equals_settling_one_by_one(scene: Scene, seed: int) -> None:
    """X-06, X-07, X-08: the same runs, trigger status and first stop."""
    chance = Random(seed)
    spec: dict[str, Any] = {"deactivate_after": 3, "limits": {"max_cost": 4, "budget_period": "day", "max_runs": 4}}
    alone, together = scene.rows.trigger("alone", **spec), scene.rows.trigger("together", **spec)
    ends = [
        Ended(
            chance.choice(
                [
                    AttemptOutcome.SUCCEEDED,
                    AttemptOutcome.FAILED,
                    AttemptOutcome.TIMED_OUT,
                    AttemptOutcome.HANDED_BACK,
                    AttemptOutcome.LOST,
                ]
            ),
            chance.choice([None, "broken"]),
            chance.choice([None, {"cost": 1}, {"state": number}]),
        )
        for number in range(8)
    ]
    attempts = [chance.choice([1, 3]) for _ in ends]
    separate, joined = (
        [scene.claimed(trigger, max_attempts=most) for most in attempts] for trigger in (alone, together)
    )
    one_by_one = [scene.settle(run, end) for run, end in zip(separate, ends, strict=True)]
    endings = [EndedAttempt(run, end) for run, end in zip(joined, ends, strict=True)]
    at_once = settle_all(scene.database, scene.observations, endings)
    assert [settled.decision for settled in at_once] == [settled.decision for settled in one_by_one]
    stops = [[settled.stop for settled in results if settled.stop] for results in (at_once, one_by_one)]
    assert stops[0][:1] == stops[1][:1]
    assert scene.traces(together) == scene.traces(alone)


def test_a_lost_claim_does_not_keep_others_from_being_settled(scene: Scene) -> None:
    """X-05: in one transaction; the lost claim changes nothing and is observed."""
    lost, other = scene.claimed(), scene.claimed()
    with scene.database.write() as connection:
        claims.take_over(connection, [lost], scene.rows.now, claimed_by="other", lease=LEASE)
    settled = settle_all(scene.database, scene.observations, [EndedAttempt(lost, OK), EndedAttempt(other, OK)])
    assert [result.decision for result in settled] == [None, RunEnd(RunStatus.SUCCEEDED)]
    assert (scene.run(lost).status, scene.run(other).status) == ("running", "succeeded")
    assert [observation.name for observation in scene.seen] == ["claim.lost", "attempt.ended", "run.settled"]


def test_a_batch_of_failures_stops_the_trigger_once(scene: Scene) -> None:
    """X-07: the failure that reaches the limit stops it, later ones of the batch do not again."""
    failing = [scene.claimed(max_attempts=1) for _ in range(7)]
    settled = settle_all(scene.database, scene.observations, [EndedAttempt(run, BROKEN) for run in failing])
    assert [result.stop for result in settled] == [None] * 4 + [Stop(StopReason.FAILURES)] + [None] * 2
    assert scene.status.consecutive_failures == 7
