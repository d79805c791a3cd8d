"""What a scrape gets of things that happen rarely."""

from datetime import UTC, datetime, timedelta

import pytest

from controller.settings import Settings
from controller.telemetry.installation_metrics import OTHERS, PROJECTS, lateness
from controller.telemetry.metrics import Metrics
from reconcile.decide.admission import Pace
from reconcile.decide.attempt_ends import AttemptOutcome
from reconcile.decide.authority import Caller
from reconcile.loop import surveys
from reconcile.runs.manual.backlogs import drop_backlog
from reconcile.triggers import holds
from reconcile.triggers.tasks import delete_task
from revisions.ids import TaskKey
from revisions.store import quarantines
from revisions.store.counts import DelayCause, LateTriggers
from tests.world import World, key


@pytest.fixture
def metrics(world: World) -> Metrics:
    """They hear what happens in the world."""
    metrics = Metrics(world.database, lambda: False, Settings())
    world.observations.subscribe(metrics.count)
    return metrics


def value(metrics: Metrics, metric: str, /, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"triggerctl_{metric}", labels)


def test_a_backlog_that_was_given_up_counts_as_missed(world: World, metrics: Metrics) -> None:
    """L-17, O-02: by how many occurrences it held."""
    world.create(overlap="allow", catchup={"policy": "all"})
    world.advance(minutes=12)
    world.another_loop_without_catch_up().resync()
    drop_backlog(world.database, world.observations, Pace(), key("tick"), Caller("ann"))
    assert value(metrics, "skips_total", reason="missed") == 10


@pytest.mark.parametrize("outcome", ["missed", "superseded", "concurrency", "blackout", "budget", "denied", "rate"])
def test_skips_are_counted_from_0_on(metrics: Metrics, outcome: str) -> None:
    """O-02: so that the first is an increase, whatever the outcome."""
    assert value(metrics, "skips_total", reason=outcome) == 0


def test_runs_that_are_cancelled_before_they_begin_have_ended_too(world: World, metrics: Metrics) -> None:
    """O-02: for another one, by a schedule or by hand, and with their task."""
    world.create(overlap="cancel")
    ended = []
    for _ in range(2):
        world.advance(minutes=1)
        world.resync()
        ended.append(value(metrics, "runs_total", outcome="cancelled", source="schedule"))
    world.fire(key("tick"), None, Caller("ann"), overlap="terminate")
    ended.append(value(metrics, "runs_total", outcome="cancelled", source="schedule"))
    delete_task(world.database, world.observations, TaskKey("acme", "production", "report", "v1"), Caller("ann"))
    assert ended == [0, 1, 2]
    assert value(metrics, "runs_total", outcome="cancelled", source="manual") == 1


def test_how_long_a_start_waited_for_its_token(world: World, metrics: Metrics) -> None:
    """L-09, O-02: from the first refusal to the start."""
    for name in ("a", "b"):
        world.create(name, overlap="allow")
    world.loop = world.another_loop(Pace(execution_qps=0.1, execution_burst=1))
    world.advance(minutes=1)
    world.resync()
    assert value(metrics, "rate_limit_wait_seconds_count") == 0
    world.advance(seconds=10)
    world.resync()
    assert value(metrics, "rate_limit_wait_seconds_count") == 1
    assert value(metrics, "rate_limit_wait_seconds_sum") == 10


def test_replicas_demand_and_findings(world: World, metrics: Metrics) -> None:
    """L-14, L-16, L-18, O-02: counted at each resync and scan."""
    world.create(schedule={"every": "10s"}, overlap="allow")
    world.resync()
    assert value(metrics, "asked_rate") == 0.1
    assert value(metrics, "replicas") == 1
    world.another_loop().resync()
    assert value(metrics, "replicas") == 2
    world.advance(minutes=3)
    world.loop.scan()
    assert value(metrics, "findings_total", kind="overdue") == 1


def test_what_is_in_quarantine_is_read_from_the_database(world: World, metrics: Metrics) -> None:
    """L-13, O-02: the same on every replica; what was deactivated since is not among it."""
    world.create()
    assert value(metrics, "quarantined") == 0
    with world.database.write() as connection:
        quarantines.put(connection, world.id("tick"), "unreadable", world.clock.now(connection))
    assert value(metrics, "quarantined") == 1
    world.deactivate("tick", 1)
    assert value(metrics, "quarantined") == 0


