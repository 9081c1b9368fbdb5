"""The host name: in the kernel, in /etc/hostname, in /etc/hosts, and in DHCP clients' files."""

from __future__ import annotations

from azureinit.backends.hostname import SET, HostnameIntent
from azureinit.errors import HostnameFailed
from azureinit.plan.actions import Satisfied, Step, Way, Write
from azureinit.plan.names import check_hostname

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.facts.host import Host
    from azureinit.facts.hostnames import HostNames
    from azureinit.plan.actions import Item, Plan

OWN_ADDRESS = "127.0.1.1"
LOOPBACK = "127.0.0.1"
DHCP_NAME = "DHCP host name"


def plan_hostname(*, hostname: str, host: Host, names: HostNames, config: Config) -> Plan:
    check_hostname(hostname)
    intent = HostnameIntent(name=hostname)
    in_file = names.hostname_file is not None and names.hostname_file.strip() == hostname.encode()
    in_kernel = host.rooted or names.kernel == hostname
    item: Item
    if in_file and in_kernel:
        item = Satisfied(name="hostname", why=f"is {hostname}")
    else:
        item = Step(
            name="hostname",
            why=f"{_kernels(names) if in_file else _files(names)} -> {hostname}",
            did=f"set the host name to {hostname}",
            ways=tuple(SET[name](intent, host=host, names=names) for name in config.hostname_provisioners.backends),
            failure=HostnameFailed,
        )
    return (item, *_plan_hosts(hostname, host=host, names=names), *_plan_dhcp_names(hostname, names))


def _files(names: HostNames) -> str:
    return _told((names.hostname_file or b"").decode("utf-8", "surrogateescape").strip()[:64])


def _kernels(names: HostNames) -> str:
    """For a plan where /etc/hostname is right already."""
    return f"the kernel's {_told(names.kernel)}"


def _told(old: str) -> str:
    """Printable on one line."""
    return (old if old.isprintable() else ascii(old)) or "unset"


def _plan_hosts(hostname: str, *, host: Host, names: HostNames) -> Plan:
    old = (names.hosts_file or b"").decode("utf-8", "surrogateescape")
    if not host.distro.hosts_line and not any(_address(line) == OWN_ADDRESS for line in old.split("\n")):
        return ()
    new = hosts_with(old, hostname)
    if new == old:
        return (Satisfied(name="hosts", why=f"{OWN_ADDRESS} is {hostname}"),)
    write = Write(path="/etc/hosts", data=new.encode("utf-8", "surrogateescape"), was=names.hosts_file)
    ways = (Way(backend="native", actions=(write,)),)
    did = f"wrote {OWN_ADDRESS} {hostname} to /etc/hosts"
    return (Step(name="hosts", why=f"{OWN_ADDRESS} -> {hostname}", did=did, ways=ways, failure=HostnameFailed),)


def _plan_dhcp_names(hostname: str, names: HostNames) -> Plan:
    if not names.name_files:
        return ()
    from azureinit.plan.dhcpnames import plan_dhcp_names

    return plan_dhcp_names(hostname=hostname, files=names.name_files)


def hosts_with(text: str, hostname: str) -> str:
    """The file with the host's name on the first 127.0.1.1 line, or on a new one after the loopback's.

    All other lines stay, and the 127.0.1.1 line too where it already has the name.
    """
    lines = (text or f"{LOOPBACK}\tlocalhost\n").split("\n")
    own = [at for at, line in enumerate(lines) if _address(line) == OWN_ADDRESS]
    if any(hostname in _fields(lines[at])[1:] for at in own):
        return text
    short = hostname.partition(".")[0]
    wanted = f"{OWN_ADDRESS}\t{hostname}" + (f" {short}" if short != hostname else "")
    if own:
        _, mark, comment = lines[own[0]].rstrip("\r").partition("#")
        lines[own[0]] = wanted + (f" {mark}{comment}" if mark else "") + _return(lines[own[0]])
        return _ended("\n".join(lines))
    loopback = [at + 1 for at, line in enumerate(lines) if _address(line) == LOOPBACK]
    # A final line feed leaves an empty last element after splitting.
    at = loopback[0] if loopback else len(lines) - (not lines[-1])
    lines.insert(at, wanted + _return(lines[at - 1] if at else ""))
    return _ended("\n".join(lines))


def _fields(line: str) -> list[str]:
    return line.partition("#")[0].split()


def _address(line: str) -> str:
    return _fields(line)[0] if _fields(line) else ""


def _return(line: str) -> str:
    """The carriage return of the line, if it has one."""
    return "\r" if line.endswith("\r") else ""


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"
