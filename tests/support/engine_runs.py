"""What the tests of whole runs share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from azureinit.config.model import Config, Imds, Platform, ProvisioningMedia, Report, Run, Wireserver
from azureinit.machine import Machine
from azureinit.run import provision
from azureinit.run.state import Context
from azureinit.telemetry.events import Event, Events
from support.ssh_trees import ed25519
from support.trees import make_tree
from support.wire import Answer, Server, Ticking, answer

ID = "c0ffee00-1111-2222-3333-444444444444"
PROFILE = {"adminUsername": "ada", "computerName": "web-1", "disablePasswordAuthentication": "true"}
KEYS = [{"keyData": ed25519(), "path": "/home/ada/.ssh/authorized_keys"}]
ASKED = {"compute": {"vmId": ID, "osProfile": PROFILE, "publicKeys": KEYS}}
DEADLINE, RESERVE = 1200.0, 60.0


class World:
    """One machine and its platform; `told` is every health report as it came."""

    def __init__(self, directory: Path, imds: Server, health: Server) -> None:
        self.tree = make_tree(directory / "root")
        (directory / "kernel").mkdir()
        self.kernel = directory / "kernel"
        self.clock = Ticking()
        self.machine = Machine(root=str(self.tree), kernel=str(self.kernel), clock=self.clock, environ={})
        self.imds, self.health = imds, health
        self.config = Config(
            imds=Imds(endpoint=imds.url),
            wireserver=Wireserver(health_endpoint=f"{health.url}/provisioning/health"),
            provisioning_media=ProvisioningMedia(enable=False),
            platform=Platform(require_azure=False, vm_id=ID),
            report=Report(protocol="json"),
            run=Run(deadline_secs=DEADLINE, verdict_reserve_secs=RESERVE),
        )
        self.heard: list[Event] = []
        self.interruptions: list[Callable[[Event], None]] = []

    def on(self, kind: str, name: str, act: Callable[[], object], *, times: int = 1) -> None:
        left = [times]

        def interrupt(event: Event) -> None:
            if (event.kind, event.name) == (kind, name) and left[0]:
                left[0] -= 1
                act()

        self.interruptions.append(interrupt)

    def context(self) -> Context:
        def listen(event: Event) -> None:
            self.heard.append(event)
            for interrupt in self.interruptions:
                interrupt(event)

        events = Events(clock=self.clock, listeners=(listen,))
        return Context(machine=self.machine, config=self.config, events=events, started=self.clock.monotonic())

    def provision(self) -> int:
        return provision(self.context())

    @property
    def told(self) -> list[dict[str, Any]]:
        return [json.loads(request.partition(b"\r\n\r\n")[2]) for request in self.health.requests]

    @property
    def verdicts(self) -> list[str]:
        """Ready, or the failure's report."""
        told = [(body["state"], body.get("details", {})) for body in self.told]
        return [
            state if state == "Ready" else details["description"]
            for state, details in told
            if details.get("subStatus") != "Provisioning"
        ]

    @property
    def said(self) -> str:
        return "\n".join(f"{event.name}: {event.text}" for event in self.heard)

    def state(self, kind: str) -> Path:
        return self.tree / f"var/lib/azure-init/{ID}.{kind}"

    def read(self, name: str) -> str:
        return (self.tree / name).read_text()


Worlds = Callable[..., World]


def field(report: str, name: str) -> str:
    """Of a report without quoting."""
    return dict(part.strip('"').split("=", 1) for part in report.split("|"))[name]


def make_worlds(tmp_path: Path) -> Iterator[Worlds]:
    servers: list[Server] = []

    def make(*, imds: object = ASKED, health: tuple[Answer, ...] = (answer(200),)) -> World:
        servers.extend(
            (Server(answer(200, json.dumps(imds).encode())).__enter__(), Server(*health).__enter__()),
        )
        return World(tmp_path, *servers[-2:])

    yield make
    for server in servers:
        server.__exit__()
