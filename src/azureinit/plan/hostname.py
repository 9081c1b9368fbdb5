"""The host's name: the kernel's, the file's, and the line by which it finds itself."""

from __future__ import annotations

from azureinit.backends.hostname import SET, HostnameIntent
from azureinit.errors import HostnameFailed
from azureinit.plan.actions import Satisfied, Step, Way, Write
from azureinit.plan.names import check_hostname

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.facts.gather import Facts
    from azureinit.plan.actions import Item, Plan

OWN_ADDRESS = "127.0.1.1"


def plan_hostname(*, hostname: str, facts: Facts, config: Config) -> Plan:
    check_hostname(hostname)
    intent = HostnameIntent(name=hostname)
    in_file = facts.hostname_file is not None and facts.hostname_file.strip() == hostname.encode()
    in_kernel = facts.rooted or facts.kernel_hostname == hostname
    item: Item
    if in_file and in_kernel:
        item = Satisfied(name="hostname", why=f"is {hostname}")
    else:
        old = (facts.hostname_file or b"").decode("utf-8", "replace").strip()[:64]
        item = Step(
            name="hostname",
            why=f"{old or 'unset'} -> {hostname}",
            ways=tuple(SET[name](intent, facts) for name in config.hostname_provisioners.backends),
            failure=HostnameFailed,
        )
    return (item, *_plan_hosts(hostname, facts))


def _plan_hosts(hostname: str, facts: Facts) -> Plan:
    old = (facts.hosts_file or b"").decode("utf-8", "surrogateescape")
    if not facts.distro.hosts_line and OWN_ADDRESS not in old:
        return ()
    new = hosts_with(old, hostname)
    if new == old:
        return (Satisfied(name="hosts", why=f"{OWN_ADDRESS} is {hostname}"),)
    write = Write(path="/etc/hosts", data=new.encode("utf-8", "surrogateescape"), was=facts.hosts_file)
    ways = (Way(backend="native", actions=(write,)),)
    return (Step(name="hosts", why=f"{OWN_ADDRESS} -> {hostname}", ways=ways, failure=HostnameFailed),)


def hosts_with(text: str, hostname: str) -> str:
    """The file with exactly one line for the host's own address, after the loopback's."""
    short = hostname.partition(".")[0]
    wanted = f"{OWN_ADDRESS}\t{hostname}" + (f" {short}" if short != hostname else "")
    lines = text.splitlines(keepends=True) or ["127.0.0.1\tlocalhost\n"]
    own = [index for index, line in enumerate(lines) if line.split("#")[0].split()[:1] == [OWN_ADDRESS]]
    if own and hostname in lines[own[0]].split("#")[0].split()[1:2]:
        return text
    if own:
        lines[own[0]] = wanted + "\n"
        return "".join(line for index, line in enumerate(lines) if index not in own[1:])
    loopback = [index for index, line in enumerate(lines) if line.split()[:1] == ["127.0.0.1"]]
    at = loopback[0] + 1 if loopback else 0
    if at and not lines[at - 1].endswith("\n"):
        lines[at - 1] += "\n"
    return "".join([*lines[:at], wanted + "\n", *lines[at:]])
