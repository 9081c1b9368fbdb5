"""Whether the network needs anything beyond DHCP: cheap questions first, since most machines have one NIC.

The functions of the rows in maintenance.py. run/network.py and what it needs are loaded only where there is work.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from azureinit.machine import Machine
    from azureinit.plan.actions import Plan
    from azureinit.run.maintenance import Situation

LINKS = "/sys/class/net"
RECORD = "network record"  # the same as in plan/network_record.py, which few boots load


def read_network(at: Situation) -> object:
    """Where one NIC has one address and no earlier run configured more: two questions to the file system.

    False: only root can tell.
    """
    if not _asks_more(at):
        left = at.instance is not None and at.machine.stat(at.instance.path("network")) is not None
        if not left and not _has_several_cards(at.machine):
            return None
    if not (at.machine.privileged or at.machine.rooted):
        return False
    from azureinit.run.network import read_asked

    return read_asked(at.machine, at.config, at.instance, at.network)


def _asks_more(at: Situation) -> bool:
    if at.network is None:
        return False
    from azureinit.sources.metadata import is_simple

    return not is_simple(at.network)


def _has_several_cards(machine: Machine) -> bool:
    if machine.rooted or len(machine.names(LINKS) or ()) < 3:  # lo and one card
        return False
    from azureinit.machine.links import has_several_cards

    return has_several_cards(machine)


def read_lone_nics(at: Situation) -> object:
    """One link to follow for each interface; nothing is loaded where none has the driver."""
    drivers = [at.machine.read_link(f"{LINKS}/{name}/device/driver") or "" for name in at.machine.names(LINKS) or ()]
    if not any(driver.endswith("/mana") for driver in drivers):
        return None
    from azureinit.facts import nics

    return nics.read_lone_nics(at.machine)


def plan_lone_nics(_at: Situation, found: Any) -> Plan:
    from azureinit.plan import lone_nic

    return lone_nic.plan_lone_nics(found)


def read_wrong_way(at: Situation) -> object:
    if at.network is None or not _asks_more(at):
        return None
    from azureinit.run import network

    return network.read_wrong_way(at.machine, at.config, at.instance, at.network)


def plan_later_network(_at: Situation, asked: Any) -> Plan:
    if asked is False:
        from azureinit.plan.actions import Unknown

        return (Unknown(name="network", why="the configuration of other programs cannot be read"),)
    from azureinit.plan.network import plan_network

    return plan_network(asked)
