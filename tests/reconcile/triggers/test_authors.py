"""Triggers act with the rights that their authors have when a run is to start."""

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import event

from reconcile.decide.admission import Pace
from reconcile.decide.authority import EVERYWHERE, Caller, Grant, Reach, Rights, Role, scopes_of
from reconcile.decide.preconditions import Expected
from reconcile.queries.doctor import examine
from reconcile.queries.explain import explain_trigger
from reconcile.report.installation_checks import Check, Level
from reconcile.runs.manual.fire import fire_triggers
from reconcile.runs.runner import Runner, RunnerSettings
from reconcile.triggers.credentials import create_token, principal_of_person, revoke_token
from revisions.errors import Forbidden, Invalid
from revisions.history.triggers import SYSTEM
from revisions.store import backlogs as backlog_store
from revisions.store import status
from tests.reconcile.scripted import ScriptedLauncher
from tests.world import World, key

ACME = Reach(frozenset({"acme"}))
CI = Caller("ci", scopes=scopes_of("token:ci"))
ANN = Caller("oidc:ann", scopes=scopes_of("oidc:ann"))


def grant(world: World, role: Role = Role.DEPLOYER, name: str = "ci", reach: Reach = ACME) -> str:
    return create_token(
        world.database, world.observations, name, Grant(role, reach), None, EVERYWHERE, Caller("root")
    ).token.token_id


def revoke(world: World, token_id: str) -> None:
    revoke_token(world.database, world.observations, token_id, EVERYWHERE, Caller("root"))


def create(world: World, caller: Caller = CI, name: str = "tick", **spec: object) -> None:
    world.deploy(name, Expected(absent=True), caller, **spec)


def pass_minutes(world: World, minutes: int) -> None:
    for _ in range(minutes):
        world.advance(minutes=1)
        world.resync()


def outcomes(world: World) -> list[tuple[str, int | None]]:
    return [(skip.outcome, skip.count) for skip in world.skips()]


def test_a_trigger_fires_while_its_author_has_a_token(world: World) -> None:
    """X-15: also when one of several tokens of that name is revoked."""
    first = grant(world)
    grant(world)
    create(world, overlap="allow")
    pass_minutes(world, 1)
    revoke(world, first)
    pass_minutes(world, 1)
    assert (len(world.runs()), world.skips()) == (2, [])


def test_occurrences_of_a_revoked_author_are_denied(world: World) -> None:
    """X-15, E-05: each is skipped, with advice in the reason; the watermark moves, nothing is caught up."""
    token = grant(world)
    create(world, overlap="allow")
    revoke(world, token)
    pass_minutes(world, 2)
    assert world.runs() == []
    assert outcomes(world) == [("denied", 1), ("denied", 1)]
    reason = world.skips()[0].reason
    assert reason.startswith("its author token:ci has no access to acme any more")
    assert "have somebody who may deploy it deploy it again" in reason
    assert world.status().last_outcome == "denied"
    grant(world)
    pass_minutes(world, 1)
    assert [run.scheduled_at for run in world.runs()] == [world.clock_now()]


def test_a_smaller_role_or_another_project_is_not_enough(world: World) -> None:
    """X-15: the author needs at least the role operator in the trigger's own project."""
    token = grant(world)
    create(world, overlap="allow")
    for role, reach, starts in (
        (Role.VIEWER, ACME, 0),
        (Role.ADMIN, Reach(frozenset({"other"})), 0),
        (Role.OPERATOR, ACME, 1),
    ):
        revoke(world, token)
        token = grant(world, role, reach=reach)
        before = len(world.runs())
        pass_minutes(world, 1)
        assert len(world.runs()) - before == starts, role


def test_an_expired_token_gives_no_rights(world: World) -> None:
    """X-15: occurrences after the expiry are denied."""
    end = world.start + timedelta(minutes=2)
    create_token(world.database, world.observations, "ci", Grant(Role.DEPLOYER, ACME), end, EVERYWHERE, Caller("root"))
    create(world, overlap="allow")
    pass_minutes(world, 3)
    assert (len(world.runs()), outcomes(world)) == (1, [("denied", 1), ("denied", 1)])


