"""An HTTP request and its result, in a folder that outlives the controller.

The folder (mode 0700) contains

    input.json  the request's body
    log         the response: status line and body
    lock        locked by the controller while it waits for the response
    started     a file: the request may have been sent; a directory: it must not be sent (see `attempt_folder`)
    accepted    the service continues and calls back; the controller no longer waits for a response
    end         the outcome as JSON

The attempt is running while somebody holds `lock` or `accepted` exists, and over when `end` exists. If there is none
of the three, its controller died while waiting and the attempt is lost. It is not sent again, because nobody knows
whether the service carried it out.
"""

import json
import os
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_after_attempt,
    wait_chain,
    wait_fixed,
)

from reconcile.launchers.shared import attempt_folder, task_output
from reconcile.launchers.shared.attempt_folder import LogFile
from reconcile.plugins import Failed, Launch, Lost, Running, Succeeded, WorkProgress

SECONDS_TO_CONNECT = 10.0
PAUSES = (0.5, 1.0, 2.0)
"""Seconds between attempts to connect. Longer outages are left to the run's own retries."""
LONGEST_QUOTE = 300
"""Characters of an error response's body that the run's error contains."""
_SECONDS_TO_HANG_UP = 1.0

ABANDONED = "the request was abandoned; whether the service carried it out is not known"
NOT_CALLED_BACK = "the service had accepted and had not called back"
LOST = "its controller ended while the request was under way; whether the service carried it out is not known"
_NOT_SENT = "was abandoned before it was sent"

_NO_CONNECTION = (httpx.ConnectError, httpx.ConnectTimeout)
"""Errors after which the request can be repeated: not one byte was sent, so the service cannot carry it out twice."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request without its body.

    `expects` is "answer" or "callback"; None decides by the response's status: 202 means a callback.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    expects: str | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """The service continues to work and reports the end by a callback."""


def start(launch: Launch, request: HttpRequest) -> "HttpExchange":
    """Send a request from a thread, or return the exchange that an earlier call started in this folder.

    Raises LaunchError if it cannot be started, or if `adopt` has ruled out that this attempt ever starts.
    """
    folder = launch.folder.absolute()
    with attempt_folder.starting(folder, f"cannot send to {request.url}") as is_new:
        if is_new:
            return _send_in_thread(folder, request, json.dumps(launch.input, allow_nan=False))
    return attempt_folder.started_before(adopt(folder))


def adopt(folder: Path) -> "HttpExchange | None":
    """Return the exchange that an earlier controller started; None if there was no start, and then never will be."""
    folder = folder.absolute()
    return None if attempt_folder.rule_out_start(folder) else HttpExchange(folder)


class HttpExchange:
    """One attempt's request and folder (a `Work`). `call` and `thread` are set for a request of this controller."""

    def __init__(self, folder: Path, call: "HttpCall | None" = None, thread: threading.Thread | None = None) -> None:
        self.log = LogFile(folder / "log")
        self._folder = folder
        self._call = call
        self._thread = thread
        self._end: WorkProgress | None = None

    def poll(self) -> WorkProgress:
        if self._end is not None:
            return self._end
        # The lock is read first: its holder writes `accepted` or `end` before releasing it, so a free lock means that
        # the files are final. In the other order an end written between the two reads would look like a loss.
        is_waiting = attempt_folder.is_locked(self._folder / "lock")
        self._end = attempt_folder.read_outcome(self._folder)
        if self._end is None:
            if (self._folder / "accepted").exists():
                return Running(elsewhere=True)
            if is_waiting:
                return Running()
            self._end = Lost(LOST)
        return self._end

    def cancel(self, *, force: bool = False) -> None:
        """Close the connection, or stop waiting for the callback. HTTP has no way to tell the service."""
        match self.poll():
            case Running(elsewhere):
                end = Failed(NOT_CALLED_BACK if elsewhere else ABANDONED)
                # Written before the connection is closed: otherwise the thread would record the broken connection.
                with suppress(OSError):  # a full disk must not prevent the end
                    attempt_folder.record_outcome(self._folder, end)
                self._end = attempt_folder.read_outcome(self._folder) or end
        if self._call is not None:
            self._call.abandon()

    def forget(self) -> None:
        """End the attempt and remove its folder. Raises OSError for files that cannot be removed."""
        self.cancel(force=True)
        if self._thread is not None:
            self._thread.join(_SECONDS_TO_HANG_UP)
        attempt_folder.remove(self._folder)


