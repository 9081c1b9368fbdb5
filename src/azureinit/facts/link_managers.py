"""Which program configures a link, and by whose configuration.

Asked in this order: the program that holds the link now, then the one that is enabled. netplan is a generator: its
files lie in /run for systemd-networkd or NetworkManager.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from azureinit.facts.disk_services import is_masked
from azureinit.facts.network_own import (
    IFUPDOWN_FILE,
    KEYFILE_PREFIX,
    KEYFILES,
    MANA_PREFIX,
    NETPLAN_FILE,
    NETWORKD_PREFIX,
    SCRIPT_MARK,
    SCRIPTS_DIR,
)
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from azureinit.machine import Machine

NETWORKD, NETPLAN, NETWORK_MANAGER, IFUPDOWN, SCRIPTS, WICKED, DHCPCD = (
    "systemd-networkd", "netplan", "NetworkManager", "ifupdown", "network-scripts", "wicked", "dhcpcd",
)  # fmt: skip
NETIF = "/run/systemd/netif"
# networkd's states of a link that one of its files configures.
CONFIGURED = ("configuring", "configured", "failed", "linger")
PACKAGED = ("zzy-azure-init", "zzz-azure-init")  # in /usr/lib; a copy in /etc is an administrator's
OWN_NETWORKD = (NETWORKD_PREFIX, MANA_PREFIX, *PACKAGED)
FROM_NETPLAN, OWN_FROM_NETPLAN = "10-netplan-", "10-netplan-azure-init-"
OWN_DROPIN = "azure-init-hostname.conf"
NM_DEVICES, NM_RUNTIME = "/run/NetworkManager/devices", "/run/NetworkManager/system-connections"
NM_PROFILES = (KEYFILES, NM_RUNTIME, "/usr/lib/NetworkManager/system-connections")
GENERATED, MADE_BY_DEFAULT = b"nm-generated=true", "Wired connection "
NETPLAN_DIRS = ("/lib/netplan", "/usr/lib/netplan", "/etc/netplan", "/run/netplan")
INTERFACES, INTERFACES_D = "/etc/network/interfaces", "/etc/network/interfaces.d"
IFSTATE = "/run/network/ifstate"
WANTS = ("/etc/systemd/system/multi-user.target.wants", "/etc/systemd/system/sysinit.target.wants",
         "/etc/systemd/system/network-online.target.wants")  # fmt: skip
NETWORK_SERVICE = "/etc/systemd/system/network.service"  # an alias of wicked, or of NetworkManager
IFUP_SCRIPTS = f"{SCRIPTS_DIR}/ifup-eth"
CLOUD_NETCONFIG = (
    "/etc/systemd/system/timers.target.wants/cloud-netconfig.timer",
    "/usr/lib/NetworkManager/dispatcher.d/cloud-netconfig-nm",
    "/etc/NetworkManager/dispatcher.d/cloud-netconfig-nm",
)
MOST_FILES, MOST_DEPTH = 256, 8
PUNCTUATION = str.maketrans("\"'{}[],:", "        ")


class Holder(Record):
    """`foreign`: the configuration of others that matches the link; it stays as it is, and nothing is added to it."""

    manager: str = ""  # empty: unknown
    file: str = ""  # the file by which systemd-networkd configures the link now
    foreign: str = ""
    up: bool = False  # the manager has configured the link
    reads: bool = True  # the manager reads azure-init's file: ifupdown only where `interfaces` sources its directory


def read_holder(machine: Machine, *, name: str, index: int, mac: str) -> Holder:
    state = _settings(machine.read(f"{NETIF}/links/{index}") or b"")
    yaml = tuple(_netplan_files(machine))
    by_networkd = state.get("NETWORK_FILE", "") and state.get("ADMIN_STATE") in CONFIGURED
    if by_networkd:
        return _by_networkd(machine, state, yaml=yaml, name=name, mac=mac)
    device = machine.read(f"{NM_DEVICES}/{index}") or b""
    if b"[dhcp4]" in device or b"connection-uuid=" in device:
        uuid = _settings(device).get("connection-uuid", "")
        return Holder(
            manager=NETWORK_MANAGER, up=True, foreign=_foreign_profile(machine, uuid=uuid, name=name, mac=mac)
        )
    if name in _if_state(machine, name):
        return _by_ifupdown(machine, name, up=True)
    if any(one.startswith(f"leaseinfo.{name}.") for one in machine.names("/run/wicked") or ()):
        return Holder(manager=WICKED, up=True)
    if any(machine.is_file(f"/run/dhcpcd/{one}") for one in (f"{name}.pid", f"{name}-4.pid", "pid")):
        return Holder(manager=DHCPCD, up=True)
    return _enabled(machine, yaml, name=name, mac=mac)


def _by_networkd(machine: Machine, state: dict[str, str], *, yaml: tuple[str, ...], name: str, mac: str) -> Holder:
    path = state["NETWORK_FILE"]
    file = path.rpartition("/")[2]
    dropins = state.get("NETWORK_FILE_DROPINS", "").strip('"').split()
    others = [one for one in dropins if not one.endswith(f"/{OWN_DROPIN}")]
    if file.startswith(OWN_FROM_NETPLAN):
        return Holder(manager=NETPLAN, file=path, up=True)
    copied = file.startswith(PACKAGED) and path.startswith("/etc/")
    if copied or not file.startswith(OWN_NETWORKD):
        return Holder(manager=NETWORKD, file=path, up=True, foreign=path)
    if others:
        return Holder(manager=NETWORKD, file=path, up=True, foreign=others[0])
    if yaml and _renderer(machine, yaml) != NETWORK_MANAGER:
        return Holder(manager=NETPLAN, file=path, up=True, foreign=_foreign_yaml(machine, yaml, name=name, mac=mac))
    return Holder(manager=NETWORKD, file=path, up=True)


def _enabled(machine: Machine, yaml: tuple[str, ...], *, name: str, mac: str) -> Holder:
    """No program holds the link: the one that would, if it had a configuration for it."""
    renderer = _renderer(machine, yaml) if yaml else ""
    if yaml and renderer != NETWORK_MANAGER:
        return Holder(manager=NETPLAN, foreign=_foreign_yaml(machine, yaml, name=name, mac=mac))
    if renderer == NETWORK_MANAGER or (_is_wanted(machine, NETWORK_MANAGER) and not _has_networkd(machine)):
        return Holder(manager=NETWORK_MANAGER, foreign=_foreign_profile(machine, uuid="", name=name, mac=mac))
    if _is_wanted(machine, "systemd-networkd") or _has_networkd(machine):
        return Holder(manager=NETWORKD)
    if machine.is_file(INTERFACES) and _is_wanted(machine, "networking"):
        return _by_ifupdown(machine, name, up=False)
    if "wicked" in (machine.read_link(NETWORK_SERVICE) or ""):
        return Holder(manager=WICKED)
    if machine.stat(IFUP_SCRIPTS) is not None:
        return Holder(manager=SCRIPTS, up=_has_dhclient(machine, name), foreign=_foreign_script(machine, name, mac))
    return Holder()


def _has_networkd(machine: Machine) -> bool:
    """It has a file for each link. The directory alone says nothing: systemd makes it in every boot."""
    return bool(machine.names(f"{NETIF}/links"))


def _is_wanted(machine: Machine, service: str) -> bool:
    """A masked unit is not started, whatever wants it."""
    wanted = any(machine.stat(f"{place}/{service}.service", follow=False) is not None for place in WANTS)
    return wanted and not is_masked(machine, f"{service}.service")


def _has_dhclient(machine: Machine, name: str) -> bool:
    return any(machine.is_file(path.format(name)) for path in ("/run/dhclient-{}.pid", "/run/dhclient.{}.pid"))


def read_cloud_netconfig(machine: Machine) -> str:
    return next((path for path in CLOUD_NETCONFIG if machine.stat(path, follow=False) is not None), "")


# ---- netplan


def _netplan_files(machine: Machine) -> Iterator[str]:
    for directory in NETPLAN_DIRS:
        if not machine.is_open(directory):
            continue
        for name in (machine.names(directory) or ())[:MOST_FILES]:
            path = f"{directory}/{name}"
            if name.endswith(".yaml") and path != NETPLAN_FILE and machine.is_file(path):
                yield path


def _renderer(machine: Machine, files: tuple[str, ...]) -> str:
    for path in files:
        words = _words(machine, path)
        for key, value in zip(words, words[1:]):
            if key == "renderer" and value == NETWORK_MANAGER:
                return NETWORK_MANAGER
    return "networkd"


def _foreign_yaml(machine: Machine, files: tuple[str, ...], *, name: str, mac: str) -> str:
    """By the MAC address, the name, or a pattern of names. Read as words: a document that is not understood counts."""
    for path in files:
        words = _words(machine, path)
        if mac in _text(machine, path).lower() or any(fnmatchcase(name, word) for word in words):
            return path
    return ""


def _words(machine: Machine, path: str) -> list[str]:
    return _text(machine, path).translate(PUNCTUATION).split()


def _text(machine: Machine, path: str) -> str:
    """Without comments."""
    data = machine.read(path) if machine.is_open(path) else None
    return " ".join(line.partition("#")[0] for line in (data or b"").decode("utf-8", "replace").splitlines())


# ---- NetworkManager


def _foreign_profile(machine: Machine, *, uuid: str, name: str, mac: str) -> str:
    """A profile that is active on the link, or names it. Those that NetworkManager made by itself do not count."""
    for directory in NM_PROFILES:
        if not machine.is_open(directory):
            continue
        for file in (machine.names(directory) or ())[:MOST_FILES]:
            path = f"{directory}/{file}"
            data = machine.read(path) if machine.is_open(path) and machine.is_file(path) else None
            own = directory == KEYFILES and file.startswith(KEYFILE_PREFIX)
            made = directory == NM_RUNTIME and (GENERATED in (data or b"") or file.startswith(MADE_BY_DEFAULT))
            if data is None or own or made:
                continue
            said = _settings(data)
            named = mac == said.get("mac-address", "").lower() or name == said.get("interface-name", "")
            if named or (uuid and said.get("uuid", "") == uuid):
                return path
    return _foreign_script(machine, name, mac)


# ---- ifupdown


def _if_state(machine: Machine, name: str) -> frozenset[str]:
    """Lines like `eth1=eth1`; newer versions have a file for each link."""
    lines = [machine.read(IFSTATE) or b"", machine.read(f"{IFSTATE}.{name}") or b""]
    words = b"\n".join(lines).decode("utf-8", "replace").split()
    return frozenset(word.partition("=")[0] for word in words)


def _by_ifupdown(machine: Machine, name: str, *, up: bool) -> Holder:
    seen: dict[str, list[list[str]]] = {}
    _read_interfaces(machine, INTERFACES, seen, MOST_DEPTH)
    for path, lines in seen.items():
        for words in lines:
            named = (
                words[1:2] if words[0] == "iface" else words[1:] if words[0] == "auto" or "allow-" in words[0] else []
            )
            if path != IFUPDOWN_FILE and any(fnmatchcase(name, one.lstrip("/")) for one in named):
                return Holder(manager=IFUPDOWN, up=up, foreign=path)
    return Holder(manager=IFUPDOWN, up=up, reads=_sources_directory(seen))


def _read_interfaces(machine: Machine, path: str, seen: dict[str, list[list[str]]], depth: int) -> None:
    if path in seen or not depth or len(seen) > MOST_FILES:
        return
    text = (machine.read(path) or b"").decode("utf-8", "replace").replace("\\\n", " ")
    seen[path] = [words for line in text.splitlines() if (words := line.split()) and not words[0].startswith("#")]
    for words in seen[path]:
        if words[0] in ("source", "source-directory") and len(words) > 1:
            directory, _, last = words[1].rpartition("/")
            if words[0] == "source-directory":
                directory, last = words[1].rstrip("/"), "*"
            directory = directory if directory.startswith("/") else f"/etc/network/{directory}".rstrip("/")
            for name in machine.names(directory) or ():
                if fnmatchcase(name, last):
                    _read_interfaces(machine, f"{directory}/{name}", seen, depth - 1)


def _sources_directory(seen: dict[str, list[list[str]]]) -> bool:
    every = [words for lines in seen.values() for words in lines if len(words) > 1]
    spelt = (f"{INTERFACES_D}/*", "interfaces.d/*")
    return any(
        (words[0] == "source" and words[1] in spelt)
        or (words[0] == "source-directory" and words[1].rstrip("/") in (INTERFACES_D, "interfaces.d"))
        for words in every
    )


# ---- network-scripts


def _foreign_script(machine: Machine, name: str, mac: str) -> str:
    for file in (machine.names(SCRIPTS_DIR) or ())[:MOST_FILES]:
        if file.startswith("ifcfg-") and file != "ifcfg-lo":
            data = machine.read(f"{SCRIPTS_DIR}/{file}") or b""
            said = {key: value.strip("\"'").lower() for key, value in _settings(data).items()}
            if not data.startswith(SCRIPT_MARK) and (said.get("DEVICE") == name.lower() or said.get("HWADDR") == mac):
                return f"{SCRIPTS_DIR}/{file}"
    return ""


def _settings(data: bytes) -> dict[str, str]:
    pairs = (line.partition("=") for line in data.decode("utf-8", "replace").split("\n"))
    return {key.strip(): value.strip() for key, equals, value in pairs if equals}
