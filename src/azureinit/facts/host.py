"""The little that a host's name needs to know, before the network is there: read without everything else."""

from __future__ import annotations

from azureinit.facts.dhcpnames import NameFile, read_name_files
from azureinit.facts.distros import IGNITION_WORDS, Distro, choose_distro, read_release
from azureinit.machine import MOST_BYTES
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

IGNITION_RESULT = "/etc/.ignition-result.json"
IGNITION_ENV = "/run/ignition.env"


class Ignition(Record):
    """Ignition sets this machine up, and may do so again in a boot to come; `sign`: how we know."""

    sign: str
    # It ran in this boot by somebody's own configuration, so that what is there is what they wanted.
    fresh: bool = False
    # And with it the host's name appeared.
    wrote_hostname: bool = False


class Host(Record):
    """What its name needs to know: the same words as in Facts, a few reads."""

    rooted: bool
    privileged: bool
    distro: Distro
    tools: frozenset[str]
    systemd: bool
    kernel_hostname: str
    hostname_file: bytes | None
    hosts_file: bytes | None
    name_files: tuple[NameFile, ...] = ()  # that may have a DHCP client send a name of their own


def read_host(machine: Machine) -> Host:
    return Host(
        rooted=machine.rooted,
        privileged=machine.privileged,
        distro=choose_distro(read_release(machine)),
        tools=frozenset(("hostnamectl",)) if machine.find("hostnamectl") else frozenset(),
        systemd=runs_systemd(machine),
        kernel_hostname=machine.hostname(),
        hostname_file=machine.read("/etc/hostname"),
        hosts_file=machine.read("/etc/hosts", limit=MOST_BYTES),
        name_files=read_name_files(machine),
    )


def has_account(machine: Machine, name: str) -> bool:
    """In the machine's own file."""
    accounts = machine.read("/etc/passwd", limit=MOST_BYTES) or b""
    return any(line.partition(b":")[0] == name.encode() for line in accounts.split(b"\n") if line)


def runs_systemd(machine: Machine) -> bool:
    return not machine.rooted and machine.is_dir("/run/systemd/system")


def read_ignition(machine: Machine) -> Ignition | None:
    """None where it has no part in this machine."""
    found = [path for path in (IGNITION_RESULT, IGNITION_ENV) if machine.stat(path)]
    if IGNITION_RESULT in found:
        from azureinit.facts.ignition import read_result

        return read_result(machine, IGNITION_RESULT)
    told = () if machine.rooted else (machine.read("/proc/cmdline") or b"").split()
    found += [word.decode("ascii", "replace") for word in told if word.startswith(IGNITION_WORDS)]
    return Ignition(sign=found[0]) if found else None