class HttpCall:
    """Sending of one request. `send` waits for the response; `abandon` ends the wait from another thread."""

    def __init__(self, request: HttpRequest, body: bytes, log: Path) -> None:
        self._request = request
        self._body = body
        self._log = log
        self._abandoned = threading.Event()
        self._socket: socket.socket | None = None

    def send(self) -> Accepted | Succeeded | Failed:
        """Send the request, again while no connection can be made. Raises OSError if the log cannot be written."""
        retrying = Retrying(
            retry=retry_if_exception_type(_NO_CONNECTION),
            wait=wait_chain(*map(wait_fixed, PAUSES)),
            stop=stop_after_attempt(len(PAUSES) + 1),
            sleep=sleep_using_event(self._abandoned),
            after=self._log_failure,
            reraise=True,
        )
        try:
            return retrying(self._send_once)
        except (*_NO_CONNECTION, UnicodeError) as error:  # UnicodeError: the resolver refuses the host's name
            return Failed(f"{self._request.url} cannot be reached: {_describe_error(error)}")
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            unknown = "no whole answer, and whether the service carried it out is not known"
            return Failed(f"{unknown}: {_describe_error(error)}")

    def abandon(self) -> None:
        """Close the connection. Harmless before the request is sent and after its end."""
        self._abandoned.set()
        self._close_socket()

    def _log_failure(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        assert isinstance(error, Exception)
        self._write(f"cannot be reached: {_describe_error(error)}\n".encode())

    def _send_once(self) -> Accepted | Succeeded | Failed:
        if self._abandoned.is_set():  # also during the pause before this attempt
            return Failed(_NOT_SENT)
        request = self._request
        limits = httpx.Timeout(None, connect=SECONDS_TO_CONNECT)  # the runner enforces the attempt's timeout
        tls = _tls_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        with (
            httpx.Client(verify=tls, trust_env=False, timeout=limits) as client,
            client.stream(
                request.method,
                request.url,
                content=self._body,
                headers=request.headers,
                extensions={"trace": self._keep_socket},
            ) as response,
        ):
            status = f"{response.status_code} {response.reason_phrase}".strip()
            self._write(f"{response.http_version} {status}\n".encode())
            body = self._read_body(response)
        if not response.is_success:
            return _failure(status, body)
        if request.expects == "callback" or (request.expects is None and response.status_code == 202):
            return Accepted()
        if response.status_code == 202:
            return Failed("answered 202, which promises a callback, and the task expects an answer")
        return _success(body)

    def _read_body(self, response: httpx.Response) -> bytes:
        """Return the body and copy it to the log. Stops soon after it has become larger than an output may be."""
        body = bytearray()
        for chunk in response.iter_bytes():
            self._write(chunk)
            body += chunk
            if len(body) > task_output.LARGEST_OUTPUT:
                break
        if body and not body.endswith(b"\n"):
            self._write(b"\n")
        return bytes(body)

    def _keep_socket(self, event: str, details: Mapping[str, Any]) -> None:
        """Keep the connection's socket: closing it is the only way to end a wait for a response from another thread."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._socket = details["return_value"].get_extra_info("socket")
            # Checked after the socket is kept: `abandon` sets the event first, so one of the two threads closes it.
            if self._abandoned.is_set():
                self._close_socket()

    def _close_socket(self) -> None:
        if self._socket is not None:
            with suppress(OSError):  # closed already, or replaced by the socket that encrypts
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # SSLSocket.shutdown is not thread-safe

    def _write(self, text: bytes) -> None:
        with self._log.open("ab") as file:
            file.write(text)


def _send_in_thread(folder: Path, request: HttpRequest, body: str) -> HttpExchange:
    """Start the thread, which holds `lock` until its result is written."""
    attempt_folder.write_new(folder / "input.json", body)
    lock = ExitStack()
    try:
        # Locked before `started` exists: a started attempt with a free lock counts as lost.
        lock.enter_context(attempt_folder.locked(folder / "lock"))
        attempt_folder.mark_started(folder)
        call = HttpCall(request, body.encode(), folder / "log")
        thread = threading.Thread(target=_run_call, args=(folder, call, lock), name="http", daemon=True)
        thread.start()
    except BaseException:
        lock.close()
        raise
    return HttpExchange(folder, call, thread)


def _run_call(folder: Path, call: HttpCall, lock: ExitStack) -> None:
    """Send the request and write its result; `lock` is released afterwards.

    A result that cannot be written is lost: `poll` then finds a free lock and no outcome. The folder may also have
    been removed meanwhile.
    """
    with lock, suppress(OSError):
        match call.send():
            case Accepted():
                attempt_folder.write_new(folder / "accepted", "")
            case Succeeded() | Failed() as end:
                attempt_folder.record_outcome(folder, end)


def _success(body: bytes) -> Succeeded | Failed:
    if not body.strip():
        return Succeeded({})
    try:
        return Succeeded(task_output.parse_output(body))
    except task_output.BadOutput as error:
        return Failed(str(error))


def _failure(status: str, body: bytes) -> Failed:
    """Return the failure, with the output if the body is one: a task can keep state when it fails (X-06)."""
    quote = " ".join(body[: 4 * LONGEST_QUOTE].decode(errors="replace").split())[:LONGEST_QUOTE]
    error = f"answered {status}" + (f": {''.join(filter(str.isprintable, quote))}" if quote else "")
    try:
        return Failed(error, task_output.parse_output(body))
    except task_output.BadOutput:
        return Failed(error)


def _describe_error(error: Exception) -> str:
    return str(error) or type(error).__name__


@cache
def _tls_context(cert_file: str | None, cert_dir: str | None) -> ssl.SSLContext:
    """Return the TLS context for the controller's `SSL_CERT_FILE` and `SSL_CERT_DIR`, which httpx reads itself.

    It is cached because creating one takes longer than a request.
    """
    return httpx.create_ssl_context()
