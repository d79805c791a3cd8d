"""The image: what the Dockerfile says, what comes of its first stage, and how the chart's containers run in it."""

import json
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from tests.chart.image import ROOT, UID, as_its_user, built, stages
from tests.chart.modes import release
from tests.chart.pod import Pod
from tests.chart.values import default
from tests.ports import reserved

pytestmark = pytest.mark.xdist_group("image")
BUILD, RUN = stages()


def test_both_stages_stand_on_one_slim_image_of_a_known_version() -> None:
    """O-01: by its plain name, so that any registry may serve it."""
    assert BUILD.base == "python:3.11-slim AS build"
    assert RUN.base == "python:3.11-slim"


def test_the_image_runs_as_the_user_that_the_chart_names() -> None:
    """O-01: by number, for Kubernetes must see that it is no root."""
    assert RUN.one("USER") == f"{UID}:{UID}"
    context = default("podSecurityContext")
    assert {context["runAsUser"], context["runAsGroup"], context["fsGroup"]} == {UID}
    [ports] = [each["ports"] for _, each in release("defaults").containers() if "ports" in each]
    assert RUN.one("EXPOSE") == str(ports[0]["containerPort"])


def test_nothing_of_the_build_is_left_but_the_program() -> None:
    """O-01: no compiler, no source, no cache."""
    assert RUN.all("COPY") == ["--from=build /opt/triggerctl /opt/triggerctl"]


def test_the_build_sees_what_the_wheel_is_made_of_and_nothing_else() -> None:
    """O-01: neither databases nor keys that lie about in a checkout get near an image."""
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    copied = {source for argument in BUILD.all("COPY") for source in argument.split()[:-1]}
    assert ignored[1] == "*"
    assert {line[1:] for line in ignored if line.startswith("!")} == copied
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert {name.rstrip("*") for name in setuptools["packages"]["find"]["include"]} <= copied
    assert {f"{name}.py" for name in setuptools["py-modules"]} <= copied


def test_the_extras_it_is_built_with_are_there() -> None:
    """O-01: pip would only warn."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(BUILD.one("ARG").partition("=")[2].split(",")) <= known.keys()


def test_the_chart_pulls_the_image_of_this_version() -> None:
    """O-01: unless another tag is named."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert {each["image"] for _, each in release("defaults").containers()} == {f"triggerctl:{version}"}


@pytest.fixture(scope="module")
def program() -> Iterator[Path]:
    """The program as the first stage makes it, where any user may read it."""
    folder = Path(tempfile.mkdtemp(prefix="image-"))
    folder.chmod(0o755)
    yield built(folder)
    shutil.rmtree(folder)


@pytest.fixture
def pods(program: Path) -> Iterator[Callable[..., Pod]]:
    """Makes the pods of a release; they end with the test."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pods-")))
        folder.chmod(0o755)

        def make(mode: str, name: str, **secrets: dict[str, str]) -> Pod:
            pod = Pod(release(mode), name, program, folder / name, secrets, stack.enter_context(reserved()))
            stack.callback(pod.end)
            return pod

        yield make


def test_the_wheel_answers_without_a_database(program: Path) -> None:
    """O-01: as a user who owns nothing, from a folder that is not to be written to."""
    asked = subprocess.run(
        [*as_its_user(), program / "bin/triggerctl", "--help"],
        cwd=program,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr
    assert "Triggers with immutable revisions" in asked.stdout


def test_tasks_can_import_what_the_docs_tell_them_to(program: Path) -> None:
    """O-01: from the image's own packages, not from those this test lends it."""
    [packages] = program.glob("lib/python*/site-packages")
    code = "import triggerctl; print(triggerctl.__file__); triggerctl.untrusted_block('')"
    asked = subprocess.run(
        [*as_its_user(), program / "bin/python", "-c", code],
        cwd=program,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.stdout.split() == [str(packages / "triggerctl.py")], asked.stderr


def test_one_controller_on_sqlite_lives_from_start_to_stop(pods: Callable[..., Pod], program: Path) -> None:
    """O-01, O-05: ready, asked by the test pod, used with a token, stopped; written only where something is mounted."""
    before = sorted(program.rglob("*"))
    pod = pods("defaults", "acme-triggerctl")
    pod.start()
    pod.wait_until_ready()
    tested = pods("defaults", "acme-triggerctl-test").finish({"http://acme-triggerctl.automation.svc": pod.url})
    assert tested.returncode == 0, tested.stderr
    assert tested.stdout.split()[:2] == ["/healthz", "200"]
    made = pod.run("triggerctl", "--output", "json", "token", "create", "prometheus", "--role", "viewer")
    assert made.returncode == 0, made.stderr
    assert pod.get("/metrics").status_code == 401
    assert "triggerctl_build_info" in pod.get("/metrics", json.loads(made.stdout)["token"]).text
    assert pod.stop() == 0
    assert "controller.stopped" in pod.log
    assert sorted(program.rglob("*")) == before


def test_split_controllers_on_postgresql_live_after_their_migrations(
    pods: Callable[..., Pod], postgresql_url: str, worker_id: str
) -> None:
    """O-01: the hook makes the schema of an empty database, without which no controller starts."""
    name = f"chart_{worker_id}"
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        connection.execute(f'CREATE DATABASE "{name}"')
    url = make_url(postgresql_url).set(database=name).render_as_string(hide_password=False)
    secrets = {"triggerctl-database": {"url": url, "listen-url": url}}
    migrated = pods("split", "acme-triggerctl-migrations", **secrets).finish()
    assert migrated.returncode == 0, migrated.stderr
    api, worker = (pods("split", f"acme-triggerctl-{part}", **secrets) for part in ("api", "worker"))
    for pod in (api, worker):
        pod.start()
    for pod in (api, worker):
        pod.wait_until_ready()
    assert [pod.get("/sign-in").status_code for pod in (api, worker)] == [200, 404]
    assert [pod.stop() for pod in (api, worker)] == [0, 0]
