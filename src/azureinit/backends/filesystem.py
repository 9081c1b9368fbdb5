"""Making file systems, swap areas and partition tables, with a UUID that was chosen before.

Without discard: a disk of a terabyte is ready at once, and the disks are blank. An old signature is overwritten only
where the planner says so: the platform's NTFS, or work of our own that was interrupted.
"""

from __future__ import annotations

from azureinit.plan.actions import Run

LONG = 600.0  # seconds
MIB = 1 << 20
# The tool, the longest label in bytes, and the flags: (for the UUID, before the label, against discard, to overwrite).
MKFS: dict[str, tuple[str, int, tuple[str, ...], tuple[str, ...]]] = {
    "ext4": ("mkfs.ext4", 16, ("-q", "-E", "nodiscard", "-U", "{uuid}", "-L"), ("-F",)),
    "xfs": ("mkfs.xfs", 12, ("-q", "-K", "-m", "uuid={uuid}", "-L"), ("-f",)),
    "btrfs": ("mkfs.btrfs", 255, ("--quiet", "--nodiscard", "--uuid", "{uuid}", "--label"), ("--force",)),
    "swap": ("mkswap", 15, ("--uuid", "{uuid}", "--label"), ("--force",)),
}
# GPT's partition types
LINUX, SWAP = "0FC63DAF-8483-4772-8E79-3D69D8477DE4", "0657FD6D-A4AB-43C4-84E5-0933C84B4F4F"
LINUX_LVM = "E6D6D379-F507-44C2-A23C-238F2A3DF928"
# wipefs removes what it knows, and has the kernel forget the partitions. What else would be taken for a signature goes
# with both ends of the disk: a boot sector, or the tables of an array whose disks were combined in another way. btrfs
# has copies of its superblock at 64 MiB and 256 GiB, which wipefs does not know.
WIPE = """set -e
while [ "$1" != -- ]; do
    wipefs --quiet --all "$1"
    if [ "$2" -lt 16777216 ]; then echo "$1 has $2 bytes, and at least 16 MiB are needed" >&2; exit 1; fi
    for start in 0 $(($2 - 5242880)) 67108864 274877906944; do
        if [ $((start + 5242880)) -le "$2" ]; then
            dd if=/dev/zero of="$1" bs=65536 count=80 seek="$start" oflag=seek_bytes conv=notrunc,fsync 2>/dev/null
        fi
    done
    shift 2
done
shift
exec "$@"
"""
# The same copies, and the second header of LUKS, on devices that show what was on the disks before.
CLEAR = """set -e
clear() {
    for start in 4194304 67108864 274877906944; do
        if [ $((start + 4096)) -le "$(blockdev --getsize64 "$1")" ]; then
            dd if=/dev/zero of="$1" bs=4096 count=1 seek="$start" oflag=seek_bytes conv=notrunc,fsync 2>/dev/null
        fi
    done
}
devices=$1
shift
"$@"
"""
CLEAR_PARTITIONS = (
    CLEAR
    + """
for part in /sys/class/block/"${devices##*/}"/*/partition; do
    part=${part%/partition}
    if [ -b "/dev/${part##*/}" ]; then clear "/dev/${part##*/}"; fi
done
"""
)
TABLE = 'disk=$1; shift; printf "%s\\n" "$@" | sfdisk --quiet --wipe always --wipe-partitions always "$disk"'
# The file is made only where the name is free, and used through its descriptor: its directory may belong to a user. In
# spite of `set -C` a shell opens a device that a link leads to, so what was opened is looked at too.
SWAP_FILE = """set -e
umask 077
set -C
if [ -e "$1" ] || [ -L "$1" ]; then echo "$1 exists already" >&2; exit 1; fi
exec 3>"$1"
if [ ! -f /proc/self/fd/3 ] || [ -s /proc/self/fd/3 ]; then echo "$1 is not a new file" >&2; exit 1; fi
trap 'rm -f -- "$1"' EXIT
file=/proc/self/fd/3
{fill}
mkswap $file >/dev/null
trap - EXIT
"""
FORMAT = """set -e
if [ ! -f "$1" ] || [ -L "$1" ]; then echo "$1 is not a file" >&2; exit 1; fi
exec 3<"$1"
if [ ! -f /proc/self/fd/3 ]; then echo "$1 is not a file" >&2; exit 1; fi
mkswap /proc/self/fd/3 >/dev/null
"""
FILL = {
    "fallocate": 'fallocate -l "$2" $file',
    "chattr": 'chattr +C "$1"\nfallocate -l "$2" $file',
    "dd": "dd if=/dev/zero of=$file bs=1048576 count=$(($2 / 1048576)) conv=fsync 2>/dev/null",
}


