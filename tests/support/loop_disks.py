"""Loop devices in the role of temporary disks: real content, the real executor, and the planner between them."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from azureinit.config.model import Disk
from azureinit.facts.disk_content import read_device
from azureinit.facts.temporary_disks import DiskFacts, MountPoint, Partition, TemporaryDisk
from azureinit.machine import Machine
from azureinit.memory.disk_sets import parse_disk_sets
from azureinit.plan.actions import work_left
from azureinit.plan.disks import plan_disks
from azureinit.record import replace
from support.disk_cases import TOOLS, VM
from support.execution import apply
from support.need import need, need_root, unfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.memory.disk_sets import DiskSet
    from azureinit.plan.actions import Plan

MIB = 1 << 20
SIZE = 400 * MIB
SECTOR = 512
ROUNDS = 6
# Swap is not switched on: it would be the swap of the machine that runs the tests.
SWAPON = '#!/bin/sh\necho "$@" >>"${0%/*}/swapped-on"\n'
CALLS = "write,pwrite64,fsync,ioctl"
# That start of the program kills the agent, and itself.
KILLED = """#!/bin/sh
here=${0%/*}
[ -e $here/killed ] || echo >>$here/starts
[ ! -e $here/killed ] && [ $(wc -l <$here/starts) = START ] || exec REAL "$@"
HOW
touch $here/killed
kill -9 $(cat $here/agent) 0
"""


def run(*command: str, text: str = "") -> str:
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=120).stdout.strip()


class LoopDisk:
    """One temporary disk and a computer that has nothing else."""

    def __init__(self, place: Path, device: str, kind: str, settings: dict[str, Any]) -> None:
        self.place, self.device, self.kind = place, device, kind
        self.bin, self.point = place / "bin", place / "mounted"
        self.bin.mkdir()
        self.shim("swapon", SWAPON)
        path = f"{self.bin}:{os.environ['PATH']}:/usr/sbin:/sbin"
        self.machine = Machine(environ={**os.environ, "PATH": path})
        self.sets_path = str(place / "data" / f"{VM}.disks")
        mounts = {"mount_point": str(self.point), "scsi_mount_point": str(place / "resource")}
        self.settings = Disk(**{**mounts, "scsi": "fallback", **settings})

    def shim(self, name: str, script: str) -> None:
        (self.bin / name).write_text(script)
        (self.bin / name).chmod(0o755)

    @property
    def sets(self) -> tuple[DiskSet, ...]:
        file = Path(self.sets_path)
        return parse_disk_sets(file.read_bytes()) if file.exists() else ()

    def mounts(self) -> dict[str, str]:
        """By device."""
        rows = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        return {row[0]: row[1] for row in rows if row[0].startswith(self.device)}

    def partitions(self) -> tuple[Partition, ...]:
        mounts = self.mounts()
        if not mounts:
            for word in ("--delete", "--add"):
                subprocess.run(("partx", word, self.device), capture_output=True, check=False)
        name = self.device.rpartition("/")[2]
        found = []
        for place in sorted(Path(f"/sys/block/{name}").glob(f"{name}p*")):
            start, size, number = (int((place / word).read_text()) for word in ("start", "size", "partition"))
            path = f"/dev/{place.name}"
            content = read_device(self.machine, path, size * SECTOR)
            found.append(
                Partition(
                    name=place.name,
                    path=path,
                    number=number,
                    start=start * SECTOR,
                    size=size * SECTOR,
                    mounts=(mounts[path],) if path in mounts else (),
                    content=content,
                )
            )
        return tuple(found)

    def facts(self) -> DiskFacts:
        mounts, parts = self.mounts(), self.partitions()
        only = (parts[0].start, parts[0].size) if len(parts) == 1 else None
        disk = TemporaryDisk(
            name=self.device.rpartition("/")[2],
            path=self.device,
            kind=self.kind,
            identity="loop",
            size=SIZE,
            evidence="a test says so",
            partitions=parts,
            mounts=tuple(mounts.values()),
            busy=f"mounted at {', '.join(mounts.values())}" if mounts else "",
            content=read_device(self.machine, self.device, SIZE, only=only),
        )
        there = next((device for device, point in mounts.items() if point == str(self.point)), "")
        state = "mounted" if there else "empty" if self.point.exists() else "absent"
        point = MountPoint(path=str(self.point), state=state, source=there)
        notice = self.point / "DATALOSS_WARNING_README.txt"
        swap = self.point / "swapfile"
        used = (self.bin / "swapped-on").read_text().split() if (self.bin / "swapped-on").exists() else []
        found = DiskFacts(
            disks=(disk,),
            fstab=None,
            fstab_writable=False,
            points=(point,),
            tools=frozenset(tool for tool in TOOLS if self.machine.find(tool)),
            fresh=tuple(str(uuid.uuid4()) for _ in range(8)),
            notices=(str(notice),) if notice.exists() else (),
            swap_files=((str(swap), swap.stat().st_size),) if swap.exists() else (),
            active_swaps=tuple(used),
        )
        if there:
            free = os.statvfs(self.point)
            found = replace(found, free_space=((str(self.point), free.f_bavail * free.f_frsize),))
        return found

    def plan(self, *, recreate: bool = False) -> Plan:
        return plan_disks(self.settings, self.facts(), self.sets, vm_id=VM, sets_path=self.sets_path, recreate=recreate)

    def setup(self) -> Plan:
        """Plan and apply until there is nothing left to do."""
        for _ in range(ROUNDS):
            made = self.plan()
            if not work_left(made):
                return made
            apply(self.machine, made)
        raise AssertionError("there is always something left to do")

    def setup_killed(self, tool: str, where: str, *, start: int = 1) -> bool:
        """Killed before that start of the tool, after it, or at its Nth system call on the disk, if it gets there."""
        real = need(tool)
        traced = f"strace -f -qq -o /dev/null -P {self.device} -P {self.device}p1 -e trace={CALLS}"
        at = f'{traced} -e inject={CALLS}:signal=KILL:when={where} {real} "$@"; [ $? -ge 128 ] || exit 1'
        how = {"before": "", "after": f'{real} "$@"'}.get(where, at)
        self.shim(tool, KILLED.replace("START", str(start)).replace("REAL", real).replace("HOW", how))
        agent = os.fork()
        if not agent:
            try:
                os.setsid()
                (self.bin / "agent").write_text(str(os.getpid()))
                self.setup()
            finally:
                os._exit(0)
        os.waitpid(agent, 0)
        (self.bin / tool).unlink()
        return (self.bin / "killed").exists()

    def reboot(self) -> None:
        for point in self.mounts().values():
            run("umount", point)
        (self.bin / "swapped-on").unlink(missing_ok=True)


@contextmanager
def loop_disk(place: Path, kind: str = "nvme", **settings: Any) -> Iterator[LoopDisk]:
    need_root()
    for tool in ("losetup", "partx", "mkfs.ext4"):
        need(tool)
    image = place / "disk.img"
    with image.open("wb") as file:
        file.truncate(SIZE)
    try:
        device = run("losetup", "--find", "--show", str(image))
    except subprocess.CalledProcessError as error:
        unfit(f"no loop device: {error.stderr.strip()}")
    disk = LoopDisk(place, device, kind, settings)
    try:
        yield disk
    finally:
        disk.reboot()
        subprocess.run(("partx", "--delete", device), capture_output=True, check=False)
        run("losetup", "--detach", device)
