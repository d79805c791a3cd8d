"""Child processes: single start, signals, damaged folders, and a controller killed at every line of a start."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from reconcile.launchers.shared import attempt_folder, child_process
from reconcile.plugins import Failed, Launch, LaunchError, Lost, Running, Succeeded, WorkProgress
from tests.waiting import eventually

SHELLS = [shell for shell in ("dash", "bash", "busybox", "mksh", "zsh") if shutil.which(shell)]


class Place:
    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, root / "runs" / "r1" / "1"
        self.started: list[child_process.ChildProcess] = []

    def start(self, script: str, **environment: str) -> child_process.ChildProcess:
        launch = Launch("r1", 1, self.folder, self.root, {}, {"input": {}}, environment)
        own = {"ROOT": str(self.root), "LEVEL": "own", "TRIGGERCTL_OUTPUT": "own"}
        child = child_process.start(launch, ["/bin/sh", "-c", script], child_process.environment(launch, own))
        self.started.append(child)
        return child

    def adopt(self) -> child_process.ChildProcess | None:
        if child := child_process.adopt(self.folder):
            self.started.append(child)
        return child

    def sees(self, name: str) -> Path:
        eventually((self.root / name).exists)
        return self.root / name


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    for child in place.started:
        child.forget()


def end(work: child_process.ChildProcess) -> WorkProgress:
    eventually(lambda: not isinstance(work.poll(), Running))
    return work.poll()


def supervisor(folder: Path, *command: str) -> int:
    """Run another supervisor in the folder and return its exit code."""
    line = [child_process.SHELL, "-c", child_process.SUPERVISOR, "triggerctl", str(folder), *command]
    return subprocess.run(line, start_new_session=True, stderr=subprocess.DEVNULL, check=False).returncode


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = shutil.which(request.param)
    assert found
    (tmp_path / "sh").symlink_to(found)
    monkeypatch.setattr(child_process, "SHELL", str(tmp_path / "sh"))


@pytest.mark.usefixtures("shell")
class TestSupervisorInEachShell:
    def test_reports_the_exit_code(self, place: Place) -> None:
        """X-10: with the last line of the log."""
        assert end(place.start("echo first; echo; echo last >&2; echo; exit 7")) == Failed("exited with code 7: last")

    def test_survives_the_sigterm_that_ends_its_command(self, place: Place) -> None:
        """X-10: the command starts with the default action, and the exit code is still written."""
        child = place.start('touch "$ROOT/ready"; sleep 1000')
        place.sees("ready")
        child.cancel()
        assert end(child) == Failed("killed by SIGTERM")
        assert child.log.read(0, 100) == b""

    def test_waits_for_a_command_that_handles_sigterm(self, place: Place) -> None:
        """X-10: the command's own exit code counts."""
        child = place.start('trap "echo bye; exit 5" TERM; touch "$ROOT/ready"; while :; do sleep 0.01; done')
        place.sees("ready")
        child.cancel()
        assert end(child) == Failed("exited with code 5: bye")

    def test_runs_nothing_after_the_start_was_ruled_out(self, place: Place) -> None:
        """Invariant 5: also if the supervisor starts late."""
        assert place.adopt() is None
        assert supervisor(place.folder, "touch", str(place.root / "ran")) != 0
        assert not (place.root / "ran").exists()

    def test_runs_nothing_after_another_supervisor_started(self, place: Place) -> None:
        """Invariant 5: an attempt starts once."""
        assert end(place.start("exit 0")) == Succeeded({})
        assert supervisor(place.folder, "touch", str(place.root / "ran")) != 0
        assert not (place.root / "ran").exists()

    def test_runs_nothing_in_a_removed_folder(self, place: Place) -> None:
        """Invariant 5: `forget` does not make a second start possible."""
        end(child := place.start("exit 0"))
        child.forget()
        assert supervisor(place.folder, "touch", str(place.root / "ran")) != 0
        assert not (place.root / "ran").exists()

    def test_kills_processes_that_the_command_left_running(self, place: Place) -> None:
        """X-10: no process of the attempt's group outlives it."""
        child = place.start('(trap "" TERM; exec 9<"$0"; sleep 1000) & exit 0')
        assert end(child) == Succeeded({})
        eventually(lambda: not attempt_folder.is_locked(place.folder / "group"))


