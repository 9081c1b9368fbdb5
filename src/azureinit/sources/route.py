"""The route to the platform: waiting for it with kernel notifications, without polling."""

from __future__ import annotations

from azureinit.addresses import (
    MOST_TABLE_BYTES,
    ROUTE_TABLE,
    WIRESERVER,
    has_host_route,
    has_route_to,
    host_of,
    is_loopback,
    parse_ipv4,
)
from azureinit.errors import AzureInitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.config.model import Config
    from azureinit.machine import Machine

LINKS = "/sys/class/net"
PRIMARY_SECS = 5.0  # with several cards: how long a default route waits for the primary card's route
LOOK_ANYWAY = 5.0  # seconds after which the table is read without a notification, which may be lost


def is_to_be_found(machine: Machine, config: Config) -> bool:
    """Whether to look for the wireserver's address in DHCP leases and offers."""
    given = config.wireserver
    return given.discovery == "dhcp" and host_of(given.health_endpoint) == WIRESERVER and not machine.rooted


def wait_for_route(machine: Machine, host: str, *, until: float, late: Callable[[], bool] | None = None) -> bool:
    """True once there is a route, or if that cannot be determined.

    With several cards, the lease of a secondary one may come first, and the platform accepts nothing by its default
    route. Only the lease of the primary card has a route to exactly this host. A machine whose DHCP client does not set
    that route waits for PRIMARY_SECS after its first default route, once in a run.

    `late` is called after every quiet period without any route; True ends the wait.
    """
    address = parse_ipv4(host)
    if address is None or is_loopback(address):
        return True
    try:
        if _leads_by_primary(machine, address):
            return True
        with machine.watch_routes() as watch:  # read the table again after subscribing, so that no change is missed
            while not _leads_by_primary(machine, address):
                now, since = machine.clock.monotonic(), machine.default_route_since
                if now >= until:
                    return since is not None
                pause = LOOK_ANYWAY if since is None else since + PRIMARY_SECS - now
                changed = machine.clock.wait(watch.wait, min(until - now, pause))
                if late is not None and since is None and not changed and late():
                    return False
    except AzureInitError:
        pass
    return True


def has_route(machine: Machine, host: str) -> bool:
    """True also if it cannot be determined."""
    address = parse_ipv4(host)
    try:
        return address is None or is_loopback(address) or _leads(machine, address)
    except AzureInitError:
        return True


def _leads(machine: Machine, address: int) -> bool:
    table = read_table(machine)
    return table is None or has_route_to(table, address)


def _leads_by_primary(machine: Machine, address: int) -> bool:
    """False for PRIMARY_SECS where several cards have nothing but default routes."""
    table = read_table(machine)
    if table is None or not has_route_to(table, address):
        machine.default_route_since = None
        return table is None
    if has_host_route(table, address) or not _has_several_cards(machine):
        return True
    now = machine.clock.monotonic()
    if machine.default_route_since is None:
        machine.default_route_since = now
    return now >= machine.default_route_since + PRIMARY_SECS


def _has_several_cards(machine: Machine) -> bool:
    if len(machine.names(LINKS) or ()) < 3:  # the loopback link and one card
        return False
    from azureinit.machine.links import has_several_cards

    return has_several_cards(machine)


def read_table(machine: Machine) -> bytes | None:
    """The kernel's route table without virtual functions' routes. A machine with one card has no virtual function."""
    table = machine.read(ROUTE_TABLE, limit=MOST_TABLE_BYTES)
    if table is None or len(machine.names(LINKS) or ()) < 3:
        return table
    from azureinit.machine.links import without_vfs

    return without_vfs(machine, table)
