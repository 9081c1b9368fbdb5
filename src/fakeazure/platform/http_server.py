"""The HTTP/1.1 server of the platform: one thread, any number of listening addresses, scripted answers."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from fakeazure.platform.addresses import ANY_PORT, Address
from fakeazure.platform.faults import OFF_SCRIPT_STATUS, Answer, Pace
from fakeazure.platform.http import HEAD_LIMIT, BadRequest, HttpRequest, Response, json_response, read_request

GARBAGE = b"\x00\xff{ this was never JSON \xfe"
HTML = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body><h1>Sign in to continue</h1></body></html>"
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
BACKLOG = 4096  # connections waiting to be accepted: thousands of machines may start at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one request was answered. `response` None: no response was sent."""

    response: Response | None
    answer: Answer | None = None  # None: the script has no answer left
    scripted: bool = False
    arrived: float
    note: str = ""

    @property
    def processed(self) -> bool:
        return self.response is not None and self.answer is not None and self.answer.processed


class Service(Protocol):
    """One service for one machine: its own answers, its scripted faults, and its records in the ledger."""

    server: str

    @property
    def pace(self) -> Pace: ...
    def now(self) -> float: ...
    def scripted(self, request: HttpRequest) -> tuple[Answer | None, bool]: ...
    def slow(self, request: HttpRequest) -> bool: ...  # True: answered in a thread, so that other requests go on
    def answer(self, request: HttpRequest) -> Response: ...
    def note(self, request: HttpRequest, outcome: Outcome) -> None: ...


# Client address and request -> the service that answers, and the request without routing prefix; None: reset the
# connection.
Router = Callable[[str, HttpRequest], tuple[Service, HttpRequest] | None]
ClosePort = Callable[[float], None]  # for so many seconds, connections to the service are refused


class ClientStream(asyncio.StreamReader):
    """The reading side of a connection; `closed` is set when the client closes it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=HEAD_LIMIT, loop=loop)
        self.closed = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.closed.set()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self.closed.set()


class CannotListen(OSError):
    """A listening socket cannot be opened; the text says why and what to do."""

    def __init__(self, at: Address, cause: OSError) -> None:
        host, port = at
        reasons = {
            errno.EADDRINUSE: f"another program listens at {host}:{port}: end it, or choose another port",
            errno.EADDRNOTAVAIL: f"{host} is not an address of this host: choose another, or add it "
            f"(ip address add {host}/32 dev lo)",
            errno.EACCES: f"port {port} needs root: run as root, or choose a port from 1024 on",
        }
        super().__init__(reasons.get(cause.errno or 0, f"cannot listen at {host}:{port}: {cause.strerror or cause}"))


class HttpServer:
    """Listens at any number of addresses. With `refuse`, the port is reserved and connections are refused."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._listening: list[tuple[socket.socket, Router]] = []
        self._refusing: list[socket.socket] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="fakeazure", daemon=True)

    def listen(self, router: Router, *, at: Address = ANY_PORT, refuse: bool = False) -> str:
        """The base URL."""
        listener = socket.socket()
        if at[1]:  # a chosen port may be reused while old connections are in TIME_WAIT
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(at)
            # Inherited by connections, beside which a closed port is reserved again.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if not refuse:
                listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            raise CannotListen(at, error) from None
        listener.setblocking(False)
        if refuse:
            self._refusing.append(listener)
        else:
            self._listening.append((listener, router))
        host, port = listener.getsockname()
        return f"http://{host}" if port == 80 else f"http://{host}:{port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
        for listener in (*self._refusing, *(listener for listener, _ in self._listening)):
            listener.close()
        if not self._loop.is_closed():
            self._loop.close()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        # asyncio would print the error of a client that disconnects during a write.
        self._loop.set_exception_handler(lambda *_: None)
        doors = [Door(listener, self._protocol_factory(router)) for listener, router in self._listening]
        for door in doors:
            await door.open()
        await self._stopping.wait()
        for door in doors:
            door.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await asyncio.sleep(0)  # the transports close
        await self._loop.shutdown_default_executor()

    def _protocol_factory(self, router: Router) -> Callable[[ClosePort], asyncio.StreamReaderProtocol]:
        def make(close_port: ClosePort) -> asyncio.StreamReaderProtocol:
            stream = ClientStream(self._loop)

            def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                task = self._loop.create_task(serve_connection(router, stream, writer, close_port))
                self._connections.add(task)
                task.add_done_callback(self._connections.discard)

            return asyncio.StreamReaderProtocol(stream, connected, loop=self._loop)

        return make


