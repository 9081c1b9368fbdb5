"""Who uses a disk: mounts, swap, arrays and mapped devices on it, exclusive claims, programs that write to it."""

from __future__ import annotations

import stat

from azureinit.errors import LocalError
from azureinit.facts.block_devices import above, by_number, device_path, read_names, read_text, resolve, under
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from azureinit.facts.block_devices import Blocks
    from azureinit.machine import Machine

# Other mount namespaces are seen by the exclusive claim alone.
MOUNTS = ("/proc/1/mountinfo", "/proc/self/mountinfo")
SWAPS = "/proc/swaps"
BTRFS = "/sys/fs/btrfs"
MOST = 16 << 20
DELETED = " (deleted)"
# A disk under one of these is the operating system's.
SYSTEM = ("/", "/usr", "/etc", "/var", "/boot", "/boot/efi", "/efi", "/sysroot", "/nix", "/nix/store", "/ostree")
WRITES = 0o3  # O_WRONLY or O_RDWR


class Mount(Record):
    device: str  # major:minor; 0:N where the file system has no device of its own, as btrfs
    point: str
    filesystem: str
    source: str
    read_only: bool = False


class Swap(Record):
    path: str
    is_file: bool


class Uses(Record):
    """Of all devices, by kernel name."""

    table: tuple[Mount, ...]  # in the order of mounting
    mounts: dict[str, tuple[str, ...]]
    swaps: dict[str, tuple[str, ...]]
    active_swaps: tuple[str, ...]


def unescape(text: str) -> str:
    """The kernel's tables and fstab write blanks and backslashes as octal numbers: \\040."""
    first, *rest = text.encode("utf-8", "surrogateescape").split(b"\\")
    out = [first]
    for piece in rest:
        digits = piece[:3]
        is_octal = len(digits) == 3 and digits <= b"377" and all(digit in b"01234567" for digit in digits)
        out.append(bytes([int(digits, 8)]) + piece[3:] if is_octal else b"\\" + piece)
    return b"".join(out).decode("utf-8", "surrogateescape")


def parse_mounts(data: bytes) -> tuple[Mount, ...]:
    found = []
    for line in data.decode("utf-8", "surrogateescape").split("\n"):
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if len(fields) < 6 or len(kind) < 3:
            continue
        read_only = "ro" in fields[5].split(",") or "ro" in kind[2].split(",")
        point, source = unescape(fields[4]), unescape(kind[1])
        found.append(Mount(device=fields[2], point=point, filesystem=kind[0], source=source, read_only=read_only))
    return tuple(found)


def parse_swaps(data: bytes) -> tuple[Swap, ...]:
    rows = (line.split() for line in data.decode("utf-8", "surrogateescape").split("\n")[1:])
    return tuple(
        Swap(path=unescape(row[0]).removesuffix(DELETED), is_file=row[1] == "file") for row in rows if len(row) > 1
    )


def read_uses(machine: Machine, blocks: Blocks) -> Uses:
    """A table that is missing or that this process may not read is empty."""
    tables = [parse_mounts(_read(machine, path)) for path in MOUNTS]
    pools = tuple(read_names(machine, f"{BTRFS}/{name}/devices") for name in read_names(machine, BTRFS))
    mounts: dict[str, tuple[str, ...]] = {}
    for mount in (*tables[0], *tables[1]):
        for name in _mounted(machine, blocks, pools, mount):
            mounts[name] = tuple(dict.fromkeys((*mounts.get(name, ()), mount.point)))
    swaps: dict[str, tuple[str, ...]] = {}
    active = []
    for swap in parse_swaps(_read(machine, SWAPS)):
        names = _swapped(machine, blocks, tables[1], pools, swap)
        for name in names:
            swaps[name] = (*swaps.get(name, ()), swap.path)
        active.append(swap.path if swap.is_file or not names else device_path(min(names)))
    return Uses(table=tables[1], mounts=mounts, swaps=swaps, active_swaps=tuple(active))


def _read(machine: Machine, path: str) -> bytes:
    try:
        return machine.read(path, limit=MOST) or b""
    except LocalError:
        return b""  # only root may read another process's table


def _mounted(machine: Machine, blocks: Blocks, pools: tuple[tuple[str, ...], ...], mount: Mount) -> set[str]:
    """The devices under a mount. Several only for btrfs, which names one of them."""
    names = {by_number(blocks, mount.device), resolve(machine, blocks, mount.source)} - {""}
    for pool in pools:
        if names.intersection(pool):
            names.update(pool)
    return names


