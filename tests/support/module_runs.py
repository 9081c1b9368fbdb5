"""One module of a cloud-config on its own: planned from a text, or carried out in a file tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from azureinit.config.model import Config
from azureinit.machine import Machine
from azureinit.modules.request import Request
from azureinit.run.enact import enact
from azureinit.run.modules import Module
from azureinit.sources.metadata import Metadata
from azureinit.telemetry.events import Events
from azureinit.userdata.document import read_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.plan.actions import Plan

VM_ID = "5c1f3c8c-6a2e-4d0a-9d5e-0a4b0c9d1e2f"


def request_of(text: str | bytes, **fields: Any) -> Request:
    """The request that customData makes. It must be free of errors; `#cloud-config` is added where it is missing."""
    data = text.encode() if isinstance(text, str) else text
    if not data.lstrip().startswith((b"#", b"MIME", b"Content-Type")):
        data = b"#cloud-config\n" + data
    document = read_document(data)
    assert not document.errors, document.errors
    values: dict[str, Any] = {
        "settings": Config(),
        "metadata": Metadata(username="ada", hostname="vm1"),
        "vm_id": VM_ID,
        "directory": f"/var/lib/azure-init/{VM_ID}.d",
        "rooted": True,
        **fields,
    }
    return Request(config=document.config, parts=document.scripts, **values)


def plan_module(module: Module, machine: Machine, request: Request) -> Plan:
    return module.planner(request, module.facts(machine, request)) if module.asked(request) else ()


def apply_module(module: Module, root: Path, text: str | bytes, **fields: Any) -> Plan:
    """Carry the module out in the tree; returns the plan that was carried out."""
    machine = Machine(root=str(root))
    plan = plan_module(module, machine, request_of(text, **fields))
    enact(machine, plan, events=Events(clock=machine.clock), deadline=machine.clock.monotonic() + 60)
    return plan
