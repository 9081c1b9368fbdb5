"""The kernel's devices and random numbers, as far as [kernel] may change them."""

from __future__ import annotations

from azureinit.errors import LocalError
from azureinit.record import Record, Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

HEADER = b"# Written by azure-init; `azure-init deprovision` takes it away again.\n"
RULES = "/etc/udev/rules.d"
TIMEOUT_RULES = f"{RULES}/99-azure-init-scsi-timeout.rules"
PACKAGED = ("/usr/lib/udev/rules.d", "/lib/udev/rules.d")
GENERATOR, GENERATED = "75-persistent-net-generator.rules", "70-persistent-net.rules"
NOTED = ".azure-init"  # suffix of a note beside a masked rule file: its old content; udev does not read it
NULL = "/dev/null"
TABLE = "/sys/firmware/acpi/tables/OEM0"
MOST_BYTES = 1 << 20
FED = "/run/azure-init/entropy"
SEEDS_ITSELF = (6, 9)  # the first kernel that does


class Timeout(Record):
    """The running kernel's I/O timeout of one disk. `scale`: units per second."""

    path: str
    value: bytes
    scale: int


class Rules(Record):
    """A udev rule file in /etc that binds interface names to addresses, or generates such files."""

    path: str
    link: str | None = None
    data: bytes | None = None  # of a file that is no link
    packaged: bool = False  # a package has a file of the same name
    noted: bool = False  # azure-init masked it


class Entropy(Record):
    """Entropy that Hyper-V provides, and whether the kernel got it in this boot."""

    release: tuple[int, ...]
    table: Secret | None = None
    fed: bool = False


def read_timeouts(machine: Machine) -> tuple[Timeout, ...]:
    """None under --root: the disks are those of the running system."""
    found = []
    for name in () if machine.rooted else machine.names("/sys/block") or ():
        path, scale = f"/sys/block/{name}/device/timeout", 1
        if name.startswith("nvme"):
            path, scale = f"/sys/block/{name}/queue/io_timeout", 1000
        elif not name.startswith("sd"):
            continue
        value = _read(machine, path)
        if value is not None:
            found.append(Timeout(path=path, value=value, scale=scale))
    return tuple(found)


def read_timeout_rules(machine: Machine) -> bytes | None:
    return _read(machine, TIMEOUT_RULES, limit=MOST_BYTES)


def read_persistent_net(machine: Machine) -> tuple[Rules, ...]:
    return tuple(_read_rules(machine, name) for name in (GENERATOR, GENERATED))


def _read_rules(machine: Machine, name: str) -> Rules:
    path = f"{RULES}/{name}"
    link = machine.read_link(path)
    return Rules(
        path=path,
        link=link,
        data=None if link is not None else _read(machine, path, limit=MOST_BYTES),
        packaged=any(machine.stat(f"{place}/{name}") is not None for place in PACKAGED),
        noted=machine.stat(f"{path}{NOTED}") is not None,
    )


def read_entropy(machine: Machine) -> Entropy:
    release = parse_release(machine.kernel_release())
    if release >= SEEDS_ITSELF or machine.rooted:
        return Entropy(release=release)
    table = _read(machine, TABLE, limit=MOST_BYTES)
    fed = table is not None and machine.stat(FED) is not None
    return Entropy(release=release, table=Secret(table) if table else None, fed=fed)


def parse_release(release: str) -> tuple[int, ...]:
    """`6.1.0-25-amd64` is (6, 1, 0): the rest belongs to the distribution."""
    numbers: list[int] = []
    for part in release.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits or len(digits) > 9:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)


def _read(machine: Machine, path: str, *, limit: int = 64) -> bytes | None:
    """None also where it cannot be read: a file of root's, not a file, or a device that is being removed."""
    try:
        return machine.read(path, limit=limit)
    except LocalError:
        return None
