"""The modules of the config stage, in the order in which they run."""

from __future__ import annotations

from azureinit.run.modules import CONFIG, INSTANCE, Module, keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from azureinit.machine import Machine
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Plan


def _read_keyboard(machine: Machine, request: Request) -> object:  # noqa: ARG001
    from azureinit.facts.system_files import read_distro, read_system_files
    from azureinit.modules.keyboard import TOOLS, looked_at

    return read_system_files(machine, files=looked_at(read_distro(machine)), tools=TOOLS)


def _plan_keyboard(request: Request, facts: Any) -> Plan:
    from azureinit.modules.keyboard import plan_keyboard

    return plan_keyboard(request, facts)


def _read_locale(machine: Machine, request: Request) -> object:
    from azureinit.facts.system_files import read_distro, read_system_files
    from azureinit.modules.locale import looked_at

    files, tools = looked_at(request, read_distro(machine))
    return read_system_files(machine, files=files, tools=tools)


def _plan_locale(request: Request, facts: Any) -> Plan:
    from azureinit.modules.locale import plan_locale

    return plan_locale(request, facts)


def _read_ntp(machine: Machine, request: Request) -> object:
    from azureinit.facts.system_files import read_distro, read_system_files
    from azureinit.modules.ntp import looked_at

    files, tools = looked_at(request, read_distro(machine))
    return read_system_files(machine, files=files, tools=tools)


def _plan_ntp(request: Request, facts: Any) -> Plan:
    from azureinit.modules.ntp import plan_ntp

    return plan_ntp(request, facts)


def _read_timezone(machine: Machine, request: Request) -> object:
    from azureinit.facts.system_files import read_system_files
    from azureinit.modules.timezone import looked_at

    return read_system_files(machine, files=looked_at(request))


def _plan_timezone(request: Request, facts: Any) -> Plan:
    from azureinit.modules.timezone import plan_timezone

    return plan_timezone(request, facts)


# In this order: ssh_import_id, keyboard, locale, apt_configure, yum_add_repo, ntp, timezone.
MODULES: tuple[Module, ...] = (
    Module(
        name="keyboard",
        stage=CONFIG,
        frequency=INSTANCE,
        asked=keys("keyboard"),
        facts=_read_keyboard,
        planner=_plan_keyboard,
    ),
    Module(
        name="locale",
        stage=CONFIG,
        frequency=INSTANCE,
        asked=keys("locale"),
        facts=_read_locale,
        planner=_plan_locale,
    ),
    Module(
        name="ntp",
        stage=CONFIG,
        frequency=INSTANCE,
        asked=keys("ntp"),
        facts=_read_ntp,
        planner=_plan_ntp,
    ),
    Module(
        name="timezone",
        stage=CONFIG,
        frequency=INSTANCE,
        asked=keys("timezone"),
        facts=_read_timezone,
        planner=_plan_timezone,
    ),
)
