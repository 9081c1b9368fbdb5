"""Made-up machines with disks: the kernel's files about them and the system's, in one directory.

    tree = DiskTree(tmp_path)
    tree.gen2(data=2)                       # OS disk, resource disk, two data disks on VMBus
    tree.local_nvme("SERIAL1")              # a local NVMe disk of Azure
    tree.mount("/", "sda1")
    facts = tree.facts()

Devices are sparse files of the disks' size, so contents can be written into them.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

from azureinit.config.model import Disk
from azureinit.facts.temporary_disks import DiskFacts, read_disk_facts
from azureinit.machine import Machine
from azureinit.memory.disk_sets import DiskSet

MIB, SECTOR = 1 << 20, 512
ACPI = "devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00"
GEN1_OS, GEN1_RESOURCE = "00000000-0000-8899-0000-000000000000", "00000000-0001-8899-0000-000000000000"
GEN2 = "f8b3781a-1e82-4818-a1c3-63d806ec15bb"
DATA = tuple(f"f8b3781{letter}-1e82-4818-a1c3-63d806ec15bb" for letter in "bcd")
V1, V2 = "Microsoft NVMe Direct Disk", "Microsoft NVMe Direct Disk v2"
REMOTE = "MSFT NVMe Accelerator v1.0"
UUIDS = "/proc/sys/kernel/random/uuid"


class TreeMachine(Machine):
    """`claimed`: why a device cannot be opened exclusively. `described`: what an NVMe namespace says of itself.

    `meanwhile`: what happens between the reading of the mounts and that of the mount points.
    """

    claimed: dict[str, str]
    described: dict[str, str]
    meanwhile: Callable[[], None] | None = None
    count = 0

    def read(self, path: str, *, limit: int = 1 << 20, beneath: str | None = None) -> bytes | None:
        if path == UUIDS:
            self.count += 1
            return f"{uuid.UUID(int=self.count)}\n".encode()
        return super().read(path, limit=limit, beneath=beneath)

    def is_claimed(self, path: str) -> str:
        if self.meanwhile is not None:
            self.meanwhile()
        return self.claimed.get(path) or super().is_claimed(path)

    def identify_namespace(self, path: str) -> bytes:
        return bytes(384) + self.described.get(path, "").encode().ljust(3712, b"\0")


class DiskTree:
    """One machine. Sizes are MiB."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.claimed: dict[str, str] = {}
        self.described: dict[str, str] = {}
        self.devices = 0
        self.letters = iter("abcdefghijklmnopqrstuvwxyz")
        self.controllers = 0
        self.mounts: list[str] = []
        self.places: dict[str, str] = {}
        self.numbers: dict[str, str] = {}
        for name in ("sys/class/block", "dev", "etc", "run", "proc/self", "proc/1"):
            (place / name).mkdir(parents=True)
        self.write("etc/fstab", "# static file system information\n")
        self.write("proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n")

    # ---- files

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def link(self, name: str, target: str) -> None:
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    def install(self, *tools: str) -> None:
        for tool in tools:
            self.write(f"bin/{tool}", "#!/bin/sh\n").chmod(0o755)

    # ---- devices

    def block(self, name: str, place: str, *, size: int, number: str = "") -> str:
        """A block device at a place below /sys, with its node. Returns its name."""
        self.devices += 1
        number = number or f"{259 if name.startswith('nvme') else 8}:{self.devices * 16}"
        self.places[name], self.numbers[name] = place, number
        for field, value in (("size", size * MIB // SECTOR), ("ro", 0), ("dev", number)):
            self.write(f"sys/{place}/{field}", f"{value}\n")
        for directory in ("holders", "slaves"):
            (self.place / f"sys/{place}/{directory}").mkdir(parents=True)
        self.link(f"sys/class/block/{name}", f"../../{place}")
        node = self.place / "dev" / name.replace("!", "/")
        node.parent.mkdir(parents=True, exist_ok=True)
        with node.open("wb") as file:
            os.truncate(file.fileno(), size * MIB)
        return name

    def disk(self, name: str, place: str, *, size: int, sector: int = SECTOR) -> str:
        self.block(name, place, size=size)
        self.write(f"sys/{place}/queue/logical_block_size", f"{sector}\n")
        return name

    def partition(self, disk: str, number: int, *, start: int = 1, size: int = 1) -> str:
        name = f"{disk}{'p' if disk[-1].isdigit() else ''}{number}"
        place = f"{self.places[disk]}/{name}"
        self.block(name, place, size=size)
        self.write(f"sys/{place}/start", f"{start * MIB // SECTOR}\n")
        self.write(f"sys/{place}/partition", f"{number}\n")
        return name

    def scsi(self, bus_id: str, *, lun: int = 0, size: int = 4, name: str = "") -> str:
        """A disk on a VMBus device; one device for each id."""
        device = f"{ACPI}/{bus_id}"
        if not (self.place / f"sys/{device}").exists():
            self.write(f"sys/{device}/device_id", f"{{{bus_id}}}\n")
            self.link(f"sys/bus/vmbus/devices/{bus_id}", f"../../../{device}")
        return self._scsi(device, lun=lun, size=size, name=name)

    def virtio_scsi(self, *, lun: int = 0, size: int = 4, name: str = "") -> str:
        return self._scsi("devices/pci0000:00/0000:00:05.0/virtio2", lun=lun, size=size, name=name)

    def _scsi(self, device: str, *, lun: int, size: int, name: str) -> str:
        name = name or f"sd{next(self.letters)}"
        target = f"{device}/host0/target0:0:0/0:0:0:{lun}"
        self.write(f"sys/{target}/type", "0\n")
        self.write(f"sys/{target}/model", "Virtual Disk    \n")
        self.disk(name, f"{target}/block/{name}", size=size)
        self.link(f"sys/{target}/block/{name}/device", "../..")
        return name

    def controller(self, model: str, serial: str, *, transport: str = "pcie", vendor: str = "0x1414") -> str:
        """An NVMe controller; the directory below /sys."""
        number = self.controllers
        self.controllers += 1
        function = f"{ACPI}/pci-{number}/pci{number:04x}:00/{number:04x}:00:00.0"
        place = f"{function}/nvme/nvme{number}"
        for field, value in (("model", model.ljust(40)), ("serial", serial.ljust(20)), ("transport", transport)):
            self.write(f"sys/{place}/{field}", f"{value}\n")
        if vendor:
            self.write(f"sys/{function}/vendor", f"{vendor}\n")
            self.link(f"sys/{place}/device", f"../../../{function.rpartition('/')[2]}")
        self.link(f"sys/class/nvme/nvme{number}", f"../../{place}")
        return place

    def namespace(self, controller: str, number: int = 1, *, size: int = 4, sector: int = SECTOR) -> str:
        name = f"{controller.rpartition('/')[2]}n{number}"
        return self.disk(name, f"{controller}/{name}", size=size, sector=sector)

    def local_nvme(self, serial: str, *, model: str = V2, size: int = 4, sector: int = SECTOR) -> str:
        name = self.namespace(self.controller(model, serial), size=size, sector=sector)
        if model == V2:
            self.described[f"/dev/{name}"] = "type=local,index=1,name=nvme-440G-1"
        return name

    def multipath_nvme(self, model: str, serial: str, *, size: int = 4, transport: str = "loop") -> str:
        """A namespace as the kernel shows it with native multipath: below its subsystem, with a hidden path."""
        controller = self.controller(model, serial, transport=transport, vendor="0x1414" if transport == "pcie" else "")
        own = controller.rpartition("/")[2]
        number = own[len("nvme") :]
        subsystem = f"devices/virtual/nvme-subsystem/nvme-subsys{number}"
        for field, value in (("model", model.ljust(40)), ("serial", serial)):
            self.write(f"sys/{subsystem}/{field}", f"{value}\n")
        self.link(f"sys/{subsystem}/{own}", "../../../../" + controller)
        self.block(f"nvme{number}c{number}n1", f"{controller}/nvme{number}c{number}n1", size=size)
        self.write(f"sys/{controller}/nvme{number}c{number}n1/hidden", "1\n")
        return self.disk(f"nvme{number}n1", f"{subsystem}/nvme{number}n1", size=size)

    def stack(self, name: str, below: Iterable[str], *, size: int = 4, uuid: str = "", mapped: str = "") -> str:
        """md127, dm-0: a device made of others."""
        place = f"devices/virtual/block/{name}"
        self.block(name, place, size=size, number=f"{253 if name.startswith('dm') else 9}:{self.devices}")
        if name.startswith("dm-"):
            self.write(f"sys/{place}/dm/name", f"{mapped or name}\n")
            self.write(f"sys/{place}/dm/uuid", f"{uuid}\n")
        elif uuid:
            self.write(f"sys/{place}/md/uuid", f"{uuid}\n")
        for one in below:
            self.link(f"sys/{place}/slaves/{one}", f"../../{one}")
            self.link(f"sys/{self.places[one]}/holders/{name}", f"../../{name}")
        return name

    # ---- use

    def mount(self, point: str, device: str, *, kind: str = "ext4", options: str = "rw", source: str = "") -> None:
        """`device`: a kernel name, or a number like 0:40 with a source of its own."""
        number = self.numbers.get(device, device)
        shown = point.replace("\\", "\\134").replace(" ", "\\040")
        source = source or (f"/dev/{device}" if device in self.numbers else kind)
        self.mounts.append(
            f"{30 + len(self.mounts)} 1 {number} / {shown} {options},relatime - {kind} {source} {options}\n"
        )
        self.write("proc/self/mountinfo", "".join(self.mounts))

    def swap(self, path: str, *, kind: str = "partition") -> None:
        table = (self.place / "proc/swaps").read_text()
        self.write("proc/swaps", f"{table}{path}\t\t\t\t{kind}\t\t1048572\t\t0\t\t-2\n")

    # ---- machines as Azure has them

    def gen1(self, *, data: int = 0, resource: bool = True) -> None:
        self.mount("/", self.partition(self.scsi(GEN1_OS), 1))
        if resource:
            self.scsi(GEN1_RESOURCE)
        for lun in range(data):
            self.scsi(DATA[0], lun=lun)

    def gen2(self, *, data: int = 0, resource: bool = True) -> None:
        self.mount("/", self.partition(self.scsi(GEN2, lun=0), 1))
        if resource:
            self.scsi(GEN2, lun=1)
        for lun in range(data):
            self.scsi(DATA[lun % len(DATA)], lun=lun)

    def remote_nvme(self, *, data: int = 0) -> None:
        """Sizes of version 6 and later: OS disk and data disks are namespaces of one controller."""
        controller = self.controller(REMOTE, "SN: 000001")
        self.mount("/", self.partition(self.namespace(controller, 1), 1))
        for number in range(data):
            self.namespace(controller, 2 + number)

    def machine(self) -> TreeMachine:
        where = str(self.place)
        machine = TreeMachine(root=where, kernel=where, search=(f"{where}/bin",))
        machine.claimed, machine.described = self.claimed, self.described
        return machine

    def facts(self, settings: Disk | None = None, sets: tuple[DiskSet, ...] = ()) -> DiskFacts:
        return read_disk_facts(self.machine(), settings or Disk(), sets)
