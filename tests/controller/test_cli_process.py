"""The command as a process of its own, and against a server."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from controller import settings
from controller.app import create_app
from controller.services import Services
from revisions.store.database import Database
from tests.controller.conftest import ON_SQLITE, Cli
from tests.waiting import PATIENCE, eventually
from tests.world import task_document, trigger_document

ROOT = Path(__file__).parents[2]


def triggerctl(*arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "controller.cli.main", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        timeout=PATIENCE,
        check=False,
    )


def test_the_end_looks_through_nothing() -> None:
    """U-01: a command ends with its answer; what it loaded is not searched for garbage first."""
    last = "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 0))"
    ended = subprocess.run(
        [sys.executable, "-c", f"{last}; from controller.cli.main import main; main(['--version'])"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert ended.stdout.splitlines()[-1] == "True"


def test_from_an_empty_folder_to_a_trigger(tmp_path: Path) -> None:
    """U-01: the answer alone on standard output, notes on standard error, the exit status told to the shell."""
    missing = triggerctl("list")
    assert (missing.returncode, missing.stdout) == (7, "")
    assert "triggerctl db upgrade" in missing.stderr
    assert triggerctl("db", "upgrade").returncode == 0
    assert (tmp_path / "triggerctl.db").exists()
    assert triggerctl("task", "register", "-", stdin=json.dumps(task_document())).returncode == 0
    made = triggerctl("--actor", "ci", "--output", "json", "deploy", "-", stdin=json.dumps(trigger_document()))
    assert json.loads(made.stdout)["changed_by"] == "ci"
    paused = triggerctl("deactivate", "acme/production/report/tick", "--output", "json")
    assert json.loads(paused.stdout)["revision"] == 2
    assert paused.stderr == "expected revision 1, read now\n"
    assert triggerctl("deploy", "-", stdin="a: [").returncode == 5
    assert triggerctl("list", TRIGGERCTL_DATABASE_URL="sqlite:///other.db").returncode == 7


def test_a_restored_database_is_begun_anew_by_a_process_that_ends(tmp_path: Path) -> None:
    """O-07: with every part left out, for a Job that goes before the replicas."""
    assert triggerctl("db", "upgrade").returncode == 0
    arguments = ("up", "--baseline", "now", "--without", "api,web,loop,runner")
    begun = triggerctl(*arguments, TRIGGERCTL_EXECUTION_QSP="5")
    assert (begun.returncode, begun.stdout) == (0, "")
    assert "baseline.declared" in begun.stderr
    assert "setting.unknown" in begun.stderr
    assert "meant=TRIGGERCTL_EXECUTION_QPS" in begun.stderr


@pytest.mark.parametrize(
    ("place", "status", "way"),
    [("folder", 7, "its folder"), ("text", 7, "restore a backup")],
)
def test_a_file_that_is_no_database(tmp_path: Path, place: str, status: int, way: str) -> None:
    """U-01: told with the way out, by every command and by the doctor."""
    (tmp_path / "text").write_text("this is no database, and long enough to be looked at as one" * 20)
    url = {"folder": "sqlite:///nowhere/triggerctl.db", "text": "sqlite:///text"}[place]
    for command, wanted in (("db upgrade", status), ("doctor", 1)):
        said = triggerctl("--database-url", url, *command.split())
        assert (said.returncode, "unexpected" in said.stderr) == (wanted, False)
        if place == "text" or command != "doctor":  # which makes no file, so that it has none to open
            assert way in said.stdout + said.stderr


@ON_SQLITE
def test_answers_in_any_encoding(cli: Cli, database_url: str) -> None:
    """U-01: a terminal that knows ASCII only gets what it can show, not a traceback."""
    cli("task", "register", "-", stdin=json.dumps(task_document(description="Zürich → Genève")))
    at = {"TRIGGERCTL_DATABASE_URL": database_url, "PYTHONIOENCODING": "ascii"}
    shown = triggerctl("task", "show", "acme/production/report@v1", **at)
    assert (shown.returncode, "Traceback" in shown.stderr) == (0, False)
    assert "Z\\xfcrich" in shown.stdout


def test_version_and_help() -> None:
    """U-01: both answer without a database."""
    assert triggerctl("--version").stdout.startswith("triggerctl ")
    helped = triggerctl("--help")
    assert helped.returncode == 0
    for command in ("up", "deploy", "list", "show", "history", "activate", "next", "fire", "runs", "task", "db"):
        assert command in helped.stdout


@pytest.fixture
def address(database: Database) -> Iterator[str]:
    app = create_app(Services.over(database, settings.load()))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    eventually(lambda: server.started)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def test_the_same_commands_against_a_server(cli: Cli, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """U-01: with --server the command talks HTTP, gives the same answers and statuses, and acts as the server says."""
    monkeypatch.setenv("TRIGGERCTL_SERVER", address)

    def remote(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
        said = cli(*arguments, stdin=stdin, database=None)
        return said.status, said.out, said.err

    assert remote("task", "register", "-", stdin=json.dumps(task_document()))[0] == 0
    status, out, _ = remote("--output", "json", "deploy", "-", stdin=json.dumps(trigger_document()))
    assert (status, json.loads(out)["changed_by"]) == (0, "local")
    status, _, err = remote("deploy", "-", stdin=json.dumps(trigger_document()))
    assert status == 4
    assert "exists already, at revision 1" in err
    assert remote("show", "acme/production/report/none")[0] == 3
    direct = cli("--output", "json", "list")
    assert remote("--output", "json", "list")[1] == direct.out
