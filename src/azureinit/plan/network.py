"""NICs and addresses beyond one NIC with one address: files for the manager of each link, and addresses at once.

Pure. The primary is not configured anew, unless it has just become the primary: its secondary addresses are set in the
running kernel, and its file is for the next boot. Nothing is added to a link that other configuration matches. What is
gone from IMDS is removed after two equal answers, and only if azure-init made it.
"""

from __future__ import annotations

from azureinit.backends.network_files import files_of, networkd_path, runtime_file
from azureinit.backends.network_reload import TOOL, load, load_later, unload
from azureinit.facts.link_managers import IFUPDOWN, NETPLAN
from azureinit.facts.network_own import (
    IFUPDOWN_FILE,
    KEYFILES,
    MANA_PREFIX,
    NETPLAN_FILE,
    NETWORKD_RUNTIME,
    SCRIPTS_DIR,
)
from azureinit.memory.network import RELOAD
from azureinit.plan.actions import Caution, EditLink, MakeDir, Remove, Satisfied, Step, Way, Write
from azureinit.plan.network_layout import file_key, primary_of, stale_rules
from azureinit.plan.network_nics import NAME, is_link_missing, is_shared, layouts_of, strangers
from azureinit.plan.network_record import (
    Asked,
    Placed,
    is_kept,
    known_addresses,
    plan_record,
    plan_record_after,
    step_of,
)
from azureinit.plan.route import plan_way

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from azureinit.backends.network_files import File
    from azureinit.facts.nics import Nics
    from azureinit.plan.actions import Action, Item, Plan
    from azureinit.plan.network_layout import Choice


def plan_network(asked: Asked) -> Plan:
    answer, nics = asked.answer, asked.nics
    told = tuple(Caution(name=NAME, why=why) for why in (*answer.warnings, *nics.problems))
    if not answer.nics:
        return (*told, Satisfied(name=NAME, why="no NIC is known from IMDS: everything stays as it is"))
    if nics.cloud_netconfig:
        return (*told, Satisfied(name=NAME, why=f"cloud-netconfig configures it ({nics.cloud_netconfig})"))
    if takes_away(asked) and not asked.confirmed:
        why = "IMDS lists less than azure-init configured: everything stays until two answers without faults are equal"
        return (*told, Satisfied(name=NAME, why=why))
    choice = primary_of(nics)
    # Its entry may be one that cannot be used, which spoils no other: this machine knows its primary by itself.
    if not choice.primary or not (answer.refused or choice.primary in {nic.mac for nic in answer.nics}):
        return (*told, *_undecided(asked, choice))
    layouts, cautions = layouts_of(asked, choice.primary)
    steps = (
        *plan_record(asked, layouts),
        *plan_way(nics, primary=choice.primary, configured=frozenset(one.layout.name for one in layouts)),
        *_plan_removal(asked, layouts),
        *_plan_secondary(asked, layouts),
        *_plan_addresses(asked, layouts),
        *_plan_primary(asked, layouts),
        *_plan_promotion(asked, layouts),
        *plan_record_after(asked, layouts),
    )
    done = () if steps else (Satisfied(name=NAME, why=f"as IMDS lists it; primary: {choice.why}"),)
    return (*told, *strangers(asked), *cautions, *steps, *done)


def is_way_wrong(nics: Nics) -> bool:
    """The lease of one NIC leads to the platform, and the kernel takes another one."""
    routed = [nic.link.name for nic in nics.nics if nic.to_platform]
    return nics.live and len(nics.nics) > 1 and len(routed) == 1 and nics.wireserver not in ("", routed[0])


def takes_away(asked: Asked) -> bool:
    """Whether IMDS lacks something that azure-init configured, by the record or by what is here: the record may be
    lost. An answer without NICs says nothing.
    """
    record, known = asked.kept.record, known_addresses(asked)
    had = (*record.files.items(), *record.addresses.items())
    if not known or any(mac not in known or not known[mac].issuperset(each) for mac, each in had):
        return bool(known)
    primary = primary_of(asked.nics).primary
    if primary not in known or not _is_whole(asked):
        return False
    placed = layouts_of(asked, primary)[0]
    addresses = {address for each in known.values() for address in each}
    return bool(_stale_files(asked, placed)) or any(rule[0] not in addresses for rule in _stale_rules(asked, placed))


def _undecided(asked: Asked, choice: Choice) -> Iterator[Item]:
    if choice.primary:
        why = f"IMDS does not list the NIC that leads to the platform ({choice.why}): nothing is configured"
    elif not asked.nics.nics:
        why = "this machine has no NIC: nothing is configured"
    else:
        why = f"the primary NIC is not certain: {choice.why}; no NIC is configured"
    yield Caution(name=NAME, why=why)


