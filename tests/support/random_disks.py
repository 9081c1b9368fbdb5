"""Machines with random temporary disks: any mix of contents, uses, arrays, records and settings."""

from __future__ import annotations

from random import Random
from typing import Any

from azureinit.facts.disk_content import Content, Signature
from azureinit.facts.temporary_disks import Assembled, DiskFacts, FstabEntry, MountPoint, TemporaryDisk
from azureinit.memory.disk_sets import DiskSet
from azureinit.record import replace
from support.disk_cases import FRESH, GIB, LINE, MIB, SIZE, TOOLS, VM, blank, facts, holding, nvme, part, scsi, sign

# Few values, so that they meet.
UUIDS = tuple(uuid.replace("0000", "abcd") for uuid in FRESH[:3])
LABELS = ("", "AzureEphmDsk", "AzureResDisk", "AzureEphmSwap", "data", "Temporary Storage")
KINDS = ("ext4", "xfs", "btrfs", "swap", "md", "lvm2", "gpt", "dos", "pmbr", "ntfs", "luks", "zfs")
SIZES = (SIZE, SIZE, SIZE, 2 * GIB)


def random_signature(rng: Random) -> Signature:
    uuid = rng.choice((*UUIDS, _as_member(rng), ""))
    return sign(rng.choice(KINDS), uuid, rng.choice(LABELS), unfinished=rng.random() < 0.3)


def _as_member(rng: Random) -> str:
    return f"{rng.choice(UUIDS).replace('-', '')[:30]}{rng.randrange(3):02d}"


def random_content(rng: Random, size: int) -> Content | None:
    roll = rng.random()
    if roll < 0.4:
        return blank(size)
    if roll < 0.43:
        return None
    if roll < 0.5:
        strange = (
            {"ambiguous": "blkid says otherwise"}, {"signatures": (random_signature(rng),)}, {"digest": ""},
            {"regions": ()}, {"size": size - 512}, {"nonzero": 5}, {"ntfs": "odd"}, {"pristine_ntfs": True},
        )  # fmt: skip
        return replace(blank(size), **rng.choice(strange))
    signatures = tuple(random_signature(rng) for _ in range(rng.choice((0, 1, 1, 1, 2))))
    ntfs: dict[str, Any] = {}
    if rng.random() < 0.2:
        signatures = (sign("ntfs", label="Temporary Storage"),)
        ntfs = rng.choice(({"pristine_ntfs": True}, {"ntfs": "dirty", "ntfs_unreadable": True}, {"ntfs": "has a.txt"}))
    return holding(*signatures, size=size, **({**ntfs, "ambiguous": "two kinds"} if rng.random() < 0.1 else ntfs))


