"""Several disks as one volume: RAID 0 by mdadm, or a striped logical volume by LVM.

UUIDs are chosen before anything is written. LVM does not take one for its volume group, so the physical volumes have
it: the digits of the set's UUID, of which the last two are the member's number. Neither tool gets an answer to a
question, so only work of our own that was interrupted is overwritten.
"""

from __future__ import annotations

from azureinit.plan.actions import Run

LONG = 300.0  # seconds
VOLUME = "data"  # the logical volume
MDADM, LVM = "mdadm", "vgcreate"  # what must be installed
GROUPS = (6, 4, 4, 4, 4, 4, 6)  # digits between the hyphens of LVM's UUIDs
STRIPED = """set -e
vg=$1 lv=$2 chunk=$3 again=$4 count=0 devices=
shift 4
for device; do
    case $again$device in again/*) pvremove --quiet --force --force --yes "$device" || : ;; esac
done
while [ $# -gt 1 ]; do
    pvcreate --quiet --norestorefile --uuid "$1" "$2"
    devices="$devices $2" count=$((count + 1))
    shift 2
done
vgcreate --quiet "$vg" $devices
lvcreate --quiet --yes --zero n --wipesignatures n --stripes "$count" --stripesize "$chunk" --extents 100%FREE \\
    --name "$lv" "$vg"
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


def md_uuid(uuid: str) -> str:
    """mdadm's notation."""
    digits = uuid.replace("-", "").lower()
    return ":".join(digits[at : at + 8] for at in range(0, 32, 8))


def create_volume(name: str, devices: tuple[str, ...], *, uuid: str, chunk_kib: int, again: bool) -> Run:
    pairs = tuple(word for number, path in enumerate(devices) for word in (member_uuid(uuid, number), path))
    first = ("sh", "-c", STRIPED, "lvm", name, VOLUME, f"{chunk_kib}k", "again" if again else "")
    return Run(argv=(*first, *pairs), timeout=LONG)


def activate_volume(name: str) -> Run:
    return Run(argv=("vgchange", "--quiet", "--activate", "y", name), timeout=LONG)


def member_uuid(uuid: str, number: int) -> str:
    """Of one physical volume, in LVM's notation."""
    digits = f"{uuid.replace('-', '').lower()[:30]}{number:02d}"
    parts, at = [], 0
    for length in GROUPS:
        parts.append(digits[at : at + length])
        at += length
    return "-".join(parts)
