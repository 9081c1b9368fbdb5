"""A tree on which stages of customData run, boot after boot, and a platform that hears verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from azureinit.config.model import Config, Platform, ProvisioningMedia, Report, Userdata, Wireserver
from azureinit.machine import Machine
from azureinit.memory.instance import Instance
from azureinit.memory.modules import Marks, once_path, read_marks
from azureinit.memory.pending import Pending, read_pending, write_pending
from azureinit.memory.userdata import SavedUserdata, write_userdata
from azureinit.record import Secret, replace
from azureinit.run.carry import Carrier, Progress
from azureinit.run.dispatch import run_stage
from azureinit.run.modules import NETWORK, Module
from azureinit.run.state import Context
from azureinit.sources.metadata import Metadata
from azureinit.telemetry.events import ERROR, Event, Events
from support.module_runs import request_of
from support.trees import make_tree
from support.wire import Server

if TYPE_CHECKING:
    from azureinit.telemetry.events import Listener

ID = "c0ffee00-1111-2222-3333-444444444444"
VM = Instance(data_dir="/var/lib/azure-init", vm_id=ID)
ASKED = Metadata(username="ada", hostname="web-1")
MISTAKEN = b"#cloud-config\nruncmd:\n- fine\n- not: fine\n"


class Tree(Machine):
    """Every stage is a process of its own on a real machine, and its end releases the locks."""

    def hold(self, path: str, *, timeout: float, note: bytes = b"") -> bytes:
        return b""


class World:
    """A tree, several boots, and a platform that hears verdicts."""

    def __init__(self, directory: Path, health: Server) -> None:
        self.root, self.kernel, self.health = make_tree(directory / "root"), directory / "kernel", health
        self.number = 0
        self.config = Config(
            wireserver=Wireserver(health_endpoint=f"{health.url}/provisioning/health"),
            provisioning_media=ProvisioningMedia(enable=False),
            platform=Platform(require_azure=False, vm_id=ID),
            report=Report(protocol="json", host_key_fingerprint=False),
        )
        self.heard: list[Event] = []
        self.listeners: tuple[Listener, ...] = ()  # beside it
        self.boot()

    def boot(self) -> None:
        self.number += 1
        place = self.kernel / "proc/sys/kernel/random"
        place.mkdir(parents=True, exist_ok=True)
        (place / "boot_id").write_text(f"boot-{self.number}\n")
        self.machine: Machine = Tree(root=str(self.root), kernel=str(self.kernel), environ={})
        self.machine.make_dirs(VM.data_dir, mode=0o700)

    def settings(self, **values: Any) -> None:
        self.config = replace(self.config, userdata=Userdata(**values))

    def context(self) -> Context:
        events = Events(clock=self.machine.clock, listeners=(self.heard.append, *self.listeners))
        return Context(machine=self.machine, config=self.config, events=events, started=self.machine.clock.monotonic())

    def marks(self) -> Marks:
        return read_marks(self.machine, VM.path("modules"))

    def carry(self, *modules: Module) -> Carrier:
        context, marks = self.context(), self.marks()
        progress = Progress(self.machine, NETWORK)
        until = self.machine.clock.monotonic() + 60
        carrier = Carrier(context, NETWORK, marks, read_marks(self.machine, once_path(VM)), progress, until=until)
        carrier.carry(modules, request_of("{}", settings=self.config))
        return carrier

    def saves(self, data: bytes, pending: str = "") -> None:
        write_userdata(self.machine, VM, SavedUserdata(source="customData", data=Secret(data), metadata=ASKED))
        if pending:
            write_pending(self.machine, VM, Pending(verdict=pending))

    def stage(self, name: str) -> int:
        return run_stage(name, self.context())

    def told(self) -> list[dict[str, Any]]:
        return [json.loads(request.partition(b"\r\n\r\n")[2]) for request in self.health.requests]

    def pending(self) -> str:
        found = read_pending(self.machine, VM)
        return found.verdict if found is not None else ""

    def errors(self) -> list[str]:
        return [event.text for event in self.heard if event.level >= ERROR and event.kind == "event"]
