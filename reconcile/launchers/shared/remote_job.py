"""Work in a remote system that continues without the controller; its folder outlives both.

The folder (mode 0700) contains

    input.json   the task's input document
    launch.json  the rest of what the attempt was started with
    log          the task's output lines, as far as they were fetched
    started      a file: the work may have been submitted; a directory: it must not be (see `attempt_folder`)
    submitted    the system has accepted the work, under a name that follows from run and attempt
    cancel       somebody has asked the work to end
    end          the outcome as JSON

One thread per attempt calls the system, so that a slow system delays no other attempt. If the system is unreachable
after the submission, the thread keeps asking until the attempt's timeout. A controller that adopts the attempt finds
the work by its name. It submits the work again only if `submitted` is missing and the system accepts a name just once.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from tenacity import Retrying, retry_if_exception_type, sleep_using_event, stop_after_attempt, wait_chain, wait_fixed

from reconcile.launchers.shared import attempt_folder
from reconcile.launchers.shared.attempt_folder import LogFile
from reconcile.plugins import Failed, Launch, LaunchError, Lost, Running, Succeeded, WorkProgress

PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds between attempts to submit. Longer outages are left to the run's own retries."""
FIRST_POLL, LAST_POLL = 0.05, 2.0
"""Poll interval at first and in the long run, seconds."""
SUBSCRIBED_POLL = 30.0
"""Poll interval while the system reports changes itself, seconds; it covers reports that were lost."""
SECONDS_TO_CONFIRM = 15.0
"""Time in which the system must confirm a forced end; after that the attempt is given up."""
_SECONDS_TO_JOIN = 1.0

UNSENT = "was ended before it was submitted"
UNSEEN = "it was not seen to end"

_OUT_OF_RESOURCES = (OSError, RuntimeError)
"""The controller lacks files or threads. That says nothing about the work (invariant 10), so it is polled again."""


class Unreachable(Exception):
    """The system does not answer, or refuses for now; the text is the reason. The call can be repeated."""


class Foreign(LaunchError):
    """The work under this attempt's name belongs to another installation and is left alone."""


def refuse_foreign(launch: Launch, work: str, owner: str | None) -> None:
    """Raise Foreign if the work that was found names another installation as its owner.

    Work of earlier releases names none and is taken for the attempt's own.
    """
    if owner and launch.installation and owner != launch.installation:
        owners = f"{owner}, and this one is {launch.installation}"
        raise Foreign(f"{work} is of another installation, {owners}: it is left alone; fire anew instead")


class JobClient(Protocol):
    """Calls to a remote system for the work of one attempt.

    Each method can raise Unreachable, and each but `prepare` Foreign. `is_repeatable` means that submitting the same
    name again finds the existing work. Otherwise `submit` is called once, and if it fails or the controller is killed
    during the call, the thread only waits for the work to appear.
    """

    is_repeatable: bool

    def prepare(self) -> None:
        """Check that the work can be submitted, without starting it. Raises LaunchError if it never can."""
        ...

    def submit(self) -> None:
        """Submit the work. Raises LaunchError if the system refuses it for good."""
        ...

    def subscribe(self, wake: Callable[[], None]) -> bool:
        """Ask the system to report changes of the work: `wake` is called for each change after this call.

        Returns False if the system does not report changes, or not at the moment; `wake` is called when it begins or
        stops to. Can be called repeatedly.
        """
        ...

    def read_progress(self) -> WorkProgress: ...

    def cancel(self, *, force: bool) -> None:
        """Ask the system to end the work. Can be called repeatedly, and when there is no work."""
        ...

    def clean_up(self) -> None:
        """Remove what the system still holds after the end."""
        ...


MakeClient = Callable[[Launch], JobClient]
ParseBlock = Callable[[Mapping[str, Any]], Any]
"""Turns the task's block in `launch.json` into the launcher's typed block."""


