"""WALinuxAgent beside us: it stays for extensions, finds its own marker, and neither provisions nor reports."""

from __future__ import annotations

from azureinit.plan.actions import MakeDir, Satisfied, Step, Way, Write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.gather import Waagent
    from azureinit.plan.actions import Plan

LIBRARY = "/var/lib/waagent"
MARKER = f"{LIBRARY}/provisioned"


def plan_waagent(*, vm_id: str | None, waagent: Waagent | None) -> Plan:
    """Written whether we succeed or fail: where we failed, its Ready would hide that."""
    if waagent is None or vm_id is None:
        return ()
    name = "waagent marker"
    if waagent.marker is not None and waagent.marker.strip().lower() in _spellings(vm_id):
        return (Satisfied(name=name, why="it knows that this machine is provisioned"),)
    actions = (MakeDir(path=LIBRARY, mode=0o700), Write(path=MARKER, data=f"{vm_id}\n".encode(), mode=0o600))
    return (
        Step(
            name=name, why="it is installed, and must not provision too", ways=(Way(backend="native", actions=actions),)
        ),
    )


def _spellings(vm_id: str) -> tuple[bytes, bytes]:
    """It takes the id as we know it, and as Gen1 firmware tells it: the first three groups byte-swapped."""
    raw = bytes.fromhex(vm_id.replace("-", ""))
    digits = (raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]).hex()
    return vm_id.encode(), "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])).encode()
