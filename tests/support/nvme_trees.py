"""NVMe controllers as sysfs shows them, and namespaces with recorded answers."""

from __future__ import annotations

from pathlib import Path

from azureinit.errors import LocalError
from azureinit.machine import Machine

ACCELERATOR = "MSFT NVMe Accelerator v1.0"
DIRECT_V1, DIRECT_V2 = "Microsoft NVMe Direct Disk", "Microsoft NVMe Direct Disk v2"
ANSWER = 4096
VENDOR_SPECIFIC = 384


class NvmeMachine(Machine):
    """`answers`: the vendor-specific area of a device; a device without one cannot be asked."""

    def __init__(self, kernel: Path, answers: dict[str, bytes], environ: dict[str, str] | None = None) -> None:
        super().__init__(kernel=str(kernel), environ=environ or {})
        self.answers = answers

    def identify_namespace(self, path: str) -> bytes:
        if path not in self.answers:
            raise LocalError(f"cannot identify {path}: Operation not permitted", path=path)
        return answer(self.answers[path])


def answer(area: bytes) -> bytes:
    """Identify Namespace: 384 bytes that the standard defines, then the vendor's."""
    return (b"\x01" * VENDOR_SPECIFIC + area).ljust(ANSWER, b"\0")


def add_controller(
    kernel: Path, name: str, *, model: str, namespaces: dict[str, int], vendor: str | None = "0x1414", serial: str = "s"
) -> None:
    """`namespaces`: their names and ids."""
    place = kernel / "sys/class/nvme" / name
    (place / "device").mkdir(parents=True)
    if vendor is not None:
        (place / "device/vendor").write_text(f"{vendor}\n")
    (place / "model").write_text(f"{model:<40}\n")
    (place / "serial").write_text(f"{serial:<20}\n")
    for entry in (f"ng{name[4:]}n1", "power", "hwmon1", "nvme-subsystem"):
        (place / entry).mkdir()
    for entry, nsid in namespaces.items():
        (place / entry).mkdir()
        (place / entry / "nsid").write_text(f"{nsid}\n")


def azure_vm(kernel: Path) -> NvmeMachine:
    """A size with both kinds of disks; discovery numbered two namespaces in another order than their ids."""
    add_controller(
        kernel, "nvme0", model=ACCELERATOR, namespaces={"nvme0n1": 1, "nvme0n10": 33, "nvme0n2": 3, "nvme0n3": 2}
    )
    add_controller(kernel, "nvme10", model=DIRECT_V2, serial="d4e5f6", namespaces={"nvme10n1": 1})
    add_controller(kernel, "nvme2", model=DIRECT_V1, serial="a1b2c3", namespaces={"nvme2n1": 1})
    add_controller(kernel, "nvme3", model="Samsung SSD", vendor="0x144d", namespaces={"nvme3n1": 1})
    add_controller(kernel, "nvme4", model=DIRECT_V2, vendor=None, namespaces={"nvme4n1": 1})  # not on PCI
    remote = dict.fromkeys(("/dev/nvme0n1", "/dev/nvme0n2", "/dev/nvme0n3", "/dev/nvme0n10"), b"")
    told = b"type=local,index=1,name=nvme-110G-1\0rubbish,after=the-end"
    return NvmeMachine(kernel, {**remote, "/dev/nvme2n1": b"", "/dev/nvme10n1": told})
