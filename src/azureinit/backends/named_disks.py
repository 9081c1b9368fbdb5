"""Partition tables and file systems on the data disks that customData names."""

from __future__ import annotations

from azureinit.backends.filesystem import LINUX, LONG, MKFS, SWAP, TABLE
from azureinit.plan.actions import Run

# Codes of partition types as sgdisk and sfdisk have them, and their GUIDs.
TYPES = {
    "82": SWAP,
    "83": LINUX,
    "07": "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7",
    "8e": "E6D6D379-F507-44C2-A23C-238F2A3DF928",
    "ef": "C12A7328-F81F-11D2-BA4B-00A0C93EC93B",
    "fd": "A19D880F-05FC-4D3B-A006-743F0F84911E",
}
# The tool, the flag before the label, the longest label, the flags to overwrite; beside those of MKFS.
OTHERS: dict[str, tuple[str, str, int, tuple[str, ...]]] = {
    "ext2": ("mkfs.ext2", "-L", 16, ("-F",)),
    "ext3": ("mkfs.ext3", "-L", 16, ("-F",)),
    "vfat": ("mkfs.vfat", "-n", 11, ()),
    "f2fs": ("mkfs.f2fs", "-l", 255, ("-f",)),
}
HEX = frozenset("0123456789abcdef")
WIPE = 'set -e; while [ "$1" != -- ]; do wipefs --quiet --all "$1"; shift; done; shift; exec "$@"'
# The first and the last MiB, with both copies of a GPT, then the kernel's view of it.
ZERO = """set -e
wipefs --quiet --all "$@"
for disk; do :; done
dd if=/dev/zero of="$disk" bs=1048576 count=1 conv=fsync 2>/dev/null
sectors=$(blockdev --getsz "$disk")
dd if=/dev/zero of="$disk" bs=512 seek=$((sectors - 2048)) count=2048 conv=fsync 2>/dev/null
blockdev --rereadpt "$disk"
"""


def partition_type(table: str, code: str) -> str:
    """As sfdisk takes it; empty for a code that is not known."""
    text = code.lower()
    if table == "mbr":
        return text if 0 < len(text) <= 2 and HEX.issuperset(text) else ""
    if len(text) == 4 and text.endswith("00"):
        text = text[:2]
    is_guid = len(text) == 36 and [len(part) for part in text.split("-")] == [8, 4, 4, 4, 12]
    if is_guid and HEX.issuperset(text.replace("-", "")):
        return text.upper()
    return TYPES.get(text.rjust(2, "0"), "")


def partition_disk(disk: str, *, table: str, parts: tuple[tuple[int, str], ...], wipe: tuple[str, ...]) -> Run:
    """`parts`: sectors, 0 for the rest of the disk, and the type. `wipe`: devices that lose their signatures first."""
    lines = [f"{f'size={sectors}, ' if sectors else ''}type={kind}" for sectors, kind in parts]
    label = "gpt" if table == "gpt" else "dos"
    run = Run(argv=("sh", "-c", TABLE, "sfdisk", disk, f"label: {label}", *lines), timeout=LONG)
    return signatures_removed(wipe, run) if wipe else run


def signatures_removed(devices: tuple[str, ...], run: Run) -> Run:
    """Remove the signatures of these devices, then run the program."""
    return Run(argv=("sh", "-c", WIPE, "wipefs", *devices, "--", *run.argv), timeout=run.timeout)


def clear_disk(disk: str, parts: tuple[str, ...]) -> Run:
    return Run(argv=("sh", "-c", ZERO, "wipefs", *parts, disk), timeout=LONG)


def tool_for(kind: str) -> str:
    """Empty for a file system that is not known here."""
    return MKFS[kind][0] if kind in MKFS else OTHERS[kind][0] if kind in OTHERS else ""


def label_limit(kind: str) -> int:
    return MKFS[kind][1] if kind in MKFS else OTHERS[kind][2]


def make_named_filesystem(
    kind: str, device: str, *, uuid: str, label: str, extra: tuple[str, ...], overwrite: bool
) -> Run:
    if kind in MKFS:
        tool, _, flags, force = MKFS[kind]
        words = tuple(flag.format(uuid=uuid) for flag in (flags if label else flags[:-1]))
    else:
        tool, flag, _, force = OTHERS[kind]
        words = (flag,) if label else ()
    named = (label,) if label else ()
    return Run(argv=(tool, *words, *named, *(force if overwrite else ()), *extra, device), timeout=LONG)


def run_command(command: str | tuple[str, ...]) -> Run:
    """A command of customData that makes a file system."""
    argv = ("sh", "-c", command) if isinstance(command, str) else command
    return Run(argv=argv, timeout=LONG)
