"""A mana NIC whose MAC address no synthetic NIC has is no virtual function, and gets its address like any other NIC."""

from __future__ import annotations

from azureinit.backends.lone_nic import manage
from azureinit.plan.actions import Satisfied, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.nics import LoneNic
    from azureinit.plan.actions import Plan


def plan_lone_nics(nics: tuple[LoneNic, ...]) -> Plan:
    made: list[Step | Satisfied] = []
    for nic in nics:
        name = f"NIC {nic.link.name}"
        if nic.file:
            made.append(Satisfied(name=name, why="is managed in this boot"))
            continue
        why = f"is no virtual function: no synthetic NIC has its MAC address {nic.link.mac}"
        did = f"{nic.link.name} {why}: it is managed in this boot"
        made.append(Step(name=name, why=why, did=did, ways=(manage(nic),)))
    return tuple(made)
