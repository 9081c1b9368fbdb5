"""HTTP/1.1 requests and responses: values, parser and serialiser."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlsplit

HEAD_LIMIT = 64 * 1024
BODY_LIMIT = 4 * 1024 * 1024


class BadRequest(Exception):
    """Not HTTP, or larger than the limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    method: str
    target: str
    headers: dict[str, str] = field(default_factory=dict)  # names in lower case
    body: bytes = b""
    keep_alive: bool = True
    client: str = ""  # the address it came from

    @property
    def path(self) -> str:
        path = urlsplit(self.target).path
        return path.rstrip("/") or "/"

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def head(self, *, keep_alive: bool, server: str) -> bytes:
        headers = {
            "Server": server,
            "Date": formatdate(usegmt=True),
            **self.headers,
            "Content-Length": str(len(self.body)),
            **({} if keep_alive else {"Connection": "close"}),
        }
        first = f"HTTP/1.1 {self.status} {phrase(self.status)}"
        lines = [first, *(f"{name}: {text}" for name, text in headers.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


def json_response(status: int, document: Any) -> Response:
    body = json.dumps(document, separators=(",", ":")).encode()
    return Response(status=status, headers={"Content-Type": "application/json; charset=utf-8"}, body=body)


def phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> HttpRequest | None:
    """The next request of a connection; None once the client has closed it."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial.strip():
            raise BadRequest("the connection closed in the middle of a request") from None
        return None
    except asyncio.LimitOverrunError:
        raise BadRequest("the request's head is too long") from None
    method, target, version, headers = parse_head(head)
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    connection = headers.get("connection", "").lower()
    return HttpRequest(
        method=method,
        target=target,
        headers=headers,
        body=await read_body(reader, headers),
        keep_alive=connection != "close" and (version != "HTTP/1.0" or connection == "keep-alive"),
    )


def parse_head(head: bytes) -> tuple[str, str, str, dict[str, str]]:
    first, *rest = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise BadRequest(f"not an HTTP/1.x request line: {first[:80]!r}")
    headers: dict[str, str] = {}
    for line in rest:
        name, colon, text = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadRequest(f"not a header line: {line[:80]!r}")
        headers[name.lower()] = text.strip()
    return words[0], words[1], words[2], headers


async def read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    try:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return await read_chunks(reader)
        return await reader.readexactly(checked_length(headers.get("content-length", "0"), base=10))
    except asyncio.IncompleteReadError:
        raise BadRequest("the connection closed in the middle of a body") from None


async def read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := checked_length((await reader.readuntil(b"\r\n")).split(b";")[0].decode("latin-1"), base=16):
        body += (await reader.readexactly(size + 2))[:size]
        checked_length(str(len(body)), base=10)
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass
    return body


def checked_length(text: str, *, base: int) -> int:
    try:
        length = int(text, base)
    except ValueError:
        raise BadRequest(f"not a length: {text[:40]!r}") from None
    if not 0 <= length <= BODY_LIMIT:
        raise BadRequest(f"a body of {length} bytes is not taken")
    return length
