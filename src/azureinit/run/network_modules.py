"""The modules of the network stage, in the order in which they run."""

from __future__ import annotations

from azureinit.run.modules import INSTANCE, NETWORK, Module, keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from azureinit.machine import Machine
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Plan


def _read_write_files(machine: Machine, request: Request) -> object:
    from azureinit.facts.system_files import read_system_files
    from azureinit.modules.write_files import looked_at

    files, users, groups = looked_at(request, deferred=False)
    return read_system_files(machine, files=files, users=users, groups=groups)


def _plan_write_files(request: Request, facts: Any) -> Plan:
    from azureinit.modules.write_files import plan_write_files

    return plan_write_files(request, facts)


# In this order: seed_random, bootcmd (boothooks first), write_files, growpart, resizefs, disk_setup, mounts,
# set_hostname, update_hostname, manage_etc_hosts, ca_certs, rsyslog, users_groups, ssh, set_passwords.
MODULES: tuple[Module, ...] = (
    Module(
        name="write_files",
        stage=NETWORK,
        frequency=INSTANCE,
        asked=keys("write_files"),
        facts=_read_write_files,
        planner=_plan_write_files,
        apart=True,
    ),
)
