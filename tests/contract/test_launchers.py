"""One test suite for every discovered launcher: a new file in `reconcile/launchers/` needs entries in these tables.

Tests that only apply to child processes use the fixture `child`; tests of HTTP alone are in test_http.py.
"""

import fcntl
import hashlib
import json
import os
import random
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from reconcile import plugins
from reconcile.launchers.shared import http_exchange, kubernetes_pod
from reconcile.plugins import Failed, Launch, Launcher, LaunchError, Lost, Running, Succeeded, Work, WorkProgress
from tests.blocks import faults_of, written_block
from tests.contract import flyte
from tests.contract.files import GONE, Files, files_of
from tests.contract.tasks import TASKS
from tests.waiting import eventually


class Messages(NamedTuple):
    """Error messages of a kind for a failed and for a cancelled task."""

    failed: str
    cancelled: str


# Functions that build a task's block from its name and the address of the external system, if there is one.
BLOCKS: Mapping[str, Callable[[str, str], dict[str, Any]]] = {
    "celery": lambda task, service: {"task": task},
    "flyte": lambda task, service: flyte.block(service, task),
    "http": lambda task, service: {"url": f"{service}/{task}"},
    "kubernetes": lambda task, service: {
        "image": "python:3.12-alpine",
        "command": ["python", "-S", "-c", TASKS, task, "file"],
    },
    "process": lambda task, service: {"command": [sys.executable, "-S", "../tasks.py", task], "cwd": "below"},
    "python": lambda task, service: {"callable": f"tasks:{task}"},
}
SYSTEMS = {"celery": "workers", "flyte": "flyte", "http": "service", "kubernetes": "cluster"}
"""Fixtures of the external systems."""
CHILDREN = ("process", "python")
"""Kinds whose work is a child process."""
REMOTE = ("celery", "flyte", "kubernetes")
"""Kinds whose work continues in an external system."""
PRINTING = (*CHILDREN, "kubernetes")
"""Kinds whose log is the output of the task."""
WRITING = (*PRINTING, "flyte", "http")
"""Kinds whose tasks write their output as text."""
CHILD = Messages("exited with code 3: could not reach the moon", "killed by SIGTERM")
MESSAGES: Mapping[str, Messages] = {
    "celery": Messages("RuntimeError: could not reach the moon", "was revoked"),
    "flyte": Messages("could not reach the moon", "was aborted: asked to end by triggerctl"),
    "http": Messages('answered 500 Internal Server Error: {"state": {"kept": 1}}', http_exchange.ABANDONED),
    "kubernetes": Messages("exited with code 3: could not reach the moon", kubernetes_pod.GONE),
    "process": CHILD,
    "python": CHILD,
}
WRONG_BLOCKS: Mapping[str, list[tuple[Any, str]]] = {
    "celery": [
        (None, ""),
        ({}, "task"),
        ({"task": 1}, "task"),
        ({"task": "a", "queues": []}, "queues"),
        ({"task": "a", "queue": ""}, "queue"),
        ({"task": "a", "broker": "redis://:secret@broker/0"}, "broker"),
        ({"task": "a", "backend": "TRIGGERCTL_DATABASE_URL"}, "backend"),
    ],
    "flyte": [
        (None, ""),
        ({}, "endpoint"),
        (flyte.block("http://a", "b", taks="c"), "taks"),
        (flyte.block("a.example", "b"), "endpoint"),
        (flyte.block("http://a:99999", "b"), "endpoint"),
        (flyte.block("https://ann:secret@a", "b"), "endpoint"),
        (flyte.block("http://a", "b") | {"task": 1}, "task"),
        (flyte.block("http://a", "b", version="v" * 64), "version"),
        (flyte.block("http://a", "b", token="Bearer eyJ"), "token"),
        (flyte.block("http://a", "b", token="TRIGGERCTL_DATABASE_URL"), "token"),
    ],
    "http": [
        (None, ""),
        ({}, "url"),
        ({"url": 1}, "url"),
        ({"url": ""}, "url"),
        ({"url": "service.example/x"}, "url"),
        ({"url": "ftp://service.example/x"}, "url"),
        ({"url": "http://"}, "url"),
        ({"url": "http://a:99999/"}, "url"),
        ({"url": "http://[::1/"}, "url"),
        ({"url": "http://ann:secret@service.example/"}, "url"),
        ({"url": "http://a/b c"}, "url"),
        ({"url": "http://a/b\r\nX: y"}, "url"),
        ({"url": "http://a/#b"}, "url"),
        ({"url": "http://a", "methode": "POST"}, "methode"),
        ({"url": "http://a", "method": "GET"}, "method"),
        ({"url": "http://a", "method": ["POST"]}, "method"),
        ({"url": "http://a", "expects": "both"}, "expects"),
        ({"url": "http://a", "headers": ["X: y"]}, "headers"),
        ({"url": "http://a", "headers": {"X Y": "z"}}, "headers.X Y"),
        ({"url": "http://a", "headers": {"X:": "z"}}, "headers.X:"),
        ({"url": "http://a", "headers": {"X": 1}}, "headers.X"),
        ({"url": "http://a", "headers": {"X": "a\r\nY: b"}}, "headers.X"),
        ({"url": "http://a", "headers": {"X": "Zürich"}}, "headers.X"),
        ({"url": "http://a", "headers": {"X": "a", "x": "b"}}, "headers.x"),
        ({"url": "http://a", "headers": {"idempotency-key": "k"}}, "headers.idempotency-key"),
    ],
    "kubernetes": [
        (None, ""),
        ({}, "image"),
        ({"image": ""}, "image"),
        ({"image": "a", "images": []}, "images"),
        ({"image": "a", "command": "python -m x"}, "command"),
        ({"image": "a", "args": ["b", 1]}, "args[1]"),
        ({"image": "a", "env": {"A=B": "c"}}, "env.A=B"),
        ({"image": "a", "namespace": "A"}, "namespace"),
        ({"image": "a", "service_account": 1}, "service_account"),
        ({"image": "a", "image_pull_secrets": "b"}, "image_pull_secrets"),
        ({"image": "a", "image_pull_secrets": ["b", "C"]}, "image_pull_secrets[1]"),
        ({"image": "a", "node_selector": ["b"]}, "node_selector"),
        ({"image": "a", "node_selector": {"b": 1}}, "node_selector.b"),
        ({"image": "a", "resources": "1Gi"}, "resources"),
        ({"image": "a", "resources": {"limit": {}}}, "resources.limit"),
        ({"image": "a", "resources": {"limits": {"cpu": 1}}}, "resources.limits.cpu"),
        ({"image": "a", "resources": {"limits": {"memory": "1GB"}}}, "resources.limits.memory"),
    ],
    "process": [
        (None, ""),
        ({}, "command"),
        ({"command": []}, "command"),
        ({"command": "python -m x"}, "command"),
        ({"command": [""]}, "command[0]"),
        ({"command": ["a", 1]}, "command[1]"),
        ({"command": ["a", "b\0"]}, "command[1]"),
        ({"command": ["./a"]}, "command[0]"),
        ({"command": ["a"], "environ": {}}, "environ"),
        ({"command": ["a"], "env": []}, "env"),
        ({"command": ["a"], "env": {"A=B": "c"}}, "env.A=B"),
        ({"command": ["a"], "env": {"A": 1}}, "env.A"),
        ({"command": ["a"], "cwd": "/tmp"}, "cwd"),
    ],
    "python": [
        ([], ""),
        ({}, "callable"),
        ({"callable": 1}, "callable"),
        ({"callable": "tasks.echo"}, "callable"),
        ({"callable": "tasks:"}, "callable"),
        ({"callable": "a:b", "paths": []}, "paths"),
        ({"callable": "a:b", "path": "lib"}, "path"),
        ({"callable": "a:b", "path": ["/lib"]}, "path[0]"),
    ],
}
CONTROLLER = """
import json, signal, sys
from pathlib import Path
from reconcile import plugins
from reconcile.plugins import Launch
kind, run, folder, root, spec, document = sys.argv[1:]
launcher = plugins.launcher(kind)
block = launcher.read(json.loads(spec))
launcher.start(Launch(run, 1, Path(folder), Path(root), block, json.loads(document), {}))
print("started", flush=True)
signal.pause()
"""


