"""A child process under a supervisor, a few lines of `sh`, in a folder that outlives the controller.

The folder (mode 0700) contains

    input.json   the task's input document, its standard input
    output.json  the task's output, if it writes one
    log          standard output and error, merged
    work/        the working directory, unless the task names another
    lock         locked by the supervisor while it lives, and by nobody else
    group        locked by the supervisor and every process that inherited the descriptor from it
    pid          the supervisor's process id, also the id of the process group
    started      a file: the supervisor has begun; a directory: it must not begin (see `attempt_folder`)
    cancel       the name of the last signal that `cancel` sent
    exit         the exit code, written last

The attempt has ended when nobody holds `lock`; `exit` then contains the result. When the command has ended, the
supervisor kills its own process group. It does so itself, because only while it lives is the group's id certainly its
own.
"""

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from reconcile.launchers.shared import attempt_folder, task_output
from reconcile.launchers.shared.attempt_folder import LogFile
from reconcile.plugins import Failed, Launch, Lost, Running, Succeeded, WorkProgress

INHERITED = ("PATH", "HOME", "LANG", "TZ")
"""Variables of the controller's environment that tasks inherit; all others are withheld."""

SHELL = "/bin/sh"

# `pid` is written before `started`: whoever sees a started attempt can signal its group. `set -C` makes `>` fail if the
# file exists, so a supervisor whose start was ruled out runs nothing, however late it comes.
# The lock is the supervisor's standard input; the command gets another standard input and so does not hold the lock.
# Standard error is /dev/null for the supervisor itself, because some shells report there how a command ended.
# TERM is trapped, not ignored: the command starts with the default action, and the supervisor outlives the signal and
# writes the exit code. A TERM before the trap ends the supervisor, and nothing starts.
# The exit code is one line: a file cut short by a crash has no newline and does not count.
SUPERVISOR = """
folder=$1; shift
echo $$ >"$folder/pid" || exit
set -C; : >"$folder/started" || exit; set +C
trap : TERM
(exec "$@" <"$folder/input.json" 2>&1); code=$?
echo $code >"$folder/exit"
kill -KILL 0
"""

_SECONDS_TO_DIE = 5
_EXIT_CODE = re.compile(r"[0-9]{1,3}\n")
_GROUP_ID = re.compile(r"(?:[2-9]|[1-9][0-9]{1,9})\n")
"""0 would signal the controller's own group, 1 every process."""


def environment(launch: Launch, own: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a task's environment: inherited variables, overridden by its own, overridden by triggerctl's."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    contract = {
        "TRIGGERCTL_INPUT": str(launch.folder.absolute() / "input.json"),
        "TRIGGERCTL_OUTPUT": str(launch.folder.absolute() / "output.json"),
    }
    return {"PATH": os.defpath, **inherited, **(own or {}), **launch.environment, **contract}


def start(launch: Launch, command: Sequence[str], env: Mapping[str, str], cwd: Path | None = None) -> "ChildProcess":
    """Start a command, or return the process that an earlier call started in this folder.

    The first part of `command` is a path. Raises LaunchError if the command cannot be started, or if `adopt` has ruled
    out that this attempt ever starts.
    """
    folder = launch.folder.absolute()
    with attempt_folder.starting(folder, f"cannot start {command[0]!r}") as is_new:
        if is_new:
            attempt_folder.write_new(folder / "input.json", json.dumps(launch.input, allow_nan=False))
            (folder / "work").mkdir(mode=0o700)
            return ChildProcess(folder, _spawn(folder, command, env, cwd or folder / "work"))
    return attempt_folder.started_before(adopt(folder))


def adopt(folder: Path) -> "ChildProcess | None":
    """Return the process that an earlier controller started; None if there was no start, and then never will be."""
    folder = folder.absolute()
    return None if attempt_folder.rule_out_start(folder) else ChildProcess(folder)


