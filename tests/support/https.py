"""A certificate authority made for the test, and servers with its certificates on loopback."""

from __future__ import annotations

import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Union

from azureinit.machine import Machine
from support.need import need

HOST = "files.example"
# A body, or status, headers and body.
Page = Union[bytes, tuple[int, dict[str, str], bytes]]


class Resolving(Machine):
    """A machine on which names have the given addresses."""

    def __init__(self, names: dict[str, tuple[str, ...]], root: Path) -> None:
        super().__init__(root=str(root))
        self.addresses = names
        self.asked: list[str] = []

    def resolve(self, host: str) -> tuple[str, ...]:
        self.asked.append(host)
        return self.addresses[host] if host in self.addresses else super().resolve(host)


def make_authority(place: Path) -> tuple[Path, Path]:
    """The authority's certificate, and a file with key and certificate for HOST and 127.0.0.1."""
    openssl = need("openssl")
    authority, server = place / "ca.pem", place / "server.pem"
    new = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    quiet = {"check": True, "capture_output": True}
    subprocess.run(
        [*new, "-subj", "/CN=test authority", "-keyout", f"{place}/ca.key", "-out", str(authority),
         "-addext", "keyUsage=critical,keyCertSign,cRLSign"], **quiet,
    )  # type: ignore[call-overload]  # fmt: skip
    subprocess.run(
        [*new, "-subj", f"/CN={HOST}", "-CA", str(authority), "-CAkey", f"{place}/ca.key",
         "-addext", f"subjectAltName=DNS:{HOST},IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE",
         "-keyout", f"{place}/server.key", "-out", f"{place}/server.crt"], **quiet,
    )  # type: ignore[call-overload]  # fmt: skip
    server.write_bytes((place / "server.key").read_bytes() + (place / "server.crt").read_bytes())
    return authority, server


class Site:
    """What was asked for, and the address."""

    def __init__(self, port: int, scheme: str) -> None:
        self.port, self.scheme = port, scheme
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.bodies: list[bytes] = []

    def url(self, path: str, host: str = HOST) -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"


@contextmanager
def serving(pages: dict[str, Page | Callable[[], Page]], certificate: Path | None) -> Iterator[Site]:
    """`certificate` None: plain HTTP. A page may be a function, for one that changes."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.requests.append((self.path, {key.lower(): value for key, value in self.headers.items()}))
            page = pages.get(self.path, (404, {}, b""))
            page = page() if callable(page) else page
            status, headers, body = (200, {}, page) if isinstance(page, bytes) else page
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            site.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    site = Site(server.server_port, "http" if certificate is None else "https")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
