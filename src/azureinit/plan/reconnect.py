"""A link that has moved to another network, and has no lease of it yet."""

from __future__ import annotations

from azureinit.backends.reconnect import reconnect
from azureinit.plan.actions import Caution, Declined, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.dhcp_client import DhcpClient
    from azureinit.plan.actions import Plan

NAME = "network after the move"


def plan_reconnect(dhcp: DhcpClient) -> Plan:
    way = reconnect(dhcp)
    if isinstance(way, Declined):
        return (Caution(name=NAME, why=f"{dhcp.link} has no new lease, and cannot be configured again: {way.why}"),)
    why = "no answer from the platform since the link moved"
    return (Step(name=NAME, why=why, did=f"{way.backend} configures {dhcp.link} again", ways=(way,)),)
