"""Reads everything that the setup of temporary disks is decided by."""

from __future__ import annotations

import stat

from azureinit.errors import LocalError
from azureinit.facts.block_devices import partitions, read_blocks, read_names, read_number, read_text, resolve, under
from azureinit.facts.disk_conflicts import read_cloud_init, read_waagent_formats
from azureinit.facts.disk_content import read_device
from azureinit.facts.disk_identity import read_signs
from azureinit.facts.disk_use import read_claim, read_disk_use, read_uses, read_writers, system_disks
from azureinit.facts.fstab import FSTAB, is_fstab_writable, parse_fstab, read_point, read_udev_labels
from azureinit.facts.signatures import View, find_signatures
from azureinit.facts.temporary_disks import Assembled, DiskFacts, OtherDisk, Partition, TemporaryDisk
from azureinit.machine.disk_use import free_bytes
from azureinit.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from azureinit.config.model import Disk
    from azureinit.facts.block_devices import Block, Blocks
    from azureinit.facts.disk_content import Content
    from azureinit.facts.disk_identity import Sign
    from azureinit.facts.disk_use import Uses
    from azureinit.machine import Machine

TOOLS = (
    "blkid", "chattr", "fallocate", "lvcreate", "mdadm", "mkfs.btrfs", "mkfs.ext4", "mkfs.xfs", "mkswap", "mount",
    "pvcreate", "restorecon", "sfdisk", "swapoff", "swapon", "systemctl", "udevadm", "vgchange", "vgcreate", "wipefs",
)  # fmt: skip
NEW_UUID = "/proc/sys/kernel/random/uuid"
NEW_UUIDS = 12
SYSTEMD = "/run/systemd/system"
SWAP_HEAD, SWAP_KINDS = 64 << 10, ("swap", "suspended system")  # the signature is in the first page
SWAP_FILE, NOTICE = "swapfile", "DATALOSS_WARNING_README.txt"
MOUNT_UNITS, WRITTEN = ("/etc/systemd/system", SYSTEMD), b"# Written by azure-init,"  # how our own ones begin
ARRAY_LINKS, ARRAY_LINK = "/dev/disk/by-id", "md-uuid-"
MOST = 1 << 20
MOST_READINGS = 3
UNKNOWN = "what is mounted is unknown: /proc/self/mountinfo is missing or empty"


def read_all(machine: Machine, settings: Disk, recorded: frozenset[str]) -> DiskFacts:
    """`recorded`: identities of the disks that this VM has set up.

    Everything is read again if a device was mounted or became swap meanwhile: at a boot, systemd mounts what /etc/fstab
    names at the same time, and a file system of ours would look like files in the mount point.
    """
    left = MOST_READINGS
    while True:
        blocks = read_blocks(machine)
        uses = read_uses(machine, blocks)
        facts = _read_once(machine, settings, recorded, blocks, uses)
        now = read_uses(machine, read_blocks(machine))
        left -= 1
        if not left or (now.mounts, now.swaps) == (uses.mounts, uses.swaps):
            return facts


def _read_once(machine: Machine, settings: Disk, recorded: frozenset[str], blocks: Blocks, uses: Uses) -> DiskFacts:
    signs = read_signs(machine, blocks, system_disks(machine, blocks, uses))
    if not uses.table:
        signs = {name: replace(sign, why=sign.why or UNKNOWN) for name, sign in signs.items()}
    temporary = [blocks[name] for name, sign in signs.items() if not sign.why]
    disks = tuple(_read_disk(machine, blocks, uses, disk, signs[disk.name]) for disk in temporary)
    paths = [block.path for block in blocks.values() if block.stacked]
    paths += [path for disk in disks for path in (disk.path, *(part.path for part in disk.partitions))]
    writers = read_writers(machine, paths) if disks else {}
    disks = _with_writers(disks, writers)
    disks = tuple(_with_content(machine, disk, own=disk.identity in recorded) for disk in disks)
    assembled = _read_assembled(machine, blocks, uses, disks, writers)
    fstab = machine.read(FSTAB, limit=MOST)
    entries = parse_fstab(fstab or b"")
    points = tuple(dict.fromkeys(point for disk in disks for point in disk.mounts))
    labels = _labels(disks, assembled)
    swap_files = tuple(f"{point.rstrip('/')}/{SWAP_FILE}" for point in points)
    return DiskFacts(
        disks=disks,
        others=tuple(
            _read_other(machine, blocks, uses, blocks[name], sign.why) for name, sign in signs.items() if sign.why
        ),
        assembled=assembled,
        fstab=fstab,
        entries=entries,
        fstab_writable=is_fstab_writable(machine, uses.table),
        points=tuple(
            read_point(machine, blocks, uses.table, path, labels)
            for path in dict.fromkeys((settings.mount_point, settings.scsi_mount_point))
        ),
        labels=tuple(read_udev_labels(machine, blocks)),
        tools=frozenset(tool for tool in TOOLS if machine.find(tool)),
        systemd=machine.is_dir(SYSTEMD),
        waagent_formats=read_waagent_formats(machine),
        cloud_init=read_cloud_init(machine, entries),
        fresh=_read_fresh(machine),
        free_space=tuple(_read_free(machine, points)),
        swap_files=tuple(_sizes(machine, swap_files)),
        other_swap_files=tuple(path for path in swap_files if not _may_be_swap(machine, path)),
        active_swaps=uses.active_swaps,
        notices=tuple(path for path, _ in _sizes(machine, (f"{point.rstrip('/')}/{NOTICE}" for point in points))),
        mount_units=tuple(_read_mount_units(machine)),
        wrong_owner=tuple(_read_wrong_owner(machine, points, settings.owner)) if settings.owner else (),
    )


