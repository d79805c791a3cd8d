"""The Dockerfile, the program that its first stage builds, and the chart's containers running it."""

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

from tests.chart.image import ROOT, UID, as_image_user, build_program, stages
from tests.chart.modes import release
from tests.chart.pod import Pod
from tests.chart.values import default
from tests.ports import reserved

pytestmark = pytest.mark.xdist_group("image")
BUILD, RUN = stages()


def test_both_stages_use_one_slim_python_image() -> None:
    """O-01: it has no registry in its name, so that any registry can provide it."""
    assert BUILD.base == "python:3.11-slim AS build"
    assert RUN.base == "python:3.11-slim"


def test_the_image_runs_as_the_user_in_the_chart() -> None:
    """O-01: the user is a number, so that Kubernetes can verify that it is not root."""
    assert RUN.single("USER") == f"{UID}:{UID}"
    context = default("podSecurityContext")
    assert {context["runAsUser"], context["runAsGroup"], context["fsGroup"]} == {UID}
    [ports] = [each["ports"] for _, each in release("defaults").containers() if "ports" in each]
    assert RUN.single("EXPOSE") == str(ports[0]["containerPort"])


def test_the_image_contains_only_the_program() -> None:
    """O-01: no compiler, no source and no cache is copied from the build."""
    assert RUN.all("COPY") == ["--from=build /opt/triggerctl /opt/triggerctl"]


def test_the_build_context_holds_only_sources_of_the_wheel() -> None:
    """O-01: databases and keys in a checkout never get into the image."""
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    copied = {source for argument in BUILD.all("COPY") for source in argument.split()[:-1]}
    assert ignored[1] == "*"
    assert {line[1:] for line in ignored if line.startswith("!")} == copied
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert {name.rstrip("*") for name in setuptools["packages"]["find"]["include"]} <= copied
    assert {f"{name}.py" for name in setuptools["py-modules"]} <= copied


def test_the_image_is_built_with_extras_that_exist() -> None:
    """O-01: pip only warns about an unknown extra."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(BUILD.single("ARG").partition("=")[2].split(",")) <= known.keys()


def test_the_chart_pulls_the_image_of_this_version() -> None:
    """O-01: the tag is the project's version unless another is named."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert {each["image"] for _, each in release("defaults").containers()} == {f"triggerctl:{version}"}


@pytest.fixture(scope="module")
def program() -> Iterator[Path]:
    """Program built by the first stage, readable for every user."""
    folder = Path(tempfile.mkdtemp(prefix="image-"))
    folder.chmod(0o755)
    yield build_program(folder)
    shutil.rmtree(folder)


@pytest.fixture
def pods(program: Path) -> Iterator[Callable[..., Pod]]:
    """Function that creates the pods of a release; they are killed at the end of the test."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pods-")))
        folder.chmod(0o755)

        def make(mode: str, name: str, **secrets: dict[str, str]) -> Pod:
            pod = Pod(release(mode), name, program, folder / name, secrets, stack.enter_context(reserved()))
            stack.callback(pod.kill)
            return pod

        yield make


def test_help_works_without_a_database(program: Path) -> None:
    """O-01: also as an unprivileged user in a read-only folder."""
    completed = subprocess.run(
        [*as_image_user(), program / "bin/triggerctl", "--help"],
        cwd=program,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    assert "Manage triggers with immutable revisions" in completed.stdout


def test_tasks_can_import_triggerctl(program: Path) -> None:
    """O-01: from the image's own packages, not from those that this test adds."""
    [packages] = program.glob("lib/python*/site-packages")
    code = "import triggerctl; print(triggerctl.__file__); triggerctl.untrusted_block('')"
    completed = subprocess.run(
        [*as_image_user(), program / "bin/python", "-c", code],
        cwd=program,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.stdout.split() == [str(packages / "triggerctl.py")], completed.stderr


def test_a_controller_on_sqlite_starts_serves_and_stops(pods: Callable[..., Pod], program: Path) -> None:
    """O-01, O-05: it becomes ready, passes the test pod, requires a token, and writes only to mounted folders."""
    before = sorted(program.rglob("*"))
    pod = pods("defaults", "acme-triggerctl")
    pod.start()
    pod.wait_until_ready()
    tested = pods("defaults", "acme-triggerctl-test").run_to_end({"http://acme-triggerctl.automation.svc": pod.url})
    assert tested.returncode == 0, tested.stderr
    assert tested.stdout.split()[:2] == ["/healthz", "200"]
    created = pod.run("triggerctl", "--output", "json", "token", "create", "prometheus", "--role", "viewer")
    assert created.returncode == 0, created.stderr
    assert pod.get("/metrics").status_code == 401
    assert "triggerctl_build_info" in pod.get("/metrics", json.loads(created.stdout)["token"]).text
    assert pod.stop() == 0
    assert "controller.stopped" in pod.log
    assert sorted(program.rglob("*")) == before


def test_split_controllers_start_after_the_migrations_job(
    pods: Callable[..., Pod], postgresql_url: str, worker_id: str
) -> None:
    """O-01: the hook creates the schema in an empty database, without which no controller starts."""
    name = f"chart_{worker_id}"
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        connection.execute(f'CREATE DATABASE "{name}"')
    url = make_url(postgresql_url).set(database=name).render_as_string(hide_password=False)
    secrets = {"triggerctl-database": {"url": url, "listen-url": url}}
    migrated = pods("split", "acme-triggerctl-migrations", **secrets).run_to_end()
    assert migrated.returncode == 0, migrated.stderr
    api, worker = (pods("split", f"acme-triggerctl-{part}", **secrets) for part in ("api", "worker"))
    for pod in (api, worker):
        pod.start()
    for pod in (api, worker):
        pod.wait_until_ready()
    assert [pod.get("/sign-in").status_code for pod in (api, worker)] == [200, 401]
    assert [pod.stop() for pod in (api, worker)] == [0, 0]
