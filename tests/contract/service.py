"""Web service on a real socket that plays the tasks of the launcher tests and scripted answers."""

import json
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Self

import httpx

from tests.waiting import PATIENCE


class ReceivedRequest(NamedTuple):
    """Completely received request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Handler(BaseHTTPRequestHandler):
    """Handler in which each task is a path, and the input says the rest."""

    server: "Service"
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.seen.append(ReceivedRequest(self.command, self.path, headers, body))
        task: Callable[[Any], None] = getattr(self, f"task_{self.path.strip('/')}")
        task(json.loads(body)["input"])
        self.close_connection = True

    do_PUT = do_POST

    def task_echo(self, given: Any) -> None:
        self.answer(200, json.dumps({"seen": json.loads(self.server.seen[-1].body)}))

    def task_nothing(self, given: Any) -> None:
        self.answer(200)

    def task_fail(self, given: Any) -> None:
        self.answer(500, '{"state": {"kept": 1}}')

    def task_write_output(self, given: Any) -> None:
        self.answer(200, given["text"])

    def task_wait(self, given: Any) -> None:
        with open(given["runs"], "a") as file:
            file.write("run\n")
        while not Path(given["go"]).exists():
            time.sleep(0.002)
        self.answer(200, '{"waited": true}')

    def task_sleep(self, given: Any) -> None:
        Path(given["ready"]).touch()
        self.rfile.read(1)
        self.server.hung_up.set()

    def task_say(self, given: Any) -> None:
        """Answer as the test's input says; with `cut`, the announced length exceeds the body by so many bytes."""
        self.answer(given.get("status", 200), given.get("body", ""), given.get("headers", {}), given.get("cut", 0))

    def task_accept(self, given: Any) -> None:
        """Accept, send a heartbeat and call back."""
        self.answer(202)
        attempt = json.loads(self.server.seen[-1].body)["run"]["attempt"]
        token = self.headers["Triggerctl-Token"]
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        with httpx.Client(headers=bearer, timeout=PATIENCE) as client:
            beat = client.post(self.headers["Triggerctl-Heartbeat"], json={"attempt": attempt})
            ended = {"attempt": attempt, "outcome": "succeeded", "output": {"beat": beat.json()["status"]}}
            client.post(self.headers["Triggerctl-Callback"], json=ended)

    def task_silence(self, given: Any) -> None:
        """Close the connection without an answer."""

    def answer(self, status: int, body: str = "", headers: Any = None, cut: int = 0) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body.encode()) + cut))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *arguments: Any) -> None:
        """Suppress request logs."""


class Service(ThreadingHTTPServer):
    """Web service, running while the `with` block runs."""

    request_queue_size = 256

    def __init__(self, port: int = 0, secured: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.scheme = "https" if secured else "http"
        if secured:
            self.socket = secured.wrap_socket(self.socket, server_side=True)
        self.seen: list[ReceivedRequest] = []
        self.hung_up = threading.Event()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_port}"

    @property
    def keys(self) -> list[str]:
        """Return the idempotency keys of all requests."""
        return [request.headers["idempotency-key"] for request in self.seen]

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *arguments: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Suppress error output: clients hang up in the middle of an answer."""
