"""The host's name reaches DNS with the lease: one that was taken under another name is asked for again."""

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
    """`renamed`: the kernel had another name until this run, and that is the one the lease was taken under."""
    if is_generic_hostname(hostname):
        return (Satisfied(name=NAME, why=f"{hostname or 'no name'} is every machine's name: DNS is not told"),)
    if not renamed:
        return (Satisfied(name=NAME, why=f"{dhcp.link} asked for its address as {hostname}"),)
    if not dhcp.client:
        why = f"no DHCP client is known to hold the lease of {dhcp.link}: DNS has its name after the next boot"
        return (Caution(name=NAME, why=why),)
    return (
        Step(
            name=NAME,
            why=f"{dhcp.client} asked for the address of {dhcp.link} under another name",
            did=f"asked for the address of {dhcp.link} again as {hostname}, so that DNS learns the name",
            ways=tuple(way(hostname, dhcp) for way in PUBLISH[dhcp.client]),
        ),
    )
