"""`python`: a Python callable, run by the controller's own interpreter in a child process."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from reconcile.launchers.shared import child_process, python_child
from reconcile.launchers.shared.block_faults import folder_faults, refuse, text_faults, unknown_fields
from reconcile.plugins import Launch, Launcher, LaunchError, Work
from revisions.errors import Fault

_EXAMPLE = 'write callable: "package.module:function"'


@dataclass(frozen=True, slots=True)
class PythonBlock:
    """The `python` block of a task; `path` holds folders relative to TASK_ROOT."""

    callable: str
    path: tuple[str, ...] = (".",)

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> Self:
        """Make a block from a mapping that has no faults."""
        values: dict[str, Any] = {name: tuple(value) if name == "path" else value for name, value in written.items()}
        return cls(**values)


class PythonLauncher:
    """Runs `{callable: "pkg.mod:func", path: [folders below TASK_ROOT]}`; without `path`, TASK_ROOT itself (X-10)."""

    finds_anywhere = False

    def read(self, written: Any) -> PythonBlock:
        refuse(_faults(written))
        return PythonBlock.of(written)

    def system(self, block: PythonBlock) -> None:
        """Return None: the work runs on this machine."""

    def start(self, launch: Launch) -> Work:
        block: PythonBlock = launch.block
        folders = [launch.root.absolute() / folder for folder in block.path]
        for folder in folders:
            if not folder.is_dir():
                raise LaunchError(f"no such folder: {folder} (path)")
        # -P keeps the folder of python_child.py out of the task's import path.
        command = [sys.executable, "-P", python_child.__file__, block.callable, *map(str, folders)]
        return child_process.start(launch, command, child_process.environment(launch))

    def adopt(self, folder: Path) -> Work | None:
        return child_process.adopt(folder)


def _faults(written: Any) -> Iterator[Fault]:
    if not isinstance(written, Mapping):
        yield Fault("", "must be a mapping", _EXAMPLE)
        return
    yield from unknown_fields(written, ["callable", "path"])
    yield from _callable_faults(written.get("callable"))
    folders = written.get("path", ["."])
    if not isinstance(folders, list):
        yield Fault("path", "must be a list", "write path: [folder]")
        return
    for index, folder in enumerate(folders):
        yield from folder_faults(f"path[{index}]", folder)


def _callable_faults(name: Any) -> Iterator[Fault]:
    if name is None:
        yield Fault("callable", "is missing", _EXAMPLE)
        return
    if faults := list(text_faults("callable", name)):
        yield from faults
        return
    module, colon, attribute = name.partition(":")
    if not colon or not all(part.isidentifier() for part in f"{module}.{attribute}".split(".")):
        yield Fault("callable", f"{name!r} names no function of a module", _EXAMPLE)


launcher: Launcher = PythonLauncher()
