"""The small protocols between the loop and its plug-ins."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything a launcher needs to start one attempt of a run.

    `folder` is known from run and attempt alone, private to this attempt and owned by the launcher;
    `block` is what stands under `process:` or `python:` in the task, as the launcher's `read` typed it; `input` is the
    whole document the task sees; `root` is what relative `cwd` and `path` are relative to; `environment` holds what the
    contract adds to a task's environment (run id, URL, token), never the controller's own settings. The worker ends the
    work after `timeout_seconds`; a system elsewhere is told it too, for the time in which no controller is there to do
    that.
    `installation` is whose attempt it is, "" for one that a release began which did not say so.
    """

    run_id: str
    attempt: int
    folder: Path
    root: Path
    block: Any
    input: Mapping[str, Any] = field(repr=False)  # it holds secrets
    environment: Mapping[str, str]
    timeout_seconds: float = 3600.0
    installation: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """The work goes on; `elsewhere`: without this controller too, so that one that stops leaves it to the next."""

    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class Succeeded:
    """Exit 0, or what counts as that; `output` is the JSON object the task answered, `{}` when it wrote none."""

    output: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failed:
    """The work ended badly; `output` is kept when the task wrote one all the same."""

    error: str
    output: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """The work is gone and left no answer (killed with its supervisor, machine restarted)."""

    error: str


WorkProgress = Running | Succeeded | Failed | Lost


class Log(Protocol):
    """What an attempt prints, standard output and error merged."""

    def read(self, start: int, limit: int) -> bytes:
        """Up to `limit` bytes from byte `start` on."""
        ...

    def size(self) -> int:
        """Bytes written so far."""
        ...

    def drop(self, start: int, end: int) -> None:
        """Gives back the room of bytes [start, end), which nobody reads again; the size stays.

        Raises OSError where there is no way to.
        """
        ...


class Work(Protocol):
    """One attempt that was started or adopted."""

    @property
    def log(self) -> Log: ...

    def poll(self) -> WorkProgress:
        """How it stands; never blocks. After anything but Running the answer stays the same."""
        ...

    def cancel(self, *, force: bool = False) -> None:
        """Asks the work, and all it started, to end; with `force` it is ended. Harmless once it has ended."""
        ...

    def forget(self) -> None:
        """Removes what is left of the attempt: its files, and anything it left running."""
        ...


class System(Protocol):
    """A system elsewhere that carries work out; two that are equal are one."""

    def __hash__(self) -> int: ...

    def reach(self) -> None:
        """Has it answer as it answers a launch; nothing begins there. Whatever it raises says what is wrong."""
        ...


class Launcher(Protocol):
    """One way to run a task; a file in `reconcile/launchers/` named by the kind it serves, holding `launcher`.

    `start` raises LaunchError when the work cannot be started at all (no such command, a bad folder); asked again for
    the same folder it answers what was started there, and never starts a second time.
    `adopt` finds an attempt that an earlier controller started, and answers None when the folder shows no start;
    after that answer none can follow there. It speaks for this folder alone, not for one on another machine or one
    that was lost with its disk, and it would give up an attempt that this controller is just starting.
    `finds_anywhere`: `start` on another machine finds what was started for the same run and attempt, too.
    """

    finds_anywhere: bool

    def read(self, written: Any) -> Any:
        """Return a task's block as the launcher's own frozen object.

        Raises Invalid with everything that is wrong, paths counted from the block.
        """
        ...

    def system(self, block: Any) -> System | None:
        """Return where the work of a block goes; None where it stays here, or where to ask is to begin it."""
        ...

    def start(self, launch: Launch) -> Work: ...

    def adopt(self, folder: Path) -> Work | None: ...


class LaunchError(Exception):
    """The work could not be started; the text says why and is shown to people."""


@dataclass(frozen=True, slots=True)
class SecretPlaces:
    """Where sources of secrets look; each reads what is its own. `folder` None: no files; `namespace` None: the
    cluster's own."""

    folder: Path | None = None
    namespace: str | None = None


class SecretSource(Protocol):
    """One place where secrets lie; a file in `reconcile/secrets/` named by the kind it is, holding `source`.

    `scope` None asks for what belongs to no scope. Scopes and names are as `revisions.spec` lets them be, so
    neither can lead elsewhere.
    """

    def place(self, places: SecretPlaces, scope: str | None, name: str) -> str:
        """Where that is, in words for people."""
        ...

    def read(self, places: SecretPlaces, scope: str | None, name: str) -> str | None:
        """The value, None when there is none. Raises SecretUnreadable, whose text never holds a value."""
        ...


class SecretUnreadable(Exception):
    """A source cannot say whether it holds a secret, or what; it may be able to later."""