def _files(placed: Sequence[Placed]) -> dict[str, tuple[File, str]]:
    """By path: the file and its manager."""
    managers = dict.fromkeys(one.manager for one in placed)
    return {
        file.path: (file, manager)
        for manager in managers
        for file in files_of(manager, [one.layout for one in placed if one.manager == manager])
    }


# ---- what is gone


def _plan_removal(asked: Asked, placed: Sequence[Placed]) -> Iterator[Item]:
    """Files for NICs that IMDS does not list any more, or that need none now; and rules for addresses that are gone."""
    if not _is_whole(asked) or asked.answer.refused:
        return
    stale, rules = _stale_files(asked, placed), _stale_rules(asked, placed)
    if asked.kept.reload and all(one.layout.primary for one in placed):
        stale.append(asked.kept.reload_path)  # of a run that was killed; the NIC is gone since
    if stale:
        why = "no NIC of this machine needs them any more"
        did = f"removed {', '.join(sorted(stale))}: {why}"
        yield step_of("network files", why, *(Remove(path=path) for path in sorted(stale)), did=did)
    if rules:
        did = f"removed the routing rules for {', '.join(rule[0] for rule in rules)}"
        why = "their addresses are gone, or have another table"
        yield step_of("routing rules", why, EditLink(rules=rules), did=did)


def _is_whole(asked: Asked) -> bool:
    """Where a part is switched off, what it made earlier stays."""
    return asked.config.secondary_nics and asked.config.secondary_addresses


def _stale_files(asked: Asked, placed: Sequence[Placed]) -> list[str]:
    wanted = _files(placed)
    kept = [file_key(nic.mac) for nic in asked.answer.nics if is_kept(asked, nic.mac)]
    return [
        path for path in asked.nics.files if not (path in wanted or MANA_PREFIX in path or _belongs(path, kept, asked))
    ]


def _stale_rules(asked: Asked, placed: Sequence[Placed]) -> tuple[tuple[str, int, int, int], ...]:
    return stale_rules(asked.nics, asked.answer.nics, [one.layout for one in placed if _is_loaded(asked, one)])


def _is_loaded(asked: Asked, one: Placed) -> bool:
    """Whether the manager has this layout by the end of the plan."""
    shared = {NETPLAN: NETPLAN_FILE, IFUPDOWN: IFUPDOWN_FILE}.get(one.manager, "")
    return TOOL[one.manager] in asked.nics.tools and not is_shared(asked, shared)


def _belongs(path: str, keys: Sequence[str], asked: Asked) -> bool:
    """To a NIC whose link is not here. Files of network-scripts have names of links: that one's is not known then."""
    named = any(key in path for key in keys)
    return named or is_shared(asked, path) or (path.startswith(f"{SCRIPTS_DIR}/") and is_link_missing(asked))


# ---- NICs other than the primary


def _plan_secondary(asked: Asked, placed: Sequence[Placed]) -> Iterator[Item]:
    others = [one for one in placed if not one.layout.primary]
    primary_alone = _files([one for one in placed if one.layout.primary])
    files = {path: found for path, found in _files(placed).items() if path not in primary_alone or others}
    files = {path: found for path, found in files.items() if not _is_primary_file(path, placed)}
    differ = [file for file, _manager in files.values() if asked.nics.files.get(file.path) != file.data]
    changed = [file for file in differ if not is_shared(asked, file.path)]
    live = asked.nics.live
    if not others or not (changed or (asked.kept.reload and live) or any(_waits(one, live) for one in others)):
        return
    names = ", ".join(one.layout.name for one in others)
    actions: list[Action] = []
    mark = asked.kept.reload_path if live else ""
    if mark:
        actions.append(Write(path=mark, data=RELOAD, mode=0o600))
    managers = {one.manager: [each for each in others if each.manager == one.manager] for one in others} if live else {}
    for manager, of_it in managers.items():
        if TOOL[manager] in asked.nics.tools:
            up = [one.layout.name for one in of_it if one.nic.holder.up]
            actions += unload(manager, [one.layout for one in of_it], up=up)
    actions += [action for file in changed for action in _write(file, asked.nics.files.get(file.path))]
    cautions: list[Item] = []
    aside = _not_loaded(asked, placed) if live else {}
    actions += [Remove(path=path) for path in aside]
    for manager, of_it in managers.items():
        if manager == NETPLAN:
            files_now = [runtime_file(one.layout, loaded=one.nic.holder.file) for one in of_it]
            actions += [action for file in files_now for action in _write(file, None)]
        if TOOL[manager] in asked.nics.tools:
            actions += load(manager, [one.layout for one in of_it])
        else:
            cautions.append(Caution(name=NAME, why=f"{TOOL[manager]} is not installed: {names} at the next boot"))
    actions += [Write(path=path, data=data, mode=0o644) for path, data in aside.items()]
    if mark:
        actions.append(Remove(path=mark))
    yield Step(
        name=f"network configuration of {names}",
        why="IMDS lists more than one NIC" if changed else "written by an earlier run, and not loaded",
        did=f"configured {names}: policy routing, and secondary addresses where IMDS lists them",
        ways=(Way(backend=" and ".join(dict.fromkeys(one.manager for one in others)), actions=tuple(actions)),),
    )
    yield from cautions


