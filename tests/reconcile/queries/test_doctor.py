"""What `doctor` finds in a whole installation: each check seen well and not well, on both databases."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from reconcile.decide.admission import Pace
from reconcile.decide.authority import Caller
from reconcile.decide.retention import Retention
from reconcile.launchers.shared import block_faults
from reconcile.loop import replica as replicas
from reconcile.loop.pruning import prune_page
from reconcile.loop.replica import Replica
from reconcile.plugins import LaunchError
from reconcile.queries import doctor
from reconcile.queries.doctor import examine
from reconcile.report.installation_checks import Check, Level
from reconcile.triggers import holds
from reconcile.triggers.holds import BlackoutScope
from reconcile.triggers.tasks import register_task
from revisions.clock import HandClock
from revisions.errors import Unavailable
from revisions.spec.task import TaskManifest
from revisions.store import schema
from revisions.store.database import Database, ServerClock
from revisions.store.run_tables import runs
from revisions.store.tables import trigger_status
from tests.reconcile.scripted import ScriptedLauncher
from tests.world import World, key, task_document

OK, WARNING, FAULT = Level.OK, Level.WARNING, Level.FAULT
NAMES = [
    "database",
    "pooler",
    "notices",
    "schema",
    "permissions",
    "guards",
    "clock",
    "tzdata",
    "replicas",
    "launchers",
    "quarantine",
    "watermarks",
    "backlogs",
    "holds",
    "authors",
    "queue",
    "approvals",
    "failures",
    "deadlines",
    "budgets",
    "rate",
]


def checks_of(world: World, pace: Pace | None = None) -> dict[str, Check]:
    made = examine(world.database, pace or Pace(), world.clock)
    return {check.name: check for check in made}


def by_hand(world: World, statement: str, **given: Any) -> None:
    """Something happens behind the product's back."""
    with world.database.write() as connection:
        connection.execute(text(statement), given)


def test_a_sound_installation(world: World) -> None:
    """O-05: every check is well; looking changes nothing."""
    world.create()
    world.resync()
    found = checks_of(world)
    assert list(found) == NAMES
    assert {name for name, check in found.items() if check.level is not OK} <= {"permissions"}  # ours is a superuser


def test_a_database_that_is_not_there(tmp_path: Path, clock: HandClock) -> None:
    """O-05: that alone is told, with the way out."""
    with Database(f"sqlite:///{tmp_path}/none.db") as database:
        [check] = examine(database, Pace(), clock)
    assert (check.name, check.level, check.hint) == ("database", FAULT, "run `triggerctl db upgrade`")
    with Database("postgresql://nobody@127.0.0.1:1/none") as database:
        [check] = examine(database, Pace(), clock)
    assert (check.name, check.level) == ("database", FAULT)
    assert check.hint


def test_what_the_databases_role_may_do(world: World, postgresql_url: str) -> None:
    """R-02, O-05: a superuser is warned of; what is lacking is named with its way out; a role that owns nothing, and
    may do what it must, is enough for everything that is done."""
    if world.database.is_sqlite:
        assert checks_of(world)["permissions"].level is OK
        return
    assert (checks_of(world)["permissions"].level, "superuser" in checks_of(world)["permissions"].detail) == (
        WARNING,
        True,
    )
    role = f"app_{world.database.url.database}"
    by_hand(world, f"CREATE ROLE {role} LOGIN")
    try:
        by_hand(world, f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}")
        by_hand(world, f"REVOKE UPDATE, DELETE ON {', '.join(schema.GUARDED)} FROM {role}")
        url = world.database.url.set(username=role, password=None).render_as_string(hide_password=False)
        with Database(url) as database:
            database.clock = world.clock
            theirs = World(database, world.clock)
            theirs.create(retry={"max_attempts": 1})
            theirs.advance(minutes=1)
            theirs.resync()
            theirs.finish(state={"cursor": 1})
            theirs.loop.scan()
            assert prune_page(database, theirs.observations, Retention())
            check = checks_of(theirs)["permissions"]
            assert (check.level, check.detail) == (OK, f"{role} may do what is needed")
            by_hand(world, f"REVOKE INSERT ON runs FROM {role}")
            check = checks_of(theirs)["permissions"]
            assert (check.level, check.detail) == (FAULT, f"{role} lacks INSERT on runs")
            assert "GRANT" in check.hint
            by_hand(world, f"REVOKE SELECT ON alembic_version FROM {role}")
            found = checks_of(theirs)
            assert list(found) == ["database", "pooler", "notices", "permissions"]
            assert "SELECT on alembic_version" in found["permissions"].detail
            with pytest.raises(Unavailable) as refused:
                database.check_schema()
            assert "permission denied for table alembic_version" in refused.value.detail
            assert "triggerctl doctor" in refused.value.errors[0].hint
    finally:
        by_hand(world, f"DROP OWNED BY {role}")
        by_hand(world, f"DROP ROLE {role}")