class ChildProcess:
    """One attempt's process and folder (a `Work`). `process` is set for a child of this controller."""

    def __init__(self, folder: Path, process: "subprocess.Popen[bytes] | None" = None) -> None:
        self.log = LogFile(folder / "log")
        self._folder = folder
        self._process = process
        self._end: WorkProgress | None = None
        # Popen.poll() reaps an ended child, which frees its process id. Without the lock another thread could do that
        # between the check and the signal, and the signal would go to an unrelated group.
        self._guard = threading.Lock()

    def poll(self) -> WorkProgress:
        with self._guard:
            if self._end is None and not self._is_supervised():
                self._end = self._outcome()
            return self._end or Running()

    def cancel(self, *, force: bool = False) -> None:
        chosen = signal.SIGKILL if force else signal.SIGTERM
        with self._guard:
            if self._end is None and self._is_supervised():
                # Noted before the signal is sent: SIGKILL ends the supervisor too, which then writes no exit code, and
                # the note is what tells a cancelled attempt from a lost one.
                with suppress(OSError):  # a full disk must not prevent the signal
                    attempt_folder.write(self._folder / "cancel", chosen.name)
                _kill_group(self._group_id(), chosen)

    def forget(self) -> None:
        """End the attempt and remove its folder. Raises OSError for files that cannot be removed."""
        self.cancel(force=True)
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_SECONDS_TO_DIE)
        self.poll()  # keeps the outcome, which cannot be read once the files are gone
        if self._exit_code() is None:
            self._kill_orphans()
        attempt_folder.remove(self._folder)

    def _is_supervised(self) -> bool:
        if self._process is not None:
            return self._process.poll() is None
        return attempt_folder.is_locked(self._folder / "lock")

    def _group_id(self) -> int | None:
        if self._process is not None:
            return self._process.pid
        text = attempt_folder.read(self._folder / "pid")
        return int(text) if _GROUP_ID.fullmatch(text) else None

    def _outcome(self) -> WorkProgress:
        code = self._exit_code()
        if code is None:
            self._kill_orphans()
            return self._outcome_without_exit_code()
        output, output_error = None, ""
        try:
            output = task_output.read_output(self._folder / "output.json")
        except task_output.BadOutput as error:
            output_error = str(error)
        if code == 0:
            return Failed(output_error) if output_error else Succeeded(output or {})
        words = (task_output.describe_exit_code(code), task_output.last_line(self._folder / "log"))
        return Failed(": ".join(filter(None, words)), output)

    def _exit_code(self) -> int | None:
        text = attempt_folder.read(self._folder / "exit")
        return int(text) if _EXIT_CODE.fullmatch(text) else None

    def _outcome_without_exit_code(self) -> Failed | Lost:
        if signal_name := attempt_folder.read(self._folder / "cancel"):
            return Failed(f"killed by {signal_name}")
        if (self._folder / "started").is_dir():
            return Lost("was given up before it started")
        return Lost("its supervisor is gone and left no exit code (killed, or the machine was restarted)")

    def _kill_orphans(self) -> None:
        """Kill a command whose supervisor was killed alone, if the group is certainly still the attempt's.

        It is while a process holds `group` and no process has the supervisor's id: a process that was given the id
        anew could lead a group of its own.
        """
        group_id = self._group_id()
        if group_id is None or not attempt_folder.is_locked(self._folder / "group"):
            return
        try:
            os.kill(group_id, 0)
        except ProcessLookupError:
            _kill_group(group_id, signal.SIGKILL)


def _spawn(folder: Path, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> "subprocess.Popen[bytes]":
    """Start the supervisor.

    Both locks are taken before and inherited, so there is no moment at which the supervisor lives and `lock` is free.
    """
    with attempt_folder.locked(folder / "lock") as lock, attempt_folder.locked(folder / "group") as group:
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            return subprocess.Popen(
                [SHELL, "-c", SUPERVISOR, "triggerctl", str(folder), *command],
                stdin=lock,
                stdout=log,
                stderr=subprocess.DEVNULL,
                cwd=cwd,
                env=env,
                pass_fds=[group],
                start_new_session=True,
            )
        finally:
            os.close(log)


def _kill_group(group_id: int | None, chosen: signal.Signals) -> None:
    if group_id is None:
        return
    # macOS answers EPERM for a group of nothing but zombies.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group_id, chosen)
