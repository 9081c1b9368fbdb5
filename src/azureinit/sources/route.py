"""The way to the platform: waited for, not asked for again and again."""

from __future__ import annotations

from azureinit.errors import AzureInitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from azureinit.config.model import Config
    from azureinit.machine import Machine

USUAL = "168.63.129.16"  # where the wireserver is, but for fabrics whose DHCP server says otherwise
WIRESERVER = 168 << 24 | 63 << 16 | 129 << 8 | 16
SELF_GIVEN = 169 << 8 | 254  # where machines give themselves addresses, and where IMDS is
TABLE, LINKS = "/proc/net/route", "/sys/class/net"
UP, ALONE = 0x1, 0xFFFFFFFF
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


def has_route(machine: Machine, host: str) -> bool:
    """Also where it cannot be told."""
    address = parse_address(host)
    try:
        return address is None or address >> 24 == 127 or _leads(machine, address)
    except AzureInitError:
        return True


def _leads(machine: Machine, address: int) -> bool:
    table = read_table(machine)
    return table is None or leads(table.decode("ascii", "replace"), address)


def read_table(machine: Machine) -> bytes | None:
    """The kernel's routes, but for those of virtual functions. Beside one card and the loopback there is none."""
    table = machine.read(TABLE, limit=1 << 22)
    if table is None or len(machine.names(LINKS) or ()) < 3:
        return table
    from azureinit.machine.links import without_vfs

    return without_vfs(machine, table)


def leads(table: str, address: int) -> bool:
    """Whether the kernel's table has a way to that address: through a gateway, or to it alone.

    Azure's own addresses are in no machine's network, whatever a table says. A platform that is elsewhere may well be
    a neighbour.
    """
    neighbour = address != WIRESERVER and address >> 16 != SELF_GIVEN
    return any(gateway or mask == ALONE or (neighbour and mask) for gateway, mask in _ways(table, address))


def is_told_of(table: str, address: int) -> bool:
    """Whether there is a route to that address alone, which somebody must have been told."""
    return any(mask == ALONE for _gateway, mask in _ways(table, address))


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
