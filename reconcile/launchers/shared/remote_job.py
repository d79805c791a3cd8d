"""An errand: work in a system elsewhere, which goes on without this controller; its folder outlives both.

The folder (mode 0700) holds

    input.json   the document
    launch.json  what else the attempt was started with
    log          what the work printed, as far as it was fetched
    started      a file: the work may have been submitted; a directory: it never may
    submitted    the system has it, under the name that follows from run and attempt
    cancel       its end was asked for
    end          how the attempt ended, as JSON

A thread for each attempt speaks with the system, so that a slow one holds up nobody. A system that is away later is
waited for until the attempt's timeout. Whoever adopts the attempt looks for the work by its name; it submits only what
it does not know to be submitted, and only to a system that takes the same name twice for the same work.
"""

import json
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from tenacity import Retrying, retry_if_exception_type, sleep_using_event, stop_after_attempt, wait_chain, wait_fixed

from reconcile.launchers.shared import attempt_folder, outcome_file
from reconcile.launchers.shared.log_file import LogFile
from reconcile.protocols import Failed, Launch, LaunchError, Lost, Running, Succeeded, WorkProgress

PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds between attempts to submit; what is down for longer is for the run's own retries."""
FIRST_LOOK, LAST_LOOK = 0.05, 2.0
"""Seconds between two looks, at first and in the long run."""
LOOK_WHEN_TOLD = 30.0
"""Seconds between two looks at what says by itself when it has changed: for what it may have failed to say."""
SECONDS_TO_CONFIRM = 15.0
"""Until an end by force that nobody confirms is taken for one."""
NOT_NOW = (OSError, RuntimeError)
"""What this machine lacks for a while says nothing of the work: files, threads."""
_SECONDS_TO_PART = 1.0

UNSENT = "was ended before it was submitted"
UNSEEN = "it was not seen to end"


class Unreachable(Exception):
    """The system does not answer, or not now; the text says how. Asked again it may."""


class Foreign(LaunchError):
    """What bears the work's name is another installation's: nothing is done to it."""


def refuse_foreign(launch: Launch, what: str, owner: str | None) -> None:
    """Raises Foreign where `what` was found says that it is another's than the attempt's.

    Where one of them says nothing, a release began it which did not say whose it was.
    """
    if owner and launch.installation and owner != launch.installation:
        whose = f"{owner}, and this one is {launch.installation}"
        raise Foreign(f"{what} is of another installation, {whose}: it is left alone; fire anew instead")


class Remote(Protocol):
    """One attempt's work in a system elsewhere. Each method may raise Unreachable, and each but the first Foreign.

    `repeatable`: `submit` under the same name finds what is there. Otherwise it is called once, and after a failure,
    or a kill, in the middle of it the work is only looked for.
    """

    repeatable: bool

    def reach(self) -> None:
        """Gets ready to submit; nothing has begun yet. Raises LaunchError when that is in vain."""
        ...

    def submit(self) -> None:
        """Raises LaunchError when it is refused for good."""
        ...

    def told(self, wake: Callable[[], None]) -> bool:
        """Whether the system says by itself, by calling `wake`, when the work has changed after this call.

        False where it does not, or not just now; `wake` is called when that changes. Harmless when repeated.
        """
        ...

    def look(self) -> WorkProgress: ...

    def cancel(self, *, force: bool) -> None:
        """Harmless when repeated, and when there is nothing (any more)."""
        ...

    def clean(self) -> None:
        """Removes what is left in the system after the end."""
        ...


Make = Callable[[Launch], Remote]
Block = Callable[[Mapping[str, Any]], Any]
"""Makes a launcher's block of what `launch.json` keeps of one."""


def start(launch: Launch, make: Make, block: Block) -> "Errand":
    """Submits from a thread, once per folder: asked again, it answers what was started there.

    Raises LaunchError when it cannot start, or when `adopt` has ruled out that this attempt ever starts.
    """
    remote, folder = make(launch), launch.folder.absolute()
    try:
        if not attempt_folder.make(folder):
            return _started_before(folder, make, block)
    except OSError as error:
        raise LaunchError(f"cannot use the folder {folder}: {error.strerror}") from None
    try:
        facts = asdict(launch) | {"folder": str(launch.folder), "root": str(launch.root)}
        facts["spec"] = {name: value for name, value in facts.pop("block").items() if value is not None}
        attempt_folder.write_new(folder / "input.json", json.dumps(facts.pop("input"), allow_nan=False))
        attempt_folder.write_new(folder / "launch.json", json.dumps(facts))
        return Errand(folder, remote)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise LaunchError(f"cannot be started: {error}") from None


def adopt(folder: Path, make: Make, block: Block) -> "Errand | None":
    """The attempt of an earlier controller; None when the folder shows no start, and then there never will be one."""
    folder = folder.absolute()
    is_ruled_out = attempt_folder.rule_out(folder)
    if outcome_file.recorded(folder) not in (None, Lost(attempt_folder.GIVEN_UP)):
        return Errand(folder)
    return None if is_ruled_out else Errand(folder, make(_launch(folder, block)))


def _started_before(folder: Path, make: Make, block: Block) -> "Errand":
    if errand := adopt(folder, make, block):
        return errand
    raise LaunchError(attempt_folder.GIVEN_UP)


def _launch(folder: Path, block: Block) -> Launch:
    """Raises OSError and ValueError for what was cut short, or written by a release that says it otherwise."""
    facts, document = (json.loads((folder / name).read_text()) for name in ("launch.json", "input.json"))
    try:
        made = {"folder": Path(facts["folder"]), "root": Path(facts["root"]), "block": block(facts.pop("spec"))}
        return Launch(**facts | made, input=document)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{folder}/launch.json: {error}") from None


