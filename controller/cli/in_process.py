"""HTTP transport that calls the application within this process, streaming bodies as a network would."""

import asyncio
import queue
import threading
from collections.abc import Iterator, MutableMapping
from typing import Any

import httpx

_MAX_QUEUED_PARTS = 8
_POLL_SECONDS = 0.1


class InProcessTransport(httpx.BaseTransport):
    """Calls an ASGI application. The actor goes in the scope, which no request from a network can write."""

    def __init__(self, app: Any, actor: str) -> None:
        from controller.auth.access import ACTOR

        self._app = app
        self._scope_extra = {ACTOR: actor}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response once it begins; raise here what the application raises before that."""
        exchange = _Exchange(self._app, request, self._scope_extra)
        status, headers = exchange.begin()
        return httpx.Response(status, headers=headers, stream=exchange)


class _Exchange(httpx.SyncByteStream):
    """One request, served in its own thread, which may be a few parts of the body ahead of the reader."""

    def __init__(self, app: Any, request: httpx.Request, scope_extra: dict[str, Any]) -> None:
        assert isinstance(request.stream, httpx.SyncByteStream)
        self._app = app
        self._request_parts = iter(request.stream)
        self._response_parts: queue.Queue[Any] = queue.Queue(_MAX_QUEUED_PARTS)
        self._is_closed = self._is_request_read = False
        self._scope = scope_extra | {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": request.method,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "scheme": request.url.scheme,
            "path": request.url.path,
            "raw_path": request.url.raw_path.split(b"?")[0],
            "query_string": request.url.query,
            "server": (request.url.host, request.url.port),
            "client": ("127.0.0.1", 0),
            "root_path": "",
        }

    def begin(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Start serving; return status and headers."""
        threading.Thread(target=self._run, name="application", daemon=True).start()
        first = self._response_parts.get()
        if isinstance(first, BaseException):
            raise first
        return first["status"], list(first.get("headers", []))

    def __iter__(self) -> Iterator[bytes]:
        while True:
            part = self._response_parts.get()
            if isinstance(part, BaseException):
                raise part
            if part is None:
                return
            yield part

    def close(self) -> None:
        self._is_closed = True

    def _run(self) -> None:
        try:
            asyncio.run(self._app(self._scope, self._receive, self._send))
        except BaseException as error:  # noqa: BLE001  # raised again in the thread that reads the response
            self._put(error)
        else:
            self._put(None)

    async def _receive(self) -> dict[str, Any]:
        """Return the next part of the request body; after the last one, wait until the reader closes the response."""
        if not self._is_request_read:
            part = next(self._request_parts, None)
            self._is_request_read = part is None
            return {"type": "http.request", "body": part or b"", "more_body": not self._is_request_read}
        while not self._is_closed:
            await asyncio.sleep(_POLL_SECONDS)
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._put(message)
        elif message.get("body"):
            self._put(message["body"])
        if self._is_closed:
            raise OSError("the response was closed by its reader")

    def _put(self, part: Any) -> None:
        """Queue a part; give up when the reader has closed the response, for nobody empties the queue then."""
        while not self._is_closed:
            try:
                self._response_parts.put(part, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return