def _read_disk(machine: Machine, blocks: Blocks, uses: Uses, disk: Block, sign: Sign) -> TemporaryDisk:
    use = read_disk_use(machine, blocks, uses, disk.name)
    parts = tuple(_read_partition(machine, blocks, uses, part) for part in partitions(blocks, disk.name))
    busy, trouble = use.busy, ""
    if not busy:
        try:
            busy = read_claim(machine, (disk.path, *(part.path for part in parts)))
        except LocalError as error:
            trouble = error.message
    return TemporaryDisk(
        name=disk.name,
        path=disk.path,
        kind=sign.kind,
        identity=sign.identity,
        size=disk.size,
        evidence=sign.evidence,
        model=sign.model,
        serial=sign.serial,
        sector=disk.sector,
        sequence=read_number(machine, f"{disk.place}/diskseq") or 0,
        partitions=parts,
        holders=use.holders,
        mounts=use.mounts,
        swaps=use.swaps,
        read_only=disk.read_only,
        busy=busy,
        trouble=trouble,
    )


def _read_partition(machine: Machine, blocks: Blocks, uses: Uses, part: Block) -> Partition:
    use = read_disk_use(machine, blocks, uses, part.name)
    return Partition(
        name=part.name,
        path=part.path,
        number=part.number,
        start=part.start,
        size=part.size,
        mounts=use.mounts,
        swaps=use.swaps,
    )


def _read_other(machine: Machine, blocks: Blocks, uses: Uses, disk: Block, why: str) -> OtherDisk:
    """Its content is never read."""
    use = read_disk_use(machine, blocks, uses, disk.name)
    return OtherDisk(name=disk.name, path=disk.path, size=disk.size, why=why, mounts=use.mounts, swaps=use.swaps)


def _with_writers(disks: tuple[TemporaryDisk, ...], writers: dict[str, str]) -> tuple[TemporaryDisk, ...]:
    """Programs that write to a disk that otherwise looks free."""
    free = {disk.name: (disk.path, *(part.path for part in disk.partitions)) for disk in disks if not disk.busy}
    found = {name: "; ".join(writers[path] for path in paths if path in writers) for name, paths in free.items()}
    return tuple(replace(disk, busy=found[disk.name]) if found.get(disk.name) else disk for disk in disks)


def _with_content(machine: Machine, disk: TemporaryDisk, *, own: bool) -> TemporaryDisk:
    """A disk that another program uses without a file system, an array or swap on it is not read."""
    if disk.trouble or (disk.busy and not (own or disk.holders or disk.mounts or disk.swaps)):
        return disk
    try:
        only = (disk.partitions[0].start, disk.partitions[0].size) if len(disk.partitions) == 1 else None
        content = _read_content(machine, disk.path, disk.size, busy=bool(disk.busy), only=only)
        parts = tuple(
            replace(part, content=_read_content(machine, part.path, part.size, busy=bool(disk.busy)))
            for part in disk.partitions
        )
    except LocalError as error:
        return replace(disk, trouble=error.message)
    return replace(disk, content=content, partitions=parts)


def _read_content(
    machine: Machine, path: str, size: int, *, busy: bool, only: tuple[int, int] | None = None
) -> Content:
    """A device in use is never blank or pristine: its user may write to it at any time."""
    content = read_device(machine, path, size, only=only)
    return replace(content, blank=False, pristine_ntfs=False) if busy else content


def _read_assembled(
    machine: Machine, blocks: Blocks, uses: Uses, disks: tuple[TemporaryDisk, ...], writers: dict[str, str]
) -> tuple[Assembled, ...]:
    """Arrays and mapped devices, and their partitions, that consist of temporary disks only."""
    temporary = {disk.name: disk for disk in disks}
    found = []
    for block in blocks.values():
        members = under(machine, blocks, block.name)
        if not block.stacked or not all(name in temporary for name in members):
            continue
        array = blocks.get(block.parent, block)
        use = read_disk_use(machine, blocks, uses, block.name)
        busy = use.busy or writers.get(block.path, "") or _claim(machine, block)
        found.append(
            Assembled(
                name=block.name,
                path=block.path,
                size=block.size,
                members=tuple(sorted(members)),
                uuid=array.mapped_uuid or _array_uuid(machine, blocks, array, [temporary[name] for name in members]),
                mounts=use.mounts,
                swaps=use.swaps,
                content=_content_or_none(machine, block, busy=bool(busy)),
                busy=busy,
                parent=block.parent,
                number=block.number,
                start=block.start,
                mapped=block.mapped_name,
                sequence=read_number(machine, f"{array.place}/diskseq") or 0,
            )
        )
    return tuple(found)