def _swapped(
    machine: Machine, blocks: Blocks, table: tuple[Mount, ...], pools: tuple[tuple[str, ...], ...], swap: Swap
) -> set[str]:
    if not swap.is_file:
        return {resolve(machine, blocks, swap.path)} - {""}
    mount = mount_of(table, swap.path)
    return _mounted(machine, blocks, pools, mount) if mount is not None else set()


def mount_of(table: Iterable[Mount], path: str) -> Mount | None:
    """The mount that a path lies on."""
    found: Mount | None = None
    for mount in table:
        point = mount.point.rstrip("/")
        if f"{path}/".startswith(f"{point}/") and (found is None or len(point) >= len(found.point.rstrip("/"))):
            found = mount
    return found


def system_disks(machine: Machine, blocks: Blocks, uses: Uses) -> dict[str, str]:
    """The disks of the operating system, and the mount point that each of them holds."""
    found: dict[str, str] = {}
    for point in reversed(SYSTEM):
        for name, points in uses.mounts.items():
            if point in points:
                found.update(dict.fromkeys(under(machine, blocks, name), point))
    return found


class DiskUse(Record):
    holders: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    swaps: tuple[str, ...] = ()
    busy: str = ""


def read_disk_use(machine: Machine, blocks: Blocks, uses: Uses, name: str) -> DiskUse:
    """Of one disk or array, without its claim and its writers."""
    stack = (name, *above(machine, blocks, name))
    holders = tuple(one for one in stack[1:] if one not in blocks or not blocks[one].parent)
    mounts = tuple(dict.fromkeys(point for one in stack for point in uses.mounts.get(one, ())))
    swaps = tuple(dict.fromkeys(path for one in stack for path in uses.swaps.get(one, ())))
    told = [
        f"it is part of {', '.join(holders)}" if holders else "",
        f"it is mounted at {', '.join(mounts)}" if mounts else "",
        f"it holds the active swap {', '.join(swaps)}" if swaps else "",
    ]
    return DiskUse(holders=holders, mounts=mounts, swaps=swaps, busy=", ".join(filter(None, told)))


def read_claim(machine: Machine, paths: Iterable[str]) -> str:
    """Why one of a disk's devices (the disk, its partitions) cannot be opened exclusively."""
    for path in paths:
        claim = machine.is_claimed(path)
        if claim:
            return f"{path}: {claim}"
    return ""


def read_writers(machine: Machine, paths: Iterable[str]) -> dict[str, str]:
    """Programs that have one of these devices open for writing, by the device's path."""
    wanted, found = frozenset(paths), dict[str, str]()
    devices = {device: path for path in sorted(wanted) if (device := _device_number(machine, path))}
    names = {path.rpartition("/")[2] for path in wanted}
    for pid in read_names(machine, "/proc") if wanted else ():
        if not pid.isdigit() or int(pid) == machine.pid:
            continue
        for number in read_names(machine, f"/proc/{pid}/fd"):
            opened = f"/proc/{pid}/fd/{number}"
            try:
                path = machine.read_link(opened) or ""
            except LocalError:
                continue  # the program ended, or only root may look
            if path not in wanted and (path.startswith("/dev/") or path.rpartition("/")[2] in names):
                path = devices.get(_device_number(machine, opened), "")  # a container's own node of the device
            if path in wanted and _writes(machine, f"/proc/{pid}/fdinfo/{number}"):
                program = read_text(machine, f"/proc/{pid}/comm") or "a program"
                found[path] = f"{program} (pid {pid}) has {path} open for writing"
    return found


def _device_number(machine: Machine, path: str) -> int:
    """0 where it is no block device, or cannot be looked at."""
    try:
        status = machine.stat(path)
    except LocalError:
        return 0
    return status.st_rdev if status is not None and stat.S_ISBLK(status.st_mode) else 0


def _writes(machine: Machine, path: str) -> bool:
    for line in read_text(machine, path).split("\n"):
        key, _, value = line.partition(":")
        if key == "flags" and value.strip() and all(digit in "01234567" for digit in value.strip()):
            return bool(int(value.strip(), 8) & WRITES)
    return True  # unknown: as if it wrote
