"""Trees with a default route and DHCP clients, treated as the running system."""

from __future__ import annotations

import sys
from pathlib import Path

from azureinit.facts.dhcp_client import TOOLS
from azureinit.machine import Machine

HEADER = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"


def number(address: str) -> str:
    return f"{int.from_bytes(bytes(map(int, address.split('.'))), sys.byteorder):08X}"


def route(link: str, to: str = "0.0.0.0", mask: str = "0.0.0.0", *, metric: int = 0, flags: int = 3) -> str:
    return f"{link}\t{number(to)}\t{number('10.0.0.1')}\t{flags:04X}\t0\t0\t{metric}\t{number(mask)}\t0\t0\t0\n"


def machine_with(place: Path, files: dict[str, str], *, link: str = "eth0", index: int = 2) -> Machine:
    base = {"/proc/net/route": HEADER + route(link), f"/sys/class/net/{link}/ifindex": f"{index}\n"}
    tools = {f"/bin/{tool}": "#!/bin/sh\n" for tool in TOOLS}
    for name, text in {**base, **tools, **files}.items():
        path = place / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    return Running(str(place))


class Running(Machine):
    """A made-up tree that is treated as the running system."""

    def __init__(self, place: str) -> None:
        super().__init__(root=place, kernel=place, search=(f"{place}/bin",))

    @property
    def rooted(self) -> bool:
        return False
