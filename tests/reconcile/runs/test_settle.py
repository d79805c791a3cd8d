"""The end of an attempt, written once."""

from datetime import timedelta
from random import Random
from typing import Any

import pytest

from reconcile.decide.automatic_stops import Stop
from reconcile.decide.retry import AnotherAttempt, AttemptOutcome, HandBack, RunEnd
from reconcile.decide.task_output import LARGEST
from reconcile.observations.observation import Observation, Observations
from reconcile.observations.runs import ClaimLost, RunSettled
from reconcile.runs import claiming
from reconcile.runs.attempt import Ended
from reconcile.runs.endings import LONGEST_ERROR, Ending, Settled
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
    """One trigger, whose runs are claimed and settled at once."""

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
        """The run whose turn it is."""
        taken = claiming.take(self.database, Observations(), claimed_by="w", lease=LEASE, limit=1, max_running=99)
        return taken.claimed[0].run

    def settle(self, run: Run, ended: Ended, *printed: LogPiece) -> Settled:
        return settle(self.database, self.observations, run, ended, printed)

    def once(self, ended: Ended, **values: Any) -> Settled:
        return self.settle(self.claimed(**values), ended)

    def run(self, run: Run) -> Run:
        with self.database.read() as connection:
            found = runs.get(connection, run.id)
        assert found is not None
        return found

    def kept(self, trigger: Trigger) -> dict[str, Any]:
        """What all runs of a trigger left behind, in words that name neither."""
        with self.database.read() as connection:
            row, state = status.get(connection, trigger.trigger_id), states.get(connection, trigger.trigger_id)
            of = sorted(runs.page(connection, None, 100, trigger_id=trigger.trigger_id), key=lambda run: run.id)
        assert row is not None
        seen = [(run.status, run.attempt, run.claim, run.output, run.error, run.cost) for run in of]
        counts = (row.consecutive_failures, row.success_count, row.last_error, row.last_success_at)
        return {"runs": seen, "counts": counts, "held": row.over_budget_until, "state": state and state.state}

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


def test_success_releases_the_claim_and_keeps_the_answer(scene: Scene, clock: HandClock) -> None:
    """X-06: output whole, cost in its column, the trigger's last success; the claim is free."""
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


def test_failure_releases_the_claim_until_its_next_attempt(scene: Scene) -> None:
    """X-06, X-07: pending again after the backoff, with error and output; the trigger has not failed yet."""
    run = scene.claimed()
    at = scene.rows.now + timedelta(seconds=2)
    assert scene.settle(run, Ended(AttemptOutcome.FAILED, "broken", {"state": 1})) == Settled(AnotherAttempt(at))
    after = scene.run(run)
    assert (after.status, after.available_at, after.claimed_by, after.attempt) == ("pending", at, None, 1)
    assert (after.error, after.output, after.finished_at) == ("broken", '{"state":1}', None)
    assert (scene.status.consecutive_failures, scene.status.last_error) == (0, None)


def test_the_last_attempt_fails_the_run(scene: Scene) -> None:
    """X-07: the run has failed, the trigger keeps the error until a success."""
    scene.once(BROKEN, max_attempts=1)
    assert (scene.status.consecutive_failures, scene.status.last_error) == (1, "broken")
    scene.once(Ended(AttemptOutcome.TIMED_OUT), max_attempts=1)
    assert (scene.status.consecutive_failures, scene.status.last_error) == (2, "timed out")
    scene.once(OK)
    assert (scene.status.consecutive_failures, scene.status.last_error) == (0, None)


def test_costs_of_all_attempts_add_up(scene: Scene, clock: HandClock) -> None:
    """X-08: a failed attempt was paid for too; what is no cost is none."""
    scene.settle(run := scene.claimed(), Ended(AttemptOutcome.FAILED, "broken", {"cost": 1.5}))
    clock.advance(timedelta(seconds=2))
    scene.settle(scene.claim(), Ended(AttemptOutcome.SUCCEEDED, output={"cost": 1}))
    assert scene.run(run).cost == 2.5
    for wrong in (-1, True, "1", None):
        scene.settle(other := scene.claimed(), Ended(AttemptOutcome.SUCCEEDED, output={"cost": wrong}))
        assert scene.run(other).cost is None


def test_no_cost_is_too_large_for_a_sum(scene: Scene) -> None:
    """X-08: two runs with a fault in their sums leave the costs and the budget readable, and the budget crossed."""
    for _ in range(2):
        scene.settle(run := scene.claimed(), Ended(AttemptOutcome.SUCCEEDED, output={"cost": 1.7e308}))
        assert scene.run(run).cost == LARGEST_COST
    with scene.database.read() as connection:
        assert [one.amount for one in costs.spent_within(connection, None, None)] == [2 * LARGEST_COST]


