"""The platform's doors: HTTP/1.1 from one thread, answering as the script says; on loopback unless told where."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from fakeazure.faults import OFF_SCRIPT_STATUS, Answer
from fakeazure.http import HEAD_LIMIT, BadRequest, HttpRequest, Response, json_response, read_request

GARBAGE = b"\x00\xff{ this was never JSON \xfe"
HTML = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body><h1>Sign in to continue</h1></body></html>"
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
LOOK_EVERY = 0.005
FOR_EVER = 1e9
LOOPBACK = ("127.0.0.1", 0)  # any free port


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a conversation went: the answer given (None: none was), and why it was that one."""

    response: Response | None
    answer: Answer | None = None  # None: the script had no more
    scripted: bool = False
    arrived: float
    note: str = ""

    @property
    def heard(self) -> bool:
        return self.response is not None and self.answer is not None and self.answer.heard


class Service(Protocol):
    """One of the platform's endpoints: what it would answer, what the script wants, and what it makes of it all."""

    server: str

    def now(self) -> float: ...
    def scripted(self, request: HttpRequest) -> tuple[Answer | None, bool]: ...
    def answer(self, request: HttpRequest) -> Response: ...
    def note(self, request: HttpRequest, outcome: Outcome) -> None: ...


class Doors:
    """Listens for each service at an address of its own. A closed door keeps its port, and refuses connections."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._sockets: list[tuple[socket.socket, Service]] = []
        self._closed: list[socket.socket] = []
        self._talks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="fakeazure", daemon=True)

    def open(self, service: Service, *, closed: bool = False, at: tuple[str, int] = LOOPBACK) -> str:
        listener = socket.socket()
        listener.bind(at)
        if closed:
            self._closed.append(listener)
        else:
            listener.listen(1024)
            listener.setblocking(False)
            self._sockets.append((listener, service))
        host, port = listener.getsockname()
        return f"http://{host}" if port == 80 else f"http://{host}:{port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
        for listener in (*self._closed, *(listener for listener, _ in self._sockets)):
            listener.close()
        if not self._loop.is_closed():
            self._loop.close()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        # A client that goes away at a bad moment is its own affair, not a line on somebody's terminal.
        self._loop.set_exception_handler(lambda *_: None)
        servers = [
            await asyncio.start_server(self._talker(service), sock=listener, limit=HEAD_LIMIT)
            for listener, service in self._sockets
        ]
        await self._stopping.wait()
        for server in servers:
            server.close()
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)
        await asyncio.sleep(0)  # lets the closed connections go

    def _talker(self, service: Service) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            talk = self._loop.create_task(converse(service, reader, writer))
            self._talks.add(talk)
            talk.add_done_callback(self._talks.discard)

        return begin


async def converse(service: Service, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection, from its first request to its end."""
    try:
        while await exchange(service, reader, writer):
            pass
    except (ConnectionError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.close()


async def exchange(service: Service, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """One request and its answer; False when the connection is to end."""
    try:
        request = await read_request(reader, writer)
    except BadRequest as error:
        refusal = json_response(400, {"error": f"Bad request. {error}"})
        broken = HttpRequest(method="?", target="?")
        service.note(broken, Outcome(response=refusal, arrived=service.now(), note=str(error)))
        await send(writer, refusal, service, keep_alive=False)
        return False
    if request is None:
        return False
    arrived = service.now()
    answer, scripted = service.scripted(request)
    if answer is not None and answer.kind in ("hang", "slow"):
        note = "the platform stopped first"
        try:
            if await client_leaves(reader, within=FOR_EVER if answer.kind == "hang" else answer.amount):
                note = "the client left first"
                return False
            note = ""
        finally:
            if note:
                service.note(
                    request, Outcome(response=None, answer=answer, scripted=scripted, arrived=arrived, note=note)
                )
    response = respond(service, request, answer)
    # First into the ledger, then onto the wire: who has an answer finds it in the ledger.
    service.note(request, Outcome(response=response, answer=answer, scripted=scripted, arrived=arrived))
    if response is None or (answer is not None and answer.kind == "lost"):
        reset(writer)
        return False
    if answer is not None and answer.kind == "truncate":
        await send_part(writer, response, service, count=int(answer.amount))
        return False
    await send(writer, response, service, keep_alive=request.keep_alive)
    return request.keep_alive


def respond(service: Service, request: HttpRequest, answer: Answer | None) -> Response | None:
    if answer is None:
        return json_response(OFF_SCRIPT_STATUS, {"error": "fakeazure: the scenario's script has no answer left"})
    if answer.kind == "reset":
        return None
    if answer.kind == "garbage":
        return Response(status=200, headers={"Content-Type": "application/json; charset=utf-8"}, body=GARBAGE)
    if answer.kind == "html":
        return Response(status=200, headers={"Content-Type": "text/html"}, body=HTML)
    if answer.kind == "status":
        return scripted_status(service, request, answer)
    response = service.answer(request)
    if answer.kind == "oversized":
        return replace(response, body=response.body.ljust(int(answer.amount)))
    return response


def scripted_status(service: Service, request: HttpRequest, answer: Answer) -> Response:
    if answer.heard and answer.body is None:
        own = service.answer(request)
        return replace(own, status=answer.status, headers={**own.headers, **answer.headers})
    if answer.body is None:
        response = json_response(answer.status, {"error": f"fakeazure: the scenario says {answer.text}"})
    else:
        kind = {"Content-Type": "application/json"}
        response = Response(status=answer.status, headers=kind, body=answer.body.encode())
    return replace(response, headers={**response.headers, **answer.headers})


async def client_leaves(reader: asyncio.StreamReader, *, within: float) -> bool:
    """Waits; True as soon as the client closes the connection, False if it is still there at the end."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within):
            while not (reader.at_eof() or reader.exception()):
                await asyncio.sleep(LOOK_EVERY)  # reading would swallow a next request
            return True
    return False


async def send(writer: asyncio.StreamWriter, response: Response, service: Service, *, keep_alive: bool) -> None:
    writer.write(response.head(keep_alive=keep_alive, server=service.server) + response.body)
    await writer.drain()


async def send_part(writer: asyncio.StreamWriter, response: Response, service: Service, *, count: int) -> None:
    """Promises the whole and breaks off after `count` bytes of the body; without a body, within the head."""
    head = response.head(keep_alive=False, server=service.server)
    if response.body:
        writer.write(head + response.body[: min(count, len(response.body) - 1)])
    else:
        writer.write(head[: len(head) // 2])
    await writer.drain()


def reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    writer.transport.abort()
