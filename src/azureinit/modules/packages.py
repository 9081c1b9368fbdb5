"""packages, package_update, package_upgrade, package_reboot_if_required."""

from __future__ import annotations

from azureinit.backends.packages import (
    MANAGERS,
    finish,
    install,
    install_rest,
    log_path,
    snap_install,
    update,
    upgrade,
)
from azureinit.errors import CustomDataFailed
from azureinit.facts.packages import APK, APT, BY_RPM, SNAP, TOOLS
from azureinit.modules.steps import ON_TREE, named, where
from azureinit.plan.actions import Caution, Declined, Satisfied, Step
from azureinit.record import Record
from azureinit.userdata.node import FLAG, LIST, MAPPING, NULL, TEXT
from azureinit.userdata.values import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.facts.packages import Packages
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Item, Plan, Way
    from azureinit.userdata.node import Node

MODULE = "packages"
UPDATE, UPGRADE = ("package_update", "apt_update"), ("package_upgrade", "apt_upgrade")
REBOOT = ("package_reboot_if_required", "apt_reboot_if_required")
YES = ("true", "yes", "on", "1")
MOST_SHOWN = 6


class Wanted(Record):
    """One package. `manager` is empty where any will do; `version` is empty where the newest will do."""

    name: str
    version: str
    manager: str
    node: Node

    @property
    def label(self) -> str:
        return f"{shown(self.name)} ({where(self.node)})"


def flag(config: Node, names: tuple[str, ...]) -> Node | None:
    """The key of these that is true, in either spelling."""
    for name in names:
        node = config.get(name)
        if node is not None and (node.value is True if node.kind == FLAG else node.text.strip().lower() in YES):
            return node
    return None


def wanted_packages(config: Node) -> tuple[Wanted, ...]:
    """Each once. What is empty is left out, as cloud-init does."""
    found: dict[tuple[str, str, str], Wanted] = {}
    listed = config.get("packages")
    for item in listed.items() if listed is not None else ():
        for manager, one in _by_manager(item):
            wanted = _package(one, manager)
            if wanted is not None:
                found.setdefault((wanted.name, wanted.version, manager), wanted)
    return tuple(found.values())


def _by_manager(item: Node) -> tuple[tuple[str, Node], ...]:
    if item.kind != MAPPING:
        return (("", item),)
    return tuple((str(key.value), one) for key, listed in item.pairs() for one in listed.items())


def _package(node: Node, manager: str) -> Wanted | None:
    words = [_text(one) for one in node.items()] if node.kind == LIST else [_text(node)]
    if not words or not words[0]:
        return None
    return Wanted(name=words[0], version=words[1] if len(words) > 1 else "", manager=manager, node=node)


def _text(node: Node) -> str:
    return "" if node.kind == NULL else str(node.value if node.kind == TEXT else node.text).strip()


def words_for(wanted: Wanted, manager: str) -> str:
    """What the package manager is given."""
    return f"{wanted.name}{MANAGERS[manager].version}{wanted.version}" if wanted.version else wanted.name


def asked_of_rpm(config: Node) -> tuple[str, ...]:
    return tuple(f"{one.name}-{one.version}" if one.version else one.name for one in wanted_packages(config))


def plan_packages(request: Request, facts: Packages) -> Plan:
    config, directory = request.config, request.directory
    wanted = wanted_packages(config)
    system = facts.managers[0] if facts.managers else ""
    plan: list[Item] = []
    updates, upgrades = flag(config, UPDATE), flag(config, UPGRADE)
    lists = updates or upgrades

    by_manager: dict[str, list[Wanted]] = {}
    for one in wanted:
        by_manager.setdefault(one.manager or system, []).append(one)
    missing: dict[str, list[Wanted]] = {}
    for manager, listed in by_manager.items():
        for one in listed:
            if is_installed(one, manager, facts):
                plan.append(Satisfied(name=named(MODULE, one.node, one.name), why="is installed"))
            else:
                missing.setdefault(manager, []).append(one)
    first = next((ones[0].node for manager, ones in missing.items() if _needs_lists(manager, facts)), None)
    if lists is None and first is None and not missing:
        return tuple(plan)
    if request.rooted:
        nodes = [node for node in (updates, upgrades) if node is not None]
        nodes += [one.node for ones in missing.values() for one in ones]
        return (*plan, *(Caution(name=named(MODULE, node), why=f"not done: {ON_TREE}") for node in nodes))

    if facts.unfinished and system == APT:
        begin = lists or first or wanted[0].node
        why = "dpkg was interrupted in the middle of its work"
        plan.append(_step("unfinished packages", begin, why, (finish(directory=directory),)))
    node = lists or first
    if node is not None:
        why = "the lists of packages may be out of date"
        plan.append(_step("lists", node, why, _ways(system, lambda name: update(name, directory=directory))))
    if upgrades is not None:
        ways = _ways(system, lambda name: upgrade(name, directory=directory))
        plan.append(_step("upgrade", upgrades, "all packages are to be upgraded", ways))
    for manager, listed in missing.items():
        plan += _snaps(listed, facts, directory) if manager == SNAP else _installs(manager, listed, facts, directory)
    return tuple(plan)


