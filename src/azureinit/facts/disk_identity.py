"""Which disks are temporary, and how that is known. A disk without proof, or with contradicting signs, is never one.

Proof is one of:
- a SCSI disk on the VMBus device of Azure's resource disk: Gen1 by the id's beginning, Gen2 by id and LUN;
- a SCSI disk that the link /dev/disk/azure/resource names, on a machine without VMBus to compare that with;
- an NVMe namespace whose controller has one of the models of Azure's local disks and Microsoft's PCI vendor id.
"""

from __future__ import annotations

from azureinit.facts.block_devices import read_names, read_number, read_place, read_text, resolve, whole_disks
from azureinit.facts.nvme_namespaces import ACCELERATOR_MODEL, DIRECT_DISK_MODELS, pairs, read_vendor_specific
from azureinit.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from azureinit.facts.block_devices import Block, Blocks
    from azureinit.machine import Machine

NVME, SCSI = "nvme", "scsi"
VMBUS = "/sys/bus/vmbus/devices"
GEN1_RESOURCE, GEN1_OS = "00000000-0001-", "00000000-0000-"
GEN2_SYSTEM = "f8b3781a-1e82-4818-a1c3-63d806ec15bb"
GEN2_OS_LUN, GEN2_RESOURCE_LUN = 0, 1
DATA = ("f8b3781b-", "f8b3781c-", "f8b3781d-")  # VMBus ids of the controllers of data disks
RESOURCE_LINKS = ("/dev/disk/azure/resource", "/dev/disk/cloud/azure_resource")
OS_LINKS = ("/dev/disk/azure/os", "/dev/disk/azure/root", "/dev/disk/cloud/azure_root")
DATA_LINKS = ("/dev/disk/azure/data/by-lun", "/dev/disk/azure/data/by-name", "/dev/disk/azure/scsi1")
MICROSOFT = "0x1414"  # PCI vendor
PCI, LOOP = "pcie", "loop"  # loop: the kernel's own target, for tests
LOCAL = "local"


class Sign(Record):
    """What is known of one disk. `why`: why it is not a temporary disk; empty if it is one."""

    kind: str = ""
    identity: str = ""
    evidence: str = ""
    model: str = ""
    serial: str = ""
    why: str = ""


class Links(Record):
    """udev's links of Azure's disks, as kernel names and the paths that lead to them."""

    resource: tuple[tuple[str, str], ...] = ()
    managed: tuple[tuple[str, str], ...] = ()


def read_signs(machine: Machine, blocks: Blocks, system: Mapping[str, str]) -> dict[str, Sign]:
    """For each whole disk. `system`: disks of the operating system, and the mount point that each of them holds."""
    controllers = _read_controllers(machine)
    links = _read_links(machine, blocks)
    signs: dict[str, Sign] = {}
    for disk in whole_disks(blocks):
        sign = _read_sign(machine, disk, controllers, links, root_known="/" in system.values())
        signs[disk.name] = _contradicted(sign, disk, system.get(disk.name, ""), links)
    return _without_rivals(_without_false_links(signs, links, controllers))


def _read_controllers(machine: Machine) -> tuple[tuple[str, str], ...]:
    """VMBus devices: the directory in sysfs, and the id."""
    return tuple(
        (read_place(machine, f"{VMBUS}/{name}"), read_text(machine, f"{VMBUS}/{name}/device_id").strip("{}").lower())
        for name in read_names(machine, VMBUS)
    )


def _read_links(machine: Machine, blocks: Blocks) -> Links:
    managed = [*OS_LINKS, *(f"{place}/{name}" for place in DATA_LINKS for name in read_names(machine, place))]
    return Links(resource=_targets(machine, blocks, RESOURCE_LINKS), managed=_targets(machine, blocks, managed))


