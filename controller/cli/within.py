"""The application within this process, as a transport: bodies go in and come out part by part, as over a network."""

import asyncio
import queue
import threading
from collections.abc import Iterator, MutableMapping
from typing import Any

import httpx

_PARTS_AHEAD = 8
_LOOK_SECONDS = 0.1


class InProcess(httpx.BaseTransport):
    """Calls an ASGI application; the actor goes in its scope, which no request from a network can write."""

    def __init__(self, app: Any, actor: str) -> None:
        from controller.auth.refusals import ACTOR

        self._app = app
        self._extra = {ACTOR: actor}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The answer once it begins; what the application raises before that is raised here."""
        exchange = _Exchange(self._app, request, self._extra)
        status, headers = exchange.begin()
        return httpx.Response(status, headers=headers, stream=exchange)


class _Exchange(httpx.SyncByteStream):
    """One request in a thread of its own, a few parts of its answer ahead of whoever reads them."""

    def __init__(self, app: Any, request: httpx.Request, extra: dict[str, Any]) -> None:
        assert isinstance(request.stream, httpx.SyncByteStream)
        self._app = app
        self._sent = iter(request.stream)
        self._parts: queue.Queue[Any] = queue.Queue(_PARTS_AHEAD)
        self._abandoned = self._is_sent = False
        self._scope = extra | {
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
        threading.Thread(target=self._run, name="application", daemon=True).start()
        first = self._parts.get()
        if isinstance(first, BaseException):
            raise first
        return first["status"], list(first.get("headers", []))

    def __iter__(self) -> Iterator[bytes]:
        while True:
            part = self._parts.get()
            if isinstance(part, BaseException):
                raise part
            if part is None:
                return
            yield part

    def close(self) -> None:
        self._abandoned = True

    def _run(self) -> None:
        try:
            asyncio.run(self._app(self._scope, self._receive, self._send))
        except BaseException as error:  # noqa: BLE001  # it is raised where the answer is read
            self._put(error)
        else:
            self._put(None)

    async def _receive(self) -> dict[str, Any]:
        """The body in parts; once it is at its end, nothing until whoever asked goes away."""
        if not self._is_sent:
            part = next(self._sent, None)
            self._is_sent = part is None
            return {"type": "http.request", "body": part or b"", "more_body": not self._is_sent}
        while not self._abandoned:
            await asyncio.sleep(_LOOK_SECONDS)
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._put(message)
        elif message.get("body"):
            self._put(message["body"])
        if self._abandoned:
            raise OSError("whoever asked went away")

    def _put(self, part: Any) -> None:
        while not self._abandoned:
            try:
                self._parts.put(part, timeout=_LOOK_SECONDS)
            except queue.Full:
                continue
            return
