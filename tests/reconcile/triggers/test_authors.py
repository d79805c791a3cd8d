"""Triggers act with the rights of their authors, as those are when something is to start."""

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import event

from reconcile.decide.admission import Pace
from reconcile.decide.authority import EVERYWHERE, Grant, Reach, Rights, Role, scopes_of
from reconcile.decide.preconditions import Expected
from reconcile.queries.doctor import Examining
from reconcile.queries.explain import Explaining
from reconcile.report.installation_checks import Check, Level
from reconcile.runs.manual.orders import Approving
from reconcile.runs.runner import Runner, RunnerSettings
from reconcile.triggers.caller import Caller
from reconcile.triggers.credentials import Credentials
from revisions.errors import Forbidden, Invalid
from revisions.history.triggers import SYSTEM
from revisions.store import backlogs as backlog_store
from revisions.store import status
from revisions.store.database import Database
from tests.reconcile.scripted import ScriptedLauncher
from tests.world import World, key

ACME = Reach(frozenset({"acme"}))
CI = Caller("ci", scopes=scopes_of("token:ci"))
ANN = Caller("oidc:ann", scopes=scopes_of("oidc:ann"))


@pytest.fixture
def credentials(database: Database, world: World) -> Credentials:
    return Credentials(database, world.observations)


def grant(credentials: Credentials, role: Role = Role.DEPLOYER, name: str = "ci", reach: Reach = ACME) -> str:
    return credentials.create(name, Grant(role, reach), None, EVERYWHERE, Caller("root")).token.token_id


def revoke(credentials: Credentials, token_id: str) -> None:
    credentials.revoke(token_id, EVERYWHERE, Caller("root"))


def create(world: World, caller: Caller = CI, name: str = "tick", **spec: object) -> None:
    world.deploy(name, Expected(absent=True), caller, **spec)


def pass_minutes(world: World, minutes: int) -> None:
    for _ in range(minutes):
        world.advance(minutes=1)
        world.resync()


def outcomes(world: World) -> list[tuple[str, int | None]]:
    return [(skip.outcome, skip.count) for skip in world.skips()]


def test_while_the_author_may_it_fires(world: World, credentials: Credentials) -> None:
    """X-15: also with several tokens of his name, of which one is revoked."""
    first = grant(credentials)
    grant(credentials)
    create(world, overlap="allow")
    pass_minutes(world, 1)
    revoke(credentials, first)
    pass_minutes(world, 1)
    assert (len(world.runs()), world.skips()) == (2, [])


def test_a_revoked_author_starts_nothing_and_each_occurrence_says_so(world: World, credentials: Credentials) -> None:
    """X-15, E-05: denied, with a reason that says what to do; the watermark goes on, and nothing is caught up later."""
    token = grant(credentials)
    create(world, overlap="allow")
    revoke(credentials, token)
    pass_minutes(world, 2)
    assert world.runs() == []
    assert outcomes(world) == [("denied", 1), ("denied", 1)]
    reason = world.skips()[0].reason
    assert reason.startswith("its author token:ci has no access to acme any more")
    assert "have somebody who may deploy it deploy it again" in reason
    assert world.status().last_outcome == "denied"
    grant(credentials)
    pass_minutes(world, 1)
    assert [run.scheduled_at for run in world.runs()] == [world.clock_now()]


def test_a_smaller_role_or_another_project_is_not_enough(world: World, credentials: Credentials) -> None:
    """X-15: a viewer starts nothing, an operator does; and what somebody is elsewhere does not count."""
    token = grant(credentials)
    create(world, overlap="allow")
    for role, reach, starts in (
        (Role.VIEWER, ACME, 0),
        (Role.ADMIN, Reach(frozenset({"other"})), 0),
        (Role.OPERATOR, ACME, 1),
    ):
        revoke(credentials, token)
        token = grant(credentials, role, reach=reach)
        before = len(world.runs())
        pass_minutes(world, 1)
        assert len(world.runs()) - before == starts, role


def test_an_expired_token_is_no_author(world: World, credentials: Credentials) -> None:
    """X-15: from its end on."""
    end = world.start + timedelta(minutes=2)
    credentials.create("ci", Grant(Role.DEPLOYER, ACME), end, EVERYWHERE, Caller("root"))
    create(world, overlap="allow")
    pass_minutes(world, 3)
    assert (len(world.runs()), outcomes(world)) == (1, [("denied", 1), ("denied", 1)])


