"""Devices as cloud-configs name them: paths, aliases, `ephemeral0` for the temporary disk, `NAME.2` for a partition."""

from __future__ import annotations

from azureinit.record import Record
from azureinit.userdata.node import NULL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.modules.request import Request
    from azureinit.userdata.node import Node

EPHEMERAL = "ephemeral0"
# Links that lead to a temporary disk, or to one of its partitions (`-part1`).
LINKS = ("/dev/disk/azure/resource", "/dev/disk/cloud/azure_resource", "/dev/disk/azure/local/")
# Names of Amazon's platform: no device here has one.
FOREIGN = ("ami", "root", "swap", "ephemeral", "ebs")
PREFIXES = ("xvd", "sd", "hd", "vd")


class Named(Record):
    """`device`: a path, or what else stands in a row of fstab (LABEL=, a server's directory, tmpfs); empty for a name
    that no device here has. `partition`: the number after the dot."""

    text: str
    device: str = ""
    partition: str = ""
    temporary: bool = False


def text_of(node: Node | None) -> str:
    """A simple value as text, as cloud-init converts it; empty where there is none."""
    return "" if node is None or node.kind == NULL else str(node.value)


def named_device(request: Request, text: str) -> Named:
    """As cloud-init reads a name. Aliases are those of `device_aliases`."""
    if ":" in text:  # a server's directory, or systemd's credentials: no device
        return Named(text=text, device=text)
    name, partition = text, ""
    before, dot, after = text.rpartition(".")
    if dot and after.isascii() and after.isdigit():
        name, partition = before, after
    aliases = request.config.get("device_aliases")
    alias = aliases.get(name) if aliases is not None else None
    name = text_of(alias) or name
    if name in ("ephemeral", EPHEMERAL) or name.startswith(LINKS):
        own = name.rpartition("-part")[2] if "-part" in name else ""
        number = partition or (own if own.isascii() and own.isdigit() else "")
        return Named(text=text, device=EPHEMERAL, partition=number, temporary=True)
    if name in FOREIGN or ("/" not in name and name.startswith(FOREIGN[3:])):
        return Named(text=text)
    if is_short(name):
        name = f"/dev/{name}"
    if partition and not name.startswith("/dev/"):
        return Named(text=text, device=text)  # `host.1`, a file with a dot: not a partition
    return Named(text=text, device=name, partition=partition)


def is_short(name: str) -> bool:
    """A kernel name without its directory: sdc, vda1, xvdb, sr0."""
    for prefix in PREFIXES:
        rest = name[len(prefix) :] if name.startswith(prefix) else ""
        if rest and "a" <= rest[0] <= "z" and (not rest[1:] or rest[1:].isdigit()):
            return True
    return name.startswith("sr") and name[2:].isdigit()
