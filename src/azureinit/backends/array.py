"""Several disks as one volume: RAID 0 by mdadm, or a striped logical volume by LVM.

UUIDs are chosen before anything is written. LVM does not take one for its volume group, so the physical volumes have
it: the digits of the set's UUID, of which the last two are the member's number. Where the physical volumes are
partitions, the tables and the partitions are numbered in the same way. Neither tool gets an answer to a question, so
only work of our own that was interrupted is overwritten.
"""

from __future__ import annotations

from azureinit.backends.filesystem import CLEAR
from azureinit.plan.actions import Run

LONG = 300.0  # seconds
VOLUME, SWAP_VOLUME = "data", "swap"  # the logical volumes
MDADM, LVM = "mdadm", "vgcreate"  # what must be installed
GROUPS = (6, 4, 4, 4, 4, 4, 6)  # digits between the hyphens of LVM's UUIDs
WIPED = """
for device in $devices; do clear "$device"; done
exec wipefs --quiet --all $devices
"""
# Where another array has the name already, mdadm makes the new one under another name.
IS_OURS = """
case $(mdadm --detail --export "$devices") in
*MD_UUID={uuid}*) ;;
*) echo "$devices is another array: nothing is written to it" >&2; exit 1 ;;
esac
"""
STRIPED = """set -e
vg=$1 lv=$2 chunk=$3 again=$4 swap=$5 mib=$6 count=0 devices=
shift 6
for device; do
    case $again$device in again/*) pvremove --quiet --force --force --yes "$device" || : ;; esac
done
while [ $# -gt 1 ]; do
    pvcreate --quiet --norestorefile --uuid "$1" "$2"
    devices="$devices $2" count=$((count + 1))
    shift 2
done
vgcreate --quiet "$vg" $devices
options="--quiet --yes --zero n --wipesignatures n --stripes $count --stripesize $chunk"
if [ "$mib" -gt 0 ]; then lvcreate $options --size "${mib}m" --name "$swap" "$vg"; fi
lvcreate $options --extents 100%FREE --name "$lv" "$vg"
"""
# After the volume for swap was made. The other one may exist without being active.
COMPLETE = """set -e
vgchange --quiet --activate y "$1"
if lvs "$1/$2" >/dev/null 2>&1; then exit 0; fi
lvcreate --quiet --yes --zero n --wipesignatures n --stripes "$3" --stripesize "$4" --extents 100%FREE \\
    --name "$2" "$1"
"""


def create_array(name: str, devices: tuple[str, ...], *, uuid: str, chunk_kib: int, again: bool) -> Run:
    """`again`: our own interrupted work is on the disks; mdadm would ask whether to overwrite it.

    Without a home host the array has the same name after the host's name has changed.
    """
    argv = ("mdadm", "--create", f"/dev/md/{name}", f"--uuid={md_uuid(uuid)}", "--metadata=1.2", "--level=0")
    sizes = (f"--chunk={chunk_kib}", f"--raid-devices={len(devices)}", f"--name={name}", "--homehost=any")
    return Run(argv=(*argv, *sizes, *(("--run",) if again else ()), *devices), timeout=LONG)


def assemble_array(name: str, devices: tuple[str, ...], *, uuid: str) -> Run:
    return Run(argv=("mdadm", "--assemble", f"/dev/md/{name}", f"--uuid={md_uuid(uuid)}", *devices), timeout=LONG)


def stop_array(path: str) -> Run:
    """Of one that is not running: the kernel only holds its members."""
    return Run(argv=("mdadm", "--stop", path), timeout=LONG)


def read_partitions(device: str) -> Run:
    """The kernel looks for partitions when a new array is opened for the first time."""
    return Run(argv=("blockdev", "--getsz", device))


def array_path(name: str) -> str:
    return f"/dev/md/{name}"


def md_uuid(uuid: str) -> str:
    """mdadm's notation."""
    digits = uuid.replace("-", "").lower()
    return ":".join(digits[at : at + 8] for at in range(0, 32, 8))


def create_volume(
    name: str, devices: tuple[str, ...], *, uuid: str, chunk_kib: int, again: bool, swap_mib: int = 0
) -> Run:
    """`swap_mib`: of a volume for swap, rounded up to whole extents on every disk. The other one has all the rest."""
    pairs = tuple(word for number, path in enumerate(devices) for word in (member_uuid(uuid, number), path))
    first = ("sh", "-c", STRIPED, "lvm", name, VOLUME, f"{chunk_kib}k", "again" if again else "")
    return Run(argv=(*first, SWAP_VOLUME, str(swap_mib), *pairs), timeout=LONG)


def complete_volume(name: str, *, count: int, chunk_kib: int) -> Run:
    """The second volume of a group that was interrupted after the first one, or only started after that."""
    return Run(argv=("sh", "-c", COMPLETE, "lvm", name, VOLUME, str(count), f"{chunk_kib}k"), timeout=LONG)


def mapped_name(group: str, volume: str) -> str:
    """Device mapper's name of a logical volume."""
    return f"{group.replace('-', '--')}-{volume.replace('-', '--')}"


def wiped_after(run: Run, name: str, *, uuid: str, lvm: bool, swap: bool = False) -> Run:
    """Remove signatures that show through on the new volumes, of what was on the disks before.

    `uuid`: of the array. LVM makes no second group of a name.
    """
    volumes = (VOLUME, SWAP_VOLUME) if swap else (VOLUME,)
    devices = " ".join(f"/dev/{name}/{volume}" for volume in volumes) if lvm else array_path(name)
    script = CLEAR + ("" if lvm else IS_OURS.replace("{uuid}", md_uuid(uuid))) + WIPED
    return Run(argv=("sh", "-c", script, "wipefs", devices, *run.argv), timeout=run.timeout)


def activate_volume(name: str) -> Run:
    return Run(argv=("vgchange", "--quiet", "--activate", "y", name), timeout=LONG)


def numbered_uuid(uuid: str, number: int) -> str:
    """Of one disk's partition table, or of its partition."""
    return f"{uuid[:-2]}{number:02d}" if uuid else ""


def member_uuid(uuid: str, number: int) -> str:
    """Of one physical volume, in LVM's notation."""
    digits = f"{uuid.replace('-', '').lower()[:30]}{number:02d}"
    parts, at = [], 0
    for length in GROUPS:
        parts.append(digits[at : at + length])
        at += length
    return "-".join(parts)
