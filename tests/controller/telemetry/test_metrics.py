"""Metrics of rare situations: backlogs, quarantine, late and inactive triggers, budgets, freezes."""

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
    """Metrics that subscribe to the world's observations."""
    metrics = Metrics(world.database, lambda: False, Settings())
    world.observations.subscribe(metrics.count)
    return metrics


def value(metrics: Metrics, metric: str, /, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"triggerctl_{metric}", labels)


def test_a_dropped_backlog_counts_as_missed(world: World, metrics: Metrics) -> None:
    """L-17, O-02: with the number of its occurrences."""
    world.create(overlap="allow", catchup={"policy": "all"})
    world.advance(minutes=12)
    world.another_loop_without_catch_up().resync()
    drop_backlog(world.database, world.observations, Pace(), key("tick"), Caller("ann"))
    assert value(metrics, "skips_total", reason="missed") == 10


@pytest.mark.parametrize("outcome", ["missed", "superseded", "concurrency", "blackout", "budget", "denied", "rate"])
def test_counters_of_skips_begin_at_zero(metrics: Metrics, outcome: str) -> None:
    """O-02: so that the first skip is an increase, whatever its outcome."""
    assert value(metrics, "skips_total", reason=outcome) == 0


def test_runs_cancelled_while_pending_are_counted(world: World, metrics: Metrics) -> None:
    """O-02: replaced by another run, of the schedule or by hand, or deleted with their task."""
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


def test_the_wait_for_a_rate_token(world: World, metrics: Metrics) -> None:
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
    """L-14, L-16, L-18, O-02: updated at each resync and scan."""
    world.create(schedule={"every": "10s"}, overlap="allow")
    world.resync()
    assert value(metrics, "asked_rate") == 0.1
    assert value(metrics, "replicas") == 1
    world.another_loop().resync()
    assert value(metrics, "replicas") == 2
    world.advance(minutes=3)
    world.loop.scan()
    assert value(metrics, "findings_total", kind="overdue") == 1


def test_quarantines_are_counted_in_the_database(world: World, metrics: Metrics) -> None:
    """L-13, O-02: with the same result on every replica; inactive triggers are not counted."""
    world.create()
    assert value(metrics, "quarantined") == 0
    with world.database.write() as connection:
        quarantines.put(connection, world.id("tick"), "unreadable", world.clock.now(connection))
    assert value(metrics, "quarantined") == 1
    world.deactivate("tick", 1)
    assert value(metrics, "quarantined") == 0


def late_triggers(metrics: Metrics, project: str = "acme") -> dict[str, tuple[float, float]]:
    """Return number of late triggers of a project and their delay in seconds, by cause, without empty causes."""
    delays = {}
    for cause in DelayCause:
        number = value(metrics, "late_triggers", project=project, cause=cause)
        seconds = value(metrics, "late_seconds", project=project, cause=cause)
        assert number is not None
        assert seconds is not None
        if number:
            delays[cause.value] = (number, seconds)
    return delays


def test_late_triggers_are_counted_by_cause(world: World, metrics: Metrics) -> None:
    """O-02: not decided yet, no rate token, quarantined; a freeze takes precedence over the others."""
    for name in ("a", "b", "c"):
        world.create(name, overlap="allow")
    assert late_triggers(metrics) == {}
    world.advance(seconds=70)
    assert late_triggers(metrics) == {"undecided": (3, 10)}
    with world.database.write() as connection:
        quarantines.put(connection, world.id("c"), "unreadable", world.clock.now(connection))
    world.another_loop(Pace(execution_qps=0.001, execution_burst=1)).due([world.id(name) for name in "ab"])
    world.advance(seconds=1)
    assert late_triggers(metrics) == {"rate": (1, 11), "quarantine": (1, 11)}
    holds.freeze(world.database, world.observations, "acme", None, Caller("ann", "x"))
    assert late_triggers(metrics) == {"freeze": (2, 11)}
    assert value(metrics, "frozen", project="acme") == 1


def test_only_a_freeze_in_force_is_a_cause(world: World, metrics: Metrics) -> None:
    """O-02: a freeze of another project is none; a freeze of everything is one until its end."""
    world.create(overlap="allow")
    holds.freeze(world.database, world.observations, "other", None, Caller("ann", "x"))
    holds.freeze(world.database, world.observations, None, world.start + timedelta(seconds=90), Caller("ann", "x"))
    world.advance(seconds=80)
    assert late_triggers(metrics) == {"freeze": (1, 20)}
    assert value(metrics, "frozen", project="(everything)") == 1
    world.advance(seconds=20)
    assert late_triggers(metrics) == {"undecided": (1, 40)}
    assert value(metrics, "frozen", project="other") == 1
    assert value(metrics, "frozen", project="(everything)") is None


def test_inactive_triggers_are_not_late(world: World, metrics: Metrics) -> None:
    """O-02: a project without active triggers has no series."""
    world.create()
    world.deactivate("tick", 1)
    world.advance(minutes=5)
    assert value(metrics, "late_triggers", project="acme", cause="undecided") is None