def _needs_lists(manager: str, facts: Packages) -> bool:
    return manager in MANAGERS and manager in facts.managers and MANAGERS[manager].update_first


def _installs(manager: str, listed: list[Wanted], facts: Packages, directory: str) -> Plan:
    names = ", ".join(one.name for one in listed)
    refused = [one for one in listed if not _is_name(one)]
    if refused:
        why = f"{', '.join(one.label for one in refused)}: not a package's name"
        declined = Declined(backend=manager or "azure-init", why=why)
        return (_step(names, listed[0].node, "asked for, and not installed", (declined,)),)
    if manager and manager not in facts.managers:
        ways: tuple[Way | Declined, ...] = (Declined(backend=manager, why=f"{TOOLS[manager]} is not installed"),)
    else:
        pairs = tuple((words_for(one, manager), one.label) for one in listed) if manager else ()
        ways = _ways(manager, lambda name: install(name, tuple(word for word, _ in pairs), directory=directory))
        rest = install_rest(manager, pairs, directory=directory) if manager else None
        ways = (*ways, *((rest,) if rest is not None else ()))
    why = "asked for, and not installed"
    did = f"installed {_some(listed)}; the output is in {log_path(directory)}"
    return (_step(names, listed[0].node, why, ways, did=did),)


def _snaps(listed: list[Wanted], facts: Packages, directory: str) -> Plan:
    """One at a time: the second word may be an option, such as --classic."""
    plan = []
    for one in listed:
        words = (one.name, one.version) if one.version else (one.name,)
        way = snap_install(words, installed=facts.snap, directory=directory)
        if one.name.startswith("-"):
            way = Declined(backend=SNAP, why=f"{one.label}: not a snap's name")
        plan.append(_step(f"snap {one.name}", one.node, "asked for, and not installed", (way,)))
    return tuple(plan)


def is_installed(one: Wanted, manager: str, facts: Packages) -> bool:
    """False where it cannot be told: the package manager itself then finds out that there is nothing to do."""
    if manager == SNAP:
        return one.name in facts.snaps
    if manager in BY_RPM:
        return (f"{one.name}-{one.version}" if one.version else one.name) in facts.known_to_rpm
    if manager not in (APT, APK):
        return False
    name, _, version = one.name.partition("=")
    name, _, architecture = name.partition(":")
    version = one.version or version
    native = (architecture or facts.native, "all", "")
    return any(
        there.name == name and there.architecture in native and version in ("", there.version)
        for there in facts.installed
    )


def plan_package_reboot(request: Request, marker: str, ways: tuple[Way | Declined, ...]) -> Plan:
    """`marker`: the file by which a package asks for a reboot. The stage carries this out when all else is done."""
    node = flag(request.config, REBOOT)
    if node is None or not (flag(request.config, UPGRADE) or wanted_packages(request.config)):
        return ()
    name = named("power_state", node, "reboot")
    if not marker:
        return (Satisfied(name=name, why="no package asks for a reboot so far"),)
    if request.rooted:
        return (Caution(name=name, why=f"not done: {ON_TREE}"),)
    return (Step(name=name, why=f"{marker} exists", ways=ways, failure=CustomDataFailed),)


def _is_name(one: Wanted) -> bool:
    text = one.name + one.version
    return not one.name.startswith("-") and text.isprintable() and not any(letter.isspace() for letter in text)


def _some(listed: list[Wanted]) -> str:
    names = ", ".join(shown(one.name) for one in listed[:MOST_SHOWN])
    return names if len(listed) <= MOST_SHOWN else f"{names} and {len(listed) - MOST_SHOWN} more"


def _ways(manager: str, make: Callable[[str], Way]) -> tuple[Way | Declined, ...]:
    if not manager:
        known = ", ".join(TOOLS[name] for name in MANAGERS)
        return (Declined(backend="azure-init", why=f"no package manager is installed that is known: {known}"),)
    return (make(manager),)


def _step(what: str, node: Node, why: str, ways: tuple[Way | Declined, ...], *, did: str = "") -> Step:
    return Step(name=named(MODULE, node, what), why=why, ways=ways, did=did, failure=CustomDataFailed)
