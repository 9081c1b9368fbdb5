"""The rows of the modules for packages and their sources."""

from __future__ import annotations

from azureinit.run.modules import CONFIG, FINAL, INSTANCE, Module, keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from azureinit.machine import Machine
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Plan


def _read_apt(machine: Machine, request: Request) -> object:
    from azureinit.facts.apt import read_apt
    from azureinit.modules.apt import hosts_of, paths_of

    return read_apt(machine, paths=paths_of(request.config), hosts=hosts_of(request.config))


def _plan_apt(request: Request, facts: Any) -> Plan:
    from azureinit.modules.apt import plan_apt

    return plan_apt(request, facts)


def _read_yum_repos(machine: Machine, request: Request) -> object:
    from azureinit.facts.repo_files import read_repo_files
    from azureinit.modules.yum_repos import DIRECTORIES, paths_of

    return read_repo_files(machine, paths_of(request.config), directories=DIRECTORIES)


def _plan_yum_repos(request: Request, facts: Any) -> Plan:
    from azureinit.modules.yum_repos import plan_yum_repos

    return plan_yum_repos(request, facts)


def _read_zypper(machine: Machine, request: Request) -> object:
    from azureinit.facts.repo_files import read_repo_files
    from azureinit.modules.zypper import CONFIGURATION, DIRECTORIES, paths_of

    paths = paths_of(request.config)
    return read_repo_files(machine, paths, directories=DIRECTORIES, configuration=CONFIGURATION)


def _plan_zypper(request: Request, facts: Any) -> Plan:
    from azureinit.modules.zypper import plan_zypper

    return plan_zypper(request, facts)


def _read_packages(machine: Machine, request: Request) -> object:
    from azureinit.facts.packages import read_packages
    from azureinit.modules.packages import asked_of_rpm

    return read_packages(machine, asked_of_rpm(request.config))


def _plan_packages(request: Request, facts: Any) -> Plan:
    from azureinit.modules.packages import plan_packages

    return plan_packages(request, facts)


def _is_apt_asked(request: Request) -> object:
    from azureinit.modules.apt_older import asked_apt

    return asked_apt(request.config) is not None


APT = Module(
    name="apt_configure",
    stage=CONFIG,
    frequency=INSTANCE,
    asked=_is_apt_asked,
    facts=_read_apt,
    planner=_plan_apt,
    apart=True,
)
YUM_REPOS = Module(
    name="yum_add_repo",
    stage=CONFIG,
    frequency=INSTANCE,
    asked=keys("yum_repos"),
    facts=_read_yum_repos,
    planner=_plan_yum_repos,
    apart=True,
)
ZYPPER = Module(
    name="zypper_add_repo",
    stage=CONFIG,
    frequency=INSTANCE,
    asked=keys("zypper"),
    facts=_read_zypper,
    planner=_plan_zypper,
    apart=True,
)
PACKAGES = Module(
    name="packages",
    stage=FINAL,
    frequency=INSTANCE,
    asked=keys("packages", "package_update", "package_upgrade", "apt_update", "apt_upgrade"),
    facts=_read_packages,
    planner=_plan_packages,
    apart=True,
)