class Errand:
    """One attempt (a `Work`); without `remote` one that has ended."""

    def __init__(self, folder: Path, remote: Remote | None = None) -> None:
        self.log = LogFile(folder / "log")
        self._folder = folder
        self._end: WorkProgress | None = None
        self._carrier = _Carrier(folder, remote) if remote else None

    def poll(self) -> WorkProgress:
        if self._end is None:
            carried = self._carrier.kept or self._carrier.given_up() if self._carrier else None
            self._end = outcome_file.recorded(self._folder) or carried
        if self._end is None and (self._folder / "started").is_dir():
            self._end = Lost(attempt_folder.GIVEN_UP)
        return self._end or Running(elsewhere=(self._folder / "started").exists())

    def cancel(self, *, force: bool = False) -> None:
        if self._carrier and isinstance(self.poll(), Running):
            self._carrier.ask_to_end(force=force)

    def forget(self) -> None:
        """Raises OSError for files that cannot be removed. The thread goes on with ending what it has not ended."""
        self.cancel(force=True)
        if self._carrier and not self._carrier.given_up():
            self._carrier.join(_SECONDS_TO_PART)
        attempt_folder.remove(self._folder)


class _Carrier(threading.Thread):
    """Takes the work there and brings the end back; `kept` is an end that could not be written."""

    def __init__(self, folder: Path, remote: Remote) -> None:
        super().__init__(name=f"errand {folder.name}", daemon=True)
        self._folder = folder
        self._remote = remote
        self._asked = False
        self._forced_at: float | None = None
        self._trouble = UNSEEN
        self._wake = threading.Event()
        self.kept: WorkProgress | None = None
        self.start()

    def ask_to_end(self, *, force: bool) -> None:
        """Repeated it wakes nobody, so that an end that is not confirmed is given up however often it is asked for."""
        if self._asked and (self._forced_at is not None or not force):
            return
        self._asked, self._forced_at = True, time.monotonic() if force else None
        with suppress(OSError):  # for whoever else watches the same work
            (self._folder / "cancel").touch()
        self._wake.set()

    def given_up(self) -> Failed | None:
        """How it ended when nobody confirms its end by force for long, also for want of any answer."""
        if self._forced_at is None or time.monotonic() < self._forced_at + SECONDS_TO_CONFIRM:
            return None
        return Failed(f"was given up: {self._trouble}")

    def run(self) -> None:
        try:
            end = self._carry()
        except LaunchError as error:
            end = Failed(str(error))
        except Exception as error:  # noqa: BLE001 - a plug-in that is wrong fails its run alone
            end = Failed(f"could not be followed: {error!r}")
        try:
            outcome_file.record(self._folder, end)
        except OSError:  # a full disk, or an attempt that was forgotten
            self.kept = end
        with suppress(Unreachable, LaunchError):
            self._remote.clean()

    def _carry(self) -> Succeeded | Failed | Lost:
        if not (self._folder / "started").is_file():
            if not self._insist(self._remote.reach):
                return Failed(UNSENT)
            try:
                attempt_folder.write_new(self._folder / "started", "")
                attempt_folder.keep(self._folder)
            except FileExistsError:
                return Lost(attempt_folder.GIVEN_UP)
            except FileNotFoundError:  # forgotten
                return Lost(UNSENT)
            self._submit()
        elif self._remote.repeatable and not (self._folder / "submitted").exists():
            self._submit()
        return self._watch()

    def _submit(self) -> None:
        if self._remote.repeatable:
            if not self._insist(self._remote.submit):
                return
        else:
            try:
                self._remote.submit()
            except Unreachable:
                return  # it may be there or not: from now on it is only looked for
        with suppress(OSError):
            (self._folder / "submitted").touch()

    def _insist(self, step: Callable[[], None]) -> bool:
        """Carry out a step, again while its system cannot be reached; False when the end was asked for first.

        Raises LaunchError when the system stays unreachable.
        """
        retrying = Retrying(
            retry=retry_if_exception_type(Unreachable),
            wait=wait_chain(*map(wait_fixed, PAUSES)),
            stop=stop_after_attempt(len(PAUSES) + 1),
            sleep=sleep_using_event(self._wake),
            reraise=True,
        )

        def attempt() -> bool:
            if self._asked:
                return False
            step()
            return True

        try:
            return retrying(attempt)
        except Unreachable as error:
            raise LaunchError(str(error)) from None

    def _watch(self) -> Succeeded | Failed | Lost:
        pause = FIRST_LOOK
        while True:
            self._wake.clear()
            told, is_asked = False, self._asked
            try:
                told = self._remote.told(self._wake.set)
                if is_asked:
                    with suppress(Unreachable, LaunchError):  # what ended meanwhile may refuse to be ended
                        self._remote.cancel(force=self._forced_at is not None)
                progress = self._remote.look()
            except Foreign as error:
                return Failed(str(error))
            except (Unreachable, LaunchError, *NOT_NOW) as error:  # it may also be that only looking is not allowed
                told, progress, self._trouble = False, Running(), str(error)
            else:
                self._trouble = UNSEEN
            match progress:
                case Lost(gone) if is_asked or (self._folder / "cancel").exists():
                    return Failed(gone)
                case Succeeded() | Failed() | Lost():
                    return progress
            if given_up := self.given_up():
                return given_up
            self._wake.wait(LOOK_WHEN_TOLD if told and not is_asked else pause)
            pause = min(pause * 1.5, LAST_LOOK) if is_asked == self._asked else FIRST_LOOK