def test_a_person_has_the_rights_of_the_last_sign_in_for_a_limited_time(world: World) -> None:
    """X-15, O-06: a sign-in replaces the rights; without a further one they end after the time given."""
    deployer, viewer = (Rights((Grant(role, ACME),)) for role in (Role.DEPLOYER, Role.VIEWER))
    principal_of_person(world.database, "ann", deployer, timedelta(minutes=3))
    create(world, ANN, overlap="allow")
    pass_minutes(world, 1)
    principal_of_person(world.database, "ann", viewer, timedelta(minutes=3))
    pass_minutes(world, 1)
    principal_of_person(world.database, "ann", deployer, timedelta(minutes=3))
    pass_minutes(world, 3)
    assert len(world.runs()) == 1 + 2
    assert outcomes(world) == [("denied", 1), ("denied", 1)]


def test_a_trigger_deployed_without_access_control_goes_on(world: World) -> None:
    """X-15: whoever deployed it had all rights then, as has whoever deploys directly to the database."""
    create(world, Caller("ann"), overlap="allow")
    grant(world)
    pass_minutes(world, 1)
    assert len(world.runs()) == 1


def test_no_scopes_start_nothing(world: World) -> None:
    """X-15: `scopes: []` denies every occurrence with a reason; the default is [run.start]."""
    world.create(scopes=[])
    world.create("tock", scopes=["run.start"])
    pass_minutes(world, 2)
    assert world.runs() == []
    assert outcomes(world) == [("denied", 1), ("denied", 1)]
    assert "scopes do not hold run.start" in world.skips()[0].reason
    assert len(world.runs("tock")) >= 1


def test_a_batch_reads_its_authors_once(world: World) -> None:
    """X-15: one statement for all triggers and authors, and none for triggers without authors."""
    asked: list[str] = []

    @event.listens_for(world.database.engine, "before_cursor_execute")
    def heard(_: object, __: object, statement: str, *___: object) -> None:
        if "FROM tokens" in statement or "FROM people" in statement:
            asked.append(statement)

    world.create("free", schedule={"every": "1m"})
    pass_minutes(world, 1)
    assert asked == []
    for name in ("ci", "cd"):
        grant(world, name=name)
        for number in range(4):
            create(world, Caller(name, scopes=scopes_of(f"token:{name}")), f"{name}-{number}")
    world.advance(minutes=1)
    asked.clear()
    world.loop.due([world.id(f"{name}-{number}") for name in ("ci", "cd") for number in range(4)])
    assert len(asked) == 1
    assert len(world.runs("ci-0")) == 1


def test_an_unknown_scope_is_refused(world: World) -> None:
    """X-15, R-18: the refusal lists the known scopes."""
    with pytest.raises(Invalid) as refused:
        world.create(scopes=["run.stop"])
    assert (refused.value.errors[0].path, refused.value.errors[0].hint) == ("spec.scopes[0]", "one of 'run.start'")


@pytest.mark.parametrize("actor", [SYSTEM, ""])
def test_a_trigger_without_an_author_is_refused(world: World, actor: str) -> None:
    """X-15: a deploy needs a person or token as its actor."""
    with pytest.raises(Invalid) as refused:
        create(world, Caller(actor))
    assert refused.value.errors[0].path == "author"


def test_manual_starts_are_refused_too(world: World, tmp_path: Path) -> None:
    """X-15, X-11: fire, fire of many, backfill and retry are refused for every caller, with a way out."""
    token = grant(world)
    create(world)
    run = world.fire(key("tick"), None, Caller("root"))
    launcher = ScriptedLauncher()
    runner = Runner(
        world.database, world.observations, {"process": launcher}, settings=RunnerSettings(tmp_path, tmp_path)
    )
    for _ in range(3):
        runner.run_pass()
        launcher.last.fail()
        runner.run_pass()
        world.advance(seconds=10)
    revoke(world, token)
    with pytest.raises(Forbidden, match=r"may start nothing: its author token:ci has no access"):
        world.fire(key("tick"), None, Caller("root"))
    [fired] = fire_triggers(
        world.database, world.observations, [key("tick")], None, Caller("root"), None, lambda done, total: None
    )
    assert isinstance(fired.outcome, Forbidden)
    with pytest.raises(Forbidden):
        world.backfill(-5, 0)
    with pytest.raises(Forbidden):
        world.retry(run.id, Caller("root"))


