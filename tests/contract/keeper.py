"""A Kubernetes API server on a real socket that answers for Secret objects, and a kubeconfig that leads to it."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

TOKEN = "service-account"


class Handler(BaseHTTPRequestHandler):
    server: "Cluster"
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = self.path.split("/")
        if self.headers.get("Authorization") != f"Bearer {TOKEN}" or self.server.is_forbidden:
            self.answer(403, {"kind": "Status", "code": 403, "reason": "Forbidden", "data": self.server.objects})
        elif parts[:4] == ["", "api", "v1", "namespaces"] and parts[5:6] == ["secrets"] and len(parts) == 7:
            found = self.server.objects.get(f"{parts[4]}/{parts[6]}")
            body = {"apiVersion": "v1", "kind": "Secret", "data": found}
            self.answer(200, body) if found else self.answer(404, {"kind": "Status", "code": 404})
        else:
            self.answer(404, {"kind": "Status", "code": 404})

    def answer(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: pytest shows what matters."""


class Cluster(ThreadingHTTPServer):
    """Answers between `with` and its end; `objects` are the data of Secrets by namespace/name, encoded."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects: dict[str, dict[str, str]] = {}
        self.is_forbidden = False

    def put(self, name: str, key: str, value: str) -> None:
        self.objects.setdefault(name, {})[key] = base64.b64encode(value.encode()).decode()

    def kubeconfig(self, folder: Path) -> Path:
        """A file that says where it is and who asks."""
        path = folder / "kubeconfig"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": f"http://127.0.0.1:{self.server_port}"}}],
            "users": [{"name": "test", "user": {"token": TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }
        path.write_text(json.dumps(config))
        return path

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *arguments: object) -> None:
        self.shutdown()
        self.server_close()