def random_disk(rng: Random, number: int | None) -> TemporaryDisk:
    size = rng.choice(SIZES)
    content = random_content(rng, size)
    name = "sdb" if number is None else f"nvme{number}n1"
    parts = tuple(
        part(name, one, random_content(rng, size // 4), size=size // 4)
        for one in range(1, 1 + rng.choice((0, 0, 0, 0, 1, 1, 2)))
    )
    uses: dict[str, Any] = {}
    if rng.random() < 0.25:
        uses = rng.choice((
            {"busy": "in use"}, {"trouble": "input/output error"}, {"read_only": True}, {"swaps": (f"/dev/{name}",)},
            {"mounts": ("/mnt",), "busy": "mounted at /mnt"}, {"mounts": ("/data",)}, {"holders": ("dm-7",)},
        ))  # fmt: skip
    if number is None and rng.random() < 0.5:
        content = holding(sign("dos"), size=size)
    made = (
        scsi(content, size=size, partitions=parts, **uses)
        if number is None
        else nvme(number, content, size=size, partitions=parts, **uses)
    )
    return made if content is not None else replace(made, content=None)


def random_set(rng: Random, disks: tuple[TemporaryDisk, ...]) -> DiskSet:
    kind = rng.choice(disks).kind
    members = [disk for disk in disks if disk.kind == kind]
    rng.shuffle(members)
    members = members[: rng.randint(1, len(members))]
    aggregation = rng.choice(("mdadm", "lvm")) if len(members) > 1 else "none"
    beside = rng.random() < 0.2
    return DiskSet(
        purpose=rng.choice(("data", "swap")),
        kind=kind,
        vm_id=rng.choice((VM, VM, VM, "another")),
        members=tuple(disk.identity for disk in members),
        sizes=tuple(disk.size if rng.random() < 0.95 else disk.size + 512 for disk in members),
        aggregation=aggregation,
        table="none" if aggregation != "none" else rng.choice(("none", "gpt")),
        filesystem=rng.choice(("ext4", "ext4", "xfs", "btrfs", "swap")),
        label=rng.choice(LABELS[1:4]),
        array_uuid=UUIDS[0] if aggregation != "none" else "",
        table_uuid=rng.choice(UUIDS),
        filesystem_uuid=rng.choice(UUIDS),
        finished=rng.random() < 0.3,
        begun=rng.choice(("", "array", "table", "filesystem", "filesystem")),
        name="azure-ephemeral-md",
        over=rng.choice(("", "", "ntfs", "data")),
        swap_mib=SIZE // 4 // MIB if beside else 0,
        swap_uuid=UUIDS[1] if beside else "",
        swap_partition_uuid=UUIDS[2] if beside else "",
    )


def nearly_ours(rng: Random, disk: TemporaryDisk, made: DiskSet) -> TemporaryDisk:
    """What the set's own work leaves on a member, or something close to it."""
    if disk.identity not in made.members:
        return disk
    number, size = made.members.index(disk.identity), disk.size
    fs = sign(made.filesystem, made.filesystem_uuid, made.label, unfinished=rng.random() < 0.5)
    inner = rng.choice((blank(size), holding(size=size), holding(fs, size=size), random_content(rng, size)))
    if made.aggregation != "none":
        uuid = (
            made.array_uuid if made.aggregation == "mdadm" else f"{made.array_uuid.replace('-', '')[:30]}{number:02d}"
        )
        member = holding(sign("md" if made.aggregation == "mdadm" else "lvm2", uuid), size=size)
        return replace(disk, content=inner if rng.random() < 0.1 else member, partitions=())
    if made.table == "none":
        return replace(disk, content=inner, partitions=())
    small = part(disk.name, 1, blank(size // 4), size=size // 4)
    parts = (small, part(disk.name, 2, inner, size=size)) if made.swap_mib else (part(disk.name, 1, inner, size=size),)
    table = holding(sign("gpt", made.table_uuid), size=size)
    return replace(disk, content=table, partitions=parts[: rng.choice((0, 1, 2, 2))])


def random_array(rng: Random, disks: tuple[TemporaryDisk, ...]) -> Assembled:
    members = rng.sample(disks, rng.randint(1, len(disks)))
    size = sum(disk.size for disk in members)
    return Assembled(
        name="md127",
        path="/dev/md127",
        size=size,
        members=tuple(disk.name for disk in members),
        uuid=rng.choice(UUIDS),
        mounts=rng.choice(((), (), ("/mnt",), ("/data",))),
        content=random_content(rng, size),
        busy=rng.choice(("", "", "claimed")),
    )


def random_machine(rng: Random) -> tuple[DiskFacts, tuple[DiskSet, ...]]:
    disks = tuple(random_disk(rng, number) for number in range(rng.choice((0, 1, 1, 2, 2, 3))))
    disks += (random_disk(rng, None),) if rng.random() < 0.5 else ()
    if disks and rng.random() < 0.3:  # all of them blank, or all members of one array
        content = rng.choice((None, holding(sign("md", UUIDS[0]))))
        disks = tuple(replace(one, content=content or blank(one.size), partitions=()) for one in disks)
    assembled: tuple[Assembled, ...] = ()
    if disks and rng.random() < 0.3:
        array = random_array(rng, disks)
        assembled = (array,)
        held = {"holders": ("md127",), "busy": "md127 consists of it"}
        disks = tuple(replace(one, **held) if one.name in array.members else one for one in disks)
    sets = tuple(random_set(rng, disks) for _ in range(rng.choice((0, 1, 1, 2)))) if disks else ()
    if sets and rng.random() < 0.6:
        disks = tuple(nearly_ours(rng, one, sets[0]) for one in disks)
    sources = ("/dev/sdz1", "/dev/md127", *(disk.path for disk in disks))
    point = MountPoint(path="/mnt", state="empty")
    if rng.random() < 0.2:
        state = rng.choice(("mounted", "mounted", "not empty", "a symbolic link", "hidden"))
        point = MountPoint(path="/mnt", state=state, source=rng.choice(sources) if state == "mounted" else "")
    options = "defaults,nofail,comment=azure-ephemeral-disk-setup"
    entry = FstabEntry(line=LINE, source="LABEL=AzureEphmDsk", point="/mnt", filesystem="ext4", options=options)
    found = facts(
        *disks,
        assembled=assembled,
        points=(point, MountPoint(path="/mnt/resource", state="absent")),
        **({"fstab": f"{LINE}\n".encode(), "entries": (entry,)} if rng.random() < 0.5 else {}),
        fstab_writable=rng.random() < 0.8,
        systemd=rng.random() < 0.8,
        tools=frozenset(tool for tool in TOOLS if rng.random() < 0.97),
        waagent_formats="/etc/waagent.conf" if rng.random() < 0.1 else "",
        free_space=(("/mnt", 10 * GIB),),
    )
    return found, sets


def random_settings(rng: Random) -> dict[str, Any]:
    return {
        "nvme": rng.choice(("data", "data", "data", "swap", "off")),
        "scsi": rng.choice(("off", "fallback", "data", "swap")),
        "aggregation": rng.choice(("auto", "auto", "mdadm", "lvm", "none")),
        "table": rng.choice(("none", "none", "gpt")),
        "filesystem": rng.choice(("ext4", "xfs", "btrfs")),
        "swap": rng.choice(("file", "partition")),
        "swap_mib": rng.choice((0, 0, 64)),
        "owner": rng.choice(("", "web")),
        "trust_unreadable_ntfs": rng.random() < 0.2,
    }
