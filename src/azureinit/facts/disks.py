"""The disk under a file system: unused space behind its partition, or in it.

Read in every boot: the usual answer, that everything is used, takes a few small reads. All sizes are in bytes.
"""

from __future__ import annotations

from azureinit.errors import LocalError
from azureinit.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

MOUNTS = "/proc/self/mountinfo"
SECTOR = 512  # sysfs counts in sectors of 512 bytes, whatever the disk's are
LEAST_ROOM = 16 << 20  # alignment and the backup partition table leave less than this
GROWFS = "/usr/lib/systemd/systemd-growfs"
TOOLS = ("growpart", "sfdisk", "partx", "parted", "resize2fs", "xfs_growfs", "btrfs")
EXT, XFS, BTRFS = ("ext4", "ext3", "ext2"), "xfs", "btrfs"
MOST_ON_DOS = 0xFFFFFFFF  # sectors of the disk's own size
PRIMARIES = 4  # of a DOS table; the others lie inside one of these
NO_GROW = "no-grow-root"  # in the VM's directory: customData has switched it off
DM = {"LVM-": "a logical volume: lvextend -r grows it", "CRYPT-": "encrypted: cryptsetup resize grows it"}


class Disk(Record):
    """The device of one file system, and how far it can grow."""

    mount: str
    filesystem: str = ""
    device: str = ""
    size: int = 0  # of the device
    filled: int | None = None  # how much of it the file system uses; None where that cannot be read
    devid: int = 0  # btrfs's own number for it
    disk: str = ""  # the whole one, where the device is a partition
    number: int = 0  # of the partition
    end: int = 0  # where the partition could end
    room: int = 0  # how far behind its current end that is
    sector: int = SECTOR
    tools: frozenset[str] = frozenset()  # searched only where the file system can grow
    not_ours: str = ""  # why it cannot be grown here

    @property
    def slack(self) -> int:
        """The part of the device that the file system does not use."""
        return 0 if self.filled is None else max(0, self.size - self.filled)

    @property
    def grows(self) -> bool:
        return not self.not_ours and max(self.room, self.slack) >= LEAST_ROOM


class Superblock(Record):
    """What a file system says of itself; nothing where it is not the one that was expected."""

    filled: int | None = None
    devid: int = 0
    not_ours: str = ""


class Mount(Record):
    device: str  # major:minor
    filesystem: str
    source: str
    writable: bool


class Block(Record):
    """A block device as sysfs has it. `place` is its directory there."""

    place: str
    size: int
    start: int = 0
    number: int = 0  # 0: not a partition

    @property
    def name(self) -> str:
        return self.place.rpartition("/")[2]

    @property
    def path(self) -> str:
        return "/dev/" + self.name.replace("!", "/")

    @property
    def parent(self) -> str:
        return self.place.rpartition("/")[0]


def read_root_disk(machine: Machine, mount: str = "/") -> Disk | None:
    """None under --root, or where the kernel's tables cannot be read."""
    found = None if machine.rooted else parse_mount(machine.read(MOUNTS) or b"", mount)
    if found is None:
        return None
    not_ours = _strange(found)
    block = None if not_ours else _block(machine, found)
    if block is None:
        return Disk(mount=mount, filesystem=found.filesystem, not_ours=not_ours or f"{found.source} is not a disk")
    not_ours = _mapped(machine, block)
    if not_ours:
        return Disk(mount=mount, filesystem=found.filesystem, device=block.path, size=block.size, not_ours=not_ours)
    return _measured(machine, found.filesystem, mount, block)


def is_grow_off(machine: Machine, directory: str) -> bool:
    """`directory`: the VM's own."""
    return machine.stat(f"{directory}/{NO_GROW}", follow=False) is not None


def parse_mount(data: bytes, point: str) -> Mount | None:
    """The topmost mount at that place."""
    for line in reversed(data.decode("utf-8", "surrogateescape").split("\n")):
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if len(fields) < 6 or len(kind) < 3 or fields[4] != point:
            continue
        writable = "ro" not in fields[5].split(",") and "ro" not in kind[2].split(",")
        return Mount(device=fields[2], filesystem=kind[0], source=kind[1], writable=writable)
    return None


def _strange(mount: Mount) -> str:
    if mount.filesystem not in (*EXT, XFS, BTRFS):
        return f"{mount.filesystem} cannot be grown"
    return "" if mount.writable else "it is mounted read-only"


def _block(machine: Machine, mount: Mount) -> Block | None:
    where = f"/sys/dev/block/{mount.device}"
    if mount.device.startswith("0:"):  # btrfs has its own device number and shows only the device's name
        source = machine.read_link(mount.source) or mount.source
        where = f"/sys/class/block/{source.rpartition('/')[2]}"
    link = machine.read_link(where)
    if link is None:
        return None
    place = "/sys/" + link.replace("../", "")
    size, start, number = (_number(machine, f"{place}/{name}") for name in ("size", "start", "partition"))
    return None if not size else Block(place=place, size=size * SECTOR, start=start * SECTOR, number=number)


