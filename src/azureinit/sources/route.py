"""The way to the platform: waited for, not asked for again and again."""

from __future__ import annotations

from azureinit.errors import AzureInitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from azureinit.config.model import Config
    from azureinit.machine import Machine

USUAL = "168.63.129.16"  # where the wireserver is, but for fabrics whose DHCP server says otherwise
TABLE = "/proc/net/route"
UP = 0x1
LOOK_ANYWAY = 5.0  # seconds; an announcement can get lost


def is_to_be_found(machine: Machine, config: Config) -> bool:
    """Whether this machine's DHCP server has the last word on where the wireserver is."""
    given = config.wireserver
    return given.discovery == "dhcp" and host_of(given.health_endpoint) == USUAL and not machine.rooted


def wait_for_route(machine: Machine, host: str, *, until: float, late: Callable[[], bool] | None = None) -> bool:
    """True once there is one, or nobody can tell: then the first request will.

    `late` is asked whenever nothing was heard for a while: whether the wait is over all the same.
    """
    address = parse_address(host)
    if address is None or address >> 24 == 127:
        return True
    try:
        if _leads(machine, address):
            return True
        from azureinit.machine.watch import RouteWatch

        with RouteWatch() as watch:  # looked again after that: nothing is announced to who was not listening
            while not _leads(machine, address):
                left = until - machine.clock.monotonic()
                if left <= 0:
                    return False
                heard = machine.clock.wait(watch.wait, min(left, LOOK_ANYWAY))
                if late is not None and not heard and late():
                    return False
    except AzureInitError:
        pass
    return True


def _leads(machine: Machine, address: int) -> bool:
    table = machine.read(TABLE, limit=1 << 22)
    return table is None or leads(table.decode("ascii", "replace"), address)


def leads(table: str, address: int) -> bool:
    """Whether the kernel's table has a way to that address: through a gateway, or to a network that it is in.

    The network in which machines give themselves addresses, IMDS's too, is everywhere and leads nowhere.
    """
    nowhere = (0, _turned(0xFFFF0000)) if address >> 16 == 169 << 8 | 254 else (0,)
    return any(gateway or mask not in nowhere for gateway, mask in _ways(table, address))


def is_told_of(table: str, address: int) -> bool:
    """Whether there is a route to that address alone, which somebody must have been told."""
    return any(mask == 0xFFFFFFFF for _gateway, mask in _ways(table, address))


def _ways(table: str, address: int) -> Iterator[tuple[int, int]]:
    """Gateway and mask of every route that has the address in it."""
    for line in table.split("\n")[1:]:
        fields = line.split()
        if len(fields) < 8:
            continue
        try:
            destination, gateway, flags, mask = (int(fields[at], 16) for at in (1, 2, 3, 7))
        except ValueError:
            continue
        # Numbers stand there as the machine holds them, addresses as the network does.
        if flags & UP and (_turned(address) & mask) == destination:
            yield gateway, mask


def _turned(address: int) -> int:
    from sys import byteorder

    return int.from_bytes(address.to_bytes(4, "big"), byteorder)


def host_of(url: str) -> str:
    return url.partition("://")[2].partition("/")[0].partition(":")[0]


def parse_address(text: str) -> int | None:
    parts = text.split(".")
    if len(parts) != 4 or not all(part.isdigit() and part.isascii() and len(part) <= 3 for part in parts):
        return None
    numbers = [int(part) for part in parts]
    return int.from_bytes(bytes(numbers), "big") if max(numbers) < 256 else None
