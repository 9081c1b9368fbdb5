"""One card that shows as two links: Hyper-V's own, and a virtual function with its MAC that works underneath it.

What is configured on the function is nobody's: the card comes and goes with the host's hardware.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

LINKS = "/sys/class/net"
SYNTHETIC = "hv_netvsc"


def without_vfs(machine: Machine, table: bytes) -> bytes:
    """The kernel's table of routes, as if no virtual function were in it."""
    head, *lines = table.split(b"\n")
    vfs = [name for name in {_link(line) for line in lines} if name and is_vf(machine, name)]
    return b"\n".join((head, *(line for line in lines if _link(line) not in vfs)))


def is_vf(machine: Machine, link: str) -> bool:
    """It shares its MAC with Hyper-V's card, or with the card that it is a part of."""
    if _driver(machine, link) in ("", SYNTHETIC):
        return False  # no hardware at all; or the one that others work for
    mac, master = _mac(machine, link), _name(machine.read_link(f"{LINKS}/{link}/master"))
    for other in machine.names(LINKS) or ():
        if other != link and mac and _mac(machine, other) == mac:
            driver = _driver(machine, other)
            if driver == SYNTHETIC or (driver and other == master):
                return True
    return False


def _link(line: bytes) -> str:
    return line.partition(b"\t")[0].strip().decode("utf-8", "replace")


def _driver(machine: Machine, link: str) -> str:
    """Empty for what is no card: bridges, bonds, VLANs and the like share MACs, too."""
    return _name(machine.read_link(f"{LINKS}/{link}/device/driver"))


def _mac(machine: Machine, link: str) -> bytes:
    return (machine.read(f"{LINKS}/{link}/address", limit=64) or b"").strip()


def _name(target: str | None) -> str:
    return (target or "").rpartition("/")[2]