def start(launch: Launch, make_client: MakeClient, parse_block: ParseBlock) -> "RemoteJob":
    """Submit the work from a thread, or return the job that an earlier call started in this folder.

    Raises LaunchError if it cannot be started, or if `adopt` has ruled out that this attempt ever starts.
    """
    client, folder = make_client(launch), launch.folder.absolute()
    with attempt_folder.starting(folder, "cannot be started") as is_new:
        if is_new:
            _write_launch(folder, launch)
            return RemoteJob(folder, client)
    return attempt_folder.started_before(adopt(folder, make_client, parse_block))


def adopt(folder: Path, make_client: MakeClient, parse_block: ParseBlock) -> "RemoteJob | None":
    """Return the job that an earlier controller started; None if there was no start, and then never will be."""
    folder = folder.absolute()
    is_ruled_out = attempt_folder.rule_out_start(folder)
    # An attempt can end before it is started, for example refused by `prepare`. Its outcome counts all the same, except
    # the one which only says that the start was ruled out: there the run may be started anew.
    if attempt_folder.read_outcome(folder) not in (None, Lost(attempt_folder.GIVEN_UP)):
        return RemoteJob(folder)
    return None if is_ruled_out else RemoteJob(folder, make_client(_read_launch(folder, parse_block)))


def _write_launch(folder: Path, launch: Launch) -> None:
    """Write what `_read_launch` needs, before `started` exists: a started attempt always has both files."""
    fields = asdict(launch) | {"folder": str(launch.folder), "root": str(launch.root)}
    fields["spec"] = {name: value for name, value in fields.pop("block").items() if value is not None}
    attempt_folder.write_new(folder / "input.json", json.dumps(fields.pop("input"), allow_nan=False))
    attempt_folder.write_new(folder / "launch.json", json.dumps(fields))


def _read_launch(folder: Path, parse_block: ParseBlock) -> Launch:
    """Raises OSError and ValueError for files that were cut short or written in an unknown format."""
    fields, document = (json.loads((folder / name).read_text()) for name in ("launch.json", "input.json"))
    try:
        paths = {"folder": Path(fields["folder"]), "root": Path(fields["root"])}
        block = parse_block(fields.pop("spec"))
        return Launch(**fields | paths, block=block, input=document)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{folder}/launch.json: {error}") from None


class RemoteJob:
    """One attempt's remote work and folder (a `Work`). Without a client the attempt has ended."""

    def __init__(self, folder: Path, client: JobClient | None = None) -> None:
        self.log = LogFile(folder / "log")
        self._folder = folder
        self._end: WorkProgress | None = None
        self._thread = _JobThread(folder, client) if client else None

    def poll(self) -> WorkProgress:
        if self._end is None:
            self._end = attempt_folder.read_outcome(self._folder)
        if self._end is None and self._thread:
            self._end = self._thread.unwritten_end or self._thread.unconfirmed_end()
        if self._end is None and (self._folder / "started").is_dir():
            self._end = Lost(attempt_folder.GIVEN_UP)
        return self._end or Running(elsewhere=(self._folder / "started").exists())

    def cancel(self, *, force: bool = False) -> None:
        if self._thread and isinstance(self.poll(), Running):
            self._thread.request_end(force=force)

    def forget(self) -> None:
        """End the attempt and remove its folder. Raises OSError for files that cannot be removed.

        If the system has not confirmed the end by then, the thread continues to ask for it.
        """
        self.cancel(force=True)
        if self._thread and not self._thread.unconfirmed_end():
            self._thread.join(_SECONDS_TO_JOIN)
        attempt_folder.remove(self._folder)