def test_projects_beyond_the_bound_share_one_series() -> None:
    """O-02: the 50 projects that are late the longest have their own series."""
    now = datetime(2026, 3, 2, 8, tzinfo=UTC)
    late_by_project = [
        LateTriggers(f"p{age:02}", DelayCause.UNDECIDED, 2, now - timedelta(seconds=age)) for age in range(PROJECTS + 5)
    ]
    numbers, seconds = lateness(["quiet"], late_by_project, now)
    projects = {project for project, _ in numbers} - {OTHERS}
    assert projects == {f"p{age:02}" for age in range(5, PROJECTS + 5)}
    assert numbers[OTHERS, "undecided"] == 2 * 5
    assert seconds[OTHERS, "undecided"] == 4


def test_deactivated_triggers_are_counted_by_reason(world: World, metrics: Metrics) -> None:
    """O-02: by reason if the system deactivated them; together if people did, even with the same reason."""
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


def test_the_highest_used_share_of_a_budget(world: World, metrics: Metrics) -> None:
    """X-08, O-02: by project, estimates of live runs included; computed at the start and by each scan."""
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


def test_a_budget_stays_visible_when_it_is_used_up(world: World, metrics: Metrics) -> None:
    """X-08, O-02: while the trigger is inactive because of it, but not after its deletion."""
    world.create(overlap="allow", limits={"max_cost": 4, "estimate": 1})
    world.fire(key("tick"), None, Caller("ann"))
    world.finish(cost=5)
    assert world.history()[0].reason == "budget"
    world.loop.scan()
    assert value(metrics, "budget_used_ratio", project="acme") == 1.25
    world.delete("tick", 2)
    world.loop.scan()
    assert value(metrics, "budget_used_ratio", project="acme") is None


def test_caught_up_runs_do_not_count_as_late(world: World, metrics: Metrics) -> None:
    """L-06, O-02: they have a counter of their own, and the age of the backlog is shown until it is empty."""
    world.create(overlap="allow", catchup={"policy": "all"})
    world.advance(minutes=12)
    world.another_loop_without_catch_up().resync()
    live = value(metrics, "fire_lateness_seconds_count")
    assert value(metrics, "catchup_oldest_seconds") == 720
    world.loop.catch_up()
    assert value(metrics, "fire_lateness_seconds_count") == live
    assert value(metrics, "caught_up_total") == 10
    assert value(metrics, "catchup_oldest_seconds") == 0


def test_a_frozen_backlog_has_no_age(world: World, metrics: Metrics) -> None:
    """L-17, O-02: it is counted, but does not raise an alert by its age."""
    world.create(overlap="allow", catchup={"policy": "all"})
    world.advance(minutes=12)
    world.another_loop_without_catch_up().resync()
    holds.freeze(world.database, world.observations, "acme", None, Caller("ann", "x"))
    assert value(metrics, "catchup_backlog") == 1
    assert value(metrics, "catchup_oldest_seconds") == 0


def test_the_age_of_the_last_resync(world: World, metrics: Metrics) -> None:
    """O-02: by the monotonic clock; absent before the first resync, because there may be no loop."""
    assert value(metrics, "resync_age_seconds") is None
    world.resync()
    world.advance(seconds=40)
    assert value(metrics, "resync_age_seconds") == 40


def test_counters_begin_at_zero(world: World, metrics: Metrics) -> None:
    """O-02: so that an alert sees the first failure as an increase."""
    assert value(metrics, "runs_total", outcome="failed", source="schedule") == 0
    assert value(metrics, "pass_failures_total", part="runner") == 0


def test_transactions_and_connections(world: World, metrics: Metrics) -> None:
    """O-02: deciding, claiming and settling are timed; connections of the process are counted."""
    world.create(overlap="allow")
    world.advance(minutes=1)
    world.resync()
    world.finish()
    for kind in ("decide", "claim", "settle"):
        assert value(metrics, "transaction_seconds_count", kind=kind) == 1, kind
    pool = {state: value(metrics, "pool_connections", state=state) for state in ("used", "idle", "free")}
    with world.database.read():
        assert value(metrics, "pool_connections", state="used") == (pool["used"] or 0) + 1


def test_settings_are_metrics(world: World, metrics: Metrics) -> None:
    """O-02: as numbers, spans in seconds, for alerts to compare with."""
    assert value(metrics, "setting", name="execution_qps") == 10
    assert value(metrics, "setting", name="resync_interval") == 30


def test_budgets_are_computed_in_parts(world: World, metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-08, O-02: so that alarms do not wait; the metric is absent until the last part is done."""
    monkeypatch.setattr(surveys, "PART", 2)
    for name, most in (("a", 10), ("b", 20), ("c", 40)):
        world.create(name, overlap="allow", limits={"max_cost": most, "estimate": 1})
        world.fire(key(name), None, Caller("ann"))
    world.resync()
    assert value(metrics, "budget_used_ratio", project="acme") is None
    world.resync()
    assert value(metrics, "budget_used_ratio", project="acme") == 0.1
