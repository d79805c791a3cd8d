"""`make demo` as a newcomer uses it."""

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
    """Environment with an empty home, a temporary folder of the test's own, and unrelated settings that must be
    ignored."""
    home, temporary = tmp_path / "home", tmp_path / "tmp"
    home.mkdir()
    temporary.mkdir()
    foreign = {"TRIGGERCTL_DATABASE_URL": "sqlite:///foreign.db", "TRIGGERCTL_SERVER": "http://127.0.0.1:1"}
    return {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(temporary), **foreign}


@pytest.fixture
def occupied_port_8080() -> Iterator[None]:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):  # another process has the port, which serves as well
            listener.bind(("127.0.0.1", 8080))
            listener.listen()
        yield


def remaining_files(environment: dict[str, str]) -> list[Path]:
    return [path for name in ("HOME", "TMPDIR") for path in Path(environment[name]).iterdir()]


@pytest.mark.usefixtures("occupied_port_8080")
def test_the_demo_runs_every_trigger_and_catches_up(environment: dict[str, str]) -> None:
    """U-01, U-05: it ends by itself, shows history, runs and a report, and leaves no files behind."""
    command = [sys.executable, str(EXAMPLES / "demo.py"), "--once"]
    completed = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (completed.returncode, completed.stderr) == (0, "")
    out = completed.stdout
    assert "Port 8080 is taken, so the system chooses one (0)." in out
    [port] = re.findall(r"^Web page and API: http://127\.0\.0\.1:(\d+)$", out, re.MULTILINE)
    assert f"export TRIGGERCTL_SERVER=http://127.0.0.1:{port}" in out
    assert "Waiting 10 seconds" in out
    for trigger in (
        "sales/weekly",
        "sales/screen",
        "stock/often",
        "orders/slots",
    ):  # the demo itself fails if one did not run
        assert re.search(rf"^bakery/prod/{trigger} +\d ", out, re.MULTILINE), out
    assert re.search(r"^\w{26} +bakery/prod/\S+ .* succeeded ", out, re.MULTILINE), out
    [slots] = re.findall(r"The (\d+) slots of bakery/prod/orders/slots missed .*\n.* were caught up", out)
    assert int(slots) >= 5
    assert re.search(r"^2 +DEACTIVATE +no .* stocktaking", out, re.MULTILINE)
    assert "# Bakery sales, week 11 of 2026" in out
    assert remaining_files(environment) == []


def test_the_demo_names_the_command_that_failed(tmp_path: Path, environment: dict[str, str]) -> None:
    """U-01: it ends with the command, its error message and exit status 1."""
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    tasks = tmp_path / "examples" / "tasks.yaml"
    tasks.write_text(tasks.read_text().replace("timeout: 1m", "timeout: soon"))
    command = [sys.executable, str(tmp_path / "examples" / "demo.py"), "--once"]
    completed = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert completed.returncode == 1
    assert "`triggerctl task register tasks.yaml` ended with status 5" in completed.stderr
    assert "spec.timeout: 'soon' is not a span of time" in completed.stderr
    assert "Traceback" not in completed.stderr
    assert remaining_files(environment) == []


def test_ctrl_c_ends_the_demo_without_a_traceback(environment: dict[str, str]) -> None:
    """U-01: and no files are left behind."""
    command = [sys.executable, "-u", str(EXAMPLES / "demo.py")]
    started = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert started.stdout is not None
    assert any("Waiting 10 seconds" in line for line in started.stdout)
    os.killpg(started.pid, signal.SIGINT)
    _, err = started.communicate(timeout=PATIENCE)
    assert (started.returncode, err) == (128 + signal.SIGINT, "")
    assert remaining_files(environment) == []