def test_variables_of_triggerctl_win_over_the_tasks_own(place: Place) -> None:
    """X-10: and the task's own win over inherited ones."""
    end(child := place.start('echo $LEVEL $TRIGGERCTL_OUTPUT "$HOME"', TRIGGERCTL_RUN_ID="r1", LEVEL="contract"))
    assert child.log.read(0, 1000).decode().split()[:2] == ["contract", str(place.folder / "output.json")]


def test_a_daemon_outside_the_group_does_not_keep_the_attempt_running(place: Place) -> None:
    """X-10: although it keeps every descriptor it inherited."""
    daemon = f"import os, time; os.setsid(); open({str(place.root / 'pid')!r}, 'w').write(f'{{os.getpid()}}\\n')"
    (place.root / "daemon.py").write_text(f"{daemon}\nwhile True: time.sleep(1000)\n")
    child = place.start(f'{sys.executable} -S "$ROOT/daemon.py" & touch "$ROOT/ready"; sleep 1000')
    place.sees("ready")
    pid = int(eventually(lambda: (place.root / "pid").read_text() if (place.root / "pid").exists() else None))
    try:
        adopted = place.adopt()
        assert adopted
        assert adopted.poll() == Running()
        child.cancel(force=True)
        assert end(adopted) == end(child) == Failed("killed by SIGKILL")
    finally:
        os.kill(pid, signal.SIGKILL)


def test_after_a_restart_of_the_machine_the_attempt_is_lost_and_nothing_is_killed(place: Place) -> None:
    """X-10: the process id in the folder may belong to an unrelated process now."""
    end(place.start("exit 0"))
    (place.folder / "exit").unlink()
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as stranger:
        (place.folder / "pid").write_text(f"{stranger.pid}\n")
        adopted = place.adopt()
        assert adopted
        adopted.cancel(force=True)
        assert isinstance(adopted.poll(), Lost)
        adopted.forget()
        assert stranger.poll() is None
        stranger.kill()


def test_an_exit_code_cut_short_does_not_count(place: Place) -> None:
    """X-10: a crash while 137 was written is a loss, not exit code 1."""
    end(place.start("exit 0"))
    (place.folder / "exit").write_text("1")
    adopted = place.adopt()
    assert adopted
    assert isinstance(adopted.poll(), Lost)


@pytest.mark.parametrize(
    ("made", "outcome"),
    [
        ("mkdir", Failed("output is not a regular file")),
        ("mkfifo", Failed("output is not a regular file")),
        ("ln -s /nowhere", Succeeded({})),
        ("ln -s /", Failed("output is not a regular file")),
        ("ln -s output.json", Failed("output cannot be read: Too many levels of symbolic links")),
    ],
)
def test_an_output_that_is_no_file_does_not_block(place: Place, made: str, outcome: WorkProgress) -> None:
    """X-10: `poll` does not block, whatever a task does to its folder."""
    assert end(place.start(f'{made} "$TRIGGERCTL_OUTPUT"')) == outcome


@pytest.mark.parametrize("made", ["mkfifo", "mkdir", "ln -s /dev/zero", "printf 'no code\\n' >"])
def test_an_exit_file_without_a_code_does_not_block(place: Place, made: str) -> None:
    """X-10: whatever a task puts in its place."""
    child = place.start(f'{made} "${{TRIGGERCTL_OUTPUT%/*}}/exit"; touch "$ROOT/made"; kill -KILL $PPID')
    place.sees("made")
    assert isinstance(end(child), Lost)


@pytest.mark.parametrize("made", ["mkfifo", "mkdir", "ln -s /dev/zero"])
def test_a_log_that_is_no_file_does_not_block(place: Place, made: str) -> None:
    """X-17: it reads as empty, and the error has no last line."""
    child = place.start(f'log="${{TRIGGERCTL_OUTPUT%/*}}/log"; rm "$log"; {made} "$log"; exit 3')
    assert end(child) == Failed("exited with code 3")
    assert (child.log.size(), child.log.read(0, 100)) == (0, b"")


