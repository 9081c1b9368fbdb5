"""set_hostname and update_hostname: the name that customData gives the host wins over the platform's.

The name is kept in the VM's directory. The agent's own run reads it there and does not set the platform's name again;
update_hostname leaves a host alone whose name is another one by now: its administrator has changed it.
"""

from __future__ import annotations

from azureinit.errors import CustomDataFailed, InvalidHostname
from azureinit.modules.file_steps import flag, refuse, step, text, write_file
from azureinit.modules.steps import ON_TREE, named
from azureinit.plan.actions import Satisfied, SetHostname, Step
from azureinit.plan.hostname import plan_hostname
from azureinit.plan.names import check_hostname
from azureinit.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.distros import Distro
    from azureinit.facts.hostnames import HostNames
    from azureinit.facts.system_files import SystemFiles
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Item, Plan
    from azureinit.userdata.node import Node

SET, UPDATE = "set_hostname", "update_hostname"


class HostName(Record):
    short: str
    full: str
    chosen: str  # the one of the two that the host gets


def host_name(request: Request, distro: Distro) -> HostName:
    """From `fqdn` and `hostname`, then from the platform."""
    config, platform = request.config, request.metadata.hostname or ""
    given, full = text(config.get("hostname")), text(config.get("fqdn"))
    if full:
        short = given or full.partition(".")[0]
    else:
        full = given or platform
        short = full.partition(".")[0]
    prefer = flag(config.get("prefer_fqdn_over_hostname"), default=distro.prefer_fqdn)
    return HostName(short=short, full=full, chosen=full if prefer or not short else short)


def kept_name(request: Request) -> str:
    """The file with the name that customData gave the host."""
    return f"{request.directory}/hostname"


def _given(request: Request) -> Node:
    return request.config.get("fqdn") or request.config.get("hostname") or request.config


def plan_set_hostname(request: Request, facts: tuple[SystemFiles, HostNames]) -> Plan:
    node = _given(request)
    if flag(request.config.get("preserve_hostname")):
        return (Satisfied(name=named(SET, node), why="not set: preserve_hostname is true"),)
    return _plan(request, facts, SET, node)


def plan_update_hostname(request: Request, facts: tuple[SystemFiles, HostNames]) -> Plan:
    files, names = facts
    node = _given(request)
    if flag(request.config.get("preserve_hostname")):
        return (Satisfied(name=named(UPDATE, node), why="not set: preserve_hostname is true"),)
    kept = (files.files[kept_name(request)].data or b"").strip()
    now = (names.hostname_file or b"").strip()
    if not kept:
        return (Satisfied(name=named(UPDATE, node), why=f"left to {SET}"),)
    if now and now != kept:
        return (Satisfied(name=named(UPDATE, node), why="not set: it was changed since customData set it"),)
    return _plan(request, facts, UPDATE, node)


def _plan(request: Request, facts: tuple[SystemFiles, HostNames], module: str, node: Node) -> Plan:
    files, names = facts
    host, name = files.host, host_name(request, files.host.distro).chosen
    try:
        check_hostname(name)
    except InvalidHostname as error:
        return (refuse(named(module, node), str(error)),)
    why = "the platform's name no longer counts"
    title, data = named(module, node, "record"), f"{name}\n".encode()
    record = write_file(title, kept_name(request), data, files, why=why, mode=0o600, above=0o700)
    if names.hostname_file is None and not flag(request.config.get("create_hostname_file"), default=True):
        return (record, _plan_kernel(request, names, name, named(module, node)))
    plan = plan_hostname(hostname=name, host=host, names=names, config=request.settings)
    if request.config.get("manage_etc_hosts") is not None:  # its own module, or the user, cares for the file
        plan = tuple(item for item in plan if item.name != "hosts")
    return (record, *(_renamed(item, named(module, node, item.name)) for item in plan))


def _plan_kernel(request: Request, names: HostNames, name: str, title: str) -> Item:
    """Without /etc/hostname: the name lasts until the next boot."""
    if request.rooted:
        return Satisfied(name=title, why=f"create_hostname_file is false, and {ON_TREE}")
    if names.kernel == name:
        return Satisfied(name=title, why=f"is {name}")
    return step(title, f"{names.kernel} -> {name}, without /etc/hostname", SetHostname(name=name))


def _renamed(item: Item, name: str) -> Item:
    return replace(item, name=name, failure=CustomDataFailed) if isinstance(item, Step) else replace(item, name=name)
