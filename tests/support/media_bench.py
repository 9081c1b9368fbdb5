"""What the tests of the provisioning media share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from azureinit.errors import LocalError
from azureinit.machine import Clock, ImageFile, Machine
from azureinit.sources.media import Medium, read_media

OVF = (
    "<Environment><ProvisioningSection><LinuxProvisioningConfigurationSet><HostName>{}</HostName>"
    "</LinuxProvisioningConfigurationSet></ProvisioningSection></Environment>"
)


SECRET = "<Environment><UserPassword>hunter2</UserPassword></Wrong>"


class SteppingClock(Clock):
    """Sleeping takes no time; what is due at a moment happens when the clock gets there."""

    def __init__(self) -> None:
        self.time = 0.0
        self.naps: list[float] = []
        self.due: list[tuple[float, Callable[[], object]]] = []

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.naps.append(seconds)
        self.time += seconds
        for entry in [entry for entry in self.due if entry[0] <= self.time]:
            self.due.remove(entry)
            entry[1]()


class Bench(Machine):
    """The real machine on a temporary tree, with drives that can refuse and a kernel that can mount."""

    def __init__(self, tree: Path) -> None:
        self.steps = SteppingClock()
        super().__init__(root=str(tree), kernel=str(tree), clock=self.steps)
        self.tree = tree
        self.refusing: dict[str, int] = {}
        self.mountable: dict[str, bytes] = {}
        self.mounts: list[str] = []
        for directory in ("dev", "proc/self", "sys/block", "sys/bus/scsi/devices"):
            (tree / directory).mkdir(parents=True)

    def open_image(self, path: str) -> ImageFile:
        if path in self.refusing:
            error = LocalError(f"cannot open {path}: refused")
            error.errno = self.refusing[path]
            raise error
        return super().open_image(path)

    def mount_and_read(self, device: str, name: str, *, limit: int) -> bytes | None:
        self.mounts.append(device)
        if device not in self.mountable:
            raise LocalError(f"cannot mount {device}: no")
        return self.mountable[device]

    def put(self, path: str, data: bytes | str) -> None:
        where = self.tree / path
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_bytes(data.encode() if isinstance(data, str) else data)

    def optical(self, name: str, data: bytes | None, *, address: str = "0:0:0:1") -> None:
        self.put(f"sys/bus/scsi/devices/{address}/type", "5\n")
        (self.tree / f"sys/bus/scsi/devices/{address}/block/{name}").mkdir(parents=True)
        (self.tree / f"sys/block/{name}").mkdir()
        if data is not None:
            self.put(f"dev/{name}", data)

    def disk(self, name: str, data: bytes, *, size: int | None = None) -> None:
        self.put(f"sys/block/{name}/size", f"{(size or len(data)) // 512}\n")
        self.put(f"dev/{name}", data)

    def media(self, path: str = "", *, wait: float = 10.0) -> Medium:
        return read_media(self, path=path, deadline=self.steps.time + wait)


def told(medium: Medium) -> tuple[str | None, str | None, str]:
    return medium.ovf.hostname, medium.device, medium.how