def test_a_person_counts_as_the_issuer_last_said_and_for_so_long(world: World, credentials: Credentials) -> None:
    """X-15, O-06: who signs in with less has less, and who does not sign in any more has nothing in the end."""
    deployer, viewer = (Rights((Grant(role, ACME),)) for role in (Role.DEPLOYER, Role.VIEWER))
    credentials.vouched_for("ann", deployer, timedelta(minutes=3))
    create(world, ANN, overlap="allow")
    pass_minutes(world, 1)
    credentials.vouched_for("ann", viewer, timedelta(minutes=3))
    pass_minutes(world, 1)
    credentials.vouched_for("ann", deployer, timedelta(minutes=3))
    pass_minutes(world, 3)
    assert len(world.runs()) == 1 + 2
    assert outcomes(world) == [("denied", 1), ("denied", 1)]


def test_what_was_deployed_without_controlled_access_goes_on(world: World, credentials: Credentials) -> None:
    """X-15: whoever deployed it could do everything then; so could who deploys straight to the database."""
    create(world, Caller("ann"), overlap="allow")
    grant(credentials)
    pass_minutes(world, 1)
    assert len(world.runs()) == 1


def test_no_scopes_start_nothing(world: World) -> None:
    """X-15: `scopes: []` denies every occurrence, with the reason; the default is [run.start]."""
    world.create(scopes=[])
    world.create("tock", scopes=["run.start"])
    pass_minutes(world, 2)
    assert world.runs() == []
    assert outcomes(world) == [("denied", 1), ("denied", 1)]
    assert "scopes do not hold run.start" in world.skips()[0].reason
    assert len(world.runs("tock")) >= 1


def test_a_batch_asks_for_its_authors_once(world: World, credentials: Credentials) -> None:
    """X-15: however many triggers and authors there are; and not at all where nobody had to say who he is."""
    asked: list[str] = []

    @event.listens_for(world.database.engine, "before_cursor_execute")
    def heard(_: object, __: object, statement: str, *___: object) -> None:
        if "FROM tokens" in statement or "FROM people" in statement:
            asked.append(statement)

    world.create("free", schedule={"every": "1m"})
    pass_minutes(world, 1)
    assert asked == []
    for name in ("ci", "cd"):
        grant(credentials, name=name)
        for number in range(4):
            create(world, Caller(name, scopes=scopes_of(f"token:{name}")), f"{name}-{number}")
    world.advance(minutes=1)
    asked.clear()
    world.loop.due([world.id(f"{name}-{number}") for name in ("ci", "cd") for number in range(4)])
    assert len(asked) == 1
    assert len(world.runs("ci-0")) == 1


def test_an_unknown_scope_is_refused(world: World) -> None:
    """X-15, R-18: naming those there are."""
    with pytest.raises(Invalid) as refused:
        world.create(scopes=["run.stop"])
    assert (refused.value.errors[0].path, refused.value.errors[0].hint) == ("spec.scopes[0]", "one of 'run.start'")


@pytest.mark.parametrize("actor", [SYSTEM, ""])
def test_a_trigger_without_an_author_is_refused(world: World, actor: str) -> None:
    """X-15: at deploy."""
    with pytest.raises(Invalid) as refused:
        create(world, Caller(actor))
    assert refused.value.errors[0].path == "author"


def test_by_hand_it_starts_nothing_either(world: World, credentials: Credentials, tmp_path: Path) -> None:
    """X-15, X-11: fire, fire of many, backfill and retry are refused, whoever asks, with the way out."""
    token = grant(credentials)
    create(world)
    run = world.firing.fire(key("tick"), None, Caller("root"))
    launcher = ScriptedLauncher()
    runner = Runner(
        world.database, world.observations, {"process": launcher}, settings=RunnerSettings(tmp_path, tmp_path)
    )
    for _ in range(3):
        runner.run_pass()
        launcher.last.fail()
        runner.run_pass()
        world.advance(seconds=10)
    revoke(credentials, token)
    with pytest.raises(Forbidden, match=r"may start nothing: its author token:ci has no access"):
        world.firing.fire(key("tick"), None, Caller("root"))
    [fired] = world.firing.fire_all([key("tick")], None, Caller("root"), None, lambda done, total: None)
    assert isinstance(fired.outcome, Forbidden)
    with pytest.raises(Forbidden):
        world.backfill(-5, 0)
    with pytest.raises(Forbidden):
        world.retrying.retry(run.id, Caller("root"))