class _JobThread(threading.Thread):
    """Submits the work and waits for its end. `unwritten_end` is an outcome that could not be written to the folder."""

    def __init__(self, folder: Path, client: JobClient) -> None:
        super().__init__(name=f"job {folder.name}", daemon=True)
        self._folder = folder
        self._client = client
        self._is_end_requested = False
        self._forced_at: float | None = None
        self._last_error = UNSEEN
        self._wake = threading.Event()
        self.unwritten_end: WorkProgress | None = None
        self.start()

    def request_end(self, *, force: bool) -> None:
        """Ask the thread to end the work. A repeated request changes nothing.

        So an end that is never confirmed is given up in time, however often it is asked for.
        """
        if self._is_end_requested and (self._forced_at is not None or not force):
            return
        self._is_end_requested, self._forced_at = True, time.monotonic() if force else None
        with suppress(OSError):  # for another controller that polls the same work
            (self._folder / "cancel").touch()
        self._wake.set()

    def unconfirmed_end(self) -> Failed | None:
        """Return the outcome of an attempt whose forced end was not confirmed in time, None while there is time."""
        if self._forced_at is None or time.monotonic() < self._forced_at + SECONDS_TO_CONFIRM:
            return None
        return Failed(f"was given up: {self._last_error}")

    def run(self) -> None:
        try:
            end = self._carry_out()
        except LaunchError as error:
            end = Failed(str(error))
        except Exception as error:  # noqa: BLE001 - a faulty launcher fails only its own run
            end = Failed(f"could not be followed: {error!r}")
        # The outcome is written before the system is cleaned up: after a crash in between the outcome is known. The
        # other way round the deleted work would look lost.
        try:
            attempt_folder.record_outcome(self._folder, end)
        except OSError:  # a full disk, or `forget` has removed the folder
            self.unwritten_end = end
        with suppress(Unreachable, LaunchError):
            self._client.clean_up()

    def _carry_out(self) -> Succeeded | Failed | Lost:
        if not (self._folder / "started").is_file():
            if not self._retry(self._client.prepare):
                return Failed(UNSENT)
            try:
                attempt_folder.mark_started(self._folder)
            except FileExistsError:
                return Lost(attempt_folder.GIVEN_UP)
            except FileNotFoundError:  # `forget` has removed the folder
                return Lost(UNSENT)
            self._submit()
        # `started` without `submitted`: a controller was killed in between, and the system may have the work or not.
        elif self._client.is_repeatable and not (self._folder / "submitted").exists():
            self._submit()
        return self._wait_for_end()

    def _submit(self) -> None:
        if self._client.is_repeatable:
            if not self._retry(self._client.submit):
                return
        else:
            try:
                self._client.submit()
            except Unreachable:
                return  # the system may have the work or not; a second submission could run it twice
        with suppress(OSError):
            (self._folder / "submitted").touch()

    def _retry(self, call: Callable[[], None]) -> bool:
        """Make a call, again while the system is unreachable. Returns False if an end was requested before.

        Raises LaunchError if the system stays unreachable.
        """
        retrying = Retrying(
            retry=retry_if_exception_type(Unreachable),
            wait=wait_chain(*map(wait_fixed, PAUSES)),
            stop=stop_after_attempt(len(PAUSES) + 1),
            sleep=sleep_using_event(self._wake),
            reraise=True,
        )
        try:
            for attempt in retrying:
                with attempt:
                    if self._is_end_requested:
                        return False
                    call()
        except Unreachable as error:
            raise LaunchError(str(error)) from None
        return True

    def _wait_for_end(self) -> Succeeded | Failed | Lost:
        interval = FIRST_POLL
        while True:
            # Cleared before the system is asked: a change during the call wakes the thread again afterwards.
            self._wake.clear()
            is_subscribed, is_ending = False, self._is_end_requested
            try:
                is_subscribed = self._client.subscribe(self._wake.set)
                if is_ending:
                    with suppress(Unreachable, LaunchError):  # systems refuse to end work that has ended
                        self._client.cancel(force=self._forced_at is not None)
                progress = self._client.read_progress()
            except Foreign as error:
                return Failed(str(error))
            except (Unreachable, LaunchError, *_OUT_OF_RESOURCES) as error:  # a refusal to answer is no end either
                is_subscribed, progress, self._last_error = False, Running(), str(error)
            else:
                self._last_error = UNSEEN
            match progress:
                # Work that is gone after somebody asked for its end was ended, by this controller or another.
                case Lost(error_text) if is_ending or (self._folder / "cancel").exists():
                    return Failed(error_text)
                case Succeeded() | Failed() | Lost():
                    return progress
            if unconfirmed := self.unconfirmed_end():
                return unconfirmed
            self._wake.wait(SUBSCRIBED_POLL if is_subscribed and not is_ending else interval)
            interval = min(interval * 1.5, LAST_POLL) if is_ending == self._is_end_requested else FIRST_POLL
