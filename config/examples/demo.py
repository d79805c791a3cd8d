"""The demonstration behind `make demo`: a bakery's tasks and triggers are deployed and run.

It works in a temporary folder and uses only the `triggerctl` command, showing each command as it is typed. With
`--once` it ends by itself, with status 0 only if every trigger had successful runs, including the missed ones.
"""
# ruff: noqa: T201

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeVar

EXAMPLES = Path(__file__).resolve().parent
WEEKLY, SCREEN, OFTEN, SLOTS = (
    f"bakery/prod/{name}" for name in ("sales/weekly", "sales/screen", "stock/often", "orders/slots")
)
SLOT_SECONDS = 2
PORT = 8080
OUTAGE_SECONDS = 10
SECONDS_FOR_RUNS = 120
SECONDS_TO_STOP = 60

Observation = TypeVar("Observation")


class Failure(Exception):
    """The demonstration failed; the message is the reason."""


class Stopped(BaseException):
    """A signal asked the demonstration to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--once", action="store_true", help="end by itself instead of staying up until Ctrl-C")
    once = parser.parse_args().once
    _handle_signals(_raise_stopped)
    try:
        with _example_folder() as folder, Bakery(folder) as bakery:
            run_demonstration(bakery)
            if not once:
                _run_until_stopped(bakery)
    except Failure as failure:
        sys.stdout.flush()
        print(f"\nThe demonstration failed: {failure}", file=sys.stderr)
        return 1
    except Stopped as stopped:
        return 128 + stopped.number
    print("\nStopped; the temporary folder is removed." if not once else "\nDone; the temporary folder is removed.")
    return 0


class Bakery:
    """The demonstration's folder, the commands typed in it, and the controller started in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "controller.log"
        self.started_at = datetime.max.replace(tzinfo=UTC)
        self.url = ""
        self._controller: subprocess.Popen[bytes] | None = None
        self._command = _command()
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TRIGGERCTL_")},
            # Tasks run `python`, which must be the one of this installation.
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
            "TRIGGERCTL_WORK_DIR": str(folder / "attempts"),
        }

    def __enter__(self) -> "Bakery":
        return self

    def __exit__(self, *_: object) -> None:
        _handle_signals(signal.SIG_IGN)
        if self._controller is None:
            return
        self._controller.terminate()
        try:
            self._controller.wait(SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self._controller.kill()
            self._controller.wait()

    def type(self, line: str, *, shown: bool = True) -> None:
        """Run `triggerctl` with these arguments, and print the command and, if `shown`, its output."""
        print(f"$ triggerctl {line}", flush=True)
        completed = subprocess.run(
            [*self._command, *shlex.split(line)],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if completed.returncode != 0:
            raise Failure(
                f"`triggerctl {line}` ended with status {completed.returncode}\n"
                f"{completed.stdout}{completed.stderr}".rstrip()
            )
        if shown:
            _print_fitting(completed.stdout)

    def start(self, settings: dict[str, str]) -> None:
        """Start `triggerctl up` in the background and wait until it is ready."""
        port = PORT if _is_free(PORT) else 0
        if not port:
            print(f"Port {PORT} is taken, so the system chooses one (0).")
        arguments = ["up", "--listen", f"127.0.0.1:{port}"]
        print("$", *(f"{name}={value}" for name, value in settings.items()), "triggerctl", *arguments, flush=True)
        self.started_at = datetime.now(UTC)
        with self.log.open("wb") as log:
            self._controller = subprocess.Popen(
                [*self._command, *arguments],
                cwd=self.folder,
                env={**self._environment, **settings},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches only this script, which then stops the controller
            )
        self.url = self.wait_until(self._url_in_log, "the controller to say where it listens")
        self.wait_until(lambda: self.get("/readyz"), "the controller to be ready")

    def use_controller(self) -> None:
        """Make the following commands use the controller's API, as from another machine, instead of the database."""
        print(f"$ export TRIGGERCTL_SERVER={self.url}")
        self._environment["TRIGGERCTL_SERVER"] = self.url

    def get(self, path: str) -> Any:
        """Return the API's answer, or None while it does not answer."""
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                self.url + path, timeout=SECONDS_FOR_RUNS
            ) as answer:
                return json.load(answer)
        except (OSError, ValueError):
            return None

    def runs(self) -> list[dict[str, Any]]:
        answer = self.get("/api/v1/runs?limit=1000")
        return answer["items"] if answer else []

    def wait_until(self, look: Callable[[], Observation], description: str) -> Observation:
        """Call `look` until it returns a true value, and return that value. Raises Failure after a time limit."""
        deadline = time.monotonic() + SECONDS_FOR_RUNS
        while not (observation := look()):
            self.check()
            if time.monotonic() > deadline:
                raise Failure(
                    f"waited {SECONDS_FOR_RUNS} s in vain for {description}"
                    f"{_unsuccessful_runs(self.runs())}{self._end_of_log()}"
                )
            time.sleep(0.2)
        return observation

    def check(self) -> None:
        """Raise Failure if the controller has ended by itself."""
        if self._controller is not None and (status := self._controller.poll()) is not None:
            raise Failure(f"the controller ended by itself, with status {status}{self._end_of_log()}")

    def _url_in_log(self) -> str:
        match = re.search(r"http://127\.0\.0\.1:\d+", self.log.read_text(errors="replace"))
        return match[0] if match else ""

    def _end_of_log(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-20:] if self.log.exists() else []
        return "\n".join(["\n\nThe end of the controller's log:", *(f"  {line}" for line in lines)])


def run_demonstration(bakery: Bakery) -> None:
    """Deploy, cause an outage, start, catch up, change triggers and look at the history."""
    print(f"A bakery's tasks and triggers, in {bakery.folder}")
    print("(a copy of config/examples with a SQLite database; removed at the end; times are UTC)")

    _heading("Tasks: what can be run")
    bakery.type("db upgrade", shown=False)
    bakery.type("task register tasks.yaml")

    _heading("A trigger: when a task runs; deployed while no controller runs")
    bakery.type("deploy triggers/orders-slots.yaml")
    print(f"\nNothing runs yet, so {SLOTS} misses a slot every {SLOT_SECONDS} seconds.")
    print(f"Waiting {OUTAGE_SECONDS} seconds …", flush=True)
    time.sleep(OUTAGE_SECONDS)

    _heading("The controller starts and catches up")
    print("(the two settings make a slot count as missed after 4 s; by default that is a minute)")
    bakery.start({"TRIGGERCTL_LIVE_GRACE": "4s", "TRIGGERCTL_RESYNC_INTERVAL": "2s"})
    print(f"Web page and API: {bakery.url}")

    _heading("More triggers, and changes while it runs")
    bakery.use_controller()
    bakery.type("next --file triggers/sales-weekly.yaml -n 2")
    print()
    for trigger in ("sales-weekly", "sales-screen", "stock-often"):
        bakery.type(f"deploy triggers/{trigger}.yaml", shown=False)
    bakery.type(f"fire {WEEKLY}", shown=False)
    bakery.type(f"deactivate {OFTEN} --reason stocktaking", shown=False)
    bakery.type(f"activate {OFTEN} --reason 'stock is counted'", shown=False)
    print("Waiting for runs …", flush=True)
    slots = _missed_slots(bakery)
    bakery.wait_until(lambda: not _missing_runs(bakery.runs(), slots, bakery.started_at), "runs of every trigger")
    report(bakery, slots)


def report(bakery: Bakery, slots: Sequence[str]) -> None:
    """Show triggers, history, runs, the log of a run and the file that it wrote."""
    _heading("Current triggers and their history")
    bakery.type("list")
    print()
    bakery.type(f"history {OFTEN}")

    _heading("Completed runs")
    bakery.type("runs list --status succeeded --limit 20")
    ended = [run for run in bakery.runs() if run["status"] == "succeeded"]
    print(f"\n{len(ended)} runs succeeded. The {len(slots)} slots of {SLOTS} missed before the start at")
    print(f"{bakery.started_at:%H:%M:%S} ({slots[0][11:19]} to {slots[-1][11:19]}) were caught up, each exactly once.")

    weekly = next(run for run in ended if run["trigger"] == WEEKLY)
    _heading("Log and output of the weekly report")
    bakery.type(f"runs logs {weekly['id']}")
    print(f"\n$ cat {weekly['output']['report']}")
    print((bakery.folder / weekly["output"]["report"]).read_text(encoding="utf-8").rstrip())
    bakery.check()


def _missed_slots(bakery: Bakery) -> list[str]:
    """Return the slots between the deploy and the controller's start, formatted as the runs' `scheduled_at`."""
    history = bakery.wait_until(lambda: bakery.get(f"/api/v1/triggers/{SLOTS}/revisions"), "the history")
    deployed = datetime.fromisoformat(history["items"][-1]["at"])
    first = int(deployed.timestamp()) // SLOT_SECONDS * SLOT_SECONDS + SLOT_SECONDS
    seconds = range(first, int(bakery.started_at.timestamp()) + 1, SLOT_SECONDS)
    return [f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%SZ}" for second in seconds]


def _missing_runs(runs: Sequence[dict[str, Any]], slots: Sequence[str], started_at: datetime) -> list[str]:
    """Return what must still happen: one run of every missed slot, and runs on time of every trigger."""
    ended = [(run["trigger"], run["scheduled_at"]) for run in runs if run["status"] == "succeeded"]
    missing = [slot for slot in slots if ended.count((SLOTS, slot)) != 1]
    for trigger, wanted in ((WEEKLY, 1), (SCREEN, 1), (OFTEN, 1), (SLOTS, 2)):
        on_time = [at for name, at in ended if name == trigger and datetime.fromisoformat(at) > started_at]
        missing += [trigger] * (len(on_time) < wanted)
    return missing


def _unsuccessful_runs(runs: Sequence[dict[str, Any]]) -> str:
    """Return a text about the newest runs that did not succeed."""
    others = [run for run in runs if run["status"] != "succeeded"][:5]
    lines = [
        f"  {run['trigger']} {run['scheduled_at']}: {run['status']}, {run['error'] or 'no error'}" for run in others
    ]
    return "\n".join(["\n\nThe newest runs that did not succeed:", *lines]) if lines else ""


def _run_until_stopped(bakery: Bakery) -> None:
    """Run until Ctrl-C, or until the controller ends."""
    command = os.path.relpath(_command()[0])
    _heading("The controller keeps running")
    print(f"Web page and API: {bakery.url}\nFiles: {bakery.folder}\n\nIn another terminal, for instance:")
    for line in ("list", f"runs list --trigger {SLOTS} --limit 5", f"deactivate {SLOTS} --reason 'I have seen enough'"):
        print(f"  {command} --server {bakery.url} {line}")
    print("Ctrl-C ends the demonstration.", flush=True)
    with contextlib.suppress(Stopped):
        while True:
            bakery.check()
            time.sleep(0.5)


def _command() -> list[str]:
    """Return the `triggerctl` command that belongs to this interpreter."""
    program = Path(sys.executable).with_name("triggerctl")
    if not program.exists():
        raise Failure(f"there is no {program}; `make demo` installs it")
    return [str(program)]


@contextlib.contextmanager
def _example_folder() -> Iterator[Path]:
    """Copy the examples to a temporary folder, which is removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="triggerctl-demo-"))
    try:
        for part in ("bakery", "data", "triggers"):
            shutil.copytree(EXAMPLES / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(EXAMPLES / "tasks.yaml", folder)
        yield folder
    finally:
        _handle_signals(signal.SIG_IGN)
        shutil.rmtree(folder, ignore_errors=True)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _heading(text: str) -> None:
    print(f"\n── {text} {'─' * max(0, 74 - len(text))}", flush=True)


def _print_fitting(text: str) -> None:
    """Print the lines of a table, cut to the width of the terminal."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in text.splitlines():
        print(line if width is None or len(line) <= width else f"{line[: width - 1]}…")
    sys.stdout.flush()


def _handle_signals(handler: Any) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handler)


def _raise_stopped(number: int, _: FrameType | None) -> NoReturn:
    raise Stopped(number)


if __name__ == "__main__":
    sys.exit(main())