def test_a_hand_back_uses_no_attempt(scene: Scene) -> None:
    """X-07: pending at once, as if it had not begun; its log begins anew."""
    run = scene.claimed(max_attempts=1)
    with scene.database.write() as connection:
        logs.append(connection, {(run.id, 1): [LogPiece(0, b"half")]})
    assert scene.settle(run, Ended(AttemptOutcome.HANDED_BACK)) == Settled(HandBack(scene.rows.now))
    after = scene.run(run)
    assert (after.status, after.attempt, after.available_at, after.started_at) == ("pending", 0, scene.rows.now, None)
    with scene.database.read() as connection:
        assert logs.read(connection, run.id, 1).head == b""


def test_a_claim_no_longer_held_changes_nothing(scene: Scene) -> None:
    """X-05: neither the run nor the trigger nor the log, and it is recorded."""
    run = scene.claimed(max_attempts=1)
    with scene.database.write() as connection:
        claims.take_over(connection, [run], scene.rows.now, claimed_by="other", lease=LEASE)
    before, status_before = scene.run(run), scene.status
    assert scene.settle(run, BROKEN, LogPiece(0, b"late")) == Settled(None)
    assert (scene.run(run), scene.status) == (before, status_before)
    with scene.database.read() as connection:
        assert logs.sizes(connection, [(run.id, 1)]) == {}
    assert scene.seen == [ClaimLost(run, None, run.claim)]


def test_settling_twice_changes_nothing_more(scene: Scene) -> None:
    """Invariant 5: a settle whose answer was lost is tried again."""
    run = scene.claimed(max_attempts=1)
    scene.settle(run, BROKEN)
    assert scene.settle(run, BROKEN) == Settled(None)
    assert scene.status.consecutive_failures == 1


def test_a_cancelled_run_is_over(scene: Scene) -> None:
    """X-11: whatever its attempts; the trigger's failures do not change."""
    run = scene.claimed()
    with scene.database.write() as connection:
        run_orders.request_cancel(connection, run.id, scene.rows.now, "ann")
    assert scene.settle(run, BROKEN) == Settled(RunEnd(RunStatus.CANCELLED))
    assert scene.run(run).status == "cancelled"
    assert (scene.status.consecutive_failures, scene.status.last_error) == (0, None)


def test_the_failure_limit_is_reached_at_five(scene: Scene) -> None:
    """X-07: five runs failed in a row, each after its own retries."""
    reached = [scene.once(BROKEN, max_attempts=1).stop for _ in range(5)]
    assert reached == [None, None, None, None, Stop(StopReason.FAILURES)]


def test_the_current_specs_limit_counts(scene: Scene) -> None:
    """X-07: `deactivate_after` of the trigger as it is now."""
    scene.trigger = scene.rows.redeploy(scene.trigger, deactivate_after=2)
    reached = [scene.once(BROKEN, max_attempts=1).stop for _ in range(2)]
    assert reached == [None, Stop(StopReason.FAILURES)]


def test_failures_of_an_older_revision_do_not_count(scene: Scene) -> None:
    """X-07: a DEPLOY begins counting anew, and what ran before it tells nothing of it."""
    old = [scene.claimed(max_attempts=1) for _ in range(2)]
    scene.settle(old[0], BROKEN)
    assert scene.status.consecutive_failures == 1
    scene.trigger = scene.rows.redeploy(scene.trigger, input={"b": 1})
    assert scene.status.consecutive_failures == 0
    scene.settle(old[1], Ended(AttemptOutcome.FAILED, "old"))
    assert (scene.status.consecutive_failures, scene.status.last_error) == (0, "old")
    scene.once(BROKEN, max_attempts=1)
    assert scene.status.consecutive_failures == 1


def test_errors_are_kept_short_and_storable(scene: Scene) -> None:
    """L-13: whatever a task says, it can be written down."""
    run = scene.claimed(max_attempts=1)
    scene.settle(run, Ended(AttemptOutcome.FAILED, "\0\ud800" + "x" * 10_000))
    error = scene.run(run).error or ""
    assert error.startswith("\N{REPLACEMENT CHARACTER}?x")
    assert len(error) == LONGEST_ERROR
    assert scene.status.last_error == error


def answered(outcome: AttemptOutcome, state: Any) -> Ended:
    return Ended(outcome, None if outcome is AttemptOutcome.SUCCEEDED else "broken", {"state": state})


@pytest.mark.parametrize("attempts", [1, 3], ids=["for good", "to be repeated"])
@pytest.mark.parametrize(
    "outcome", [AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED, AttemptOutcome.TIMED_OUT, AttemptOutcome.CANCELLED]
)
def test_a_state_is_kept_however_the_attempt_ended(scene: Scene, outcome: AttemptOutcome, attempts: int) -> None:
    """X-06: also on failure, and between two attempts; with when and by which run it was written."""
    run = scene.claimed(max_attempts=attempts)
    scene.settle(run, answered(outcome, {"b": 1.0, "a": "ü"}))
    with scene.database.read() as connection:
        kept = states.get(connection, scene.trigger.trigger_id)
    assert kept == states.StoredState(scene.trigger.trigger_id, '{"a":"ü","b":1}', scene.rows.now, "system", run.id)