def _number(machine: Machine, path: str) -> int:
    text = (machine.read(path, limit=64) or b"").strip()
    return int(text) if text.isdigit() else 0


def _mapped(machine: Machine, block: Block) -> str:
    if block.name.startswith("dm-"):
        uuid = (machine.read(f"{block.place}/dm/uuid", limit=256) or b"").decode("ascii", "replace")
        return next((why for prefix, why in DM.items() if uuid.startswith(prefix)), "mapped onto other devices")
    return "an array of disks" if block.name.startswith("md") else ""


def _measured(machine: Machine, filesystem: str, mount: str, block: Block) -> Disk:
    disk = Disk(mount=mount, filesystem=filesystem, device=block.path, size=block.size)
    try:
        disk = replace(disk, **_read_superblock(machine, filesystem, mount, block.path).as_dict())
    except LocalError:
        pass  # only root may read it: the slack stays unknown
    try:
        disk = _with_room(machine, disk, block) if block.number and not disk.not_ours else disk
    except LocalError as error:
        disk = replace(disk, not_ours=str(error))
    return replace(disk, tools=_tools(machine)) if disk.grows else disk


def _with_room(machine: Machine, disk: Disk, block: Block) -> Disk:
    whole, own_end = _number(machine, f"{block.parent}/size") * SECTOR, block.start + block.size
    name = block.parent.rpartition("/")[2].replace("!", "/")
    disk = replace(disk, disk=f"/dev/{name}", number=block.number, end=own_end)
    if whole - own_end < LEAST_ROOM:
        return disk
    sector = _number(machine, f"{block.parent}/queue/logical_block_size") or SECTOR
    end = min((whole, *_starts(machine, block)))
    table = _table(machine, disk.disk, sector)
    if table == "gpt":
        copy = sector + max(sector, 16384)  # its header, and 128 entries of 128 bytes
        end = min(end, whole - copy)
    elif table == "dos":
        if block.number > PRIMARIES:
            return replace(disk, not_ours="a logical partition lies inside another one")
        end = min(end, MOST_ON_DOS * sector)
    else:
        return replace(disk, not_ours="its partition table is of an unknown kind")
    return replace(disk, sector=sector, end=max(end, own_end), room=max(0, end - own_end))


def _starts(machine: Machine, block: Block) -> list[int]:
    """Of the partitions behind this one."""
    names = [name for name in machine.names(block.parent) or () if name.startswith(block.parent.rpartition("/")[2])]
    starts = [_number(machine, f"{block.parent}/{name}/start") * SECTOR for name in names]
    return [start for start in starts if start > block.start]


def _table(machine: Machine, disk: str, sector: int) -> str:
    first = _read(machine, disk, 0, 2 * sector)
    if first[sector : sector + 8] == b"EFI PART":
        return "gpt"
    return "dos" if first[510:512] == b"\x55\xaa" else ""


def _read_superblock(machine: Machine, filesystem: str, mount: str, device: str) -> Superblock:
    if filesystem == XFS:
        from azureinit.machine.kernel import xfs_size

        size = xfs_size(machine, mount)
        if size is not None:
            return Superblock(filled=size)
    if filesystem == BTRFS:
        return parse_btrfs(_read(machine, device, 65536, 4096))
    head = _read(machine, device, 0, 4096)
    return parse_xfs(head) if filesystem == XFS else parse_ext(head)


def _read(machine: Machine, path: str, offset: int, length: int) -> bytes:
    image = machine.open_image(path)
    try:
        return image.read(offset, length)
    finally:
        image.close()


def parse_ext(head: bytes) -> Superblock:
    own = head[1024:2048]
    if len(own) < 1024 or own[56:58] != b"\x53\xef":
        return Superblock()
    high = _little(own, 336, 4) if _little(own, 96, 4) & 0x80 else 0
    return Superblock(filled=(high << 32 | _little(own, 4, 4)) << 10 + min(_little(own, 24, 4), 6))


def parse_xfs(head: bytes) -> Superblock:
    if len(head) < 16 or head[:4] != b"XFSB":
        return Superblock()
    return Superblock(filled=int.from_bytes(head[4:8], "big") * int.from_bytes(head[8:16], "big"))


def parse_btrfs(head: bytes) -> Superblock:
    if len(head) < 217 or head[64:72] != b"_BHRfS_M":
        return Superblock()
    if _little(head, 136, 8) != 1:
        return Superblock(not_ours="btrfs has it on several devices")
    return Superblock(filled=_little(head, 209, 8), devid=_little(head, 201, 8))


def _little(data: bytes, at: int, length: int) -> int:
    return int.from_bytes(data[at : at + length], "little")


def _tools(machine: Machine) -> frozenset[str]:
    found = {tool for tool in TOOLS if machine.find(tool)}
    return frozenset({*found, GROWFS} if machine.is_file(GROWFS) else found)
