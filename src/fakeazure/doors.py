"""The fabric's doors: each answers for one service, and writes into the ledger what was asked and told."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from fakeazure import hostplugin, imds, wireserver
from fakeazure.events import Request, Told
from fakeazure.faults import Answer
from fakeazure.health import heard
from fakeazure.http import HttpRequest, Response
from fakeazure.serve import Outcome

if TYPE_CHECKING:
    from fakeazure.fabric import Fabric


class Door:
    name: str
    server: str

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.now = fabric.ledger.now

    def scripted(self, request: HttpRequest) -> tuple[Answer | None, bool]:
        return self.fabric.scripted(request)

    def note(self, request: HttpRequest, outcome: Outcome) -> None:
        self.fabric.ledger.add(request_event(self.name, request, outcome, now=self.now()))


class ImdsDoor(Door):
    name = "imds"
    server = imds.SERVER

    def answer(self, request: HttpRequest) -> Response:
        fabric = self.fabric
        return imds.answer(
            request,
            fabric.vm,
            fabric.metadata,
            medium=fabric.media,
            standing=fabric.standing,
            now=self.now(),
            directory=lambda: fabric.directory,
        )

    def note(self, request: HttpRequest, outcome: Outcome) -> None:
        name = "proxy-agent" if request.path == imds.PROXY_AGENT_RAN else self.name
        self.fabric.ledger.add(request_event(name, request, outcome, now=self.now()))


class WireserverDoor(Door):
    name = "wireserver"
    server = wireserver.SERVER

    def answer(self, request: HttpRequest) -> Response:
        return wireserver.answer(request, self.fabric.site())[0]

    def note(self, request: HttpRequest, outcome: Outcome) -> None:
        super().note(request, outcome)
        response, answer = outcome.response, outcome.answer
        if response is None or answer is None or not outcome.heard or not 200 <= response.status <= 299:
            return
        if health := heard(request):
            agent = request.headers.get("x-ms-guest-agent-name") or request.headers.get("user-agent", "")
            told = Told(
                t=self.now(),
                kind=health.kind,
                description=health.description,
                acknowledged=answer.acknowledged,
                agent=agent,
            )
            self.fabric.hear(told)


class HostPluginDoor(Door):
    name = "hostplugin"
    server = hostplugin.SERVER

    def answer(self, request: HttpRequest) -> Response:
        return hostplugin.answer(request, self.fabric.vm)


def request_event(service: str, request: HttpRequest, outcome: Outcome, *, now: float) -> Request:
    response, answer = outcome.response, outcome.answer
    silent = response is None or (answer is not None and answer.kind == "lost")
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
    )


def refusal(response: Response | None) -> str:
    """Why the platform itself says no."""
    if response is None or response.status < 400:
        return ""
    if response.body.startswith(b"<"):
        found = re.search(rb"<Message>(.*?)</Message>", response.body, re.DOTALL)
        return found[1].decode() if found else ""
    problem = str(json.loads(response.body).get("error", ""))
    return problem.removeprefix("Bad request. ").removesuffix(". For more information refer to aka.ms/azureimds")