def _targets(machine: Machine, blocks: Blocks, paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
    found = ((resolve(machine, blocks, path), path) for path in paths)
    return tuple((name, path) for name, path in found if name)


def _read_sign(
    machine: Machine, disk: Block, controllers: tuple[tuple[str, str], ...], links: Links, *, root_known: bool
) -> Sign:
    if disk.name.startswith("nvme") or "/nvme" in disk.place:
        return _read_nvme(machine, disk)
    address = _scsi_address(disk)
    if address is None:
        return Sign(why="neither a SCSI disk nor an NVMe disk")
    model = read_text(machine, f"{disk.place}/device/model")
    if read_number(machine, f"{disk.place}/device/type") not in (None, 0):
        return Sign(model=model, why="a SCSI device of another kind than a disk")
    if controllers:
        return replace(_on_vmbus(disk, address, controllers), model=model)
    return replace(_by_link(disk, address, links, root_known=root_known), model=model)


def _scsi_address(disk: Block) -> tuple[int, ...] | None:
    """Host, channel, target and LUN, from .../1:0:0:1/block/sdb."""
    parts = disk.place.split("/")
    numbers = parts[-3].split(":") if len(parts) > 3 and parts[-2] == "block" else []
    if len(numbers) != 4 or not all(number.isascii() and number.isdigit() and len(number) < 20 for number in numbers):
        return None
    return tuple(map(int, numbers))


def _on_vmbus(disk: Block, address: tuple[int, ...], controllers: tuple[tuple[str, str], ...]) -> Sign:
    lun = address[3]
    found = [(len(place), bus_id) for place, bus_id in controllers if disk.place.startswith(f"{place}/")]
    bus_id = max(found)[1] if found else ""
    shown = f"VMBus device {bus_id}, LUN {lun}"
    if bus_id.startswith(GEN1_RESOURCE) or (bus_id == GEN2_SYSTEM and lun == GEN2_RESOURCE_LUN):
        return Sign(kind=SCSI, identity=f"{bus_id}:{lun}", evidence=f"{shown}: Azure's resource disk")
    if bus_id.startswith(GEN1_OS) or (bus_id == GEN2_SYSTEM and lun == GEN2_OS_LUN):
        return Sign(why=f"the OS disk ({shown})")
    if bus_id.startswith(DATA):
        return Sign(why=f"a data disk ({shown})")
    return Sign(why=f"not known to be temporary ({shown})" if bus_id else "not known to be temporary (not on VMBus)")


def _by_link(disk: Block, address: tuple[int, ...], links: Links, *, root_known: bool) -> Sign:
    link = dict(links.resource).get(disk.name, "")
    if not link:
        return Sign(why="not known to be temporary (no VMBus, and no link names it)")
    if not root_known:
        return Sign(why=f"{link} names it, but which disk holds / is unknown")
    shown = ":".join(map(str, address))
    evidence = f"{link} names it, and there is no VMBus to compare that with"
    return Sign(kind=SCSI, identity=f"resource:{shown}", evidence=evidence)


def _read_nvme(machine: Machine, disk: Block) -> Sign:
    """The directory above a namespace is its controller, or its subsystem where the kernel uses several paths."""
    owner = disk.place.rpartition("/")[0]
    model, serial = (read_text(machine, f"{owner}/{field}") for field in ("model", "serial"))
    sign = Sign(model=model, serial=serial)
    if model == ACCELERATOR_MODEL:
        return replace(sign, why=f"a managed disk ({model})")
    if model not in DIRECT_DISK_MODELS:
        return replace(sign, why=f"its model is {model!r}, not that of a local disk of Azure")
    transports, why = _read_paths(machine, owner, model, serial)
    why = why or _strange_serial(serial) or _strange_type(machine, disk)
    if why:
        return replace(sign, why=why)
    evidence = f"model {model}, serial {serial}, {' and '.join(transports)}"
    return replace(sign, kind=NVME, identity=serial, evidence=evidence)


def _read_paths(machine: Machine, owner: str, model: str, serial: str) -> tuple[tuple[str, ...], str]:
    """How the controllers are attached, and why they are not those of a local disk."""
    name = owner.rpartition("/")[2]
    places = [owner]
    if name.startswith("nvme-subsys"):
        below = (one for one in read_names(machine, owner) if one.startswith("nvme") and one[4:].isdigit())
        places = [f"{owner}/{one}" for one in below]
    elif not name[4:].isdigit():
        places = []
    transports = []
    for place in places:
        if (read_text(machine, f"{place}/model"), read_text(machine, f"{place}/serial")) != (model, serial):
            return (), "its controllers differ in model or serial number"
        transport = read_text(machine, f"{place}/transport") or PCI
        if transport not in (PCI, LOOP):
            return (), f"it is reached by {transport}, so it is not local"
        vendor = read_text(machine, f"{place}/device/vendor").lower()
        if transport == PCI and vendor != MICROSOFT:
            return (), f"its PCI vendor is {vendor or 'unknown'}, not Microsoft's {MICROSOFT}"
        transports.append(f"PCI vendor {vendor}" if transport == PCI else "the kernel's own NVMe target")
    return tuple(sorted(set(transports))), "" if transports else "its NVMe controller is unknown"


def _strange_serial(serial: str) -> str:
    if not serial:
        return "it has no serial number"
    known = all("!" < letter <= "~" for letter in serial)
    return "" if known else f"its serial number is not printable: {serial!r}"


def _strange_type(machine: Machine, disk: Block) -> str:
    """What the namespace says of itself. Many say nothing, and only root may ask."""
    text, _why = read_vendor_specific(machine, disk.path)
    known, malformed = pairs(text or "")
    other = [value for key, value in known if key == "type" and value.strip() != LOCAL]
    other += [part for part in malformed if part.startswith("type")]
    return f"its model is a local disk's, but it says that its type is {other[0]!r}" if other else ""


def _contradicted(sign: Sign, disk: Block, holds: str, links: Links) -> Sign:
    """The same sign, unless something else says that the disk is not temporary."""
    managed = dict(links.managed).get(disk.name, "")
    if holds:
        return replace(sign, why=f"the operating system's disk: {holds} lies on it")
    if sign.why:
        return sign
    if managed:
        return replace(sign, why=f"contradiction: {sign.evidence}, but {managed} names it")
    return sign if disk.size else replace(sign, why="its size is zero or unknown")


def _without_false_links(
    signs: dict[str, Sign], links: Links, controllers: tuple[tuple[str, str], ...]
) -> dict[str, Sign]:
    """Where VMBus and the link name different disks, neither is used."""
    found = dict(signs)
    if not controllers:
        return found
    resource = [name for name, sign in signs.items() if sign.kind == SCSI and not sign.why]
    for name, link in links.resource:
        if name in resource or (name in signs and signs[name].kind == NVME):
            continue
        for one in resource:
            found[one] = replace(found[one], why=f"contradiction: {found[one].evidence}, but {link} names {name}")
    return found


def _without_rivals(signs: dict[str, Sign]) -> dict[str, Sign]:
    """Two disks with one serial number, or two resource disks, are a contradiction: none of them is used."""
    found = dict(signs)
    scsi = [name for name, sign in signs.items() if sign.kind == SCSI and not sign.why]
    for name, sign in signs.items():
        if sign.why:
            continue
        same = [other for other, one in signs.items() if sign.serial and one.serial == sign.serial and other != name]
        others = [other for other in scsi if other != name] if sign.kind == SCSI else []
        if same:
            why = f"contradiction: {', '.join(same)} has the same serial number {sign.serial}"
            found[name] = replace(sign, why=why)
        elif others:
            found[name] = replace(sign, why=f"contradiction: {', '.join(others)} seems to be the resource disk too")
    return found
