"""`http`: a request to a service that answers with the result, or accepts the request and calls back later."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as field_of
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from reconcile.launchers.shared import http_exchange
from reconcile.launchers.shared.block_faults import refuse, text_faults, unknown_fields
from reconcile.launchers.shared.http_exchange import HttpRequest
from reconcile.plugins import Launch, Launcher, Work
from revisions.errors import Fault

METHODS = ("POST", "PUT", "PATCH")
EXPECTS = ("answer", "callback")
OURS = (
    *("Content-Type", "Content-Length", "Transfer-Encoding", "Connection", "Host", "TRACEPARENT"),
    *("Idempotency-Key", "Triggerctl-Callback", "Triggerctl-Heartbeat", "Triggerctl-Token"),
)
"""Headers that the controller sets; tasks cannot."""

_EXAMPLE = "write url: https://service.example/path"
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_NOT_IN_URLS = re.compile(r"[^!-~]")


@dataclass(frozen=True, slots=True)
class HttpBlock:
    """The `http` block of a task. Without `expects` the response's status decides (see `HttpRequest`)."""

    url: str
    method: str = "POST"
    headers: Mapping[str, str] = field_of(default_factory=dict)
    expects: str | None = None


class HttpLauncher:
    """Sends the document to `{url, method: POST, headers: {Name: text}, expects: answer|callback}` (X-10)."""

    finds_anywhere = False

    def read(self, written: Any) -> HttpBlock:
        refuse(_faults(written))
        return HttpBlock(**written)

    def system(self, block: HttpBlock) -> None:
        """Return None: any request to the service could start something."""

    def start(self, launch: Launch) -> Work:
        block: HttpBlock = launch.block
        request = HttpRequest(block.method, block.url, _headers(launch, block.headers), block.expects)
        return http_exchange.start(launch, request)

    def adopt(self, folder: Path) -> Work | None:
        return http_exchange.adopt(folder)


def _headers(launch: Launch, written: Mapping[str, str]) -> dict[str, str]:
    """Return the request's headers: defaults, overridden by the task's own, overridden by triggerctl's.

    The idempotency key follows from run and attempt, so it is the same when an attempt that was handed back is sent
    again, and the service can recognise it.
    """
    defaults = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "triggerctl"}
    own = {name.lower(): value for name, value in written.items()}
    contract = {"content-type": "application/json", "idempotency-key": f"{launch.run_id}/{launch.attempt}"}
    if url := launch.environment.get("TRIGGERCTL_URL"):
        run = f"{url}/api/v1/runs/{launch.run_id}"
        contract |= {"triggerctl-callback": f"{run}/complete", "triggerctl-heartbeat": f"{run}/heartbeat"}
    if token := launch.environment.get("TRIGGERCTL_TOKEN"):
        contract["triggerctl-token"] = token
    if parent := launch.environment.get("TRACEPARENT"):
        contract["traceparent"] = parent
    return defaults | own | contract


def _faults(written: Any) -> Iterator[Fault]:
    if not isinstance(written, Mapping):
        yield Fault("", "must be a mapping", _EXAMPLE)
        return
    yield from unknown_fields(written, ["url", "method", "headers", "expects"])
    yield from _url_faults(written.get("url"))
    for field, allowed in (("method", METHODS), ("expects", EXPECTS)):
        if field in written and written[field] not in allowed:
            yield Fault(field, f"{written[field]!r} is not known", f"one of {', '.join(allowed)}")
    yield from _header_faults(written.get("headers", {}))


def _url_faults(url: Any) -> Iterator[Fault]:
    if url is None:
        yield Fault("url", "is missing", _EXAMPLE)
        return
    if faults := list(text_faults("url", url, empty=False)):
        yield from faults
        return
    if _NOT_IN_URLS.search(url):
        yield Fault("url", "holds a blank, or a character that is not ASCII", "write it as %20, or xn--… in the name")
        return
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        yield Fault("url", f"is not an address: {error}", _EXAMPLE)
        return
    if parts.scheme not in ("http", "https"):
        yield Fault("url", "must begin with http:// or https://", _EXAMPLE)
    elif not parts.hostname or port == 0:
        yield Fault("url", "names no host and port", _EXAMPLE)
    elif "@" in parts.netloc:
        yield Fault("url", "holds credentials, which would be stored and shown", "leave out the part before the @")
    elif parts.fragment:
        yield Fault("url", "holds a #fragment, which is never sent", "leave it out")


def _header_faults(headers: Any) -> Iterator[Fault]:
    if not isinstance(headers, Mapping):
        yield Fault("headers", "must be a mapping", "write headers: {Name: text}")
        return
    seen: set[str] = set()
    for name, value in headers.items():
        path = f"headers.{name}"
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            yield Fault(path, "is not a name of a header", "use letters, digits and -")
        elif name.lower() in map(str.lower, OURS):
            yield Fault(path, "is set by the controller", "leave it out")
        elif name.lower() in seen:
            yield Fault(path, "is there twice; case does not matter in names of headers", "write it once")
        elif faults := list(text_faults(path, value)):
            yield from faults
        elif not (value.isascii() and value.isprintable()):
            yield Fault(path, "holds a line break, or a character that a header cannot carry", "one line of ASCII")
        seen.add(str(name).lower())


launcher: Launcher = HttpLauncher()
