"""The command as a process of its own, and against a server."""

import io
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
from tests.controller.conftest import ON_SQLITE, Cli, exit_status
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


def test_a_command_skips_garbage_collection_at_its_end() -> None:
    """U-01: it would take a quarter of the command's time."""
    last = "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 0))"
    ended = subprocess.run(
        [sys.executable, "-c", f"{last}; from controller.cli.main import main; main(['--version'])"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert ended.stdout.splitlines()[-1] == "True"


@ON_SQLITE
def test_a_trigger_is_deployed_from_an_empty_folder(cli: Cli, tmp_path: Path) -> None:
    """U-01: standard output has only the answer, standard error the notes, and the shell sees the exit status."""
    missing = triggerctl("list")
    assert (missing.returncode, missing.stdout) == (7, "")
    assert "triggerctl db upgrade" in missing.stderr
    assert cli("db", "upgrade", database=None).status == 0
    assert (tmp_path / "triggerctl.db").exists()
    assert cli("task", "register", "-", stdin=json.dumps(task_document()), database=None).status == 0
    deployed = triggerctl("--actor", "ci", "--output", "json", "deploy", "-", stdin=json.dumps(trigger_document()))
    assert json.loads(deployed.stdout)["changed_by"] == "ci"
    paused = cli("deactivate", "acme/production/report/tick", "--output", "json", database=None)
    assert json.loads(paused.out)["revision"] == 2
    assert paused.err == "expected revision 1, read now\n"
    assert cli("deploy", "-", stdin="a: [", database=None).status == 5


@ON_SQLITE
def test_the_database_url_can_come_from_the_environment(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """L-02, U-01: without --database-url the setting counts."""
    monkeypatch.setenv("TRIGGERCTL_DATABASE_URL", "sqlite:///other.db")
    result = cli("list", database=None)
    assert result.status == 7
    assert "other.db" in result.err


@ON_SQLITE
def test_up_with_a_baseline_and_without_parts_ends_after_the_baseline(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, stop_signals: None
) -> None:
    """O-07: a Job can run it before the replicas start. Mistyped variables are reported."""
    monkeypatch.setenv("TRIGGERCTL_EXECUTION_QSP", "5")
    begun = cli("up", "--baseline", "now", "--without", "api,web,loop,runner")
    assert (begun.status, begun.out) == (0, "")
    assert "baseline.declared" in begun.err
    assert "setting.unknown" in begun.err
    assert "meant=TRIGGERCTL_EXECUTION_QPS" in begun.err


@ON_SQLITE
@pytest.mark.parametrize(("place", "way"), [("folder", "its folder"), ("text", "restore a backup")])
def test_a_file_that_is_no_database_is_reported_with_the_way_out(
    cli: Cli, tmp_path: Path, place: str, way: str
) -> None:
    """U-01: by every command and by the doctor, never as an unexpected error."""
    (tmp_path / "text").write_text("this is no database, and long enough to be looked at as one" * 20)
    url = {"folder": "sqlite:///nowhere/triggerctl.db", "text": "sqlite:///text"}[place]
    for command, status in (("db upgrade", 7), ("doctor", 1)):
        result = cli(*command.split(), database=url)
        assert (result.status, "unexpected" in result.err) == (status, False)
        if place == "text" or command != "doctor":  # the doctor creates no file, so a missing folder is no problem
            assert way in result.out + result.err


@ON_SQLITE
def test_characters_that_the_terminal_cannot_show_are_escaped(
    cli: Cli, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U-01: an ASCII terminal gets escapes instead of a traceback."""
    cli("task", "register", "-", stdin=json.dumps(task_document(description="Zürich → Genève")))
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", ascii_only)
    assert exit_status(["--database-url", database_url, "task", "show", "acme/production/report@v1"]) == 0
    ascii_only.seek(0)
    assert "Z\\xfcrich" in ascii_only.read()


@ON_SQLITE
def test_version_and_help_need_no_database(cli: Cli) -> None:
    """U-01: help lists the commands."""
    assert cli("--version", database=None).out.startswith("triggerctl ")
    helped = cli("--help", database=None)
    assert helped.status == 0
    for command in ("up", "deploy", "list", "show", "history", "activate", "next", "fire", "runs", "task", "db"):
        assert command in helped.out


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


def test_commands_give_the_same_answers_with_a_server(cli: Cli, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """U-01: with --server, answers and exit statuses are the same, and the server decides the actor."""
    monkeypatch.setenv("TRIGGERCTL_SERVER", address)

    def remote(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
        result = cli(*arguments, stdin=stdin, database=None)
        return result.status, result.out, result.err

    assert remote("task", "register", "-", stdin=json.dumps(task_document()))[0] == 0
    status, out, _ = remote("--output", "json", "deploy", "-", stdin=json.dumps(trigger_document()))
    assert (status, json.loads(out)["changed_by"]) == (0, "local")
    status, _, err = remote("deploy", "-", stdin=json.dumps(trigger_document()))
    assert status == 4
    assert "exists already, at revision 1" in err
    assert remote("show", "acme/production/report/none")[0] == 3
    direct = cli("--output", "json", "list")
    assert remote("--output", "json", "list")[1] == direct.out
