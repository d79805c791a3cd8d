"""Plug-ins: the protocols of launchers, which run tasks, and of sources of secrets, and how they are discovered.

Each module in a plug-in folder is a plug-in, and its name is the kind. To add a launcher, create
`reconcile/launchers/<kind>.py`; `<kind>` is then the name of its block in task manifests. The module defines
`launcher`, an object with the members of `Launcher`: `read` checks and types the block, `system` names the remote
system, `start` begins an attempt, `adopt` finds one that an earlier controller began, and `finds_anywhere` says whether
`start` finds it from another machine. `start` and `adopt` return a `Work`, through which the runner reads the log,
polls for the end, cancels the attempt and removes its traces. `reconcile/launchers/shared/` has a complete `Work` for
child processes (`child_process`), HTTP requests (`http_exchange`) and work in a remote system (`remote_job`). Add the
kind to the tables of `tests/contract/test_launchers.py`, whose tests run for every launcher, and to the independence
contract in `pyproject.toml`.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything a launcher needs to start one attempt of a run.

    `folder` belongs to this attempt alone; its path follows from run and attempt. The launcher creates it.
    `root` is TASK_ROOT, the folder that relative `cwd` and `path` refer to.
    `block` is the launcher's block of the task, as its `read` returned it.
    `input` is the whole input document.
    `environment` contains the variables triggerctl adds to the task's environment (run id, URL, token).
    `timeout_seconds` is enforced by the runner; remote systems get it too, in case no controller is running then.
    `installation` is the id of the installation, "" for an attempt of an earlier release that did not record it.
    """

    run_id: str
    attempt: int
    folder: Path
    root: Path
    block: Any
    input: Mapping[str, Any] = field(repr=False)  # contains secrets
    environment: Mapping[str, str]
    timeout_seconds: float = 3600.0
    installation: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """The work has not ended. `elsewhere`: it does not need this controller, which leaves it running when it stops."""

    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The work ended well. `output` is the task's JSON object, `{}` if it wrote none."""

    output: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failed:
    """The work ended badly. `output` is set if the task wrote one all the same."""

    error: str
    output: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """The work is gone without a result (killed with its supervisor, machine restarted)."""

    error: str


WorkProgress = Running | Succeeded | Failed | Lost


class Log(Protocol):
    """The text an attempt prints, standard output and error merged."""

    def read(self, start: int, limit: int) -> bytes:
        """Return up to `limit` bytes from byte `start` on."""
        ...

    def size(self) -> int:
        """Return the number of bytes written so far."""
        ...

    def drop(self, start: int, end: int) -> None:
        """Free the disk space of bytes [start, end), which are not read again. The size stays the same.

        Raises OSError if that is not possible.
        """
        ...


class Work(Protocol):
    """An attempt that was started or adopted."""

    @property
    def log(self) -> Log: ...

    def poll(self) -> WorkProgress:
        """Return the progress without blocking. An outcome, once returned, stays the same."""
        ...

    def cancel(self, *, force: bool = False) -> None:
        """Ask the work and its child processes to end; with `force`, end them. Harmless after the end."""
        ...

    def forget(self) -> None:
        """Remove the attempt's files and everything it left running."""
        ...


class System(Protocol):
    """A remote system that carries out work. Equal objects stand for the same system."""

    def __hash__(self) -> int: ...

    def reach(self) -> None:
        """Check access to the system without starting anything. Any exception is the reason why it cannot be used."""
        ...


class Launcher(Protocol):
    """One way to run a task.

    `finds_anywhere` means that `start`, called on another machine for the same run and attempt, finds the existing work
    instead of starting it again.
    """

    finds_anywhere: bool

    def read(self, written: Any) -> Any:
        """Return a task's block as the launcher's own frozen object.

        Raises Invalid with all faults; their paths begin at the block.
        """
        ...

    def system(self, block: Any) -> System | None:
        """Return the remote system of a block; None if the work stays here, or if any request would start it."""
        ...

    def start(self, launch: Launch) -> Work:
        """Start an attempt, or return the work that an earlier call started in the same folder.

        Raises LaunchError if it cannot be started, for example because the command does not exist.
        """
        ...

    def adopt(self, folder: Path) -> Work | None:
        """Return the work that an earlier controller started in a folder.

        None means that nothing was started there and never will be: a start that is under way is ruled out. It says
        nothing about folders on other machines or lost disks.
        """
        ...


class LaunchError(Exception):
    """The work could not be started; the text is the reason, shown to people."""


@dataclass(frozen=True, slots=True)
class SecretPlaces:
    """Places where sources of secrets look; each source uses its own field.

    `folder` None means no files; `namespace` None means the cluster's default namespace.
    """

    folder: Path | None = None
    namespace: str | None = None


class SecretSource(Protocol):
    """One kind of store for secrets: a module in `reconcile/runs/secrets/` that defines `source`.

    `scope` None asks for a secret of no scope. `revisions.spec` restricts the characters of scopes and names, so
    neither can form a path to another place.
    """

    def place(self, places: SecretPlaces, scope: str | None, name: str) -> str:
        """Return the place of a secret in words for people."""
        ...

    def read(self, places: SecretPlaces, scope: str | None, name: str) -> str | None:
        """Return the value, None if there is none. Raises SecretUnreadable, whose text never contains a value."""
        ...


class SecretUnreadable(Exception):
    """A source cannot be read at the moment; a later attempt may succeed."""


@cache
def launchers() -> Mapping[str, Launcher]:
    """Return all launchers by kind. Raises TypeError for a module without `launcher`."""
    return MappingProxyType(discover("reconcile.launchers", "launcher"))


@cache
def secret_sources() -> Mapping[str, SecretSource]:
    """Return all sources of secrets by kind. Raises TypeError for a module without `source`."""
    return MappingProxyType(discover("reconcile.runs.secrets", "source"))


def launcher(kind: str) -> Launcher:
    """Return the launcher of a kind. Raises LookupError with the known kinds."""
    chosen = launchers().get(kind)
    if chosen is None:
        raise LookupError(f"no launcher {kind!r}; there are {', '.join(launchers())}")
    return chosen


def discover(package: str, attribute: str) -> dict[str, Any]:
    """Return the `attribute` of every module in a package by the module's name.

    Sub-packages and modules that begin with `_` are left out. Raises TypeError for a module without the attribute.
    """
    plugins = {}
    paths = importlib.import_module(package).__path__
    for module in sorted(pkgutil.iter_modules(paths), key=lambda module: module.name):
        if module.ispkg or module.name.startswith("_"):
            continue
        loaded = importlib.import_module(f"{package}.{module.name}")
        if not hasattr(loaded, attribute):
            raise TypeError(f"{loaded.__file__} holds no `{attribute}`")
        plugins[module.name] = getattr(loaded, attribute)
    return plugins
