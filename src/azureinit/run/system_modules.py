"""The rows of the modules that write files of the system."""

from __future__ import annotations

from azureinit.run.modules import ALWAYS, CONFIG, FINAL, INSTANCE, NETWORK, Module, keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from azureinit.machine import Machine
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Plan


def _read_seed(machine: Machine, request: Request) -> object:
    from azureinit.facts.system_files import read_system_files
    from azureinit.modules.seed_random import looked_at

    files, tools = looked_at(request)
    return read_system_files(machine, files=files, tools=tools)


def _plan_seed(request: Request, facts: Any) -> Plan:
    from azureinit.modules.seed_random import plan_seed_random

    return plan_seed_random(request, facts)


def _read_write_files(machine: Machine, request: Request) -> object:
    from azureinit.facts.system_files import read_system_files
    from azureinit.modules.write_files import looked_at

    files, users, groups = looked_at(request, deferred=False)
    return read_system_files(machine, files=files, users=users, groups=groups)


def _plan_write_files(request: Request, facts: Any) -> Plan:
    from azureinit.modules.write_files import plan_write_files

    return plan_write_files(request, facts)


def _read_hostname(machine: Machine, request: Request) -> object:
    from azureinit.facts.hostnames import read_host_names
    from azureinit.facts.system_files import read_system_files
    from azureinit.modules.hostname import kept_name

    return read_system_files(machine, files=(kept_name(request),)), read_host_names(machine)


def _plan_set_hostname(request: Request, facts: Any) -> Plan:
    from azureinit.modules.hostname import plan_set_hostname

    return plan_set_hostname(request, facts)


def _plan_update_hostname(request: Request, facts: Any) -> Plan:
    from azureinit.modules.hostname import plan_update_hostname

    return plan_update_hostname(request, facts)


def _read_hosts(machine: Machine, request: Request) -> object:  # noqa: ARG001
    from azureinit.facts.system_files import read_distro, read_system_files
    from azureinit.modules.etc_hosts import HOSTS, template_path

    return read_system_files(machine, files=(HOSTS, template_path(read_distro(machine))))


def _plan_hosts(request: Request, facts: Any) -> Plan:
    from azureinit.modules.etc_hosts import plan_etc_hosts

    return plan_etc_hosts(request, facts)


def _read_ca_certs(machine: Machine, request: Request) -> object:
    from azureinit.facts.system_files import read_distro, read_system_files
    from azureinit.modules.ca_certs import looked_at

    files, tools = looked_at(request, read_distro(machine).ca)
    return read_system_files(machine, files=files, tools=tools)


def _plan_ca_certs(request: Request, facts: Any) -> Plan:
    from azureinit.modules.ca_certs import plan_ca_certs

    return plan_ca_certs(request, facts)


def _read_rsyslog(machine: Machine, request: Request) -> object:
    from azureinit.facts.system_files import read_system_files
    from azureinit.modules.rsyslog import looked_at

    files, tools = looked_at(request)
    return read_system_files(machine, files=files, tools=tools)


def _plan_rsyslog(request: Request, facts: Any) -> Plan:
    from azureinit.modules.rsyslog import plan_rsyslog

    return plan_rsyslog(request, facts)


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


def _has_deferred_files(request: Request) -> object:
    files = request.config.get("write_files")
    if files is None or all(file.get("defer") is None for file in files.items()):
        return False
    from azureinit.modules.write_files import entries_of

    return entries_of(request, deferred=True)


def _read_deferred_files(machine: Machine, request: Request) -> object:
    from azureinit.facts.system_files import read_system_files
    from azureinit.modules.write_files import looked_at

    files, users, groups = looked_at(request, deferred=True)
    return read_system_files(machine, files=files, users=users, groups=groups)


def _plan_deferred_files(request: Request, facts: Any) -> Plan:
    from azureinit.modules.write_files import plan_write_files_deferred

    return plan_write_files_deferred(request, facts)


SEED_RANDOM = Module(
    name="seed_random",
    stage=NETWORK,
    frequency=INSTANCE,
    asked=keys("random_seed"),
    facts=_read_seed,
    planner=_plan_seed,
)
WRITE_FILES = Module(
    name="write_files",
    stage=NETWORK,
    frequency=INSTANCE,
    asked=keys("write_files"),
    facts=_read_write_files,
    planner=_plan_write_files,
    apart=True,
)
SET_HOSTNAME = Module(
    name="set_hostname",
    stage=NETWORK,
    frequency=INSTANCE,
    asked=keys("hostname", "fqdn"),
    facts=_read_hostname,
    planner=_plan_set_hostname,
)
UPDATE_HOSTNAME = Module(
    name="update_hostname",
    stage=NETWORK,
    frequency=ALWAYS,
    asked=keys("hostname", "fqdn"),
    facts=_read_hostname,
    planner=_plan_update_hostname,
)
UPDATE_ETC_HOSTS = Module(
    name="update_etc_hosts",
    stage=NETWORK,
    frequency=ALWAYS,
    asked=keys("manage_etc_hosts"),
    facts=_read_hosts,
    planner=_plan_hosts,
)
CA_CERTS = Module(
    name="ca_certs",
    stage=NETWORK,
    frequency=INSTANCE,
    asked=keys("ca_certs", "ca-certs"),
    facts=_read_ca_certs,
    planner=_plan_ca_certs,
)
RSYSLOG = Module(
    name="rsyslog",
    stage=NETWORK,
    frequency=INSTANCE,
    asked=keys("rsyslog"),
    facts=_read_rsyslog,
    planner=_plan_rsyslog,
)
KEYBOARD = Module(
    name="keyboard",
    stage=CONFIG,
    frequency=INSTANCE,
    asked=keys("keyboard"),
    facts=_read_keyboard,
    planner=_plan_keyboard,
)
LOCALE = Module(
    name="locale",
    stage=CONFIG,
    frequency=INSTANCE,
    asked=keys("locale"),
    facts=_read_locale,
    planner=_plan_locale,
)
NTP = Module(
    name="ntp",
    stage=CONFIG,
    frequency=INSTANCE,
    asked=keys("ntp"),
    facts=_read_ntp,
    planner=_plan_ntp,
)
TIMEZONE = Module(
    name="timezone",
    stage=CONFIG,
    frequency=INSTANCE,
    asked=keys("timezone"),
    facts=_read_timezone,
    planner=_plan_timezone,
)
WRITE_FILES_DEFERRED = Module(
    name="write_files_deferred",
    stage=FINAL,
    frequency=INSTANCE,
    asked=_has_deferred_files,
    facts=_read_deferred_files,
    planner=_plan_deferred_files,
    apart=True,
)
