"""Accelerated networking: one card shows as two links, Hyper-V's synthetic one and a virtual function with its MAC.

Configuration of the virtual function (VF) is ignored: it comes and goes with the host's hardware.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

LINKS = "/sys/class/net"
SYNTHETIC = "hv_netvsc"


def without_vfs(machine: Machine, table: bytes) -> bytes:
    """The kernel's route table without the routes of virtual functions."""
    head, *lines = table.split(b"\n")
    vfs = [name for name in {_link(line) for line in lines} if name and is_vf(machine, name)]
    return b"\n".join((head, *(line for line in lines if _link(line) not in vfs)))


def is_vf(machine: Machine, link: str) -> bool:
    """Whether the link shares its MAC with Hyper-V's synthetic card, or with its master."""
    if _driver(machine, link) in ("", SYNTHETIC):
        return False  # not a hardware link, or the synthetic one itself
    mac, master = _mac(machine, link), _name(machine.read_link(f"{LINKS}/{link}/master"))
    for other in machine.names(LINKS) or ():
        if other != link and mac and _mac(machine, other) == mac:
            driver = _driver(machine, other)
            if driver == SYNTHETIC or (driver and other == master):
                return True
    return False


def has_several_cards(machine: Machine) -> bool:
    """By MAC address: a virtual function is none of its own. Where no link has a driver (a container) any counts."""
    names = [name for name in machine.names(LINKS) or () if name != "lo"]
    cards = {_mac(machine, name) for name in names if _driver(machine, name)}
    return len(cards) > 1 or (not cards and len(names) > 1)


def _link(line: bytes) -> str:
    return line.partition(b"\t")[0].strip().decode("utf-8", "replace")


def _driver(machine: Machine, link: str) -> str:
    """Empty for links without hardware: bridges, bonds and VLANs share MACs, too."""
    return _name(machine.read_link(f"{LINKS}/{link}/device/driver"))


def _mac(machine: Machine, link: str) -> bytes:
    return (machine.read(f"{LINKS}/{link}/address", limit=64) or b"").strip()


def _name(target: str | None) -> str:
    return (target or "").rpartition("/")[2]
