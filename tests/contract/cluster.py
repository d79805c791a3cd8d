"""Double of a Kubernetes cluster on a real socket: the calls of batch/v1 and core/v1 that the product makes.

Created objects are validated as the newest Kubernetes would. Pods are processes: a pod starts when the Secret that it
mounts exists, gets the Secret's contents as files and environment, and ends with an exit code and a termination
message. A watch first reports each existing Job, then each change, until the stream is broken off.
"""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

import kubernetes_validate

from reconcile.launchers.shared import kubernetes_job

VERSION = "1.37"
TOKEN = "let-me-in"
MESSAGE = 4096
CONTEXT = "runs"
"""Namespace in the kubeconfig."""
_JOBS = r"/apis/batch/v1/namespaces/([^/]+)/jobs"
_SECRETS = r"/api/v1/namespaces/([^/]+)/secrets"
_PODS = r"/api/v1/namespaces/([^/]+)/pods"


class Call(NamedTuple):
    """Received request; `path` is without the query."""

    method: str
    path: str


def _event(kind: str, object: Any) -> bytes:
    return json.dumps({"type": kind, "object": object}).encode() + b"\n"


class Status(Exception):
    """Error answer, sent as a Status object."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Pod:
    """One container as a process of this machine."""

    def __init__(self, job: dict[str, Any], secret: dict[str, Any]) -> None:
        self.name = f"{job['metadata']['name']}-x7k2p"
        self.labels = job["spec"]["template"]["metadata"]["labels"]
        self.created_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._folder = tempfile.TemporaryDirectory()
        self.log = Path(self._folder.name) / "log"
        self._message = Path(self._folder.name) / "message"
        [container] = job["spec"]["template"]["spec"]["containers"]
        data = {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
        [mount] = container["volumeMounts"]
        [volume] = job["spec"]["template"]["spec"]["volumes"]
        for item in volume["secret"]["items"]:
            (Path(self._folder.name) / item["path"]).write_text(data[item["key"]])
        local_paths = {mount["mountPath"]: self._folder.name, container["terminationMessagePath"]: str(self._message)}
        environment = {"PATH": os.environ["PATH"]}
        for variable in container["env"]:
            value = variable["value"] if "value" in variable else data[variable["valueFrom"]["secretKeyRef"]["key"]]
            for mounted, path in local_paths.items():
                value = value.replace(mounted, path)
            environment[variable["name"]] = value
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable if part == "python" else part for part in container["command"]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder.name,
                env=environment,
                start_new_session=True,
            )

    @property
    def exit_code(self) -> int | None:
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def stop(self, signal_number: signal.Signals = signal.SIGTERM) -> None:
        if self.exit_code is None:
            os.killpg(self._process.pid, signal_number)

    def remove(self) -> None:
        self.stop(signal.SIGKILL)
        self._process.wait()
        self._folder.cleanup()

    def to_json(self) -> dict[str, Any]:
        state: dict[str, Any] = {"running": {}}
        if (code := self.exit_code) is not None:
            written = self._message.read_bytes() if self._message.exists() else b""
            message = written[-MESSAGE:].decode(errors="replace")
            state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed", "message": message}}
        metadata = {"name": self.name, "labels": self.labels, "creationTimestamp": self.created_at}
        return {"metadata": metadata, "status": {"containerStatuses": [{"name": "task", "state": state}]}}


class Cluster(ThreadingHTTPServer):
    """Jobs, Secrets (by `namespace/name`) and pods, served while the `with` block runs.

    `refuse` holds errors for the next calls, `refuse_watches` for the next watches; `refuse_secrets` is the answer to
    each creation of a Secret, and `invalid_pod_lists` are answered instead of the next lists of pods. An error in
    `break_off` ends a running watch with it, and None ends it regularly. With `is_mute` a watch goes on silently.
    """

    request_queue_size = 512
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.RLock()
        self.jobs: dict[str, dict[str, Any]] = {}
        self.secrets: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, Pod] = {}
        self.calls: list[Call] = []
        self.refuse: list[Status] = []
        self.refuse_watches: list[Status] = []
        self.break_off: list[Status | None] = []
        self.refuse_secrets: Status | None = None
        self.invalid_pod_lists: list[Any] = []
        self.watchers = 0
        self.is_closed = self.is_mute = False
        self.is_forbidden = False
        self.never_pulls = False
        self.created = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def kubeconfig(self, folder: Path) -> Path:
        path = folder / "kubeconfig"
        named = {"clusters": {"server": self.url}, "users": {"token": TOKEN}}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "here", "cluster": named["clusters"]}],
            "users": [{"name": "here", "user": named["users"]}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here", "namespace": CONTEXT}}],
        }
        path.write_text(json.dumps(config))
        return path

    def create_job(self, body: dict[str, Any]) -> dict[str, Any]:
        kubernetes_validate.validate(body, VERSION, strict=True)
        name = body["metadata"]["name"]
        if name in self.jobs:
            raise Status(409, f'jobs.batch "{name}" already exists')
        body["metadata"]["uid"] = f"uid-{len(self.calls)}"
        self.jobs[name] = body
        self.created += 1
        return body

    def job(self, name: str) -> dict[str, Any]:
        job = self.jobs.get(name)
        pod = self.pods.get(name)
        if job and pod:
            job["status"] = {"ready": 1}
        if job and "deletionTimestamp" in job["metadata"] and (pod is None or pod.exit_code is not None):
            self.remove(name)
            job = None
        if job is None:
            raise Status(404, f'jobs.batch "{name}" not found')
        if pod and pod.exit_code is not None:
            kind, reason = ("Failed", "BackoffLimitExceeded") if pod.exit_code else ("Complete", "CompletionsReached")
            job["status"] = {"conditions": [{"type": kind, "status": "True", "reason": reason}]}
        return job

    def delete_job(self, name: str, propagation: str, uid: str) -> dict[str, Any]:
        job = self.job(name)
        if job["metadata"]["uid"] != uid:
            raise Status(409, f"the UID in the precondition ({uid}) does not match the UID in record")
        job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        if pod := self.pods.get(name):
            pod.stop()
        if propagation == "Background":
            self.remove(name)
        return job

    def remove(self, name: str) -> None:
        """Remove a Job with all objects that it owns."""
        del self.jobs[name]
        self.secrets = {place: secret for place, secret in self.secrets.items() if not place.endswith(f"/{name}")}
        if pod := self.pods.pop(name, None):
            pod.remove()

    def create_secret(self, body: dict[str, Any], namespace: str = CONTEXT) -> dict[str, Any]:
        if self.refuse_secrets:
            raise self.refuse_secrets
        kubernetes_validate.validate(body, VERSION, strict=True)
        name = body["metadata"]["name"]
        if f"{namespace}/{name}" in self.secrets:
            raise Status(409, f'secrets "{name}" already exists')
        self.secrets[f"{namespace}/{name}"] = body
        [owner] = body["metadata"]["ownerReferences"]
        if owner["uid"] == self.jobs[name]["metadata"]["uid"] and not self.never_pulls:
            self.pods[name] = Pod(self.jobs[name], body)
        return {"metadata": body["metadata"]}

    def secret(self, name: str, namespace: str) -> dict[str, Any]:
        if f"{namespace}/{name}" not in self.secrets:
            raise Status(404, f'secrets "{name}" not found')
        return self.secrets[f"{namespace}/{name}"]

    def put(self, place: str, key: str, value: str) -> None:
        """Store a value in a Secret that a person made for tasks."""
        secret = self.secrets.setdefault(place, {"apiVersion": "v1", "kind": "Secret", "data": {}})
        secret["data"][key] = base64.b64encode(value.encode()).decode()

    def changes(self) -> Iterator[bytes]:
        """Yield the events of a watch."""
        known: dict[str, str] = {}
        while not self.is_closed:
            with self.lock:
                current = {}
                for name in list(self.jobs):
                    with suppress(Status):
                        current[name] = json.dumps(self.job(name))
                endings = self.break_off[:1]
                del self.break_off[:1]
            for kind, names in {
                "ADDED": current.keys() - known.keys(),
                "MODIFIED": {name for name in current.keys() & known.keys() if current[name] != known[name]},
                "DELETED": known.keys() - current.keys(),
            }.items():
                for name in () if self.is_mute else names:
                    yield _event(kind, json.loads(current.get(name) or known[name]))
            known = current
            if endings == [None]:
                return
            for status in endings:
                assert status
                error = {"kind": "Status", "code": status.code, "reason": "Expired", "message": str(status)}
                yield _event("ERROR", error)
                return
            time.sleep(0.005)

    def pods_of(self, job: str) -> Any:
        if self.invalid_pod_lists:
            return self.invalid_pod_lists.pop()
        if self.never_pulls:
            state = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
            metadata = {"name": job, "creationTimestamp": ""}
            return {
                "items": [{"metadata": metadata, "status": {"containerStatuses": [{"name": "task", "state": state}]}}]
            }
        return {"items": [self.pods[job].to_json()] if job in self.pods else []}

    def log(self, pod: str, follow: bool) -> Iterator[bytes]:
        [owner] = [each for each in self.pods.values() if each.name == pod]
        with owner.log.open("rb") as file:
            while True:
                has_ended = owner.exit_code is not None
                while chunk := file.read(2**16):
                    yield chunk
                if has_ended or not follow:
                    return
                time.sleep(0.005)

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *arguments: object) -> None:
        self.is_closed = True
        self.shutdown()
        self.server_close()
        for pod in self.pods.values():
            pod.remove()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Suppress error output: clients hang up in the middle of an answer."""


