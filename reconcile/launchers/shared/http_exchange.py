"""A request over HTTP and what came of it, in a folder that outlives the controller.

The folder (mode 0700) holds

    input.json  the body that is sent
    log         what came back: the status line and the body
    lock        locked by the controller as long as it waits for the answer
    started     a file: the request may have been sent; a directory: it never may
    accepted    the service works on and calls back; nothing is waited for here any more
    end         how the attempt ended, as JSON; linked into its place by whoever comes first

so an attempt goes on while somebody holds `lock`, or where `accepted` stands; it is over with `end`, and lost when
there is neither: then its controller is gone, and nobody knows what became of the request. It is not sent again, for
`started` was on the disk before the first byte was sent.
"""

import json
import shutil
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

from reconcile.launchers.shared import attempt_folder, file_locks, outcome_file
from reconcile.launchers.shared.http_request import Accepted, HttpRequest, Sending
from reconcile.launchers.shared.log_file import LogFile
from reconcile.protocols import Failed, Launch, LaunchError, Lost, Running, Succeeded, WorkProgress

_SECONDS_TO_HANG_UP = 1.0

ABANDONED = "the request was abandoned; whether the service carried it out is not known"
NOT_CALLED_BACK = "the service had accepted and had not called back"
LOST = "its controller ended while the request was under way; whether the service carried it out is not known"


def start(launch: Launch, request: HttpRequest) -> "Exchange":
    """Sends a request from a thread, once per folder: asked again, it answers what was started then.

    Raises LaunchError when it cannot start, or when `adopt` has ruled out that this attempt ever starts.
    """
    folder = launch.folder.absolute()
    try:
        if not attempt_folder.make(folder):
            return _started_before(folder)
    except OSError as error:
        raise LaunchError(f"cannot use the folder {folder}: {error.strerror}") from None
    lock = ExitStack()
    try:
        body = json.dumps(launch.input, allow_nan=False)
        attempt_folder.write_new(folder / "input.json", body)
        lock.enter_context(file_locks.locked(folder / "lock"))
        attempt_folder.write_new(folder / "started", "")
        attempt_folder.keep(folder)
        sending = Sending(request, body.encode(), folder / "log")
        thread = threading.Thread(target=_send, args=(folder, sending, lock), name="http", daemon=True)
        thread.start()
    except FileExistsError:
        lock.close()
        raise LaunchError(attempt_folder.GIVEN_UP) from None
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        lock.close()
        shutil.rmtree(folder, ignore_errors=True)
        raise LaunchError(f"cannot send to {request.url}: {error}") from None
    return Exchange(folder, sending, thread)


def adopt(folder: Path) -> "Exchange | None":
    """The attempt of an earlier controller; None when the folder shows no start, and then there never will be one."""
    folder = folder.absolute()
    return None if attempt_folder.rule_out(folder) else Exchange(folder)


class Exchange:
    """One attempt's request (a `Work`); with `sending` it is this controller's own."""

    def __init__(self, folder: Path, sending: Sending | None = None, thread: threading.Thread | None = None) -> None:
        self.log = LogFile(folder / "log")
        self._folder = folder
        self._sending = sending
        self._thread = thread
        self._end: WorkProgress | None = None

    def poll(self) -> WorkProgress:
        if self._end is not None:
            return self._end
        # The lock first: whoever gives it up has written all the rest.
        is_waiting = file_locks.held(self._folder / "lock")
        self._end = outcome_file.recorded(self._folder)
        if self._end is None:
            if (self._folder / "accepted").exists():
                return Running(elsewhere=True)
            if is_waiting:
                return Running()
            self._end = Lost(LOST)
        return self._end

    def cancel(self, *, force: bool = False) -> None:
        """Abandons the request, or the wait for its callback; the service is not told (HTTP has no way to)."""
        match self.poll():
            case Running(elsewhere):
                end = Failed(NOT_CALLED_BACK if elsewhere else ABANDONED)
                with suppress(OSError):  # a full disk must not keep anybody from ending it
                    outcome_file.record(self._folder, end)
                self._end = outcome_file.recorded(self._folder) or end
        if self._sending is not None:
            self._sending.abandon()

    def forget(self) -> None:
        """Raises OSError for files that cannot be removed."""
        self.cancel(force=True)
        if self._thread is not None:
            self._thread.join(_SECONDS_TO_HANG_UP)
        attempt_folder.remove(self._folder)


def _started_before(folder: Path) -> Exchange:
    if found := adopt(folder):
        return found
    raise LaunchError(attempt_folder.GIVEN_UP)


def _send(folder: Path, sending: Sending, lock: ExitStack) -> None:
    """The thread. What it cannot write is lost with it, and `poll` says so; a folder may be gone by then, too."""
    with lock, suppress(OSError):
        match sending.send():
            case Accepted():
                attempt_folder.write_new(folder / "accepted", "")
            case Succeeded() | Failed() as end:
                outcome_file.record(folder, end)