class Bench:
    """One launcher and a folder with its tasks; work that a test starts is ended afterwards."""

    def __init__(self, kind: str, root: Path, service: str) -> None:
        self.kind, self.root, self.service = kind, root, service
        self.files: Files = files_of(kind, root)
        self.started: list[Work] = []

    @property
    def launcher(self) -> Launcher:
        return plugins.launcher(self.kind)

    def launch(self, task: str, folder: str = "attempt", *, spec: Any = None, **values: Any) -> Launch:
        block = self.launcher.read(spec or BLOCKS[self.kind](task, self.service))
        run = hashlib.sha256(str(self.root / folder).encode()).hexdigest()[:26].upper()
        environment = {"TRIGGERCTL_RUN_ID": run, "TRIGGERCTL_URL": "http://localhost"}
        return Launch(run, 1, self.root / "runs" / folder, self.root, block, {"input": values}, environment)

    def start(self, task: str, folder: str = "attempt", **values: Any) -> Work:
        launch = self.launch(task, folder, **values)
        work = self.launcher.start(launch)
        self.started.append(work)
        self.files.select_attempt(launch)
        return work

    def adopt(self) -> Work | None:
        work = self.launcher.adopt(self.root / "runs" / "attempt")
        if work is not None:
            self.started.append(work)
        return work


