"""State machine of runs: random claims, renewals, ends, lapsed leases and cancellations, on both databases."""

from collections import Counter, defaultdict
from datetime import timedelta
from itertools import count
from operator import attrgetter
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from reconcile.decide.attempt_ends import AttemptOutcome
from reconcile.decide.authority import Caller
from reconcile.runs.attempt import Ended
from reconcile.runs.endings import EndedAttempt, Settled
from reconcile.runs.settle import apply_stop, settle, settle_all
from revisions.clock import HandClock
from revisions.errors import Conflict
from revisions.store import claims, run_orders, runs
from revisions.store.database import Database
from revisions.store.run_tables import runs as table
from revisions.store.runs import Run
from tests.world import World, key

NAMES = ("keyed", "twin", "bounded", "tasked", "budgeted")
SPECS: dict[str, dict[str, Any]] = {
    "keyed": {"serialize_key": "k"},
    "twin": {"serialize_key": "k"},
    "bounded": {"concurrency": {"limit": 2}},
    "tasked": {"task_version": "v2"},
    "budgeted": {"limits": {"max_cost": 1, "estimate": 0.3}},
}
MOST_RUNNING = 4
LEASE = timedelta(seconds=60)
ROUNDS = count(1)
CLAIM = attrgetter("id", "claim")
ENDS = st.builds(Ended, st.sampled_from(AttemptOutcome), output=st.sampled_from([{}, {"cost": 0.1}, {"cost": 0.3}]))


class Machine(RuleBasedStateMachine):
    """Two workers, each of which may stall for longer than its lease and come back, and manual runs."""

    database: ClassVar[Database]
    clock: ClassVar[HandClock]

    @initialize()
    def begin(self) -> None:
        with self.database.write() as connection:  # of an earlier example
            connection.execute(table.delete())
        self.world = World(self.database, self.clock)
        self.round = next(ROUNDS)
        self.world.register(f"v{self.round}")
        self.world.register(f"w{self.round}", concurrency={"limit": 2})
        for name, spec in SPECS.items():
            version = f"w{self.round}" if name == "tasked" else f"v{self.round}"
            self.world.create(self._versioned(name), **spec | {"task_version": version})
        self.held: list[Run] = []
        self.costs: dict[str, float] = defaultdict(float)

    @rule(name=st.sampled_from(NAMES))
    def fire(self, name: str) -> None:
        try:
            self.world.fire(key(self._versioned(name)), None, Caller("ann"), "allow")
        except Conflict:
            assert name == "budgeted"

    @rule(worker=st.sampled_from("ab"), limit=st.integers(1, 3))
    def claim(self, worker: str, limit: int) -> None:
        self.held += self.world.claim(limit, MOST_RUNNING, worker)

    @rule(data=st.data())
    def beat(self, data: st.DataObject) -> None:
        if run := self._draw_held(data):
            with self.database.write() as connection:
                now = self.database.clock.now(connection)
                claims.renew(connection, [run], now, LEASE)

    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        """Settle some held runs at once; a worker whose claim is not its own any more changes nothing."""
        if not self.held:
            return
        chosen = data.draw(st.lists(st.sampled_from(self.held), min_size=1, max_size=3, unique_by=CLAIM))
        before = {CLAIM(run): self._get(run) for run in chosen}
        endings = [EndedAttempt(run, data.draw(ENDS)) for run in chosen]
        self.held = [run for run in self.held if run not in chosen]
        changed = set()
        for ending, settled in zip(endings, self._settle(*endings), strict=True):
            run, stored = ending.run, before[CLAIM(ending.run)]
            assert (settled.decision is not None) == (stored.status == "running" and stored.claim == run.claim)
            if settled.decision is not None:
                changed.add(run.id)
                if ending.ended.outcome is not AttemptOutcome.HANDED_BACK:
                    self.costs[run.trigger_id] += (ending.ended.output or {}).get("cost", 0.0)
        assert all(self._get(run) == before[CLAIM(run)] for run in chosen if run.id not in changed)

    def _settle(self, *endings: EndedAttempt) -> list[Settled]:
        settled = settle_all(self.database, self.world.observations, endings)
        for ending, result in zip(endings, settled, strict=True):
            if result.stop:
                apply_stop(self.world.database, self.world.observations, ending.run, result.stop)
        return settled

    @rule()
    def reap(self) -> None:
        with self.database.read() as connection:
            lapsed = claims.lapsed(connection, self.database.clock.now(connection), 10)
        for run in lapsed:
            settle(self.database, self.world.observations, run, Ended(AttemptOutcome.LOST))

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if live := self._live():
            run = data.draw(st.sampled_from(live))
            with self.database.write() as connection:
                run_orders.request_cancel(connection, run.id, self.database.clock.now(connection), "ann")

    @rule(seconds=st.sampled_from([1, 30, 61, 400]))
    def advance(self, seconds: int) -> None:
        self.world.advance(seconds=seconds)

    @invariant()
    def every_running_run_has_a_worker_and_a_lease(self) -> None:
        """X-05: and no other run has either."""
        for run in self._live():
            claimed = run.status == "running"
            assert (run.lease_until is not None, run.claimed_by is not None) == (claimed, claimed)

    @invariant()
    def no_limit_is_exceeded(self) -> None:
        """X-04: neither the global one nor a trigger's or a task's, and no key is held twice."""
        running = Counter(run.trigger_id for run in self._live() if run.status == "running")
        by_name = {name: running[self.world.id(self._versioned(name))] for name in NAMES}
        assert running.total() <= MOST_RUNNING
        assert by_name["keyed"] + by_name["twin"] <= 1
        assert by_name["bounded"] <= 2
        assert by_name["tasked"] <= 2

    @invariant()
    def no_budget_is_overspent(self) -> None:
        """X-08: since no attempt costs more than the estimate; a run's cost is the sum of its attempts' costs."""
        name = self._versioned("budgeted")
        assert self.costs[self.world.id(name)] <= 1 + 1e-9
        assert self.costs[self.world.id(name)] == pytest.approx(sum(run.cost or 0.0 for run in self.world.runs(name)))

    def _versioned(self, name: str) -> str:
        return f"{name}-{self.round}"

    def _draw_held(self, data: st.DataObject) -> Run | None:
        return data.draw(st.sampled_from(self.held)) if self.held else None

    def _get(self, run: Run) -> Run:
        with self.database.read() as connection:
            found = runs.get(connection, run.id)
        assert found is not None
        return found

    def _live(self) -> list[Run]:
        with self.database.read() as connection:
            found = runs.page(connection, None, 1_000)
        return [run for run in found if run.status in runs.LIVE]


def test_invariants_hold_in_random_histories_of_runs(database: Database, clock: HandClock) -> None:
    """X-04, X-05, X-08: in any order of claims, ends, lapses and cancellations."""

    class BoundMachine(Machine):
        pass

    BoundMachine.database, BoundMachine.clock = database, clock
    examples = settings(max_examples=10, stateful_step_count=25, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(BoundMachine, settings=examples)