class Door:
    """One listening socket, which can be closed for a while."""

    def __init__(self, listener: socket.socket, protocol: Callable[[ClosePort], asyncio.StreamReaderProtocol]) -> None:
        self._listener, self._protocol = listener, protocol
        self._server: asyncio.Server | None = None
        self._reopening: asyncio.Task[None] | None = None

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: self._protocol(self.close_for), sock=self._listener, backlog=BACKLOG
        )

    def close_for(self, seconds: float) -> None:
        if self._server is None:
            return
        at = self._listener.getsockname()
        self.close()
        # Bound and not listening: connections are refused, and no other program gets the port.
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(at)
        self._listener.setblocking(False)
        self._reopening = asyncio.get_running_loop().create_task(self._reopen(seconds))

    async def _reopen(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.open()

    def close(self) -> None:
        if self._reopening and not self._reopening.done():
            self._reopening.cancel()
        if self._server:
            self._server.close()
            self._server = None
        self._listener.close()


async def serve_connection(
    router: Router, stream: ClientStream, writer: asyncio.StreamWriter, close_port: ClosePort
) -> None:
    try:
        while await serve_request(router, stream, writer, close_port):
            pass
    except (ConnectionError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.close()


async def serve_request(
    router: Router, stream: ClientStream, writer: asyncio.StreamWriter, close_port: ClosePort
) -> bool:
    """One request and its answer. False: close the connection."""
    address = str(writer.get_extra_info("peername")[0])
    try:
        asked = await read_request(stream, writer)
    except BadRequest as error:
        await refuse(router, writer, address=address, why=str(error))
        return False
    if asked is None:
        return False
    asked = replace(asked, client=address)
    if (routed := router(address, asked)) is None:
        reset(writer)
        return False
    service, request = routed
    arrived = service.now()
    answer, scripted = service.scripted(request)
    if (pause := service.pace.pause(answer)) != 0:
        note = "the platform stopped first"
        try:
            if await client_leaves(stream, within=pause):
                note = "the client left first"
                return False
            note = ""
        finally:
            if note:
                service.note(
                    request, Outcome(response=None, answer=answer, scripted=scripted, arrived=arrived, note=note)
                )
    response = await respond(service, request, answer)
    # Recorded before it is sent: a client that has the answer finds it in the ledger.
    service.note(request, Outcome(response=response, answer=answer, scripted=scripted, arrived=arrived))
    if answer is not None and answer.kind == "refuse":
        close_port(answer.amount)
    if answer is not None and answer.kind == "silent":
        await client_leaves(stream, within=None)
        return False
    if response is None or (answer is not None and answer.kind == "lost"):
        reset(writer)
        return False
    if answer is not None and answer.kind in ("truncate", "stall"):
        await send_part(writer, response, service, count=int(answer.amount))
        if answer.kind == "stall":
            await client_leaves(stream, within=None)
        return False
    pace = service.pace
    if answer is not None and answer.kind == "trickle":
        pace = replace(pace, bytes_per_sec=max(int(answer.amount), 1))
    await send(writer, response, service, keep_alive=request.keep_alive, pace=pace)
    return request.keep_alive


async def refuse(router: Router, writer: asyncio.StreamWriter, *, address: str, why: str) -> None:
    """400 for bytes that are not HTTP, recorded by the service that listens there."""
    refusal = json_response(400, {"error": f"Bad request. {why}"})
    if routed := router(address, HttpRequest(method="?", target="?")):
        service, broken = routed
        service.note(broken, Outcome(response=refusal, arrived=service.now(), note=why))
        await send(writer, refusal, service, keep_alive=False, pace=service.pace)


async def respond(service: Service, request: HttpRequest, answer: Answer | None) -> Response | None:
    if answer is None:
        return json_response(OFF_SCRIPT_STATUS, {"error": "fakeazure: the scenario's script has no answer left"})
    if answer.kind in ("reset", "restart", "refuse"):
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
    if answer.processed and answer.body is None:
        own = await own_answer(service, request)
        return replace(own, status=answer.status, headers={**own.headers, **answer.headers})
    if answer.body is None:
        response = json_response(answer.status, {"error": f"fakeazure: the scenario says {answer.text}"})
    else:
        kind = {"Content-Type": "application/json"}
        response = Response(status=answer.status, headers=kind, body=answer.body.encode())
    return replace(response, headers={**response.headers, **answer.headers})


async def client_leaves(stream: ClientStream, *, within: float | None) -> bool:
    """True as soon as the client closes the connection; False after `within` seconds."""
    try:
        async with asyncio.timeout(within):
            return await stream.closed.wait()
    except TimeoutError:
        return False


async def send(
    writer: asyncio.StreamWriter, response: Response, service: Service, *, keep_alive: bool, pace: Pace
) -> None:
    whole = response.head(keep_alive=keep_alive, server=service.server) + response.body
    for part, takes in pace.parts(whole):
        if takes:
            await asyncio.sleep(takes)
        writer.write(part)
        await writer.drain()


async def send_part(writer: asyncio.StreamWriter, response: Response, service: Service, *, count: int) -> None:
    """Announces the whole length and stops after `count` bytes of the body; without a body, within the head."""
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
