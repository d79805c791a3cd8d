"""Tokens of runs: created with the claim under access control, valid as long as the claim is held."""

from datetime import timedelta
from pathlib import Path

import pytest

from reconcile.decide.authority import EVERYWHERE, Caller, Grant, Principal, Reach, Role, scopes_of
from reconcile.observations.observation import Observations
from reconcile.runs.claim import principal_of_run
from reconcile.runs.runner import Runner, RunnerSettings
from reconcile.triggers.credentials import create_token, revoke_token
from revisions.clock import HandClock
from revisions.store.database import Database
from tests.reconcile.scripted import ScriptedLauncher
from tests.rows import Rows

ACME = Reach(frozenset({"acme"}))


class Scene:
    """Triggers, a runner, and credentials for people."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database, self.folder, self.rows = database, folder, Rows(database)
        self.rows.task(timeout="10m")
        self.launcher = ScriptedLauncher()

    def runner(self, guarded: bool = False) -> Runner:
        settings = RunnerSettings(self.folder, self.folder, url="http://here", guarded=guarded)
        launchers = {"scripted": self.launcher}
        return Runner(self.database, Observations(), launchers, settings=settings)

    def grant(self, role: Role, name: str = "ci") -> str:
        """Create a token for a person and return its id."""
        created = create_token(self.database, Observations(), name, Grant(role, ACME), None, EVERYWHERE, Caller("root"))
        return created.token.token_id

    def token(self) -> str | None:
        """Return the token that the newest attempt was given."""
        return self.launcher.last.launch.environment.get("TRIGGERCTL_TOKEN")

    def principal(self, token: str | None) -> Principal | None:
        """Authenticate a token as another process would, from the database alone."""
        assert token is not None
        return principal_of_run(self.database, token)


@pytest.fixture
def scene(database: Database, tmp_path: Path) -> Scene:
    return Scene(database, tmp_path)


def test_without_access_control_a_run_has_no_token(scene: Scene) -> None:
    """X-13: its task gets the address of the API only."""
    scene.rows.run(scene.rows.trigger())
    scene.runner().run_pass()
    assert scene.token() is None
    assert scene.launcher.last.launch.environment["TRIGGERCTL_URL"] == "http://here"


@pytest.mark.parametrize("by", ["setting", "token"])
def test_a_token_authenticates_the_run_within_its_project(scene: Scene, by: str) -> None:
    """X-13, O-06: as a deployer of that project; a trigger without an author limits it no further."""
    if by == "token":
        scene.grant(Role.VIEWER)
    run_id = scene.rows.run(scene.rows.trigger())
    scene.runner(guarded=by == "setting").run_pass()
    principal = scene.principal(scene.token())
    assert principal is not None
    assert principal.cause is not None
    assert (principal.actor, principal.cause.run_id) == (f"run:{run_id} of acme/production/report/morning", run_id)
    assert [principal.rights.role_in(project) for project in ("acme", "other")] == [Role.DEPLOYER, None]


def test_each_run_has_its_own_token(scene: Scene) -> None:
    """X-13: also two runs that are claimed together."""
    trigger = scene.rows.trigger()
    runs = {scene.rows.run(trigger), scene.rows.run(trigger)}
    scene.runner(guarded=True).run_pass()
    tokens = {work.launch.environment["TRIGGERCTL_TOKEN"] for work in scene.launcher.works}
    principals = {scene.principal(token) for token in tokens}
    assert {principal.cause.run_id for principal in principals if principal and principal.cause} == runs


@pytest.mark.parametrize("end", ["succeeds", "fails", "is retried", "is handed back"])
def test_a_token_is_invalid_once_its_attempt_ended(scene: Scene, clock: HandClock, end: str) -> None:
    """X-13: settled, waiting for its next attempt or handed back, a run has none; the next attempt gets another."""
    scene.rows.run(scene.rows.trigger(), max_attempts=2 if end == "is retried" else 1)
    runner = scene.runner(guarded=True)
    runner.run_pass()
    token = scene.token()
    assert scene.principal(token)
    if end == "succeeds":
        scene.launcher.last.succeed()
    elif end == "is handed back":
        runner.drain(timedelta(0))
    else:
        scene.launcher.last.fail()
    runner.run_pass()
    runner.run_pass()
    assert scene.principal(token) is None
    if end == "is retried":
        clock.advance(timedelta(seconds=5))
        runner.run_pass()
        assert scene.token() != token
        assert scene.principal(scene.token())
        assert scene.principal(token) is None


def test_a_token_is_valid_in_any_process_until_the_timeout(scene: Scene, clock: HandClock) -> None:
    """X-13: its hash is in the database; a run that nobody ends loses it after the task's timeout."""
    scene.rows.run(scene.rows.trigger())
    scene.runner(guarded=True).run_pass()
    token = scene.token()
    clock.advance(timedelta(minutes=10))
    assert scene.principal(token)
    clock.advance(timedelta(minutes=2))
    assert scene.principal(token) is None


def test_a_token_grants_no_more_than_the_author_has_now(scene: Scene, clock: HandClock) -> None:
    """X-13, X-15: a run of an author who became a viewer may read, one of an author who is gone nothing."""
    granted = scene.grant(Role.ADMIN)
    trigger = scene.rows.trigger(author="ci")
    scene.rows.run(trigger)
    scene.runner().run_pass()
    token = scene.token()

    def role() -> Role | None:
        principal = scene.principal(token)
        assert principal is not None
        assert principal.scopes == scopes_of("token:ci")
        return principal.rights.role_in("acme")

    assert role() is Role.DEPLOYER
    revoke_token(scene.database, Observations(), granted, EVERYWHERE, Caller("root"))
    assert role() is None
    scene.grant(Role.VIEWER)
    assert role() is Role.VIEWER
