"""The namespaces of Azure's NVMe controllers, and what each says that it is.

A namespace describes itself in the vendor-specific area of Identify Namespace, as `key=value,...`: type (os, data,
local), index, lun, name. Today only Direct Disk v2 fills that area; for other models, model and namespace id decide.
"""

from __future__ import annotations

from azureinit.errors import LocalError
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

CLASS = "/sys/class/nvme"
MICROSOFT = 0x1414  # PCI vendor
ACCELERATOR_MODEL = "MSFT NVMe Accelerator v1.0"  # managed disks: the OS disk and data disks
DIRECT_DISK_MODELS = ("Microsoft NVMe Direct Disk", "Microsoft NVMe Direct Disk v2")  # temporary disks
VENDOR_SPECIFIC = 384  # where that area begins in the answer; it ends with the answer
OS_NSID, FIRST_DATA_NSID = 1, 2

Pairs = tuple[tuple[str, str], ...]


class Namespace(Record):
    path: str
    model: str
    serial: str
    nsid: int
    vendor_specific: str | None = None  # None: the namespace could not be asked, `why` says why
    why: str = ""

    @property
    def description(self) -> str:
        """What the namespace says of itself, or else what its model and number say."""
        return self.vendor_specific or ("" if self.vendor_specific is None else described(self.model, self.nsid))


def read_namespaces(machine: Machine) -> tuple[Namespace, ...] | None:
    """Of all controllers of Microsoft's, in the order of their numbers; None if the kernel has no NVMe."""
    names = machine.names(CLASS)
    if names is None:
        return None
    controllers = [name for name in _by_number(names, "nvme") if _vendor(machine, name) == MICROSOFT]
    return tuple(one for name in controllers for one in _read_controller(machine, f"{CLASS}/{name}"))


def _by_number(names: tuple[str, ...], before: str) -> list[str]:
    """The names that consist of `before` and a number, in the order of the numbers."""
    numbers = {name: name[len(before) :] for name in names if name.startswith(before)}
    return sorted((name for name in numbers if numbers[name].isdigit()), key=lambda name: int(numbers[name]))


def _vendor(machine: Machine, controller: str) -> int:
    try:
        return int(_attribute(machine, f"{CLASS}/{controller}/device/vendor") or "0", 16)
    except ValueError:
        return 0


def _read_controller(machine: Machine, place: str) -> list[Namespace]:
    model, serial = (_attribute(machine, f"{place}/{name}") for name in ("model", "serial"))
    found = []
    for entry, name in _devices(machine.names(place) or ()):
        path, nsid = f"/dev/{name}", _attribute(machine, f"{place}/{entry}/nsid")
        number = int(nsid if nsid.isdigit() else name.rpartition("n")[2])
        text, why = read_vendor_specific(machine, path)
        found.append(Namespace(path=path, model=model, serial=serial, nsid=number, vendor_specific=text, why=why))
    return found


def _devices(names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Entries of a controller's directory that are namespaces, and the names of their devices.

    With multipath the entry is a hidden path, nvme0c1n2, and the device is nvme0n2.
    """
    found = []
    for entry in names:
        controller, _, number = entry.removeprefix("nvme").rpartition("n") if entry.startswith("nvme") else ("", "", "")
        subsystem, _, path = controller.partition("c")
        if subsystem.isdigit() and number.isdigit() and (path or "0").isdigit():
            found.append((int(subsystem), int(number), entry))
    return [(entry, f"nvme{subsystem}n{number}") for subsystem, number, entry in sorted(found)]


def _attribute(machine: Machine, path: str) -> str:
    try:
        return (machine.read(path, limit=4096) or b"").decode("ascii", "replace").strip()
    except LocalError:
        return ""  # the device has just gone


def read_vendor_specific(machine: Machine, path: str) -> tuple[str | None, str]:
    """The text in the vendor-specific area of that namespace; or None, and why it cannot be read."""
    try:
        return vendor_text(machine.identify_namespace(path)[VENDOR_SPECIFIC:]), ""
    except LocalError as error:
        return None, str(error)


def vendor_text(data: bytes) -> str:
    """The area up to its first NUL. It is printed in lines: what is not printable ASCII becomes `?`."""
    text = data.partition(b"\0")[0].decode("latin-1")
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text)


def parse_vendor_specific(data: bytes) -> tuple[tuple[str, str], ...]:
    """Keys and values of the area, in their order. Parts without a key or a value are left out."""
    return pairs(vendor_text(data))[0]


def pairs(text: str) -> tuple[Pairs, tuple[str, ...]]:
    """Keys and values, and the parts that are not of that form. Keys are letters, digits and underscores."""
    found, malformed = [], []
    for part in filter(None, text.split(",")):
        key, _, value = part.partition("=")
        if value and key.replace("_", "a").isalnum():
            found.append((key, value))
        else:
            malformed.append(part)
    return tuple(found), tuple(malformed)


def described(model: str, nsid: int) -> str:
    """For models that do not describe themselves, in the same form; empty for models that are not known."""
    if model == ACCELERATOR_MODEL:
        return "type=os" if nsid == OS_NSID else f"type=data,lun={nsid - FIRST_DATA_NSID}"
    return "type=local" if model in DIRECT_DISK_MODELS else ""
