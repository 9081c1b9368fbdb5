"""Growing a mounted partition and its file system, by the tools that this machine has."""

from __future__ import annotations

from azureinit.facts.disks import EXT, GROWFS, XFS
from azureinit.plan.actions import Declined, Run, Way

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.facts.disks import Disk

LONG = 300.0  # seconds; a large disk on slow storage
# Standard input of these tools: to the end of the free space; and yes, the partition is in use.
SFDISK = 'echo ", +" | sfdisk --quiet --force --no-reread -N "$2" "$1"'
PARTED = 'parted --script --fix "$1" print && echo Yes | parted ---pretend-input-tty "$1" resizepart "$2" "$3"'


def growpart(disk: Disk) -> Way | Declined:
    if "growpart" not in disk.tools:
        return Declined(backend="growpart", why="growpart is not installed")
    return Way(backend="growpart", actions=(Run(argv=("growpart", disk.disk, str(disk.number)), timeout=LONG),))


def sfdisk(disk: Disk) -> Way | Declined:
    """sfdisk also moves the backup GPT to the new end of the disk."""
    for tool in ("sfdisk", "partx"):
        if tool not in disk.tools:
            return Declined(backend="sfdisk", why=f"{tool} is not installed")
    number = str(disk.number)
    write = Run(argv=("sh", "-c", SFDISK, "sfdisk", disk.disk, number), timeout=LONG)
    tell_kernel = Run(argv=("partx", "--update", "--nr", number, disk.disk))
    return Way(backend="sfdisk", actions=(write, tell_kernel))


def parted(disk: Disk) -> Way | Declined:
    if "parted" not in disk.tools:
        return Declined(backend="parted", why="parted is not installed")
    last = f"{disk.end // disk.sector - 1}s"
    argv = ("sh", "-c", PARTED, "parted", disk.disk, str(disk.number), last)
    return Way(backend="parted", actions=(Run(argv=argv, timeout=LONG),))


def own_tool(disk: Disk) -> Way | Declined:
    """The tool of the file system itself."""
    argv: tuple[str, ...] = ("btrfs", "filesystem", "resize", f"{disk.devid or 1}:max", disk.mount)
    if disk.filesystem in EXT:
        argv = ("resize2fs", disk.device)
    elif disk.filesystem == XFS:
        argv = ("xfs_growfs", disk.mount)
    if argv[0] not in disk.tools:
        return Declined(backend=argv[0], why=f"{argv[0]} is not installed")
    return Way(backend=argv[0], actions=(Run(argv=argv, timeout=LONG),))


def systemd_growfs(disk: Disk) -> Way | Declined:
    if GROWFS not in disk.tools:
        return Declined(backend="systemd-growfs", why=f"{GROWFS} is not installed")
    return Way(backend="systemd-growfs", actions=(Run(argv=(GROWFS, disk.mount), timeout=LONG),))


if TYPE_CHECKING:
    Backend = Callable[[Disk], Way | Declined]

PARTITION: tuple[Backend, ...] = (growpart, sfdisk, parted)
FILESYSTEM: tuple[Backend, ...] = (own_tool, systemd_growfs)