@contextmanager
def prepared_bench(request: pytest.FixtureRequest, root: Path) -> Iterator[Bench]:
    kind = request.param
    (root / "tasks.py").write_text(TASKS)
    (root / "below").mkdir()
    bench = Bench(kind, root, request.getfixturevalue(SYSTEMS[kind]).url if kind in SYSTEMS else "")
    yield bench
    for work in bench.started:
        work.forget()


def bench_for(kinds: Iterable[str]) -> Any:
    """Return a fixture for some kinds. Tests of one system share a worker, so that the system is started once."""

    @pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.xdist_group(kind)) for kind in kinds])
    def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
        with prepared_bench(request, tmp_path) as bench:
            yield bench

    return bench


bench = bench_for(plugins.launchers())
child = bench_for(CHILDREN)
lasting = bench_for((*CHILDREN, *REMOTE))
printing = bench_for(PRINTING)
writing = bench_for(WRITING)


def is_running(work: Work) -> bool:
    return isinstance(work.poll(), Running)


def end(work: Work) -> WorkProgress:
    eventually(lambda: not is_running(work))
    return work.poll()


def is_unlocked(lock: Path) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_every_launcher_has_an_entry_here() -> None:
    assert BLOCKS.keys() == plugins.launchers().keys() == WRONG_BLOCKS.keys() == MESSAGES.keys()


def test_a_task_gets_the_document_and_returns_an_output(bench: Bench) -> None:
    """X-10: the attempt succeeds with what the task returned."""
    progress = end(bench.start("echo", text="Zürich", number=1.5))
    assert isinstance(progress, Succeeded)
    assert progress.output["seen"] == {"input": {"text": "Zürich", "number": 1.5}}


def test_a_task_without_an_output_succeeds(bench: Bench) -> None:
    """X-10: output is optional."""
    assert end(bench.start("nothing")) == Succeeded({})


def test_doctor_can_reach_the_external_system(bench: Bench) -> None:
    """O-05, X-10: tasks of one system share it, and asking starts nothing there."""
    first, second = (bench.launcher.system(bench.launch(task).block) for task in ("echo", "nothing"))
    assert first == second
    assert (first is None) is (bench.kind not in REMOTE)
    if first is not None:
        first.reach()
        assert hash(first) == hash(second)


