"""What the last modules of a boot tell: the time, and the machine's own names and public host keys."""

from __future__ import annotations

from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

HOST_KEYS = {f"pub_key_{kind}": f"/etc/ssh/ssh_host_{kind}_key.pub" for kind in ("rsa", "ecdsa", "ed25519")}


class Moment(Record):
    uptime: str  # seconds, as /proc/uptime has them
    timestamp: str  # RFC 2822


class Identity(Record):
    hostname: str
    # By the name that a form gives them; without those that do not exist.
    keys: tuple[tuple[str, str], ...]


def read_moment(machine: Machine) -> Moment:
    from azureinit.machine.clock import rfc2822

    words = (machine.read("/proc/uptime") or b"").split()
    uptime = words[0].decode("ascii", "replace") if words else "N/A"
    return Moment(uptime=uptime, timestamp=rfc2822(machine.clock.now()))


def read_identity(machine: Machine) -> Identity:
    found = {name: machine.read(path) for name, path in HOST_KEYS.items()}
    keys = tuple((name, data.decode("utf-8", "replace")) for name, data in found.items() if data is not None)
    return Identity(hostname=machine.hostname(), keys=keys)


def read_shutdown_tools(machine: Machine, tools: tuple[str, ...]) -> frozenset[str]:
    return frozenset(tool for tool in tools if machine.find(tool))
