"""DNS learns the host name with the DHCP lease: a lease taken under another name is renewed."""

from __future__ import annotations

from azureinit.backends.publish import PUBLISH
from azureinit.plan.actions import Caution, Satisfied, Step
from azureinit.plan.names import is_generic_hostname

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.dhcp_client import DhcpClient
    from azureinit.plan.actions import Plan

NAME = "publish hostname"


def plan_publish(*, hostname: str, dhcp: DhcpClient, renamed: bool) -> Plan:
    """`renamed`: the kernel had another name before this run, and the lease was taken under it."""
    if is_generic_hostname(hostname):
        return (Satisfied(name=NAME, why=f"{hostname or 'no name'} identifies no machine: not published"),)
    if not renamed:
        return (Satisfied(name=NAME, why=f"{dhcp.link} has its DHCP lease under the name {hostname}"),)
    if not dhcp.client:
        why = f"no DHCP client is known to hold the lease of {dhcp.link}: DNS learns the name at the next boot"
        return (Caution(name=NAME, why=why),)
    return (
        Step(
            name=NAME,
            why=f"{dhcp.client} took the lease of {dhcp.link} under another name",
            did=f"renewed the lease of {dhcp.link} as {hostname}, so that DNS learns the name",
            ways=tuple(way(hostname, dhcp) for way in PUBLISH[dhcp.client]),
        ),
    )
