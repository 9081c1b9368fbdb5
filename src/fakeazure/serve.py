"""The platform's doors: HTTP/1.1 from one thread, answering as the script says; on loopback unless told where."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from fakeazure.faults import OFF_SCRIPT_STATUS, Answer, Pace
from fakeazure.http import HEAD_LIMIT, BadRequest, HttpRequest, Response, json_response, read_request

GARBAGE = b"\x00\xff{ this was never JSON \xfe"
HTML = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body><h1>Sign in to continue</h1></body></html>"
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
LOOPBACK = ("127.0.0.1", 0)  # any free port
QUEUE = 4096  # connections that wait to be taken: thousands of machines may start at once


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
    """A service for one machine: what it would answer, what the script wants, and what it makes of it all."""

    server: str

    @property
    def pace(self) -> Pace: ...
    def now(self) -> float: ...
    def scripted(self, request: HttpRequest) -> tuple[Answer | None, bool]: ...
    def slow(self, request: HttpRequest) -> bool: ...  # takes long enough that others would wait
    def answer(self, request: HttpRequest) -> Response: ...
    def note(self, request: HttpRequest, outcome: Outcome) -> None: ...


# Who sees to a request from this address, and the request as that one knows it; None: nobody, not even to say so.
Reception = Callable[[str, HttpRequest], tuple[Service, HttpRequest] | None]


class Line(asyncio.StreamReader):
    """A connection as we read it, that also tells when the other side has gone."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=HEAD_LIMIT, loop=loop)
        self.left = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.left.set()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self.left.set()


class CannotListen(OSError):
    """A door that does not open: the text says why, and what to do."""

    def __init__(self, at: tuple[str, int], cause: OSError) -> None:
        host, port = at
        reasons = {
            errno.EADDRINUSE: f"another program listens at {host}:{port}: end it, or choose another port",
            errno.EADDRNOTAVAIL: f"{host} is no address of this computer: choose one that is, or give it this one "
            f"(ip address add {host}/32 dev lo)",
            errno.EACCES: f"port {port} is for root alone: become root, or choose a port from 1024 on",
        }
        super().__init__(reasons.get(cause.errno or 0, f"cannot listen at {host}:{port}: {cause.strerror or cause}"))


class Doors:
    """Listens at as many addresses as are wanted. A closed door keeps its port, and refuses connections."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._sockets: list[tuple[socket.socket, Reception]] = []
        self._closed: list[socket.socket] = []
        self._talks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="fakeazure", daemon=True)

    def open(self, reception: Reception, *, closed: bool = False, at: tuple[str, int] = LOOPBACK) -> str:
        listener = socket.socket()
        if at[1]:  # a port somebody chose, who may come back to it before the last connections are forgotten
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(at)
            if not closed:
                listener.listen(QUEUE)
        except OSError as error:
            listener.close()
            raise CannotListen(at, error) from None
        listener.setblocking(False)
        if closed:
            self._closed.append(listener)
        else:
            self._sockets.append((listener, reception))
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
            await self._loop.create_server(self._talker(reception), sock=listener, backlog=QUEUE)
            for listener, reception in self._sockets
        ]
        await self._stopping.wait()
        for server in servers:
            server.close()
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)
        await asyncio.sleep(0)  # lets the closed connections go
        await self._loop.shutdown_default_executor()

    def _talker(self, reception: Reception) -> Callable[[], asyncio.StreamReaderProtocol]:
        def begin() -> asyncio.StreamReaderProtocol:
            line = Line(self._loop)

            def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                task = self._loop.create_task(converse(reception, line, writer))
                self._talks.add(task)
                task.add_done_callback(self._talks.discard)

            return asyncio.StreamReaderProtocol(line, talk, loop=self._loop)

        return begin


async def converse(reception: Reception, line: Line, writer: asyncio.StreamWriter) -> None:
    """One connection, from its first request to its end."""
    try:
        while await exchange(reception, line, writer):
            pass
    except (ConnectionError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.close()


async def exchange(reception: Reception, line: Line, writer: asyncio.StreamWriter) -> bool:
    """One request and its answer; False when the connection is to end."""
    address = str(writer.get_extra_info("peername")[0])
    try:
        asked = await read_request(line, writer)
    except BadRequest as error:
        await refuse(reception, writer, address=address, why=str(error))
        return False
    if asked is None:
        return False
    if (admitted := reception(address, asked)) is None:
        reset(writer)
        return False
    service, request = admitted
    arrived = service.now()
    answer, scripted = service.scripted(request)
    if (pause := service.pace.pause(answer)) != 0:
        note = "the platform stopped first"
        try:
            if await client_leaves(line, within=pause):
                note = "the client left first"
                return False
            note = ""
        finally:
            if note:
                service.note(
                    request, Outcome(response=None, answer=answer, scripted=scripted, arrived=arrived, note=note)
                )
    response = await respond(service, request, answer)
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


async def refuse(reception: Reception, writer: asyncio.StreamWriter, *, address: str, why: str) -> None:
    """For what is not HTTP: whoever would be asked from there says no, and notes it."""
    refusal = json_response(400, {"error": f"Bad request. {why}"})
    if admitted := reception(address, HttpRequest(method="?", target="?")):
        service, broken = admitted
        service.note(broken, Outcome(response=refusal, arrived=service.now(), note=why))
        await send(writer, refusal, service, keep_alive=False)


async def respond(service: Service, request: HttpRequest, answer: Answer | None) -> Response | None:
    if answer is None:
        return json_response(OFF_SCRIPT_STATUS, {"error": "fakeazure: the scenario's script has no answer left"})
    if answer.kind in ("reset", "restart"):
        return None
    if answer.kind == "garbage":
        return Response(status=200, headers={"Content-Type": "application/json; charset=utf-8"}, body=GARBAGE)
    if answer.kind == "html":
        return Response(status=200, headers={"Content-Type": "text/html"}, body=HTML)
    if answer.kind == "status":
        return await scripted_status(service, request, answer)
    response = await own_answer(service, request)
    if answer.kind == "oversized":
        return replace(response, body=response.body.ljust(int(answer.amount)))
    return response


async def own_answer(service: Service, request: HttpRequest) -> Response:
    if service.slow(request):
        return await asyncio.to_thread(service.answer, request)
    return service.answer(request)


async def scripted_status(service: Service, request: HttpRequest, answer: Answer) -> Response:
    if answer.heard and answer.body is None:
        own = await own_answer(service, request)
        return replace(own, status=answer.status, headers={**own.headers, **answer.headers})
    if answer.body is None:
        response = json_response(answer.status, {"error": f"fakeazure: the scenario says {answer.text}"})
    else:
        kind = {"Content-Type": "application/json"}
        response = Response(status=answer.status, headers=kind, body=answer.body.encode())
    return replace(response, headers={**response.headers, **answer.headers})


async def client_leaves(line: Line, *, within: float | None) -> bool:
    """Waits; True as soon as the client closes the connection, False if it is still there at the end."""
    try:
        async with asyncio.timeout(within):
            return await line.left.wait()
    except TimeoutError:
        return False


async def send(writer: asyncio.StreamWriter, response: Response, service: Service, *, keep_alive: bool) -> None:
    whole = response.head(keep_alive=keep_alive, server=service.server) + response.body
    for part, takes in service.pace.parts(whole):
        if takes:
            await asyncio.sleep(takes)
        writer.write(part)
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
