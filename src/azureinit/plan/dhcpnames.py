"""A fixed host name in a DHCP client's configuration, left from the image: DNS would get it instead of the host's name.

Only a fixed name is changed, and nothing else in the file. A client that sends the host's own name, or none, keeps its
configuration.
"""

from __future__ import annotations

from azureinit.errors import HostnameFailed
from azureinit.plan.actions import Step, Way, Write
from azureinit.plan.hostname import DHCP_NAME
from azureinit.plan.names import is_generic_hostname

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.hostnames import NameFile
    from azureinit.plan.actions import Plan

SENT = (b"send", b"host-name")
VARIABLES = (b"DHCP_HOSTNAME", b"DHCLIENT_HOSTNAME_OPTION")
ASKS_ITSELF = (b"", b"auto", b"<hostname>")


def plan_dhcp_names(*, hostname: str, files: tuple[NameFile, ...]) -> Plan:
    if is_generic_hostname(hostname):
        return ()
    steps: list[Step] = []
    for file in files:
        new = with_name(file.data, hostname.encode())
        if new != file.data:
            write = Write(path=file.path, data=new, was=file.data)
            why = f"{file.path} makes the DHCP client send another name"
            did = f"{file.path}: the DHCP client sends {hostname} from now on"
            ways = (Way(backend="native", actions=(write,)),)
            steps.append(Step(name=DHCP_NAME, why=why, did=did, ways=ways, failure=HostnameFailed))
    return tuple(steps)


def plan_no_dhcp_names(*, hostname: bytes, files: tuple[NameFile, ...]) -> Plan:
    """Have the client send the host's own name instead of this machine's fixed one."""
    steps: list[Step] = []
    for file in files:
        new = without_name(file.data, hostname)
        if new != file.data:
            write = Write(path=file.path, data=new, was=file.data)
            why = f"{file.path} makes the DHCP client send this machine's name"
            steps.append(Step(name=DHCP_NAME, why=why, ways=(Way(backend="native", actions=(write,)),)))
    return tuple(steps)


def with_name(data: bytes, name: bytes) -> bytes:
    parts = ((line, _fixed(line)) for line in data.split(b"\n"))
    return b"\n".join(line if fixed is None else fixed[0] + name + fixed[2] for line, fixed in parts)


def without_name(data: bytes, name: bytes) -> bytes:
    """Without that name; another name stays."""
    parts = ((line, _fixed(line)) for line in data.split(b"\n"))
    return b"\n".join(
        line if fixed is None or fixed[1].lower() != name.lower() else _asking(fixed[0], fixed[2])
        for line, fixed in parts
    )


def _fixed(line: bytes) -> tuple[bytes, bytes, bytes] | None:
    """The text before a fixed name, the name, and the text after it."""
    start = line.partition(b"#")[0]
    if tuple(start.split()[:2]) == SENT and start.count(b'"') == 2:  # an expression has no quotes
        before, quote, rest = line.partition(b'"')
        old, _quote, after = rest.partition(b'"')
        return None if old.lower() in ASKS_ITSELF else (before + quote, old, quote + after)
    variable, equals, _value = start.partition(b"=")
    if not equals or variable.strip() not in VARIABLES:
        return None
    value = start[len(variable) + 1 :].rstrip()
    quote = value[:1] if value[:1] in (b'"', b"'") and value.endswith(value[:1]) and len(value) > 1 else b""
    old = value.strip(quote) if quote else value
    if old.lower() in ASKS_ITSELF or b"$" in old:
        return None
    return variable + equals + quote, old, quote + line[len(variable) + 1 + len(value) :]


def _asking(before: bytes, after: bytes) -> bytes:
    if tuple(before.split()[:2]) == SENT:
        return before.rstrip(b'"= \t') + b" = gethostname()" + after[1:]
    return before + (b"AUTO" if before.strip().startswith(VARIABLES[1]) else b"") + after