def test_cancel_does_not_block(place: Place) -> None:
    """X-10: whatever a task puts in place of the file `cancel`."""
    child = place.start('mkfifo "${TRIGGERCTL_OUTPUT%/*}/cancel"; touch "$ROOT/ready"; sleep 1000')
    place.sees("ready")
    child.cancel()
    assert end(child) == Failed("killed by SIGTERM")


@pytest.mark.parametrize("text", ["0\n", "1\n", "-1\n", "", "none\n", "12"])
def test_no_other_group_is_killed(place: Place, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: 0 means the controller's own group, 1 every process."""
    place.start('touch "$ROOT/ready"; sleep 1000')
    place.sees("ready")
    adopted = place.adopt()
    assert adopted
    (place.folder / "pid").write_text(text)
    asked: list[int] = []
    with monkeypatch.context() as patched:
        patched.setattr(os, "killpg", lambda group, _: asked.append(group))
        adopted.cancel(force=True)
    assert asked == []


def test_a_folder_without_write_permission_is_removed(place: Place) -> None:
    """X-12: Go's module cache leaves such folders."""
    end(child := place.start("mkdir -p a/b; touch a/b/c; chmod 500 a/b a"))
    child.forget()
    assert not place.folder.exists()


def test_of_a_link_in_place_of_the_folder_only_the_link_is_removed(place: Place, tmp_path: Path) -> None:
    """X-12: the folder it leads to keeps its content and permissions."""
    other = tmp_path / "other"
    (other / "below").mkdir(parents=True)
    (other / "below").chmod(0o755)
    end(child := place.start(f'folder=$(dirname "$TRIGGERCTL_INPUT"); rm -r "$folder"; ln -s {other} "$folder"'))
    child.forget()
    assert not place.folder.is_symlink()
    assert stat.S_IMODE((other / "below").stat().st_mode) == 0o755


def test_a_command_that_cannot_be_run_leaves_no_folder(place: Place) -> None:
    """X-10: only a LaunchError."""
    launch = Launch("r1", 1, place.folder, place.root, {}, {"input": {}}, {})
    with pytest.raises(LaunchError, match="Argument list too long"):
        child_process.start(launch, ["/bin/true", "x" * 2**22], child_process.environment(launch))
    assert not place.folder.exists()


def test_an_input_that_is_not_json_is_a_launch_error(place: Place) -> None:
    """R-18: NaN is not JSON."""
    launch = Launch("r1", 1, place.folder, place.root, {}, {"input": float("nan")}, {})
    with pytest.raises(LaunchError):
        child_process.start(launch, ["/bin/true"], child_process.environment(launch))


WATCHED = {child_process.__file__, attempt_folder.__file__, subprocess.__file__}


def start_and_die(place: Place, line: int) -> bool:
    """Fork a controller that is killed at the nth line of a start. Returns False if the start completed before."""
    pid = os.fork()
    if pid == 0:
        left = line

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal left
            if frame.f_code.co_filename not in WATCHED:
                return None
            left -= event == "line"
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return trace

        try:
            sys.settrace(trace)
            place.start('echo run >>"$ROOT/ran"; echo "{}" >"$TRIGGERCTL_OUTPUT"')
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0


def test_a_controller_killed_at_any_line_of_a_start_has_started_once_or_never(tmp_path: Path) -> None:
    """Invariant 5, X-10: `adopt` tells which of the two."""
    outcomes, line = set(), 0
    while True:
        place = Place(tmp_path / str(line))
        place.root.mkdir()
        killed = start_and_die(place, line)
        adopted, runs = place.adopt(), place.root / "ran"
        if adopted is None:
            eventually(lambda: not attempt_folder.is_locked(place.folder / "lock"))  # noqa: B023 - called before it changes
            assert not runs.exists(), line
        else:
            assert end(adopted) == Succeeded({}), line
            assert runs.read_text() == "run\n", line
            adopted.forget()
        outcomes.add(adopted is None)
        if not killed:
            break
        line += 1
    assert line > 100
    assert outcomes == {True, False}
