"""The three HTTP services of one machine. Each records its requests, and the reported verdicts, in the ledger."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from fakeazure.platform import host_plugin, imds, media, wireserver
from fakeazure.platform.events import Request, Told
from fakeazure.platform.faults import Answer, Pace
from fakeazure.platform.health import accepted_health
from fakeazure.platform.http import HttpRequest, Response
from fakeazure.platform.http_server import Outcome
from fakeazure.platform.vm import Vm

if TYPE_CHECKING:
    from fakeazure.platform.machine import Machine


class MachineService(ABC):
    name: str
    server: str

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.now = machine.ledger.now

    def route(self, _address: str, request: HttpRequest) -> tuple[Self, HttpRequest]:
        """The router of a platform with one machine: every request is this machine's."""
        return self, request

    def scripted(self, request: HttpRequest) -> tuple[Answer | None, bool]:
        return self.machine.scripted(request, service=self.name)

    def slow(self, request: HttpRequest) -> bool:
        return False

    @property
    def enabled(self) -> bool:
        return self.machine.wire.enable

    @property
    def pace(self) -> Pace:
        return Pace(self.machine.wire.latency_secs, self.machine.wire.bytes_per_sec)

    @abstractmethod
    def answer(self, request: HttpRequest) -> Response: ...

    def note(self, request: HttpRequest, outcome: Outcome) -> None:
        event = request_event(self.name, request, outcome, now=self.now())
        self.machine.ledger.add(with_sender(event, self.machine.described))


class ImdsService(MachineService):
    name = "imds"
    server = imds.SERVER

    @property
    def enabled(self) -> bool:
        return self.machine.metadata.enable

    @property
    def pace(self) -> Pace:
        return Pace(self.machine.metadata.latency_secs, self.machine.metadata.bytes_per_sec)

    def slow(self, request: HttpRequest) -> bool:
        return request.path == imds.ATTESTED

    def answer(self, request: HttpRequest) -> Response:
        machine = self.machine
        if request.path == imds.REUSE:
            return imds.reuse(request, machine.take)
        return imds.answer(
            request,
            machine.described,
            machine.metadata,
            reprovision=lambda: reprovision_data(machine),
            standing=machine.standing,
            now=self.now(),
            keys=machine.keys,
        )

    def note(self, request: HttpRequest, outcome: Outcome) -> None:
        name = imds.NOT_AZURES.get(request.path, self.name)
        event = request_event(name, request, outcome, now=self.now())
        self.machine.ledger.add(with_sender(event, self.machine.described))
        if request.path.startswith(imds.INSTANCE) and outcome.processed:
            self.machine.changes.count_request()


class WireserverService(MachineService):
    name = "wireserver"
    server = wireserver.SERVER

    def slow(self, request: HttpRequest) -> bool:
        return request.query.get("comp", "").lower() == "certificates"

    def answer(self, request: HttpRequest) -> Response:
        return wireserver.answer(request, self.machine.wireserver_state())[0]

    def note(self, request: HttpRequest, outcome: Outcome) -> None:
        super().note(request, outcome)
        response, answer = outcome.response, outcome.answer
        if response is None or answer is None or not outcome.processed or not 200 <= response.status <= 299:
            return
        if health := accepted_health(request):
            agent = request.headers.get("x-ms-guest-agent-name") or request.headers.get("user-agent", "")
            told = Told(
                t=self.now(),
                kind=health.kind,
                description=health.description,
                acknowledged=answer.acknowledged,
                agent=agent,
            )
            self.machine.receive(told)


class HostPluginService(MachineService):
    name = "hostplugin"
    server = host_plugin.SERVER

    def answer(self, request: HttpRequest) -> Response:
        return host_plugin.answer(request, self.machine.described)


def reprovision_data(machine: Machine) -> bytes | None:
    """The customer's ovf-env.xml; None: no customer has taken the VM."""
    pool = machine.pool
    return media.reprovisioned(pool.customers_vm, machine.media) if pool and pool.has_data() else None


def request_event(service: str, request: HttpRequest, outcome: Outcome, *, now: float) -> Request:
    response, answer = outcome.response, outcome.answer
    silent = response is None or (answer is not None and answer.kind in ("lost", "silent"))
    return Request(
        t=outcome.arrived,
        service=service,
        method=request.method,
        target=request.target,
        path=request.path,
        headers=request.headers,
        body=request.body.decode("utf-8", "replace"),
        status=None if silent or response is None else response.status,
        size=0 if response is None else len(response.body),
        fault=answer.text if answer and outcome.scripted else None,
        off_script=outcome.scripted and answer is None,
        took=round(now - outcome.arrived, 6),
        note=outcome.note or ("" if outcome.scripted else refusal(response)),
        address=request.client,
    )


def with_sender(event: Request, vm: Vm) -> Request:
    """Which interface sent it. On loopback the client's address is none of the machine's, and says nothing."""
    nic = next((nic for nic in vm.interfaces if event.address in nic.addresses), None)
    if nic is None:
        return event
    return replace(event, nic=nic.mac, secondary=event.address != vm.primary.address)


def refusal(response: Response | None) -> str:
    """The platform's own error message, if it refused the request."""
    if response is None or response.status < 400:
        return ""
    if response.body.startswith(b"<"):
        found = re.search(rb"<Message>(.*?)</Message>", response.body, re.DOTALL)
        return found[1].decode() if found else ""
    problem = str(json.loads(response.body).get("error", ""))
    return problem.removeprefix("Bad request. ").removesuffix(". For more information refer to aka.ms/azureimds")