def _not_loaded(asked: Asked, placed: Sequence[Placed]) -> dict[str, bytes]:
    """The primary's file, if systemd-networkd has not loaded it: a reload must not find it, or it takes the primary's
    address away for a moment.
    """
    paths = {networkd_path(one.layout): one.nic.holder.file for one in placed if one.layout.primary}
    files = asked.nics.files
    return {path: files[path] for path, loaded in paths.items() if path in files and loaded != path}


def _waits(one: Placed, live: bool) -> bool:
    """netplan's file counts from the next boot on: for this one a file in /run is missing."""
    if one.manager != NETPLAN or not live:
        return False
    runtime = networkd_path(one.layout, NETWORKD_RUNTIME)
    return one.nic.holder.file != runtime and file_key(one.layout.mac) not in one.nic.holder.file


def _is_primary_file(path: str, placed: Sequence[Placed]) -> bool:
    """A file for the primary alone; netplan and ifupdown have one file for all NICs."""
    return any(one.layout.primary and file_key(one.layout.mac) in path for one in placed)


# ---- the primary


def _plan_addresses(asked: Asked, placed: Sequence[Placed]) -> Iterator[Item]:
    """At once, in the running kernel: the file is for the next boot."""
    if not asked.nics.live:
        return
    known = known_addresses(asked)
    for nic in asked.nics.nics:
        mine = [one for one in placed if one.layout.mac == nic.link.mac and one.layout.primary]
        wanted = [address for one in mine for address in (*one.layout.secondary, *one.layout.secondary6)]
        add = tuple(address for address in wanted if address not in nic.addresses)
        own = asked.kept.record.addresses.get(nic.link.mac, ())
        gone = [address for address in own if address not in known.get(nic.link.mac, set())]
        remove = tuple(address for address in gone if address in nic.addresses)
        if add or remove:
            edit = EditLink(name=nic.link.name, index=nic.link.index, mac=nic.link.mac, add=add, remove=remove)
            parts = [f"added {', '.join(add)}"] * bool(add) + [f"removed {', '.join(remove)}"] * bool(remove)
            did = f"{nic.link.name}: {'; '.join(parts)}"
            yield step_of(f"addresses of {nic.link.name}", "IMDS lists others than the link has", edit, did=did)


def _plan_primary(asked: Asked, placed: Sequence[Placed]) -> Iterator[Item]:
    """Written last, and not loaded: a reload takes the address away for a moment."""
    others = [one for one in placed if not one.layout.primary]
    for one in placed:
        if not one.layout.primary:
            continue
        for file, manager in _files([one]).values():
            shared = any(other.manager == manager for other in others) and not _is_primary_file(file.path, placed)
            old = asked.nics.files.get(file.path)
            if shared or old == file.data or is_shared(asked, file.path):
                continue
            live = asked.nics.live and TOOL[manager] in asked.nics.tools
            later = load_later(manager, one.layout) if live else ()
            yield Step(
                name=f"network configuration of {one.layout.name}",
                why="its secondary addresses, from the next boot on",
                did=f"wrote {file.path}: the secondary addresses of {one.layout.name} from the next boot on",
                ways=(Way(backend=manager, actions=(*_write(file, old), *later)),),
            )


def _plan_promotion(asked: Asked, placed: Sequence[Placed]) -> Iterator[Item]:
    """The one case in which the primary is configured anew. The file is written by now; it goes at a later boot."""
    for one in placed:
        if not (one.layout.promoted and asked.nics.live and TOOL[one.manager] in asked.nics.tools):
            continue
        files_now = [runtime_file(one.layout, loaded=one.nic.holder.file)] if one.manager == NETPLAN else []
        actions = [action for file in files_now for action in _write(file, None)]
        name, why = one.layout.name, "it was not the primary NIC when its file was written: it has no DNS servers"
        yield Step(
            name=f"{name} as the primary NIC",
            why=why,
            did=f"configured {name} anew: {why}",
            ways=(Way(backend=one.manager, actions=(*actions, *load(one.manager, [one.layout]))),),
        )


def _write(file: File, was: bytes | None) -> tuple[Action, ...]:
    directory = file.path.rpartition("/")[0]
    mode = 0o700 if directory == KEYFILES else 0o755
    return MakeDir(path=directory, mode=mode, kept=True), Write(path=file.path, data=file.data, mode=file.mode, was=was)
