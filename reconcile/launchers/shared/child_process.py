"""A child process under a supervisor of a few lines of `sh`, in a folder that outlives the controller.

The folder (mode 0700) holds

    input.json   what the task reads on standard input
    output.json  what it answers, if it does
    log          standard output and error, merged
    work/        where it runs, unless the task says otherwise
    lock         locked by the supervisor as long as it lives; nobody else holds it
    group        locked by the supervisor and by whatever inherited the descriptor from it
    pid          the supervisor's process id, which is also the process group's
    started      a file: the supervisor has begun; a directory: it never may
    cancel       the name of the last signal that `cancel` sent
    exit         the exit code; written last

so an attempt is over when nobody holds `lock`, and `exit` then tells how. A lock, unlike a process id, cannot come to
mean somebody else's process, and it is gone after a restart of the machine. `started` is the supervisor's to make, see
`folders`. The supervisor ends its own group by SIGKILL when the command has ended, the one moment at which the group is
surely still its own.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from reconcile.launchers.shared import answers, attempt_folder, file_locks
from reconcile.launchers.shared.log_file import LogFile
from reconcile.protocols import Failed, Launch, LaunchError, Lost, Running, Succeeded, WorkProgress

INHERITED = ("PATH", "HOME", "LANG", "TZ")
"""All that a task sees of the controller's environment."""

SHELL = "/bin/sh"

# The lock is standard input, so the command, which gets its own, does not hold it. The supervisor's own standard
# error goes nowhere, for some shells tell there how a command ended. TERM is trapped, not ignored: the supervisor
# outlives it to write the exit code, and the command starts with the default; before that TERM ends the supervisor
# and nothing starts.
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
_CODE = re.compile(r"[0-9]{1,3}\n")
_GROUP = re.compile(r"(?:[2-9]|[1-9][0-9]{1,9})\n")


def environment(launch: Launch, own: Mapping[str, str] | None = None) -> dict[str, str]:
    """A task's whole environment: what it inherits, then its own, then the contract's, which wins."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    contract = {
        "TRIGGERCTL_INPUT": str(launch.folder.absolute() / "input.json"),
        "TRIGGERCTL_OUTPUT": str(launch.folder.absolute() / "output.json"),
    }
    return {"PATH": os.defpath, **inherited, **(own or {}), **launch.environment, **contract}


def start(launch: Launch, command: Sequence[str], env: Mapping[str, str], cwd: Path | None = None) -> "Child":
    """Starts a command whose first part is a path, once per folder: asked again, it answers what was started then.

    Raises LaunchError when it cannot start, or when `adopt` has ruled out that this attempt ever starts.
    """
    folder = launch.folder.absolute()
    try:
        if not attempt_folder.make(folder):
            return _started_before(folder)
    except OSError as error:
        raise LaunchError(f"cannot use the folder {folder}: {error.strerror}") from None
    try:
        attempt_folder.write_new(folder / "input.json", json.dumps(launch.input, allow_nan=False))
        (folder / "work").mkdir(mode=0o700)
        return Child(folder, _spawn(folder, command, env, cwd or folder / "work"))
    except (OSError, ValueError, TypeError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise LaunchError(f"cannot start {command[0]!r}: {error}") from None


def adopt(folder: Path) -> "Child | None":
    """The attempt of an earlier controller; None when the folder shows no start, and then there never will be one."""
    folder = folder.absolute()
    return None if attempt_folder.rule_out(folder) else Child(folder)


class Child:
    """One attempt's process and folder (a `Work`); with `process` it is this controller's own child."""

    def __init__(self, folder: Path, process: "subprocess.Popen[bytes] | None" = None) -> None:
        self.log = LogFile(folder / "log")
        self._folder = folder
        self._process = process
        self._end: WorkProgress | None = None
        self._guard = threading.Lock()  # a process must not be reaped between looking at it and killing it

    def poll(self) -> WorkProgress:
        with self._guard:
            if self._end is None and not self._supervised():
                self._end = self._outcome()
            return self._end or Running()

    def cancel(self, *, force: bool = False) -> None:
        chosen = signal.SIGKILL if force else signal.SIGTERM
        with self._guard:
            if self._end is None and self._supervised():
                with suppress(OSError):  # a full disk must not keep anybody from killing
                    attempt_folder.write(self._folder / "cancel", chosen.name)
                _kill_group(self._group(), chosen)

    def forget(self) -> None:
        """Ends and removes the attempt. Raises OSError for files that cannot be removed."""
        self.cancel(force=True)
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_SECONDS_TO_DIE)
        self.poll()  # the answer stays, the files do not
        if self._exit_code() is None:
            self._end_orphans()
        attempt_folder.remove(self._folder)

    def _supervised(self) -> bool:
        if self._process is not None:
            return self._process.poll() is None
        return file_locks.held(self._folder / "lock")

    def _group(self) -> int | None:
        """None for what is no group of its own; 0 and 1 would be everybody's."""
        if self._process is not None:
            return self._process.pid
        text = attempt_folder.read(self._folder / "pid")
        return int(text) if _GROUP.fullmatch(text) else None

    def _outcome(self) -> WorkProgress:
        code = self._exit_code()
        if code is None:
            self._end_orphans()
            return self._without_exit_code()
        output, wrong = None, ""
        try:
            output = answers.read_output(self._folder / "output.json")
        except answers.BadOutput as error:
            wrong = str(error)
        if code == 0:
            return Failed(wrong) if wrong else Succeeded(output or {})
        words = (answers.exit_words(code), answers.last_line(self._folder / "log"))
        return Failed(": ".join(filter(None, words)), output)

    def _exit_code(self) -> int | None:
        """None also for a file cut short by a crash or a full disk, and for anything else that is no code."""
        text = attempt_folder.read(self._folder / "exit")
        return int(text) if _CODE.fullmatch(text) else None

    def _without_exit_code(self) -> Failed | Lost:
        if sent := attempt_folder.read(self._folder / "cancel"):
            return Failed(f"killed by {sent}")
        if (self._folder / "started").is_dir():
            return Lost("was given up before it started")
        return Lost("its supervisor is gone and left no exit code (killed, or the machine was restarted)")

    def _end_orphans(self) -> None:
        """Ends a command whose supervisor alone was killed, if the group is surely still the attempt's.

        It is while somebody holds `group`, and while the process id itself is free: a process that was given
        it anew would be another's.
        """
        group = self._group()
        if group is None or not file_locks.held(self._folder / "group"):
            return
        try:
            os.kill(group, 0)
        except ProcessLookupError:
            _kill_group(group, signal.SIGKILL)


def _started_before(folder: Path) -> Child:
    if child := adopt(folder):
        return child
    raise LaunchError(attempt_folder.GIVEN_UP)


def _spawn(folder: Path, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> "subprocess.Popen[bytes]":
    with file_locks.locked(folder / "lock") as lock, file_locks.locked(folder / "group") as group:
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


def _kill_group(group: int | None, chosen: signal.Signals) -> None:
    if group is None:
        return
    # macOS answers EPERM for a group of nothing but zombies.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, chosen)