def test_a_run_of_a_revoked_author_cannot_be_approved(world: World) -> None:
    """X-15, X-14: an approval does not replace the rights of the author."""
    token = grant(world)
    create(world, requires_approval=True)
    pass_minutes(world, 1)
    [parked] = world.runs()
    assert parked.status == "parked"
    revoke(world, token)
    with pytest.raises(Forbidden, match="token:ci has no access"):
        world.approve(parked.id, Caller("root"))
    grant(world)
    assert world.approve(parked.id, Caller("root")).status == "pending"


def test_an_identical_deploy_takes_over_from_a_revoked_author(world: World) -> None:
    """X-15, R-06: while the author has rights, an identical deploy changes nothing, the author included."""
    token = grant(world)
    grant(world, name="cd")
    create(world, overlap="allow")
    other = Caller("cd", scopes=scopes_of("token:cd"))
    assert not world.deploy("tick", Expected(revision=1), other, overlap="allow").changed
    revoke(world, token)
    assert world.deploy("tick", Expected(revision=1), other, overlap="allow").trigger.revision == 2
    pass_minutes(world, 1)
    assert len(world.runs()) == 1


def test_activating_and_renaming_keep_the_author(world: World) -> None:
    """X-15: only a deploy makes somebody the author."""
    token = grant(world)
    create(world)
    world.deactivate("tick", 1)
    world.activate("tick", 2)
    world.rename("tick", "tock", 3)
    revoke(world, token)
    pass_minutes(world, 1)
    assert [skip.outcome for skip in world.skips("tock")] == ["denied"]
    assert world.runs("tock") == []


def test_a_backlog_of_a_denied_trigger_is_denied(world: World) -> None:
    """X-15, L-06: its occurrences become one denied range."""
    token = grant(world)
    create(world, overlap="allow", catchup={"policy": "all"})
    world.advance(minutes=12)
    world.another_loop_without_catch_up().resync()
    started = len(world.runs())
    revoke(world, token)
    world.resync()
    assert len(world.runs()) == started
    [denied] = world.skips()
    assert (denied.outcome, denied.count) == ("denied", 10)
    with world.database.read() as connection:
        assert not backlog_store.any_open(connection)


def test_a_fire_requested_by_a_run_is_denied_too(world: World) -> None:
    """X-15, S-08: the request is dropped; occurrences of the schedule before it stay superseded."""
    token = grant(world)
    create(world)
    revoke(world, token)
    with world.database.write() as connection:
        status.set_requested_fire(connection, world.id("tick"), world.start + timedelta(seconds=90), "RUN")
    pass_minutes(world, 3)
    assert [(skip.occurrence_id.split("/")[0], skip.outcome) for skip in world.skips()] == [
        ("every", "superseded"),
        ("next", "denied"),
        ("every", "denied"),
        ("every", "denied"),
    ]
    assert world.status().asked_fire_at is None


def test_doctor_names_triggers_of_a_revoked_author(world: World) -> None:
    """X-15, O-05: active triggers are named until somebody else deploys them."""

    def check() -> Check:
        made = examine(world.database, Pace(), world.clock)
        return next(one for one in made if one.name == "authors")

    token = grant(world)
    create(world, name="first")
    create(world, name="second")
    create(world, name="resting", active=False)
    create(world, Caller("ann"), name="of-nobody")
    assert check().level is Level.OK
    revoke(world, token)
    assert check().level is Level.WARNING
    named = f"{key('first')}, {key('second')}"
    assert check().detail == f"2 active triggers may not start for want of an author: of token:ci: {named}"
    assert "deploy it again" in check().hint
    grant(world, name="eve")
    eve = Caller("eve", scopes=scopes_of("token:eve"))
    for name in ("first", "second"):
        world.deploy(name, Expected(revision=1), eve)
    assert check().level is Level.OK


def test_explain_says_why(world: World) -> None:
    """X-15, U-03: for a denied occurrence and for one in the future."""
    token = grant(world)
    create(world)
    revoke(world, token)
    pass_minutes(world, 1)
    was = explain_trigger(world.database, key("tick"), None).explanation.sentences
    assert "whoever wrote the trigger may not start this" in was[0]
    assert "its author token:ci has no access to acme any more" in was[1]
    ahead = explain_trigger(world.database, key("tick"), world.clock_now() + timedelta(minutes=1)).explanation.sentences
    assert "it will start nothing then" in ahead[0]
    assert "token:ci" in ahead[0]
