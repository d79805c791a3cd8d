"""The demonstration behind `make demo`: a bakery's tasks and triggers, deployed and run before your eyes.

Everything happens in a temporary folder, through the `triggerctl` command; each command is shown as it is typed.
`--once` ends by itself, with status 0 only when every trigger had runs that succeeded, the missed ones included.
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
SECONDS_OF_STANDING_STILL = 10
SECONDS_FOR_RUNS = 120
SECONDS_TO_STOP = 60

Seen = TypeVar("Seen")


class Failure(Exception):
    """Why the demonstration did not succeed."""


class Stopped(BaseException):
    """Ctrl-C, or a signal that asks for an end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--once", action="store_true", help="end by itself instead of staying up until Ctrl-C")
    once = parser.parse_args().once
    _on_signals(_stop)
    try:
        with _folder() as folder, Bakery(folder) as bakery:
            tell(bakery)
            if not once:
                _stay(bakery)
    except Failure as failure:
        sys.stdout.flush()
        print(f"\nThe demonstration failed: {failure}", file=sys.stderr)
        return 1
    except Stopped as stopped:
        return 128 + stopped.number
    print("\nStopped; the temporary folder is removed." if not once else "\nDone; the temporary folder is removed.")
    return 0


class Bakery:
    """The folder of the demonstration, the commands typed in it, and the controller started in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "controller.log"
        self.started_at = datetime.max.replace(tzinfo=UTC)
        self.url = ""
        self._controller: subprocess.Popen[bytes] | None = None
        self._command = _command()
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TRIGGERCTL_")},
            # Tasks run `python`: the one of this installation, whatever else there is.
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
            "TRIGGERCTL_WORK_DIR": str(folder / "attempts"),
        }

    def __enter__(self) -> "Bakery":
        return self

    def __exit__(self, *_: object) -> None:
        _on_signals(signal.SIG_IGN)
        if self._controller is None:
            return
        self._controller.terminate()
        try:
            self._controller.wait(SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self._controller.kill()
            self._controller.wait()

    def type(self, line: str, *, shown: bool = True) -> None:
        """Runs `triggerctl` with these arguments, and shows the command and, if wanted, its answer."""
        print(f"$ triggerctl {line}", flush=True)
        done = subprocess.run(
            [*self._command, *shlex.split(line)],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise Failure(
                f"`triggerctl {line}` ended with status {done.returncode}\n{done.stdout}{done.stderr}".rstrip()
            )
        if shown:
            _print_fitting(done.stdout)

    def start(self, settings: dict[str, str]) -> None:
        """Starts `triggerctl up` in the background and waits until it can work."""
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
                start_new_session=True,  # a Ctrl-C is for this script, which then stops the controller
            )
        self.url = self.eventually(self._told_url, "the controller to say where it listens")
        self.eventually(lambda: self.get("/readyz"), "the controller to be ready")

    def talk_to_controller(self) -> None:
        """Has the commands that follow ask the controller, as they would from another machine, not the database."""
        print(f"$ export TRIGGERCTL_SERVER={self.url}")
        self._environment["TRIGGERCTL_SERVER"] = self.url

    def get(self, path: str) -> Any:
        """What the API answers, None while it does not."""
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

    def eventually(self, look: Callable[[], Seen], what: str) -> Seen:
        """The first thing worth the name that `look` answers. Raises Failure when there is none in time."""
        deadline = time.monotonic() + SECONDS_FOR_RUNS
        while not (seen := look()):
            self.check()
            if time.monotonic() > deadline:
                raise Failure(
                    f"waited {SECONDS_FOR_RUNS} s in vain for {what}{_unsuccessful(self.runs())}{self._tail()}"
                )
            time.sleep(0.2)
        return seen

    def check(self) -> None:
        """Raises Failure when the controller has ended by itself."""
        if self._controller is not None and (status := self._controller.poll()) is not None:
            raise Failure(f"the controller ended by itself, with status {status}{self._tail()}")

    def _told_url(self) -> str:
        found = re.search(r"http://127\.0\.0\.1:\d+", self.log.read_text(errors="replace"))
        return found[0] if found else ""

    def _tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-20:] if self.log.exists() else []
        return "\n".join(["\n\nThe end of the controller's log:", *(f"  {line}" for line in lines)])


def tell(bakery: Bakery) -> None:
    """The story: deploy, stand still, start, catch up, change, look back."""
    print(f"A bakery's tasks and triggers, in {bakery.folder}")
    print("(a copy of config/examples with a SQLite database; removed at the end; times are UTC)")

    _heading("What can be run: tasks")
    bakery.type("db upgrade", shown=False)
    bakery.type("task register tasks.yaml")

    _heading("When it runs: a trigger, deployed while no controller runs")
    bakery.type("deploy triggers/orders-slots.yaml")
    print(f"\nNothing runs yet, so {SLOTS} misses a slot every {SLOT_SECONDS} seconds.")
    print(f"Waiting {SECONDS_OF_STANDING_STILL} seconds …", flush=True)
    time.sleep(SECONDS_OF_STANDING_STILL)

    _heading("The controller starts, and catches up")
    print("(the two settings make a slot count as missed after 4 s; by default that is a minute)")
    bakery.start({"TRIGGERCTL_LIVE_GRACE": "4s", "TRIGGERCTL_RESYNC_INTERVAL": "2s"})
    print(f"Web page and API: {bakery.url}")

    _heading("More triggers, and changes, while it runs")
    bakery.talk_to_controller()
    bakery.type("next --file triggers/sales-weekly.yaml -n 2")
    print()
    for trigger in ("sales-weekly", "sales-screen", "stock-often"):
        bakery.type(f"deploy triggers/{trigger}.yaml", shown=False)
    bakery.type(f"fire {WEEKLY}", shown=False)
    bakery.type(f"deactivate {OFTEN} --reason stocktaking", shown=False)
    bakery.type(f"activate {OFTEN} --reason 'stock is counted'", shown=False)
    print("Waiting for runs …", flush=True)
    slots = _missed_slots(bakery)
    bakery.eventually(lambda: not _lacking(bakery.runs(), slots, bakery.started_at), "runs of every trigger")
    report(bakery, slots)


def report(bakery: Bakery, slots: Sequence[str]) -> None:
    """What has happened: triggers, history, runs, the log of one and the file that it wrote."""
    _heading("What stands, and how it came to be")
    bakery.type("list")
    print()
    bakery.type(f"history {OFTEN}")

    _heading("What has run")
    bakery.type("runs list --status succeeded --limit 20")
    ended = [run for run in bakery.runs() if run["status"] == "succeeded"]
    print(f"\n{len(ended)} runs succeeded. The {len(slots)} slots of {SLOTS} missed before the start at")
    print(f"{bakery.started_at:%H:%M:%S} ({slots[0][11:19]} to {slots[-1][11:19]}) were caught up, each exactly once.")

    weekly = next(run for run in ended if run["trigger"] == WEEKLY)
    _heading("What the weekly report printed and wrote")
    bakery.type(f"runs logs {weekly['id']}")
    print(f"\n$ cat {weekly['output']['report']}")
    print((bakery.folder / weekly["output"]["report"]).read_text(encoding="utf-8").rstrip())
    bakery.check()


def _missed_slots(bakery: Bakery) -> list[str]:
    """The slots between the deploy and the controller's start, as the runs' `scheduled_at` will name them."""
    history = bakery.eventually(lambda: bakery.get(f"/api/v1/triggers/{SLOTS}/revisions"), "the history")
    deployed = datetime.fromisoformat(history["items"][-1]["at"])
    first = int(deployed.timestamp()) // SLOT_SECONDS * SLOT_SECONDS + SLOT_SECONDS
    seconds = range(first, int(bakery.started_at.timestamp()) + 1, SLOT_SECONDS)
    return [f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%SZ}" for second in seconds]


def _lacking(runs: Sequence[dict[str, Any]], slots: Sequence[str], started_at: datetime) -> list[str]:
    """What must still be seen: one run of every missed slot, and of every trigger runs in time."""
    ended = [(run["trigger"], run["scheduled_at"]) for run in runs if run["status"] == "succeeded"]
    lacking = [slot for slot in slots if ended.count((SLOTS, slot)) != 1]
    for trigger, wanted in ((WEEKLY, 1), (SCREEN, 1), (OFTEN, 1), (SLOTS, 2)):
        in_time = [at for name, at in ended if name == trigger and datetime.fromisoformat(at) > started_at]
        lacking += [trigger] * (len(in_time) < wanted)
    return lacking


def _unsuccessful(runs: Sequence[dict[str, Any]]) -> str:
    """The newest runs that did not succeed, in words."""
    others = [run for run in runs if run["status"] != "succeeded"][:5]
    lines = [
        f"  {run['trigger']} {run['scheduled_at']}: {run['status']}, {run['error'] or 'no error'}" for run in others
    ]
    return "\n".join(["\n\nThe newest runs that did not succeed:", *lines]) if lines else ""


def _stay(bakery: Bakery) -> None:
    """Until Ctrl-C, or the controller's end."""
    command = os.path.relpath(_command()[0])
    _heading("It goes on")
    print(f"Web page and API: {bakery.url}\nFiles: {bakery.folder}\n\nIn another terminal, for instance:")
    for line in ("list", f"runs list --trigger {SLOTS} --limit 5", f"deactivate {SLOTS} --reason 'I have seen enough'"):
        print(f"  {command} --server {bakery.url} {line}")
    print("Ctrl-C ends it.", flush=True)
    with contextlib.suppress(Stopped):
        while True:
            bakery.check()
            time.sleep(0.5)


def _command() -> list[str]:
    """The `triggerctl` that belongs to this interpreter."""
    beside = Path(sys.executable).with_name("triggerctl")
    if not beside.exists():
        raise Failure(f"there is no {beside}; `make demo` installs it")
    return [str(beside)]


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A copy of the examples in a temporary folder that is removed at the end, whatever happens."""
    folder = Path(tempfile.mkdtemp(prefix="triggerctl-demo-"))
    try:
        for part in ("bakery", "data", "triggers"):
            shutil.copytree(EXAMPLES / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(EXAMPLES / "tasks.yaml", folder)
        yield folder
    finally:
        _on_signals(signal.SIG_IGN)
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
    """Lines of a table, cut rather than wrapped where the terminal is narrower than they are."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in text.splitlines():
        print(line if width is None or len(line) <= width else f"{line[: width - 1]}…")
    sys.stdout.flush()


def _on_signals(handler: Any) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handler)


def _stop(number: int, _: FrameType | None) -> NoReturn:
    raise Stopped(number)


if __name__ == "__main__":
    sys.exit(main())
