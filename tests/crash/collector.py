"""A collector of traces on a real socket: it reads what an exporter sends, by the protocol's own messages."""

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
    """`/v1/traces` of OTLP over HTTP."""

    server: "Collector"

    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        assert self.headers["Content-Type"] == "application/x-protobuf"
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.hold.wait()
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.take(ExportTraceServiceRequest.FromString(body))
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: pytest shows what matters."""


class Collector(ThreadingHTTPServer):
    """Collects between `with` and its end; with `silent` it takes every request and never answers."""

    def __init__(self, *, silent: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.spans: list[Span] = []
        self.resources: list[Mapping[str, str]] = []
        self.hold = threading.Event()
        if not silent:
            self.hold.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def take(self, request: ExportTraceServiceRequest) -> None:
        for sent in request.resource_spans:
            self.resources.append({one.key: one.value.string_value for one in sent.resource.attributes})
            for scope in sent.scope_spans:
                self.spans.extend(scope.spans)

    def named(self, name: str) -> list[Span]:
        return [span for span in list(self.spans) if span.name == name]

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *arguments: object) -> None:
        self.hold.set()
        self.shutdown()
        self.server_close()
