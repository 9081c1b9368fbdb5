"""The rows of the modules that run commands and scripts, and of those that end the last stage."""

from __future__ import annotations

from azureinit.run.modules import ALWAYS, FINAL, INSTANCE, NETWORK, ONCE, Module, keys

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


def _in_directories(name: str, frequency: str, kind: str) -> Module:
    """Asked for in any case: the directories may hold scripts without any customData."""

    def read(machine: Machine, request: Request) -> object:
        from azureinit.facts.scripts import read_scripts
        from azureinit.modules.scripts import script_directories

        return read_scripts(machine, script_directories(request, kind))

    def plan(request: Request, facts: Any) -> Plan:
        from azureinit.modules.scripts import plan_scripts

        return plan_scripts(request, facts, kind=kind)

    return Module(
        name=name, stage=FINAL, frequency=frequency, asked=lambda _request: True, facts=read, planner=plan, apart=True
    )


def _scripts_asked(request: Request) -> object:
    from azureinit.modules.scripts import asked_user

    return asked_user(request)


def _read_scripts_user(machine: Machine, request: Request) -> object:
    from azureinit.facts.commands import read_commands
    from azureinit.modules.commands import progress_path
    from azureinit.modules.scripts import RUNCMD

    return read_commands(machine, progress_path(request, RUNCMD))


def _plan_scripts_user(request: Request, facts: Any) -> Plan:
    from azureinit.modules.scripts import plan_scripts_user

    return plan_scripts_user(request, facts)


def _read_identity(machine: Machine, _request: Request) -> object:
    from azureinit.facts.final import read_identity

    return read_identity(machine)


def _plan_phone_home(request: Request, identity: Any) -> Plan:
    from azureinit.modules.phone_home import plan_phone_home

    return plan_phone_home(request, identity)


def _read_moment(machine: Machine, _request: Request) -> object:
    from azureinit.facts.final import read_moment

    return read_moment(machine)


def _plan_final_message(request: Request, moment: Any) -> Plan:
    from azureinit.modules.final_message import plan_final_message

    return plan_final_message(request, moment)


def _read_power(machine: Machine, _request: Request) -> object:
    from azureinit.backends.shell import SHUTDOWN_TOOLS
    from azureinit.facts.commands import read_commands
    from azureinit.facts.final import read_shutdown_tools
    from azureinit.facts.packages import read_reboot_marker
    from azureinit.modules.power_state import PowerFacts

    tools = read_shutdown_tools(machine, SHUTDOWN_TOOLS)
    return PowerFacts(commands=read_commands(machine), tools=tools), read_reboot_marker(machine)


def _plan_power_state(request: Request, facts: Any) -> Plan:
    """What `power_state` asks for wins over a reboot that packages need."""
    from azureinit.modules.packages import plan_package_reboot
    from azureinit.modules.power_state import plan_power_state, reboot_ways

    power, marker = facts
    return plan_power_state(request, power) or plan_package_reboot(request, marker, reboot_ways(request, power))


BOOTCMD = Module(
    name="bootcmd",
    stage=NETWORK,
    frequency=ALWAYS,
    asked=_bootcmd_asked,
    facts=_read_bootcmd,
    planner=_plan_bootcmd,
    apart=True,
)
SCRIPT_MODULES = (
    _in_directories("scripts_per_once", ONCE, "script-per-once"),
    _in_directories("scripts_per_boot", ALWAYS, "script-per-boot"),
    _in_directories("scripts_per_instance", INSTANCE, "script-per-instance"),
    Module(
        name="scripts_user",
        stage=FINAL,
        frequency=INSTANCE,
        asked=_scripts_asked,
        facts=_read_scripts_user,
        planner=_plan_scripts_user,
        apart=True,
    ),
)
PHONE_HOME = Module(
    name="phone_home",
    stage=FINAL,
    frequency=INSTANCE,
    asked=keys("phone_home"),
    facts=_read_identity,
    planner=_plan_phone_home,
)
FINAL_MESSAGE = Module(
    name="final_message",
    stage=FINAL,
    frequency=ALWAYS,
    asked=keys("final_message"),
    facts=_read_moment,
    planner=_plan_final_message,
)
POWER_STATE = Module(
    name="power_state",
    stage=FINAL,
    frequency=INSTANCE,
    asked=keys("power_state", "package_reboot_if_required", "apt_reboot_if_required"),
    facts=_read_power,
    planner=_plan_power_state,
)