def test_a_failure_has_a_message_and_keeps_the_output(bench: Bench) -> None:
    """X-10, X-06: `state` written before the failure is not lost."""
    failed = end(bench.start("fail"))
    assert failed == Failed(MESSAGES[bench.kind].failed, {"state": {"kept": 1}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "not a JSON object but list"),
        ("{", "not JSON"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": 1e999}', "1e999 is not JSON"),
        ('{"a": "\\u0000"}', "output.a: holds a NUL"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "output"),
        ('{"a": "' + "x" * 2**20 + '"}', "larger than"),
    ],
    ids=["list", "cut", "nan", "infinite", "nul", "deep", "large"],
)
def test_an_invalid_output_fails_the_run(writing: Bench, text: str, message: str) -> None:
    """X-10: even with exit code 0; the message says what is wrong."""
    failed = end(writing.start("write_output", text=text))
    assert isinstance(failed, Failed)
    assert message in failed.error


def test_an_empty_output_file_fails_the_run(child: Bench) -> None:
    """X-10: unlike an empty response body."""
    failed = end(child.start("write_output", text=""))
    assert isinstance(failed, Failed)
    assert "not JSON" in failed.error


def test_a_task_does_not_see_the_controllers_environment(child: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: only PATH, HOME, LANG, TZ and the variables of the contract."""
    monkeypatch.setenv("TRIGGERCTL_DATABASE_URL", "secret")
    monkeypatch.setenv("GA_TOKEN", "secret")
    monkeypatch.setenv("TZ", "Europe/Berlin")
    progress = end(child.start("echo"))
    assert isinstance(progress, Succeeded)
    environment = progress.output["environment"]
    added_by_shell_and_interpreter = {"PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"}
    assert set(environment) - added_by_shell_and_interpreter <= {
        *("PATH", "HOME", "LANG", "TZ"),
        *("TRIGGERCTL_RUN_ID", "TRIGGERCTL_URL", "TRIGGERCTL_INPUT", "TRIGGERCTL_OUTPUT"),
    }
    assert environment["TZ"] == "Europe/Berlin"
    assert environment["TRIGGERCTL_RUN_ID"] == child.launch("echo").run_id


def test_the_files_of_an_attempt_are_private_and_removed(bench: Bench) -> None:
    """X-12: the input contains secrets; nobody else can read it, and nothing of it remains."""
    work = bench.start("nothing")
    end(work)
    folder = bench.root / "runs" / "attempt"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "input.json").stat().st_mode) == 0o600
    work.forget()
    work.forget()
    assert not folder.exists()
    assert work.poll() == Succeeded({})


def test_a_log_is_read_in_parts(printing: Bench) -> None:
    """X-17: standard output and error are merged as raw bytes."""
    work = printing.start("print_bytes", times=8192)
    assert end(work) == Succeeded({})
    assert work.log.size() == 2**21 + 4
    assert work.log.read(255, 3) == b"\xff\x00\x01"
    assert work.log.read(2**21 - 1, 100) == b"\xffend\n"
    assert work.log.read(2**30, 100) == b""


def test_dropping_a_part_of_a_log_frees_its_space(bench: Bench) -> None:
    """X-17: positions and the remaining parts stay the same, also while the task goes on printing."""
    work = bench.start("wait", runs=bench.files.path("runs"), go=bench.files.path("go"))
    log = bench.root / "runs" / "attempt" / "log"
    written = random.Random(17).randbytes(3 * 2**20)
    log.write_bytes(written)
    work.log.drop(2**20, 2**21)
    assert log.stat().st_blocks * 512 == 2**21
    assert work.log.size() == len(written)
    assert work.log.read(0, len(written)) == written[: 2**20] + bytes(2**20) + written[2**21 :]
    bench.files.touch("go")
    assert end(work) == Succeeded({"waited": True})
    work.forget()
    work.log.drop(2**20, 2**21)


def test_a_log_can_be_read_while_the_task_runs(bench: Bench) -> None:
    """X-17: so it can be followed."""
    work = bench.start("wait", runs=bench.files.path("runs"), go=bench.files.path("go"))
    assert work.log.read(0, 10) == b""
    bench.files.touch("go")
    assert end(work) == Succeeded({"waited": True})


def is_cancelled(ended: WorkProgress, kind: str) -> bool:
    """Return True if the work ended as cancelled work does.

    A Job's pod may be seen to end before the Job is gone, which gives another message.
    """
    messages = (MESSAGES[kind].cancelled, CHILD.cancelled) if kind == "kubernetes" else (MESSAGES[kind].cancelled,)
    return isinstance(ended, Failed) and ended.error in messages


def test_a_cancelled_task_ends(bench: Bench) -> None:
    """X-10: until then it is reported as running."""
    work = bench.start("sleep", ready=bench.files.path("ready"))
    eventually(lambda: bench.files.exists("ready"))
    assert is_running(work)
    work.cancel()
    ended = end(work)
    assert is_cancelled(ended, bench.kind)
    work.cancel(force=True)
    assert work.poll() == ended


def test_work_can_be_cancelled_immediately_after_its_start(bench: Bench) -> None:
    """X-10: however far the start has got."""
    work = bench.start("sleep", ready=bench.files.path("ready"))
    work.cancel()
    work.cancel(force=True)
    assert isinstance(end(work), Failed)


def test_a_task_that_ignores_sigterm_can_be_killed(child: Bench) -> None:
    """X-10: so a timeout can always be enforced."""
    work = child.start("stubborn", ready=str(child.root / "ready"), sigterm_received=str(child.root / "sigterm"))
    eventually((child.root / "ready").exists)
    work.cancel()
    eventually((child.root / "sigterm").exists)
    assert work.poll() == Running()
    work.cancel(force=True)
    assert end(work) == Failed("killed by SIGKILL")


def test_descendants_end_with_the_task(child: Bench) -> None:
    """X-10: even if they ignore SIGTERM."""
    lock = child.root / "lock"
    lock.touch()
    assert end(child.start("grandchild", lock=str(lock), ready=str(child.root / "ready"), stay=False)) == Succeeded({})
    eventually(lambda: is_unlocked(lock))


def test_descendants_end_when_the_attempt_is_forgotten(child: Bench) -> None:
    """X-10: forgetting leaves nothing running."""
    lock = child.root / "lock"
    lock.touch()
    work = child.start("grandchild", lock=str(lock), ready=str(child.root / "ready"), stay=True)
    eventually((child.root / "ready").exists)
    work.forget()
    eventually(lambda: is_unlocked(lock))


def test_work_survives_a_killed_controller_and_is_adopted(lasting: Bench) -> None:
    """X-10, invariant 5: the next controller finds the same work and then its result."""
    files = lasting.files
    launch = lasting.launch("wait", runs=files.path("runs"), go=files.path("go"))
    files.select_attempt(launch)
    given = map(json.dumps, (written_block(launch.block), launch.input))
    arguments = [lasting.kind, launch.run_id, str(launch.folder), str(launch.root), *given]
    controller = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, *arguments], stdout=subprocess.PIPE, cwd=Path(plugins.__file__).parents[1]
    )
    with controller, ExitStack() as stack:
        stack.callback(controller.kill)  # also if an assertion fails
        assert controller.stdout
        assert controller.stdout.readline() == b"started\n"
        eventually(lambda: files.exists("runs") and files.read("runs") == "run\n")
    adopted = lasting.adopt()
    assert adopted is not None
    assert is_running(adopted)
    files.touch("go")
    assert end(adopted) == Succeeded({"waited": True})
    assert files.read("runs") in ("run\n", GONE)
    again = lasting.adopt()
    assert again is not None
    assert again.poll() == adopted.poll()


def test_adopted_work_can_be_cancelled(bench: Bench) -> None:
    """X-10: adopted work supports the whole protocol."""
    bench.start("sleep", ready=bench.files.path("ready"))
    eventually(lambda: bench.files.exists("ready"))
    adopted = bench.adopt()
    assert adopted is not None
    assert is_running(adopted)
    adopted.cancel()
    assert is_cancelled(end(adopted), bench.kind)
    adopted.cancel(force=True)
    adopted.forget()
    assert not (bench.root / "runs" / "attempt").exists()


def test_an_attempt_asked_to_start_again_runs_once(bench: Bench) -> None:
    """X-10: starting is idempotent per folder."""
    values = {"runs": bench.files.path("runs"), "go": bench.files.path("go")}
    first = bench.start("wait", **values)
    eventually(lambda: bench.files.exists("runs") and bench.files.read("runs") == "run\n")
    second = bench.start("wait", **values)
    bench.files.touch("go")
    assert end(first) == end(second) == Succeeded({"waited": True})
    assert bench.start("wait", **values).poll() == Succeeded({"waited": True})
    assert bench.files.read("runs") in ("run\n", GONE)


def test_an_attempt_that_was_given_up_never_starts(bench: Bench) -> None:
    """X-10: "never started" is an answer that stays true."""
    assert bench.adopt() is None
    assert bench.adopt() is None
    with pytest.raises(LaunchError, match="given up before it started"):
        bench.start("nothing")


def test_a_symbolic_link_is_not_accepted_as_an_attempt(bench: Bench) -> None:
    """Invariant 5, X-05: a task that creates one cannot make another attempt's files be read, ended or written."""
    work = bench.start("echo", "another")
    assert isinstance(end(work), Succeeded)
    other, empty = bench.root / "runs" / "another", bench.root / "empty"
    empty.mkdir()
    for target in (other, empty):
        link = bench.root / "runs" / f"link-to-{target.name}"
        link.symlink_to(target)
        with pytest.raises(NotADirectoryError):
            bench.launcher.adopt(link)
    assert list(empty.iterdir()) == []


def test_an_attempt_either_starts_or_is_given_up(bench: Bench) -> None:
    """Invariant 5: a controller may return while the supervisor is starting; exactly one of them wins."""
    outcomes = set()
    for number in range(10 if bench.kind in REMOTE else 30):
        runs = bench.files.path(f"runs{number}")
        work = bench.start("wait", f"attempt{number}", runs=runs, go="/")
        for _ in range(number * 800):  # gives up at another moment of the supervisor's start each time
            pass
        adopted = bench.launcher.adopt(bench.root / "runs" / f"attempt{number}")
        outcome = end(work)
        if adopted is None:
            assert isinstance(outcome, Lost)
            assert not bench.files.exists(f"runs{number}")
        else:
            assert outcome == end(adopted) == Succeeded({"waited": True})
            assert bench.files.read(f"runs{number}") in ("run\n", GONE)
        outcomes.add(adopted is None)
    assert outcomes  # which outcomes occur depends on the machine


def test_a_killed_supervisor_loses_the_attempt_and_ends_its_command(child: Bench) -> None:
    """X-10: a missing answer is not taken for one, and no second attempt runs beside the first."""
    lock = child.root / "lock"
    lock.touch()
    work = child.start("grandchild", lock=str(lock), ready=str(child.root / "ready"), stay=True)
    eventually((child.root / "ready").exists)
    os.kill(int((child.root / "runs" / "attempt" / "pid").read_text()), signal.SIGKILL)
    assert isinstance(end(work), Lost)
    eventually(lambda: is_unlocked(lock))
    adopted = child.adopt()
    assert adopted is not None
    assert adopted.poll() == work.poll()


def test_many_concurrent_attempts_succeed(bench: Bench) -> None:
    """X-10: and leave no zombie process."""
    works = [bench.start("nothing", f"attempt{number}") for number in range(20 if bench.kind in REMOTE else 64)]
    assert {str(end(work)) for work in works} == {str(Succeeded({}))}
    try:
        zombie = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:  # no child at all
        zombie = (0, 0)
    assert zombie == (0, 0)


def test_block_faults_have_a_path_and_a_hint(bench: Bench) -> None:
    """R-18: a task's block is checked before it is stored."""
    assert faults_of(bench.kind, BLOCKS[bench.kind]("echo", bench.service)) == []
    for spec, path in WRONG_BLOCKS[bench.kind]:
        faults = faults_of(bench.kind, spec)
        assert path in [fault.path for fault in faults], spec
        assert all(fault.message and fault.hint for fault in faults), spec


def test_an_unusable_folder_is_a_launch_error(bench: Bench) -> None:
    """X-10: starting fails with the reason."""
    (bench.root / "runs").write_text("in the way")
    with pytest.raises(LaunchError, match="cannot use the folder"):
        bench.start("nothing")
