"""The way to the platform: waited for, not asked for again and again. It counts only through a gateway."""

from __future__ import annotations

from azureinit.errors import AzureInitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

TABLE = "/proc/net/route"
UP = 0x1
LOOK_ANYWAY = 5.0  # seconds; an announcement can get lost


def wait_for_route(machine: Machine, host: str, *, until: float) -> bool:
    """True once there is one, or nobody can tell: then the first request will."""
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
                machine.clock.wait(watch.wait, min(left, LOOK_ANYWAY))
    except AzureInitError:
        pass
    return True


def _leads(machine: Machine, address: int) -> bool:
    table = machine.read(TABLE, limit=1 << 22)
    return table is None or leads(table.decode("ascii", "replace"), address)


def leads(table: str, address: int) -> bool:
    """Whether the kernel's table has a way through a gateway to that address."""
    for line in table.split("\n")[1:]:
        fields = line.split()
        if len(fields) < 8:
            continue
        try:
            destination, gateway, flags, mask = (int(fields[at], 16) for at in (1, 2, 3, 7))
        except ValueError:
            continue
        # Numbers stand there as the machine holds them, addresses as the network does.
        if flags & UP and gateway and (_turned(address) & mask) == destination:
            return True
    return False


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
