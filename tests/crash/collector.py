"""OpenTelemetry trace collector on a real socket, which parses requests with OTLP's own protobuf messages."""

import gzip
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Handler(BaseHTTPRequestHandler):
    """`POST /v1/traces` of OTLP over HTTP."""

    server: "Collector"

    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        assert self.headers["Content-Type"] == "application/x-protobuf"
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.may_answer.wait()
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.store(ExportTraceServiceRequest.FromString(body))
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Suppress request logs."""


class Collector(ThreadingHTTPServer):
    """Collect traces while the `with` block runs; a `silent` collector accepts requests and never answers."""

    def __init__(self, *, silent: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.spans: list[Span] = []
        self.resources: list[Mapping[str, str]] = []
        self.may_answer = threading.Event()
        if not silent:
            self.may_answer.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def store(self, request: ExportTraceServiceRequest) -> None:
        for group in request.resource_spans:
            self.resources.append({item.key: item.value.string_value for item in group.resource.attributes})
            for scope in group.scope_spans:
                self.spans.extend(scope.spans)

    def named(self, name: str) -> list[Span]:
        return [span for span in list(self.spans) if span.name == name]

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *arguments: object) -> None:
        self.may_answer.set()
        self.shutdown()
        self.server_close()
