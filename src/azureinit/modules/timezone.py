"""timezone: the link /etc/localtime, and /etc/timezone where the distribution has it."""

from __future__ import annotations

from azureinit.modules.file_steps import refuse, step, text, write_file
from azureinit.modules.steps import named
from azureinit.plan.actions import Link, Satisfied
from azureinit.userdata.values import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.system_files import SystemFiles
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Item, Plan
    from azureinit.userdata.node import Node

MODULE = "timezone"
ZONES, LOCALTIME, NAME_FILE = "/usr/share/zoneinfo", "/etc/localtime", "/etc/timezone"


def zone_of(request: Request) -> str:
    """The path below /usr/share/zoneinfo; empty for a name that is none."""
    name = text(request.config.get(MODULE)).strip()
    wrong = not name.isprintable() or " " in name or any(part in ("", ".", "..") for part in name.split("/"))
    return "" if wrong else name


def looked_at(request: Request) -> tuple[str, ...]:
    zone = zone_of(request)
    return (*((f"{ZONES}/{zone}",) if zone else ()), LOCALTIME, NAME_FILE)


def plan_timezone(request: Request, facts: SystemFiles) -> Plan:
    node = request.config.get(MODULE)
    if node is None or not text(node):
        return ()
    zone = zone_of(request)
    file = facts.files.get(f"{ZONES}/{zone}")
    if not zone or file is None or file.data is None:
        why = f"there is no zone {shown(text(node))} in {ZONES}"
        return (refuse(named(MODULE, node), why),)
    items: list[Item] = [_plan_localtime(node, zone, file.data, facts)]
    if facts.host.distro.timezone_file or facts.files[NAME_FILE].exists:
        title = named(MODULE, node, NAME_FILE)
        items.append(write_file(title, NAME_FILE, f"{zone}\n".encode(), facts, why=f"the zone is {zone}"))
    return tuple(items)


def _plan_localtime(node: Node, zone: str, data: bytes, facts: SystemFiles) -> Item:
    name, target = named(MODULE, node, LOCALTIME), facts.files[LOCALTIME]
    if target.problem:
        return refuse(name, target.problem)
    wanted = f"{ZONES}/{zone}"
    if target.link in (wanted, f"..{wanted}"):
        return Satisfied(name=name, why=f"is {zone}")
    if target.exists and target.link is None and facts.host.distro.timezone_file:
        return write_file(name, LOCALTIME, data, facts, why=f"a copy of {wanted}")
    return step(name, f"the zone is {zone}", Link(path=LOCALTIME, target=wanted))
