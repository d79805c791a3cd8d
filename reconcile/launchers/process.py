"""`process`: a command of this machine, with the input document as JSON on its standard input."""

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from reconcile.launchers.shared import child_process
from reconcile.launchers.shared.block_faults import env_faults, folder_faults, refuse, text_faults, unknown_fields
from reconcile.plugins import Launch, Launcher, LaunchError, Work
from revisions.errors import Fault


@dataclass(frozen=True, slots=True)
class ProcessBlock:
    """The `process` block of a task; `cwd` is relative to TASK_ROOT."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> Self:
        """Make a block from a mapping that has no faults."""
        return cls(**{**written, "command": tuple(written["command"])})


class ProcessLauncher:
    """Runs `{command: [python, -m, x], env: {NAME: text}, cwd: folder below TASK_ROOT}` (X-10)."""

    finds_anywhere = False

    def read(self, written: Any) -> ProcessBlock:
        refuse(_faults(written))
        return ProcessBlock.of(written)

    def system(self, block: ProcessBlock) -> None:
        """Return None: the work runs on this machine."""

    def start(self, launch: Launch) -> Work:
        block: ProcessBlock = launch.block
        cwd = launch.root.absolute() / block.cwd if block.cwd is not None else None
        if cwd and not cwd.is_dir():
            raise LaunchError(f"no such folder: {cwd} (cwd)")
        env = child_process.environment(launch, block.env)
        name, *arguments = block.command
        return child_process.start(launch, [_find(name, env["PATH"], cwd), *arguments], env, cwd)

    def adopt(self, folder: Path) -> Work | None:
        return child_process.adopt(folder)


def _find(name: str, search: str, cwd: Path | None) -> str:
    """Return the path of a command. Raises LaunchError.

    Not left to the supervisor's `sh`, which would only report exit code 127, and has built-in commands of its own.
    """
    if os.sep not in name:
        if found := shutil.which(name, path=search):
            return os.path.abspath(found)
        raise LaunchError(f"command not found: {name!r} (looked in PATH: {search})")
    path = name if cwd is None else str(cwd / name)
    if not os.path.exists(path):
        raise LaunchError(f"command not found: {name!r}" + (f" (looked in {cwd})" if cwd else ""))
    if os.path.isdir(path) or not os.access(path, os.X_OK):
        raise LaunchError(f"command is not executable: {name!r}")
    return path


def _faults(written: Any) -> Iterator[Fault]:
    if not isinstance(written, Mapping):
        yield Fault("", "must be a mapping", "write command: [program, argument]")
        return
    yield from unknown_fields(written, ["command", "env", "cwd"])
    yield from _command_faults(written.get("command"))
    yield from env_faults(written.get("env", {}))
    if "cwd" in written:
        yield from folder_faults("cwd", written["cwd"])
    elif _is_relative(written.get("command")):
        yield Fault(
            "command[0]", "is a relative path without a cwd", "write what it is relative to, for example cwd: ."
        )


def _is_relative(command: Any) -> bool:
    match command:
        case [str(name), *_]:
            return os.sep in name and not os.path.isabs(name)
    return False


def _command_faults(command: Any) -> Iterator[Fault]:
    if command is None:
        yield Fault("command", "is missing", "write command: [program, argument]")
    elif isinstance(command, str):
        yield Fault("command", "must be a list", f"write command: {command.split()}, or [sh, -c, …] for a shell")
    elif not isinstance(command, list) or not command:
        yield Fault("command", "must be a list with a program and its arguments", "write command: [program, argument]")
    else:
        for index, part in enumerate(command):
            yield from text_faults(f"command[{index}]", part, empty=index > 0)


launcher: Launcher = ProcessLauncher()
