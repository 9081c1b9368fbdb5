"""ntp: time servers of chrony, systemd-timesyncd or ntpd."""

from __future__ import annotations

from azureinit.backends.service import reload_unit
from azureinit.facts.distros import CHRONY, NTPD, TIMESYNCD
from azureinit.modules.file_steps import flag, refuse, step, text, texts, write_file
from azureinit.modules.steps import ON_TREE, named
from azureinit.plan.actions import Caution, Satisfied, Step, Way, Write
from azureinit.record import Record, replace
from azureinit.userdata.node import MAPPING
from azureinit.userdata.values import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.distros import Distro
    from azureinit.facts.system_files import SystemFiles
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Item, Plan
    from azureinit.userdata.node import Node

MODULE = "ntp"
OLD = ".dist"  # the suffix of a configuration that is replaced
HEADER = "# Written by azure-init from customData.\n"
POOLS = 4


class Client(Record):
    name: str
    programs: tuple[str, ...]
    path: str
    unit: str


def clients(distro: Distro) -> dict[str, Client]:
    units = ("/lib/systemd/systemd-timesyncd", "/usr/lib/systemd/systemd-timesyncd")
    rows = (
        Client(name=CHRONY, programs=("chronyd",), path=distro.chrony_file, unit=distro.chrony_unit),
        Client(
            name=TIMESYNCD,
            programs=units,
            path="/etc/systemd/timesyncd.conf.d/cloud-init.conf",
            unit="systemd-timesyncd",
        ),
        Client(name=NTPD, programs=("ntpd",), path="/etc/ntp.conf", unit=distro.ntp_unit),
    )
    return {row.name: row for row in rows}


def _configured(client: Client, config: Node | None) -> Client:
    """With the paths and names that the document gives."""
    if config is None or config.kind != MAPPING:
        return client
    program, path = text(config.get("check_exe")), text(config.get("confpath"))
    return replace(
        client,
        programs=(program,) if program else client.programs,
        path=path or client.path,
        unit=text(config.get("service_name")) or client.unit,
    )


def _candidates(node: Node, distro: Distro) -> tuple[Client, ...]:
    """In the order in which they are tried; one where the document names it, and none for an unknown name."""
    known, wanted = clients(distro), text(node.get("ntp_client"))
    names = (wanted,) if wanted and wanted != "auto" else distro.ntp_clients
    return tuple(_configured(known[name], node.get("config")) for name in names if name in known)


def looked_at(request: Request, distro: Distro) -> tuple[tuple[str, ...], tuple[str, ...]]:
    node = request.config.get(MODULE)
    found = _candidates(node, distro) if node is not None else ()
    files = [path for client in found for path in (client.path, client.path + OLD) if client.path.startswith("/")]
    return tuple(dict.fromkeys(files)), tuple(program for client in found for program in client.programs)


def plan_ntp(request: Request, facts: SystemFiles) -> Plan:
    node = request.config.get(MODULE)
    if node is None:
        return ()
    name = named(MODULE, node)
    if not flag(node.get("enabled"), default=True):
        return (Satisfied(name=name, why="not set: enabled is false"),)
    found = _candidates(node, facts.host.distro)
    if not found:
        return (refuse(name, f"{shown(text(node.get('ntp_client')))} is not a client that azure-init knows"),)
    client = next((one for one in found if any(program in facts.tools for program in one.programs)), None)
    if client is None:
        listed = " or ".join(one.name for one in found)
        return (refuse(name, f"no NTP client is installed when this runs: the image must have {listed}"),)
    config = node.get("config")
    if config is not None and text(config.get("template")):
        return (refuse(name, "ntp.config.template is not rendered: write the file with write_files"),)
    words = [one for key in ("servers", "pools", "peers", "allow") for one in texts(node.get(key))]
    if any(not word.isprintable() or " " in word for word in words) or client.path not in facts.files:
        return (refuse(name, "a name of a server, or the path of the configuration, cannot be used"),)
    return _plan_client(request, node, client, facts)


def _plan_client(request: Request, node: Node, client: Client, facts: SystemFiles) -> Plan:
    target, why = facts.files[client.path], f"time servers of {client.name}"
    old = (target.data or b"").decode("utf-8", "replace")
    data = content(client, node, facts.host.distro, old).encode()
    item = write_file(named(MODULE, node, client.path), client.path, data, facts, why=why)
    items: list[Item] = [item]
    if isinstance(item, Step) and target.data is not None and not facts.files[client.path + OLD].exists:
        keep = Write(path=client.path + OLD, data=target.data, mode=target.mode, beneath=target.beneath)
        ways = tuple(
            Way(backend=way.backend, actions=(keep, *way.actions)) if isinstance(way, Way) else way for way in item.ways
        )
        items = [replace(item, ways=ways)]
    if client.name == TIMESYNCD and (texts(node.get("peers")) or texts(node.get("allow"))):
        items.append(Caution(name=named(MODULE, node, "peers"), why=f"{client.name} has neither peers nor clients"))
    if isinstance(item, Step):
        items.append(_plan_reload(request, node, client, facts))
    return tuple(items)


def content(client: Client, node: Node, distro: Distro, old: str) -> str:
    servers, pools = texts(node.get("servers")), texts(node.get("pools"))
    if not servers and not pools:
        zone = f"{distro.ntp_pool}." if distro.ntp_pool else ""
        pools = tuple(f"{number}.{zone}pool.ntp.org" for number in range(POOLS))
    if client.name == TIMESYNCD:
        return f"{HEADER}[Time]\nNTP={' '.join((*servers, *pools))}\n"
    lines = [f"pool {one} iburst" for one in pools] + [f"server {one} iburst" for one in servers]
    lines += [f"peer {one}" for one in texts(node.get("peers"))]
    if client.name == NTPD:
        return HEADER + "\n".join((*lines, *NTPD_LINES)) + "\n"
    lines += [f"allow {one}" for one in texts(node.get("allow"))]
    # The host's clock, which Azure's images read over PTP, stays.
    lines += [line for line in old.splitlines() if line.split()[:1] == ["refclock"]]
    own = distro.chrony_file.startswith("/etc/chrony/")
    return HEADER + "\n".join((*lines, *(CHRONY_OWN if own else CHRONY_SHARED), *CHRONY_LINES)) + "\n"


CHRONY_OWN = ("keyfile /etc/chrony/chrony.keys", "driftfile /var/lib/chrony/chrony.drift", "maxupdateskew 100.0")
CHRONY_SHARED = ("driftfile /var/lib/chrony/drift",)
CHRONY_LINES = ("logdir /var/log/chrony", "rtcsync", "makestep 1 3")
NTPD_LINES = (
    "driftfile /var/lib/ntp/ntp.drift",
    "restrict -4 default kod notrap nomodify nopeer noquery limited",
    "restrict -6 default kod notrap nomodify nopeer noquery limited",
    "restrict 127.0.0.1",
    "restrict ::1",
    "restrict source notrap nomodify noquery",
)


def _plan_reload(request: Request, node: Node, client: Client, facts: SystemFiles) -> Item:
    name = named(MODULE, node, client.unit)
    if request.rooted:
        return Caution(name=name, why=f"not restarted: {ON_TREE}")
    run = reload_unit(client.unit, facts.host)
    if run is None:
        return Caution(name=name, why="not restarted: no known service manager runs here")
    return step(name, "its servers changed", run, backend=run.argv[0])