def test_launchers_that_cannot_be_used(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """O-05, X-10: of tasks that something triggers; by what is missing here, told once for each kind."""
    for version in ("v2", "v3"):
        document = task_document(version) | {"spec": {"launcher": "celery", "celery": {"task": "reports.weekly"}}}
        register_task(world.database, world.observations, TaskManifest.read(document), Caller("ann"))
    assert checks_of(world)["launchers"].detail == "all that registered tasks need is here"
    world.create("later", task_version="v2")
    monkeypatch.delenv("CELERY_BROKER_URL", raising=False)
    check = checks_of(world)["launchers"]
    assert (check.level, check.detail.count("celery (the controller's environment has no CELERY_BROKER_URL)")) == (
        WARNING,
        1,
    )
    monkeypatch.setattr(block_faults, "find_spec", lambda name: None)
    check = checks_of(world)["launchers"]
    assert (check.level, "celery (needs celery, not installed here)" in check.detail) == (WARNING, True)
    world.deactivate("later", 1)
    assert checks_of(world)["launchers"].level is OK


@dataclass(frozen=True)
class Faraway:
    """A system that says what it is asked with; `place` is where it is."""

    place: str
    asked: Callable[[], None] = field(compare=False)

    def reach(self) -> None:
        self.asked()
        if self.place == "down":
            raise LaunchError("nobody is there")


def test_the_systems_of_tasks_are_asked(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """O-05, X-10: each of them once, whatever number of tasks goes there, and no transaction is open meanwhile."""
    used = []

    class Elsewhere(ScriptedLauncher):
        def system(self, block: Any) -> Faraway:
            return Faraway(block["command"][0], lambda: used.append(world.database.pool_use().used))

    monkeypatch.setattr(doctor, "launchers", lambda: {"process": Elsewhere()})
    for version, place in (("v2", "up"), ("v3", "up"), ("v4", "down")):
        document = task_document(version) | {"spec": {"launcher": "process", "process": {"command": [place]}}}
        register_task(world.database, world.observations, TaskManifest.read(document), Caller("ann"))
    for version in ("v2", "v3"):
        world.create(version, task_version=version)
    check = checks_of(world)["launchers"]
    assert (check.level, check.detail) == (
        OK,
        "all that registered tasks need is here, and 1 system that they go to answers",
    )
    world.create("v4", task_version="v4")
    check = checks_of(world)["launchers"]
    assert (check.level, check.detail) == (WARNING, "cannot be used by this process: process (nobody is there)")
    assert used == [0, 0, 0]
    monkeypatch.setattr(doctor, "MAX_SYSTEMS", 1)
    assert "1 more was not asked" in checks_of(world)["launchers"].detail


def test_notices_are_tried(world: World, postgresql_url: str) -> None:
    """L-04, O-09: with one of its own, from the database to where one listens; the warning names the setting."""
    if world.database.is_sqlite:
        assert "has none" in checks_of(world)["notices"].detail
        return
    assert checks_of(world)["notices"].detail == "heard at database_url"
    for url, why in (
        (postgresql_url, "is another database"),
        ("postgresql://nobody@127.0.0.1:1/none", "cannot be reached"),
    ):
        found = {check.name: check for check in examine(world.database, Pace(), world.clock, url)}
        assert (found["notices"].level, f"listen_url {why}" in found["notices"].detail) == (WARNING, True)
        assert "listen_url" in found["notices"].hint


@pytest.mark.parametrize(("version", "hint"), [("0001", "`triggerctl db upgrade`"), ("9999", "a release for schema")])
def test_a_schema_this_release_cannot_work_with(world: World, version: str, hint: str) -> None:
    """R-19, O-05: nothing more is looked at, for nobody knows what stands there."""
    by_hand(world, "UPDATE alembic_version SET version_num = :version", version=version)
    by_hand(world, "UPDATE schema_support SET readable_since = :version", version=version)
    found = checks_of(world)
    levels = [(name, check.level) for name, check in found.items()]
    assert levels == [("database", OK), ("pooler", OK), ("notices", OK), ("schema", FAULT)]
    assert hint in found["schema"].hint


def test_a_newer_schema_that_can_be_read(world: World) -> None:
    """R-19: as in a rolling upgrade; everything is looked at."""
    by_hand(world, "UPDATE alembic_version SET version_num = '9998'")
    found = checks_of(world)
    assert list(found) == NAMES
    assert (found["schema"].level, "9998, newer" in found["schema"].detail) == (OK, True)


@pytest.mark.parametrize("table", schema.GUARDED)
def test_a_guard_of_history_that_was_dropped(world: World, table: str) -> None:
    """R-02: doctor checks that the guards stand, of every append-only table."""
    with world.database.write() as connection:
        schema.drop_guards(connection, table)
    check = checks_of(world)["guards"]
    assert (check.level, f"{table}_" in check.detail) == (FAULT, True)
    assert "triggerctl verify" in check.hint


class Standing(ServerClock):
    """The server's, which does not go on while it is looked at."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self, connection: Any, /) -> datetime:
        return self._now


def test_the_clock_of_this_machine_against_the_servers(world: World) -> None:
    """L-12: compared where the database has a clock of its own."""
    if world.database.is_sqlite:
        assert checks_of(world)["clock"].detail == "this machine's clock decides"
        return
    world.database.clock = Standing(world.start)
    for off, level in ((0, OK), (1, OK), (5, WARNING), (-5, WARNING), (3600, FAULT)):
        world.clock = HandClock(world.start + timedelta(seconds=off))
        assert (off, checks_of(world)["clock"].level) == (off, level)


def test_replicas_and_their_tz_databases(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """L-14, S-14: how many run the loop, none is a warning; a mixture of tz databases names the versions."""
    assert checks_of(world)["replicas"].level is WARNING
    world.resync()
    assert checks_of(world)["replicas"].detail == "1 runs the loop, of release test"
    assert checks_of(world)["tzdata"].level is OK
    monkeypatch.setattr(replicas, "TZDATA_VERSION", "2019a")
    Replica(world.database, world.observations, "1.1").beat(timedelta(seconds=30))
    found = checks_of(world)
    assert found["replicas"].detail == "2 run the loop, of release 1.1, test"
    assert (found["tzdata"].level, "2019a" in found["tzdata"].detail) == (WARNING, True)
    world.advance(seconds=91)
    found = checks_of(world)
    assert (found["replicas"].level, found["tzdata"].level) == (WARNING, OK)


def test_a_trigger_in_quarantine(world: World) -> None:
    """L-13: a fault with its name, since when, and why; deactivated, it is in nobody's way."""
    world.create("good")
    world.create("bad")
    by_hand(world, "UPDATE triggers SET spec = replace(spec, '\"1m\"', '\"1 fortnight\"') WHERE name = 'bad'")
    world.advance(minutes=1)
    world.loop.resync()
    check = checks_of(world)["quarantine"]
    assert check.level is FAULT
    assert "acme/production/report/bad since 2026-03-02T08:01:00Z" in check.detail
    assert "fortnight" in check.detail
    by_hand(world, "UPDATE triggers SET active = false WHERE name = 'bad'")
    assert checks_of(world)["quarantine"].level is OK


def test_a_watermark_ahead_of_now(world: World) -> None:
    """L-12: with the command that sets it back."""
    world.create()
    with world.database.write() as connection:
        connection.execute(trigger_status.update().values(watermark=world.start + timedelta(days=1)))
    check = checks_of(world)["watermarks"]
    assert check.level is FAULT
    assert check.hint == "`triggerctl catchup acme/production/report/tick --rebase` sets it back"


def test_backlogs(world: World) -> None:
    """L-17: how many occurrences of which triggers wait, counted up to ten thousand."""
    world.create(catchup={"policy": "all"}, overlap="allow")
    world.advance(minutes=1242)
    world.another_loop_without_catch_up().resync()
    check = checks_of(world)["backlogs"]
    assert check.detail == "1,240 occurrences of 1 trigger to catch up: acme/production/report/tick"
    assert check.level is OK
    world.create("often", schedule={"every": "1s"}, catchup={"policy": "all"}, overlap="allow")
    world.advance(hours=3)
    world.another_loop_without_catch_up().resync()
    assert "more than 10,000 occurrences of 2 triggers" in checks_of(world)["backlogs"].detail


def test_an_unreadable_backlog_is_reported(world: World) -> None:
    """L-13: it does not keep the doctor from looking at the others."""
    world.create(catchup={"policy": "all"}, overlap="allow")
    world.advance(minutes=100)
    world.another_loop_without_catch_up().resync()
    by_hand(world, "UPDATE triggers SET spec = replace(spec, '\"1m\"', '\"1 fortnight\"')")
    assert "0 occurrences of 1 trigger" in checks_of(world)["backlogs"].detail


def test_freezes_and_blackouts_in_force(world: World) -> None:
    """S-13: a freeze is a warning, a blackout ends by itself; what is to come is not told."""
    caller, later = Caller("ann", "the move"), world.start + timedelta(hours=1)
    holds.start_blackout(
        world.database, world.observations, BlackoutScope(), later, later + timedelta(hours=1), "drop", caller
    )
    assert checks_of(world)["holds"].detail == "no freeze or blackout is in force"
    world.create(tags=["x"])
    for scope in (BlackoutScope("acme", "x"), BlackoutScope(trigger=key("tick"))):
        holds.start_blackout(world.database, world.observations, scope, None, later, "drop", caller)
    check = checks_of(world)["holds"]
    assert check.level is OK
    assert "blackout of tag x of project acme until 2026-03-02T09:00:00Z, by ann: the move" in check.detail
    assert "blackout of acme/production/report/tick until" in check.detail
    holds.freeze(world.database, world.observations, None, None, caller)
    check = checks_of(world)["holds"]
    assert check.level is WARNING
    assert check.detail.startswith("freeze of everything until it is lifted, by ann: the move, blackout")


def test_what_the_schedules_ask_for(world: World) -> None:
    """L-18: above 70 % of the rate a warning that names those that ask for most; what rests asks for nothing."""
    for number in range(6):
        world.create(f"t{number}", schedule={"every": "1s"})
    world.create("slow")
    world.create("unreadable")
    by_hand(world, "UPDATE triggers SET spec = replace(spec, '\"1m\"', '\"1 fortnight\"') WHERE name = 'unreadable'")
    assert checks_of(world)["rate"].level is OK
    world.create("twice", schedule={"every": "1s"})
    check = checks_of(world)["rate"]
    assert check.level is WARNING
    assert "70% of execution_qps (10); most by acme/production/report/t0 (1)" in check.detail
    assert checks_of(world, Pace(execution_qps=0))["rate"].level is OK
    world.deactivate("twice", 1)
    assert checks_of(world)["rate"].level is OK


def test_unclaimed_runs_are_reported(world: World) -> None:
    """O-05: after ten minutes one asks whether a runner is up."""
    world.create()
    world.advance(minutes=1)
    world.resync()
    world.advance(minutes=9)
    assert checks_of(world)["queue"].level is OK
    world.advance(minutes=2)
    check = checks_of(world)["queue"]
    assert (check.level, check.detail) == (WARNING, "1 run has waited for more than 10 min, the oldest for 11 min")
    with world.database.write() as connection:
        connection.execute(runs.update().values(status="succeeded"))
    assert checks_of(world)["queue"].level is OK


def test_unapproved_runs_are_reported(world: World) -> None:
    """X-14, O-05: after a day one asks whether anybody knows."""
    world.create(requires_approval=True)
    world.advance(minutes=1)
    world.resync()
    world.advance(hours=24, seconds=-1)
    assert checks_of(world)["approvals"].level is OK
    world.advance(hours=1)
    check = checks_of(world)["approvals"]
    assert (check.level, check.detail) == (
        WARNING,
        "1 run has waited for more than 24 h for an approval, the oldest for 25 h",
    )
    assert checks_of(world)["queue"].level is OK


def test_triggers_at_their_failure_limit_and_lately_deactivated(world: World) -> None:
    """X-08, O-05: for a week; not what a person deactivated."""
    world.create(deactivate_after=3)
    world.create("by-hand")
    world.deactivate("by-hand", 1, "failures")
    assert checks_of(world)["failures"].detail == "no trigger was deactivated within 7 days"
    by_hand(world, "UPDATE trigger_status SET consecutive_failures = 3")
    assert checks_of(world)["failures"].detail == "at the failure limit: acme/production/report/tick"
    world.loop.scan()
    check = checks_of(world)["failures"]
    assert check.detail == "deactivated after failures within 7 days: acme/production/report/tick"
    assert check.level is OK
    world.advance(days=8)
    assert "no trigger was deactivated" in checks_of(world)["failures"].detail


def test_deadlines_that_were_missed(world: World) -> None:
    """X-16, O-05: for a week, each trigger with its latest, and where to go on."""
    world.create(expect={"within": "10m"}, schedule={"every": "1h"})
    assert checks_of(world)["deadlines"].detail == "none was missed within 7 days"
    for _ in range(3):
        world.advance(hours=1)
        world.resync()
    check = checks_of(world)["deadlines"]
    assert check.level is WARNING
    assert check.detail == "missed within 7 days by 1 trigger: acme/production/report/tick at 2026-03-02T10:10:00Z"
    assert check.hint == "`triggerctl explain acme/production/report/tick` says what became of it"
    world.advance(days=8)
    assert checks_of(world)["deadlines"].level is OK


def test_budgets_near_their_end(world: World) -> None:
    """X-08, O-05: from the share on at which the alert fires, the highest first."""
    world.create(overlap="allow", limits={"max_cost": 1, "estimate": 0.31, "budget_period": "month"})
    for _ in range(2):
        world.advance(minutes=1)
        world.resync()
    assert checks_of(world)["budgets"].detail == "no trigger has used more than 90% of its budget"
    world.advance(minutes=1)
    world.resync()
    assert checks_of(world)["budgets"].detail == "more than 90% is used by 1 trigger: acme/production/report/tick (93%)"


def test_looking_changes_nothing(world: World) -> None:
    """O-05: not a revision, not a run, not a skip."""
    world.create()
    world.advance(minutes=5)
    before = (world.status(), world.history(), world.runs())
    checks_of(world)
    assert (world.status(), world.history(), world.runs()) == before
    assert world.skips() == []