def test_what_waits_for_approval_is_not_let_go_either(world: World, credentials: Credentials) -> None:
    """X-15, X-14: nobody's word makes up for an author who is gone."""
    token = grant(credentials)
    create(world, requires_approval=True)
    pass_minutes(world, 1)
    [parked] = world.runs()
    assert parked.status == "parked"
    revoke(credentials, token)
    approving = Approving(world.database, world.observations)
    with pytest.raises(Forbidden, match="token:ci has no access"):
        approving.approve(parked.id, Caller("root"))
    grant(credentials)
    assert approving.approve(parked.id, Caller("root")).status == "pending"


def test_who_deploys_the_same_again_takes_over_where_the_author_is_gone(world: World, credentials: Credentials) -> None:
    """X-15, R-06: else an identical deploy changes nothing, and the author stays who he is."""
    token = grant(credentials)
    grant(credentials, name="cd")
    create(world, overlap="allow")
    other = Caller("cd", scopes=scopes_of("token:cd"))
    assert not world.deploy("tick", Expected(revision=1), other, overlap="allow").changed
    revoke(credentials, token)
    assert world.deploy("tick", Expected(revision=1), other, overlap="allow").trigger.revision == 2
    pass_minutes(world, 1)
    assert len(world.runs()) == 1


def test_who_activates_or_renames_is_no_author(world: World, credentials: Credentials) -> None:
    """X-15: the rights stay those of whoever wrote what is started."""
    token = grant(credentials)
    create(world)
    world.deactivate("tick", 1)
    world.activate("tick", 2)
    world.rename("tick", "tock", 3)
    revoke(credentials, token)
    pass_minutes(world, 1)
    assert [skip.outcome for skip in world.skips("tock")] == ["denied"]
    assert world.runs("tock") == []


def test_a_backlog_of_a_denied_trigger_is_denied(world: World, credentials: Credentials) -> None:
    """X-15, L-06: what was to be caught up starts nothing either, in one range."""
    token = grant(credentials)
    create(world, overlap="allow", catchup={"policy": "all"})
    world.advance(minutes=12)
    world.another_loop_without_catch_up().resync()
    started = len(world.runs())
    revoke(credentials, token)
    world.resync()
    assert len(world.runs()) == started
    [denied] = world.skips()
    assert (denied.outcome, denied.count) == ("denied", 10)
    with world.database.read() as connection:
        assert not backlog_store.any_open(connection)


def test_the_fire_that_a_run_asked_for_is_denied_too(world: World, credentials: Credentials) -> None:
    """X-15, S-08: and it is not asked for any more; what the schedule names before it stays superseded."""
    token = grant(credentials)
    create(world)
    revoke(credentials, token)
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


def test_doctor_names_triggers_whose_author_is_gone(world: World, credentials: Credentials) -> None:
    """X-15, O-05: a warning with the way out, until somebody takes them over; what rests is not told of."""

    def check() -> Check:
        made = Examining(world.database, Pace(), world.clock).examine()
        return next(one for one in made if one.name == "authors")

    token = grant(credentials)
    create(world, name="first")
    create(world, name="second")
    create(world, name="resting", active=False)
    create(world, Caller("ann"), name="of-nobody")
    assert check().level is Level.OK
    revoke(credentials, token)
    assert check().level is Level.WARNING
    named = f"{key('first')}, {key('second')}"
    assert check().detail == f"2 active triggers may not start for want of an author: of token:ci: {named}"
    assert "deploy it again" in check().hint
    grant(credentials, name="eve")
    eve = Caller("eve", scopes=scopes_of("token:eve"))
    for name in ("first", "second"):
        world.deploy(name, Expected(revision=1), eve)
    assert check().level is Level.OK


def test_explain_says_why(world: World, credentials: Credentials) -> None:
    """X-15, U-03: of what was denied, and of what is to come."""
    token = grant(credentials)
    create(world)
    revoke(credentials, token)
    pass_minutes(world, 1)
    explaining = Explaining(world.database)
    was = explaining.explain(key("tick"), None).explanation.sentences
    assert "whoever wrote the trigger may not start this" in was[0]
    assert "its author token:ci has no access to acme any more" in was[1]
    ahead = explaining.explain(key("tick"), world.clock_now() + timedelta(minutes=1)).explanation.sentences
    assert "it will start nothing then" in ahead[0]
    assert "token:ci" in ahead[0]