def late(metrics: Metrics, project: str = "acme") -> dict[str, tuple[float, float]]:
    """How many triggers of a project are late and for how long, by cause; causes that hold none are left out."""
    found = {}
    for cause in DelayCause:
        number = value(metrics, "late_triggers", project=project, cause=cause)
        seconds = value(metrics, "late_seconds", project=project, cause=cause)
        assert number is not None
        assert seconds is not None
        if number:
            found[cause.value] = (number, seconds)
    return found


def test_what_is_due_and_undecided_is_told_by_its_cause(world: World, metrics: Metrics) -> None:
    """O-02: nobody came; there is no token; it cannot be decided; the project is frozen, whatever else there is."""
    for name in ("a", "b", "c"):
        world.create(name, overlap="allow")
    assert late(metrics) == {}
    world.advance(seconds=70)
    assert late(metrics) == {"undecided": (3, 10)}
    with world.database.write() as connection:
        quarantines.put(connection, world.id("c"), "unreadable", world.clock.now(connection))
    world.another_loop(Pace(execution_qps=0.001, execution_burst=1)).due([world.id(name) for name in "ab"])
    world.advance(seconds=1)
    assert late(metrics) == {"rate": (1, 11), "quarantine": (1, 11)}
    holds.freeze(world.database, world.observations, "acme", None, Caller("ann", "x"))
    assert late(metrics) == {"freeze": (2, 11)}
    assert value(metrics, "frozen", project="acme") == 1


def test_a_freeze_that_is_over_or_of_others_holds_nothing(world: World, metrics: Metrics) -> None:
    """O-02: one of everything holds everything, until its end."""
    world.create(overlap="allow")
    holds.freeze(world.database, world.observations, "other", None, Caller("ann", "x"))
    holds.freeze(world.database, world.observations, None, world.start + timedelta(seconds=90), Caller("ann", "x"))
    world.advance(seconds=80)
    assert late(metrics) == {"freeze": (1, 20)}
    assert value(metrics, "frozen", project="(everything)") == 1
    world.advance(seconds=20)
    assert late(metrics) == {"undecided": (1, 40)}
    assert value(metrics, "frozen", project="other") == 1
    assert value(metrics, "frozen", project="(everything)") is None


def test_what_is_inactive_is_not_late(world: World, metrics: Metrics) -> None:
    """O-02: and its project, when nothing else of it is active, has no series any more."""
    world.create()
    world.deactivate("tick", 1)
    world.advance(minutes=5)
    assert value(metrics, "late_triggers", project="acme", cause="undecided") is None


def test_projects_beyond_the_bound_are_told_together() -> None:
    """O-02: whatever their number, 50 bear a name and the others one together; those late the longest go first."""
    now = datetime(2026, 3, 2, 8, tzinfo=UTC)
    found = [
        LateTriggers(f"p{age:02}", DelayCause.UNDECIDED, 2, now - timedelta(seconds=age)) for age in range(PROJECTS + 5)
    ]
    numbers, seconds = lateness(["quiet"], found, now)
    named = {project for project, _ in numbers} - {OTHERS}
    assert named == {f"p{age:02}" for age in range(5, PROJECTS + 5)}
    assert numbers[OTHERS, "undecided"] == 2 * 5
    assert seconds[OTHERS, "undecided"] == 4


def test_why_triggers_rest(world: World, metrics: Metrics) -> None:
    """O-02: what the system stopped by its reasons; what people stopped together, even where they say the same."""
    for name in ("fails", "by-hand", "named-so", "active", "gone"):
        world.create(name, overlap="allow", deactivate_after=1, retry={"max_attempts": 1})
    world.deactivate("by-hand", 1, "holidays")
    world.deactivate("named-so", 1, "failures")
    world.delete("gone", 1)
    world.fire(key("fails"), None, Caller("ann"))
    world.finish(AttemptOutcome.FAILED)
    assert value(metrics, "triggers_active") == 1
    assert value(metrics, "triggers_deactivated", reason="failures") == 1
    assert value(metrics, "triggers_deactivated", reason="by_hand") == 2
    assert value(metrics, "triggers_deactivated", reason="budget") == 0


