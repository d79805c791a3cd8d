"""Sending one request and judging its answer: once, unless the service cannot have seen it."""

import os
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
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

from reconcile.launchers.shared import answers
from reconcile.protocols import Failed, Succeeded

SECONDS_TO_CONNECT = 10.0
PAUSES = (0.5, 1.0, 2.0)
"""Seconds between attempts to connect; what is down for longer is for the run's own retries."""
LONGEST_QUOTE = 300
"""Characters of a failure's body that its error holds."""

_NO_CONNECTION = (httpx.ConnectError, httpx.ConnectTimeout)
"""Not a byte was sent, so trying again cannot make the service do it twice."""
_STOPPED = "was abandoned before it was sent"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What is sent where. `expects`: "answer" or "callback", None to go by the status (202: a callback)."""

    method: str
    url: str
    headers: Mapping[str, str]
    expects: str | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """The service works on, and says by a callback how that ended."""


class Sending:
    """One request; `send` waits for the answer, `abandon` ends that from any other thread."""

    def __init__(self, request: HttpRequest, body: bytes, log: Path) -> None:
        self._request = request
        self._body = body
        self._log = log
        self._abandoned = threading.Event()
        self._socket: socket.socket | None = None

    def send(self) -> Accepted | Succeeded | Failed:
        """Send the request, again where no connection came about. Raises OSError when the log cannot be written."""
        retrying = Retrying(
            retry=retry_if_exception_type(_NO_CONNECTION),
            wait=wait_chain(*map(wait_fixed, PAUSES)),
            stop=stop_after_attempt(len(PAUSES) + 1),
            sleep=sleep_using_event(self._abandoned),
            after=self._log_failure,
            reraise=True,
        )
        try:
            return retrying(self._once)
        except (*_NO_CONNECTION, UnicodeError) as error:  # UnicodeError: the resolver refuses the host's name
            return Failed(f"{self._request.url} cannot be reached: {_said(error)}")
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            return Failed(f"no whole answer, and whether the service carried it out is not known: {_said(error)}")

    def abandon(self) -> None:
        """Hangs up. Harmless before and after."""
        self._abandoned.set()
        self._hang_up()

    def _log_failure(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        assert isinstance(error, Exception)
        self._write(f"cannot be reached: {_said(error)}\n".encode())

    def _once(self) -> Accepted | Succeeded | Failed:
        if self._abandoned.is_set():  # during the pause before, too
            return Failed(_STOPPED)
        request = self._request
        limits = httpx.Timeout(None, connect=SECONDS_TO_CONNECT)  # the attempt's own timeout is the worker's
        trusted = _trusted(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        with (
            httpx.Client(verify=trusted, trust_env=False, timeout=limits) as client,
            client.stream(
                request.method,
                request.url,
                content=self._body,
                headers=request.headers,
                extensions={"trace": self._watch},
            ) as response,
        ):
            status = f"{response.status_code} {response.reason_phrase}".strip()
            self._write(f"{response.http_version} {status}\n".encode())
            body = self._take(response)
        if not response.is_success:
            return _failure(status, body)
        if request.expects == "callback" or (request.expects is None and response.status_code == 202):
            return Accepted()
        if response.status_code == 202:
            return Failed("answered 202, which promises a callback, and the task expects an answer")
        return _success(body)

    def _take(self, response: httpx.Response) -> bytes:
        """The body, up to a little more than an output may have."""
        body = bytearray()
        for chunk in response.iter_bytes():
            self._write(chunk)
            body += chunk
            if len(body) > answers.LARGEST_OUTPUT:
                break
        if body and not body.endswith(b"\n"):
            self._write(b"\n")
        return bytes(body)

    def _watch(self, event: str, facts: Mapping[str, Any]) -> None:
        """Gets hold of the socket, the only way to end a wait for an answer from another thread."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._socket = facts["return_value"].get_extra_info("socket")
            if self._abandoned.is_set():
                self._hang_up()

    def _hang_up(self) -> None:
        if self._socket is not None:
            with suppress(OSError):  # it is closed, or handed on to the one that encrypts
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # SSLSocket's own is not for two threads

    def _write(self, text: bytes) -> None:
        with self._log.open("ab") as file:
            file.write(text)


def _success(body: bytes) -> Succeeded | Failed:
    if not body.strip():
        return Succeeded({})
    try:
        return Succeeded(_output(body))
    except answers.BadOutput as error:
        return Failed(str(error))


def _failure(status: str, body: bytes) -> Failed:
    """With the output that stands in it: a task may keep state when it fails, too (X-06)."""
    quote = " ".join(body[: 4 * LONGEST_QUOTE].decode(errors="replace").split())[:LONGEST_QUOTE]
    error = f"answered {status}" + (f": {''.join(filter(str.isprintable, quote))}" if quote else "")
    try:
        return Failed(error, _output(body))
    except answers.BadOutput:
        return Failed(error)


def _output(body: bytes) -> dict[str, Any]:
    if len(body) > answers.LARGEST_OUTPUT:
        raise answers.BadOutput(f"output is larger than {answers.LARGEST_OUTPUT} bytes")
    return answers.parse_output(body)


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__


@cache
def _trusted(cert_file: str | None, cert_dir: str | None) -> ssl.SSLContext:
    """Return the TLS context for the controller's `SSL_CERT_FILE` and `SSL_CERT_DIR`, which httpx reads itself.

    It is cached because creating one takes longer than a request.
    """
    return httpx.create_ssl_context()
