"""A collector on loopback, and its requests as OpenTelemetry's own schema parses them."""

from __future__ import annotations

import base64
import gzip
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

LENGTHS = {"traceId": 16, "spanId": 8, "parentSpanId": 8}
SCHEMAS: dict[str, Any] = {"traces": ExportTraceServiceRequest, "logs": ExportLogsServiceRequest}
Answer = Callable[[BaseHTTPRequestHandler], None]


def reply(status: int = 200, body: bytes = b"{}", **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


class Request:
    def __init__(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.path, self.headers = path, headers
        self.body = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body


class Collector:
    """Gives each request the next of its answers, and every later one the last of them."""

    def __init__(self, *answers: Answer) -> None:
        self.requests: list[Request] = []
        self.ended = threading.Event()
        left = list(answers or (reply(),))
        lock = threading.Lock()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                with lock:
                    collector.requests.append(Request(self.path, headers, body))
                    answer = left.pop(0) if len(left) > 1 else left[0]
                try:
                    answer(self)
                except OSError:
                    pass  # the client has closed the connection

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self) -> Collector:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(10)

    def hang(self, _handler: BaseHTTPRequestHandler) -> None:
        self.ended.wait(60)

    def bodies(self, signal: str) -> list[bytes]:
        return [request.body for request in self.requests if request.path.endswith(f"/v1/{signal}")]

    def spans(self) -> list[Any]:
        return [
            span
            for body in self.bodies("traces")
            for resource in decoded("traces", body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def records(self) -> list[Any]:
        return [
            record
            for body in self.bodies("logs")
            for resource in decoded("logs", body).resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    def resource(self) -> dict[str, Any]:
        return values(decoded("traces", self.bodies("traces")[-1]).resource_spans[0].resource.attributes)


def decoded(signal: str, body: bytes) -> Any:
    """As the schema reads it: an unknown field is an error. Its JSON has ids in base64, OTLP's in hexadecimal."""
    return Parse(json.dumps(_with_base64_ids(json.loads(body))), SCHEMAS[signal]())


def _with_base64_ids(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_base64_ids(one) for one in value]
    if not isinstance(value, dict):
        return value
    made = {}
    for key, one in value.items():
        if key in LENGTHS:
            raw = bytes.fromhex(one)
            assert len(raw) == LENGTHS[key] and any(raw) and one == one.lower(), (key, one)
            made[key] = base64.b64encode(raw).decode()
        else:
            made[key] = _with_base64_ids(one)
    return made


def values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
