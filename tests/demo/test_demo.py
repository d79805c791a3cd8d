"""`make demo` as a newcomer sees it."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

EXAMPLES = Path(__file__).parents[2] / "config" / "examples"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An empty home, a temporary folder of the test's own, and somebody else's settings, which must not matter."""
    home, temporary = tmp_path / "home", tmp_path / "tmp"
    home.mkdir()
    temporary.mkdir()
    foreign = {"TRIGGERCTL_DATABASE_URL": "sqlite:///foreign.db", "TRIGGERCTL_SERVER": "http://127.0.0.1:1"}
    return {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(temporary), **foreign}


@pytest.fixture
def port_8080_taken() -> Iterator[None]:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):  # somebody else has it, which is as good
            taken.bind(("127.0.0.1", 8080))
            taken.listen()
        yield


def left_over(environment: dict[str, str]) -> list[Path]:
    return [path for name in ("HOME", "TMPDIR") for path in Path(environment[name]).iterdir()]


@pytest.mark.usefixtures("port_8080_taken")
def test_the_demo_runs_every_trigger_and_catches_up(environment: dict[str, str]) -> None:
    """U-01, U-05: it ends by itself, shows history, runs and a report, and leaves nothing behind."""
    command = [sys.executable, str(EXAMPLES / "demo.py"), "--once"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    out = done.stdout
    assert "Port 8080 is taken, so the system chooses one (0)." in out
    [port] = re.findall(r"^Web page and API: http://127\.0\.0\.1:(\d+)$", out, re.MULTILINE)
    assert f"export TRIGGERCTL_SERVER=http://127.0.0.1:{port}" in out
    assert "Waiting 10 seconds" in out
    for trigger in ("sales/weekly", "sales/screen", "stock/often", "orders/slots"):  # it fails where one did not run
        assert re.search(rf"^bakery/prod/{trigger} +\d ", out, re.MULTILINE), out
    assert re.search(r"^\w{26} +bakery/prod/\S+ .* succeeded ", out, re.MULTILINE), out
    [slots] = re.findall(r"The (\d+) slots of bakery/prod/orders/slots missed .*\n.* were caught up", out)
    assert int(slots) >= 5
    assert re.search(r"^2 +DEACTIVATE +no .* stocktaking", out, re.MULTILINE)
    assert "# Bakery sales, week 11 of 2026" in out
    assert left_over(environment) == []


def test_the_demo_says_what_failed(tmp_path: Path, environment: dict[str, str]) -> None:
    """U-01: a command that is refused ends it, with the command and its words, and a status that says so."""
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    tasks = tmp_path / "examples" / "tasks.yaml"
    tasks.write_text(tasks.read_text().replace("timeout: 1m", "timeout: soon"))
    command = [sys.executable, str(tmp_path / "examples" / "demo.py"), "--once"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    assert "`triggerctl task register tasks.yaml` ended with status 5" in done.stderr
    assert "spec.timeout: 'soon' is not a span of time" in done.stderr
    assert "Traceback" not in done.stderr
    assert left_over(environment) == []


def test_ctrl_c_ends_the_demo_at_any_time(environment: dict[str, str]) -> None:
    """U-01: no traceback, and nothing is left behind."""
    command = [sys.executable, "-u", str(EXAMPLES / "demo.py")]
    started = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert started.stdout is not None
    assert any("Waiting 10 seconds" in line for line in started.stdout)
    os.killpg(started.pid, signal.SIGINT)
    _, err = started.communicate(timeout=PATIENCE)
    assert (started.returncode, err) == (128 + signal.SIGINT, "")
    assert left_over(environment) == []