class Handler(BaseHTTPRequestHandler):
    """Handler that selects the call by method and path."""

    server: Cluster
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_DELETE = do_GET

    def _answer(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        try:
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                raise Status(401, "Unauthorized")
            if pod := re.fullmatch(rf"{_PODS}/([^/]+)/log", parts.path):
                self._stream(self.server.log(pod[2], query.get("follow") == "true"))
                return
            if re.fullmatch(_JOBS, parts.path) and query.get("watch") == "true":
                self._watch(query)
                return
            with self.server.lock:
                self.server.calls.append(Call(self.command, parts.path))
                if self.server.is_forbidden:
                    self._send(403, {"kind": "Status", "code": 403, "reason": "Forbidden", "data": self.server.secrets})
                    return
                if self.server.refuse:
                    raise self.server.refuse.pop(0)
                self._send(200, self._result(parts.path, query, body))
        except Status as status:
            self._send(status.code, {"kind": "Status", "code": status.code, "message": str(status)})

    def _result(self, path: str, query: dict[str, str], body: Any) -> Any:
        server = self.server
        if self.command == "POST" and re.fullmatch(_JOBS, path):
            return server.create_job(body)
        if self.command == "POST" and (match := re.fullmatch(_SECRETS, path)):
            return server.create_secret(body, match[1])
        if self.command == "GET" and re.fullmatch(_PODS, path):
            return server.pods_of(query["labelSelector"].removeprefix("batch.kubernetes.io/job-name="))
        if match := re.fullmatch(rf"{_JOBS}/([^/]+)", path):
            if self.command == "DELETE":
                return server.delete_job(match[2], body["propagationPolicy"], body["preconditions"]["uid"])
            return server.job(match[2])
        if match := re.fullmatch(rf"{_SECRETS}/([^/]+)", path):
            secret = server.secret(match[2], match[1])
            return server.secrets.pop(f"{match[1]}/{match[2]}") if self.command == "DELETE" else secret
        raise Status(404, f"{self.command} {path} is not supported by this double")

    def _watch(self, query: dict[str, str]) -> None:
        assert query["labelSelector"] == kubernetes_job.OURS
        with self.server.lock:
            self.server.calls.append(Call("WATCH", urlsplit(self.path).path))
            if self.server.refuse_watches:
                raise self.server.refuse_watches.pop(0)
            self.server.watchers += 1
        try:
            self._stream(self.server.changes())
        finally:
            with self.server.lock:
                self.server.watchers -= 1

    def _send(self, code: int, value: Any) -> None:
        text = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _stream(self, chunks: Iterator[bytes]) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in chunks:
            self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *arguments: Any) -> None:
        """Suppress request logs."""