def _claim(machine: Machine, block: Block) -> str:
    try:
        return read_claim(machine, (block.path,))
    except LocalError as error:
        return error.message  # an array that is not running cannot be opened


def _content_or_none(machine: Machine, block: Block, *, busy: bool) -> Content | None:
    """None where it cannot be read: an array that is not running has no size."""
    try:
        return _read_content(machine, block.path, block.size, busy=busy) if block.size else None
    except LocalError:
        return None


def _array_uuid(machine: Machine, blocks: Blocks, array: Block, members: list[TemporaryDisk]) -> str:
    """From sysfs where the kernel is recent and the array runs, from udev's link, or from the members."""
    text = read_text(machine, f"/sys/class/block/{array.name}/md/uuid")
    text = text if text.strip("0:-") else ""
    for link in read_names(machine, ARRAY_LINKS) if not text else ():
        if link.startswith(ARRAY_LINK) and resolve(machine, blocks, f"{ARRAY_LINKS}/{link}") == array.name:
            text = link[len(ARRAY_LINK) :]
            break
    digits = "".join(letter for letter in text.lower() if letter in "0123456789abcdef")
    if len(digits) == 32:
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    uuids = {sign.uuid for content in _contents(members).values() for sign in content.signatures if sign.kind == "md"}
    return uuids.pop() if len(uuids) == 1 else ""


def _labels(disks: tuple[TemporaryDisk, ...], assembled: tuple[Assembled, ...]) -> dict[str, str]:
    """Of the file systems, by kernel name, as the devices have them; udev's links may be late."""
    contents = _contents(disks)
    contents.update((one.name, one.content) for one in assembled if one.content is not None)
    return {name: sign.label for name, content in contents.items() for sign in content.signatures if sign.label}


def _contents(disks: Iterable[TemporaryDisk]) -> dict[str, Content]:
    """Of the disks and their partitions."""
    devices = [(disk.name, disk.content) for disk in disks]
    devices += [(part.name, part.content) for disk in disks for part in disk.partitions]
    return {name: content for name, content in devices if content is not None}


def _read_fresh(machine: Machine) -> tuple[str, ...]:
    """The kernel answers every reading with another one."""
    return tuple(dict.fromkeys(text for _ in range(NEW_UUIDS) if (text := read_text(machine, NEW_UUID))))


def _read_free(machine: Machine, points: Iterable[str]) -> Iterable[tuple[str, int]]:
    for point in points:
        try:
            yield point, free_bytes(machine, point)
        except LocalError:
            continue


def _sizes(machine: Machine, paths: Iterable[str]) -> Iterable[tuple[str, int]]:
    """Of the regular files that exist."""
    for path in paths:
        try:
            found = machine.stat(path, follow=False)
        except LocalError:
            continue
        if found is not None and stat.S_ISREG(found.st_mode):
            yield path, found.st_size


def _may_be_swap(machine: Machine, path: str) -> bool:
    """Nothing is there, or a swap area, or a file that begins with zeros: it was not finished."""
    try:
        found = machine.stat(path, follow=False)
        if found is None or not stat.S_ISREG(found.st_mode):
            return found is None
        image = machine.open_image(path)
    except LocalError:
        return False
    try:
        head = image.read(0, SWAP_HEAD)
    except LocalError:
        return False
    finally:
        image.close()
    is_swap = any(one.kind in SWAP_KINDS for one in find_signatures(View(((0, head),)), found.st_size))
    return is_swap or not head.strip(b"\0")


def _read_mount_units(machine: Machine) -> Iterable[tuple[str, bool]]:
    """One that cannot be read is not ours."""
    paths = (f"{place}/{name}" for place in MOUNT_UNITS for name in read_names(machine, place))
    for path in (path for path in paths if path.endswith(".mount")):
        try:
            yield path, (machine.read(path, limit=MOST) or b"").startswith(WRITTEN)
        except LocalError:
            yield path, False


def _read_wrong_owner(machine: Machine, points: Iterable[str], owner: str) -> Iterable[str]:
    """None where the owner is not known on this machine."""
    for point in points:
        try:
            uid, gid = machine.owner_ids(owner)
            found = machine.stat(point, follow=False)
        except LocalError:
            continue
        if found is not None and (found.st_uid != uid or (":" in owner and found.st_gid != gid)):
            yield point