def make_filesystem(kind: str, device: str, *, uuid: str, label: str, overwrite: bool) -> Run:
    tool, _, flags, force = MKFS[kind]
    argv = (tool, *(flag.format(uuid=uuid) for flag in flags), label, *(force if overwrite else ()), device)
    return Run(argv=argv, timeout=LONG)


def make_swap_area(device: str, *, uuid: str, label: str, overwrite: bool, size_mib: int = 0) -> Run:
    """`size_mib`: of the area, on a device that is larger."""
    run = make_filesystem("swap", device, uuid=uuid, label=label, overwrite=overwrite)
    return Run(argv=(*run.argv, *((str(size_mib * 1024),) if size_mib else ())), timeout=run.timeout)


def wiped_first(disks: tuple[tuple[str, int], ...], run: Run) -> Run:
    """Remove the signatures and the partition tables of these disks, overwrite both ends, then run the program.

    `disks`: path and size in bytes.
    """
    words = (word for path, size in disks for word in (path, str(size)))
    return Run(argv=("sh", "-c", WIPE, "wipefs", *words, "--", *run.argv), timeout=run.timeout)


def cleared_partitions(disk: str, run: Run) -> Run:
    """After the program has made a table: nothing of an older file system shows in the new partitions."""
    return Run(argv=("sh", "-c", CLEAR_PARTITIONS, "sfdisk", disk, *run.argv), timeout=run.timeout)


def tool_of(kind: str) -> str:
    return MKFS[kind][0]


def longest_label(kind: str) -> int:
    return MKFS[kind][1]


def make_table(
    disk: str, *, uuid: str, partition_uuid: str, swap_uuid: str = "", swap_mib: int = 0, all_swap: bool = False
) -> Run:
    """One partition, or a swap partition of that size before it. `all_swap`: the one partition is swap."""
    size = f"size={swap_mib}MiB, " if swap_mib else ""
    lines = [f"{size}type={SWAP}, uuid={swap_uuid}"] if swap_uuid else []
    lines.append(f"{size}type={SWAP}, uuid={partition_uuid}" if all_swap else f"type={LINUX}, uuid={partition_uuid}")
    return Run(argv=("sh", "-c", TABLE, "sfdisk", disk, "label: gpt", f"label-id: {uuid}", *lines), timeout=LONG)


def make_member_table(disk: str, *, uuid: str, partition_uuid: str) -> Run:
    """One partition, for a physical volume of LVM."""
    lines = (f"label-id: {uuid}", f"type={LINUX_LVM}, uuid={partition_uuid}")
    return Run(argv=("sh", "-c", TABLE, "sfdisk", disk, "label: gpt", *lines), timeout=LONG)


def make_swap_file(path: str, size: int, *, how: str) -> Run:
    """`how`: a key of FILL. btrfs needs a file that is not copied on write, which has to be set while it is empty."""
    return Run(argv=("sh", "-c", SWAP_FILE.replace("{fill}", FILL[how]), "swapfile", path, str(size)), timeout=LONG)


def format_swap_file(path: str) -> Run:
    """Only a regular file, never what a link in its place leads to."""
    return Run(argv=("sh", "-c", FORMAT, "swapfile", path))


def swap_on(path: str) -> Run:
    return Run(argv=("swapon", path))


def swap_off(path: str) -> Run:
    return Run(argv=("swapoff", path), timeout=LONG)