def test_an_output_without_a_state_leaves_the_old_one(scene: Scene) -> None:
    """X-06: absent is not null, which is a state like any other JSON."""
    scene.once(answered(AttemptOutcome.SUCCEEDED, [1]))
    for ended in (
        OK,
        Ended(AttemptOutcome.SUCCEEDED),
        BROKEN,
        Ended(AttemptOutcome.LOST, "gone"),
        Ended(AttemptOutcome.HANDED_BACK),
    ):
        scene.once(ended)
        assert scene.state == "[1]"
    for state, text in ((False, "false"), ("", '""'), (0, "0"), (None, "null")):
        scene.once(answered(AttemptOutcome.SUCCEEDED, state))
        assert scene.state == text


def test_a_state_up_to_64_kib_is_kept(scene: Scene) -> None:
    """X-06: bytes of its canonical text count, not characters and not how it was written."""
    largest = "ü" * (LARGEST // 2 - 1)
    assert scene.once(answered(AttemptOutcome.SUCCEEDED, largest)) == Settled(RunEnd(RunStatus.SUCCEEDED))
    assert scene.state == f'"{largest}"'


def test_a_state_that_is_too_large_fails_the_run(scene: Scene) -> None:
    """X-06: it says why and is not repeated, for its work is done; the old state and the answer stay."""
    scene.once(answered(AttemptOutcome.SUCCEEDED, "old"))
    run = scene.claimed(max_attempts=3)
    large = "x" * (LARGEST - 1)
    assert scene.settle(run, answered(AttemptOutcome.SUCCEEDED, large)) == Settled(RunEnd(RunStatus.FAILED))
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
def test_a_failure_with_a_state_that_is_too_large_says_both(
    scene: Scene, outcome: AttemptOutcome, status: RunStatus
) -> None:
    """X-06: what went wrong first stays the outcome."""
    run = scene.claimed()
    assert scene.settle(run, answered(outcome, "x" * LARGEST)) == Settled(RunEnd(status))
    assert (scene.run(run).error or "").startswith("broken; state is 65,538 bytes")
    assert scene.state is None


def test_a_claim_no_longer_held_keeps_no_state(scene: Scene) -> None:
    """X-05, X-06: whoever lost the claim writes nothing."""
    run = scene.claimed()
    with scene.database.write() as connection:
        claims.take_over(connection, [run], scene.rows.now, claimed_by="other", lease=LEASE)
    assert scene.settle(run, answered(AttemptOutcome.SUCCEEDED, "late")) == Settled(None)
    assert scene.state is None


@pytest.mark.parametrize("seed", range(6))
def test_what_ends_together_comes_to_the_same(scene: Scene, seed: int) -> None:
    """X-06, X-07, X-08: runs, status and the first reason to stop are those of one end after the other."""
    chance = Random(seed)
    of: dict[str, Any] = {"deactivate_after": 3, "limits": {"max_cost": 4, "budget_period": "day", "max_runs": 4}}
    alone, together = scene.rows.trigger("alone", **of), scene.rows.trigger("together", **of)
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
    separate, joined = ([scene.claimed(of, max_attempts=most) for most in attempts] for of in (alone, together))
    one_by_one = [scene.settle(run, end) for run, end in zip(separate, ends, strict=True)]
    endings = [Ending(run, end) for run, end in zip(joined, ends, strict=True)]
    at_once = settle_all(scene.database, scene.observations, endings)
    assert [one.decision for one in at_once] == [one.decision for one in one_by_one]
    assert [one.stop for one in at_once if one.stop][:1] == [one.stop for one in one_by_one if one.stop][:1]
    assert scene.kept(together) == scene.kept(alone)


def test_a_lost_claim_among_others_changes_nothing(scene: Scene) -> None:
    """X-05: the others that ended with it are settled; the lost one is told of."""
    lost, other = scene.claimed(), scene.claimed()
    with scene.database.write() as connection:
        claims.take_over(connection, [lost], scene.rows.now, claimed_by="other", lease=LEASE)
    settled = settle_all(scene.database, scene.observations, [Ending(lost, OK), Ending(other, OK)])
    assert [one.decision for one in settled] == [None, RunEnd(RunStatus.SUCCEEDED)]
    assert (scene.run(lost).status, scene.run(other).status) == ("running", "succeeded")
    assert [observation.name for observation in scene.seen] == ["claim.lost", "attempt.ended", "run.settled"]


def test_a_trigger_that_stops_is_asked_once(scene: Scene) -> None:
    """X-07: of failures that end together the one that is too many stops the trigger, and nobody after it."""
    ours = [scene.claimed(max_attempts=1) for _ in range(7)]
    settled = settle_all(scene.database, scene.observations, [Ending(run, BROKEN) for run in ours])
    assert [one.stop for one in settled] == [None] * 4 + [Stop(StopReason.FAILURES)] + [None] * 2
    assert scene.status.consecutive_failures == 7
