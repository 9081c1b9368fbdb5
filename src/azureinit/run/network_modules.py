"""The modules of the network stage, in the order in which they run."""

from __future__ import annotations

from azureinit.run.modules import ALWAYS, NETWORK, Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from azureinit.machine import Machine
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Plan


def _bootcmd_asked(request: Request) -> object:
    from azureinit.modules.bootcmd import asked

    return asked(request)


def _read_bootcmd(machine: Machine, _request: Request) -> object:
    from azureinit.facts.commands import read_commands

    return read_commands(machine)


def _plan_bootcmd(request: Request, facts: Any) -> Plan:
    from azureinit.modules.bootcmd import plan_bootcmd

    return plan_bootcmd(request, facts)


# In this order: seed_random, bootcmd (boothooks first), write_files, growpart, resizefs, disk_setup, mounts,
# set_hostname, update_hostname, manage_etc_hosts, ca_certs, rsyslog, users_groups, ssh, set_passwords.
MODULES: tuple[Module, ...] = (
    Module(
        name="bootcmd",
        stage=NETWORK,
        frequency=ALWAYS,
        asked=_bootcmd_asked,
        facts=_read_bootcmd,
        planner=_plan_bootcmd,
        apart=True,
    ),
)
