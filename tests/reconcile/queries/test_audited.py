"""Whatever people do to a trigger and whenever a loop looks, the audit of its whole life is clean (U-07)."""

from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from reconcile.decide.admission import Pace
from reconcile.decide.authority import Caller
from reconcile.decide.changes import has_occurrences
from reconcile.queries.audit import audit_faults, audit_trigger
from reconcile.report.audit import AuditResult
from reconcile.runs.manual.backfill import BackfillRequest, backfill_trigger
from revisions.history.triggers import Trigger
from revisions.store import triggers
from revisions.store.run_tables import runs
from tests.conftest import START
from tests.world import World, key

CALLER = Caller("ann")
NAMES = count(1)
SPECS: list[dict[str, Any]] = [
    {"overlap": overlap, "catchup": catchup, "schedule": schedule, "description": description}
    for overlap in ("allow", "skip")
    for catchup in (
        {"policy": "latest"},
        {"policy": "none"},
        {"policy": "all"},
        {"policy": "all", "window": "8m"},
        {"policy": "all", "inactive": True},
        {"policy": "latest", "inactive": True},
    )
    for schedule in ({"every": "1m"}, {"every": "90s"}, {"cron": "*/2 * * * *"}, {"every": "1m", "count": 9})
    for description in ("", "x")
]
LOOPS = {
    "unhindered": Pace(execution_qps=0, max_catchup_runs_per_loop=1_000_000),
    "capped": Pace(execution_qps=0, max_catchup_runs_per_loop=2),
    "slow": Pace(execution_qps=0.02, execution_burst=2),
}
STEPS = st.one_of(
    st.tuples(st.just("look"), st.sampled_from(sorted(LOOPS)), st.integers(1, 400)),
    st.tuples(st.just("look"), st.sampled_from(sorted(LOOPS)), st.integers(1, 90)),
    st.tuples(st.just("wait"), st.integers(1, 900)),
    st.tuples(st.just("deploy"), st.sampled_from(SPECS)),
    st.tuples(st.just("pause"), st.none() | st.integers(1, 600)),
    st.tuples(st.just("resume")),
    st.tuples(st.just("delete")),
    st.tuples(st.just("rename")),
    st.tuples(st.just("fire")),
    st.tuples(st.just("backfill"), st.integers(1, 900)),
    st.tuples(st.just("finish")),
)


@dataclass
class Life:
    """One trigger and everything that can happen to it; what the product would refuse is left out."""

    world: World
    name: str

    def look(self, loop: str, seconds: int) -> None:
        self.wait(seconds)
        self.world.loop = self.world.another_loop(LOOPS[loop])
        self.world.resync()

    def wait(self, seconds: int) -> None:
        self.world.advance(seconds=seconds)

    def deploy(self, spec: dict[str, Any]) -> None:
        now = self.trigger()
        if now.deleted:
            self.world.create(self.name, **spec)
        else:
            self.world.update(self.name, now.revision, **spec)

    def pause(self, seconds: int | None) -> None:
        now = self.trigger()
        if now.active:
            until = self.world.clock_now() + timedelta(seconds=seconds) if seconds else None
            self.world.deactivate(self.name, now.revision, until=until)

    def resume(self) -> None:
        now = self.trigger()
        done = now.deactivated_reason == "completed"  # an exhausted `count` cannot be resumed
        if not now.active and not now.deleted and not done:
            self.world.activate(self.name, now.revision)

    def delete(self) -> None:
        if not self.trigger().deleted:
            self.world.delete(self.name, self.trigger().revision)

    def rename(self) -> None:
        if not self.trigger().deleted:
            new = f"t{next(NAMES)}"
            self.world.rename(self.name, new, self.trigger().revision)
            self.name = new

    def fire(self) -> None:
        if not self.trigger().deleted:
            self.world.fire(key(self.name), None, CALLER, "allow")

    def backfill(self, seconds: int) -> None:
        if not self.trigger().deleted:
            now = self.world.clock_now()
            wish = BackfillRequest(now - timedelta(seconds=seconds), now + timedelta(seconds=1), overlap="allow")
            backfill_trigger(
                self.world.database, self.world.observations, key(self.name), wish, CALLER, lambda done, total: None
            )

    def finish(self) -> None:
        """All runs end, so that the next occurrence finds none going on."""
        with self.world.database.write() as connection:
            connection.execute(update(runs).values(status="succeeded"))

    def trigger(self) -> Trigger:
        with self.world.database.read() as connection:
            found = triggers.get(connection, key(self.name))
        assert found is not None
        return found


def check(life: Life) -> None:
    assert audit_faults(life.world.database, Pace().grace, key(life.name)) == []


@settings(
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(spec=st.sampled_from(SPECS), steps=st.lists(STEPS, min_size=4, max_size=14))
def test_a_life_is_always_audited_clean(world: World, spec: dict[str, Any], steps: list[Any]) -> None:
    """U-07, L-06, R-21: nothing missing, nothing twice, nothing unexplained, after every single step."""
    hour = timedelta(hours=1)
    world.advance(seconds=((START - world.clock_now()) % hour).total_seconds())  # so that it can be had again
    life = Life(world, f"t{next(NAMES)}")
    world.create(life.name, **spec)
    for name, *arguments in steps:
        getattr(life, name)(*arguments)
        check(life)
    life.look("unhindered", 1)
    life.look("unhindered", 1)
    check(life)
    summary = audit_trigger(world.database, Pace().grace, key(life.name), world.start, None, 1).summary
    assert summary is not None
    now = life.trigger()
    assert not summary.kinds[AuditResult.UNDECIDED] or (has_occurrences(now) and not now.active)
    life.delete()
