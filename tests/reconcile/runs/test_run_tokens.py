"""The token of a run: made with its claim where access is controlled, good as long as that claim holds."""

from datetime import timedelta
from pathlib import Path

import pytest

from reconcile.decide.authority import EVERYWHERE, Grant, Principal, Reach, Role, scopes_of
from reconcile.observations.observation import Observations
from reconcile.runs.run_tokens import principal_of_run
from reconcile.runs.runner import Runner, RunnerSettings
from reconcile.triggers.caller import Caller
from reconcile.triggers.credentials import create_token, revoke_token
from revisions.clock import HandClock
from revisions.store.database import Database
from tests.reconcile.scripted import ScriptedLauncher
from tests.rows import Rows

ACME = Reach(frozenset({"acme"}))


class Scene:
    """A trigger of a token's, and a runner."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database, self.folder, self.rows = database, folder, Rows(database)
        self.rows.task(timeout="10m")
        self.launcher = ScriptedLauncher()

    def runner(self, guarded: bool = False) -> Runner:
        settings = RunnerSettings(self.folder, self.folder, url="http://here", guarded=guarded)
        launchers = {"scripted": self.launcher}
        return Runner(self.database, Observations(), launchers, settings=settings)

    def grant(self, role: Role, name: str = "ci") -> str:
        """Makes a token and answers its id."""
        made = create_token(self.database, Observations(), name, Grant(role, ACME), None, EVERYWHERE, Caller("root"))
        return made.token.token_id

    def shown(self) -> str | None:
        """What the newest attempt was given."""
        return self.launcher.last.launch.environment.get("TRIGGERCTL_TOKEN")

    def principal(self, token: str | None) -> Principal | None:
        """Whom it stands for, asked of another process."""
        assert token is not None
        return principal_of_run(self.database, token)


@pytest.fixture
def scene(database: Database, tmp_path: Path) -> Scene:
    return Scene(database, tmp_path)


def test_without_controlled_access_there_is_none(scene: Scene) -> None:
    """X-13: tasks are told the address alone."""
    scene.rows.run(scene.rows.trigger())
    scene.runner().run_pass()
    assert scene.shown() is None
    assert scene.launcher.last.launch.environment["TRIGGERCTL_URL"] == "http://here"


@pytest.mark.parametrize("by", ["setting", "token"])
def test_it_stands_for_the_run_within_its_project(scene: Scene, by: str) -> None:
    """X-13, O-06: a deployer of the one project; where a trigger has no author nothing else limits it."""
    if by == "token":
        scene.grant(Role.VIEWER)
    run_id = scene.rows.run(scene.rows.trigger())
    scene.runner(guarded=by == "setting").run_pass()
    asking = scene.principal(scene.shown())
    assert asking is not None
    assert asking.cause is not None
    assert (asking.actor, asking.cause.run_id) == (f"run:{run_id} of acme/production/report/morning", run_id)
    assert [asking.rights.role_in(project) for project in ("acme", "other")] == [Role.DEPLOYER, None]


def test_each_run_has_its_own(scene: Scene) -> None:
    """X-13: also of two that are claimed at once."""
    trigger = scene.rows.trigger()
    runs = {scene.rows.run(trigger), scene.rows.run(trigger)}
    scene.runner(guarded=True).run_pass()
    tokens = {work.launch.environment["TRIGGERCTL_TOKEN"] for work in scene.launcher.works}
    found = {scene.principal(token) for token in tokens}
    assert {asking.cause.run_id for asking in found if asking and asking.cause} == runs


@pytest.mark.parametrize("end", ["succeeds", "fails", "is retried", "is handed back"])
def test_it_dies_with_the_attempt(scene: Scene, clock: HandClock, end: str) -> None:
    """X-13: settled, waiting for its next attempt or handed back, a run has no token; the next attempt has another."""
    scene.rows.run(scene.rows.trigger(), max_attempts=2 if end == "is retried" else 1)
    runner = scene.runner(guarded=True)
    runner.run_pass()
    token = scene.shown()
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
        assert scene.shown() != token
        assert scene.principal(scene.shown())
        assert scene.principal(token) is None


def test_it_is_good_after_a_restart_and_not_beyond_the_timeout(scene: Scene, clock: HandClock) -> None:
    """X-13: its hash is in the database, so any controller knows it; a run that nobody ends any more loses it."""
    scene.rows.run(scene.rows.trigger())
    scene.runner(guarded=True).run_pass()
    token = scene.shown()
    clock.advance(timedelta(minutes=10))
    assert scene.principal(token)
    clock.advance(timedelta(minutes=2))
    assert scene.principal(token) is None


def test_it_never_is_more_than_the_author_is_now(scene: Scene, clock: HandClock) -> None:
    """X-13, X-15: a run of an author who became a viewer may look, one of an author who is gone nothing."""
    granted = scene.grant(Role.ADMIN)
    trigger = scene.rows.trigger(author="ci")
    scene.rows.run(trigger)
    scene.runner().run_pass()
    token = scene.shown()

    def role() -> Role | None:
        asking = scene.principal(token)
        assert asking is not None
        assert asking.scopes == scopes_of("token:ci")
        return asking.rights.role_in("acme")

    assert role() is Role.DEPLOYER
    revoke_token(scene.database, Observations(), granted, EVERYWHERE, Caller("root"))
    assert role() is None
    scene.grant(Role.VIEWER)
    assert role() is Role.VIEWER