def test_how_much_of_a_budget_is_used(world: World, metrics: Metrics) -> None:
    """X-08, O-02: the highest share of a project, what is set aside included; looked at on start and by each scan."""
    world.create("small", overlap="allow", limits={"max_cost": 10, "estimate": 1})
    world.create("large", overlap="allow", limits={"max_cost": 100, "estimate": 1})
    world.create("none", overlap="allow")
    world.resync()
    assert value(metrics, "budget_used_ratio", project="acme") == 0
    for name in ("small", "large"):
        world.fire(key(name), None, Caller("ann"))
        world.finish(cost=4)
    world.fire(key("small"), None, Caller("ann"))
    world.resync()
    assert value(metrics, "budget_used_ratio", project="acme") == 0
    world.loop.scan()
    assert value(metrics, "budget_used_ratio", project="acme") == 0.5


def test_a_budget_that_is_used_up_is_still_told(world: World, metrics: Metrics) -> None:
    """X-08, O-02: while the trigger rests for it; a deleted one's is not."""
    world.create(overlap="allow", limits={"max_cost": 4, "estimate": 1})
    world.fire(key("tick"), None, Caller("ann"))
    world.finish(cost=5)
    assert world.history()[0].reason == "budget"
    world.loop.scan()
    assert value(metrics, "budget_used_ratio", project="acme") == 1.25
    world.delete("tick", 2)
    world.loop.scan()
    assert value(metrics, "budget_used_ratio", project="acme") is None


def test_what_a_backlog_comes_to_is_not_late(world: World, metrics: Metrics) -> None:
    """L-06, O-02: it is counted apart, and how far back it goes is told until it is done."""
    world.create(overlap="allow", catchup={"policy": "all"})
    world.advance(minutes=12)
    world.another_loop_without_catch_up().resync()
    live = value(metrics, "fire_lateness_seconds_count")
    assert value(metrics, "catchup_oldest_seconds") == 720
    world.loop.catch_up()
    assert value(metrics, "fire_lateness_seconds_count") == live
    assert value(metrics, "caught_up_total") == 10
    assert value(metrics, "catchup_oldest_seconds") == 0


def test_a_frozen_backlog_is_nobodys_fault(world: World, metrics: Metrics) -> None:
    """L-17, O-02: it is counted, but does not grow old."""
    world.create(overlap="allow", catchup={"policy": "all"})
    world.advance(minutes=12)
    world.another_loop_without_catch_up().resync()
    holds.freeze(world.database, world.observations, "acme", None, Caller("ann", "x"))
    assert value(metrics, "catchup_backlog") == 1
    assert value(metrics, "catchup_oldest_seconds") == 0


def test_how_long_ago_the_last_resync_was(world: World, metrics: Metrics) -> None:
    """O-02: by a clock that nobody sets; nothing is told before the first, for there may be no loop."""
    assert value(metrics, "resync_age_seconds") is None
    world.resync()
    world.advance(seconds=40)
    assert value(metrics, "resync_age_seconds") == 40


def test_counters_begin_at_zero(world: World, metrics: Metrics) -> None:
    """O-02: so that the first failure is an increase, which a rule can see."""
    assert value(metrics, "runs_total", outcome="failed", source="schedule") == 0
    assert value(metrics, "pass_failures_total", part="runner") == 0


def test_transactions_and_connections(world: World, metrics: Metrics) -> None:
    """O-02: deciding, claiming and settling are timed; the connections of this process are counted."""
    world.create(overlap="allow")
    world.advance(minutes=1)
    world.resync()
    world.finish()
    for kind in ("decide", "claim", "settle"):
        assert value(metrics, "transaction_seconds_count", kind=kind) == 1, kind
    pool = {state: value(metrics, "pool_connections", state=state) for state in ("used", "idle", "free")}
    with world.database.read():
        assert value(metrics, "pool_connections", state="used") == (pool["used"] or 0) + 1


def test_what_others_are_measured_against(world: World, metrics: Metrics) -> None:
    """O-02: settings as numbers, spans in seconds."""
    assert value(metrics, "setting", name="execution_qps") == 10
    assert value(metrics, "setting", name="resync_interval") == 30


def test_budgets_are_looked_at_a_part_at_a_time(
    world: World, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X-08, O-02: so that alarms are not kept waiting; nothing is told before the last part."""
    monkeypatch.setattr(surveys, "PART", 2)
    for name, most in (("a", 10), ("b", 20), ("c", 40)):
        world.create(name, overlap="allow", limits={"max_cost": most, "estimate": 1})
        world.fire(key(name), None, Caller("ann"))
    world.resync()
    assert value(metrics, "budget_used_ratio", project="acme") is None
    world.resync()
    assert value(metrics, "budget_used_ratio", project="acme") == 0.1
