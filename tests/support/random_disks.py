"""Machines with random temporary disks: any mix of contents, uses, arrays, records and settings."""

from __future__ import annotations

from random import Random
from typing import Any

from azureinit.facts.disk_content import Content, Signature
from azureinit.facts.temporary_disks import Assembled, DiskFacts, FstabEntry, MountPoint, TemporaryDisk
from azureinit.memory.disk_sets import DiskSet
from azureinit.record import replace
from support.disk_cases import (
    FRESH,
    GIB,
    LINE,
    MIB,
    SIZE,
    TOOLS,
    VM,
    blank,
    facts,
    holding,
    nvme,
    part,
    scsi,
    shipped,
    sign,
)

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
    first = rng.choice((0, 4096, 4096)) if not signatures else 4096
    return holding(
        *signatures, size=size, nonzero=first, **({**ntfs, "ambiguous": "two kinds"} if rng.random() < 0.1 else ntfs)
    )


def random_disk(rng: Random, number: int | None) -> TemporaryDisk:
    if number is None and rng.random() < 0.2:
        made = shipped()
        assert made.content is not None
        near = rng.choice(
            ({}, {}, {}, {}, {"beside": 3 * MIB}, {"beside": SIZE - 5 * MIB}, {"around": None}, {"around": (MIB, MIB)})
        )
        return replace(made, content=replace(made.content, **near), sequence=rng.randrange(3))
    size = rng.choice(SIZES)
    content = random_content(rng, size)
    name = "sdb" if number is None else f"nvme{number}n1"
    count = rng.choice((0, 0, 0, 0, 1, 1, 2))
    each = size - 2 * MIB if count == 1 and rng.random() < 0.8 else size // 4
    parts = tuple(part(name, one, random_content(rng, each), size=each) for one in range(1, 1 + count))
    uses: dict[str, Any] = {}
    if rng.random() < 0.25:
        uses = rng.choice((
            {"busy": "in use"}, {"trouble": "input/output error"}, {"read_only": True}, {"swaps": (f"/dev/{name}",)},
            {"mounts": ("/mnt",), "busy": "mounted at /mnt"}, {"mounts": ("/data",)}, {"holders": ("dm-7",)},
        ))  # fmt: skip
    if "mounts" in uses and parts:  # one of them, not necessarily the first one
        at = rng.randrange(len(parts))
        ours = holding(sign("ext4", UUIDS[0], "AzureEphmDsk"), size=each)
        parts = tuple(
            replace(one, **({"mounts": uses["mounts"]} if n == at else {"content": ours}))
            for n, one in enumerate(parts)
        )
    uses["sequence"] = rng.randrange(3)
    if number is None and rng.random() < 0.5:
        around = rng.choice((None, (MIB, each), (MIB, each), (MIB, each)))
        content = holding(sign("dos"), size=size, around=around, beside=rng.choice((None, None, 3 * MIB)))
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
    table = rng.choice(("none", "gpt"))
    return DiskSet(
        purpose=rng.choice(("data", "swap")),
        kind=kind,
        vm_id=rng.choice((VM, VM, VM, "another")),
        members=tuple(disk.identity for disk in members),
        sizes=tuple(disk.size if rng.random() < 0.95 else disk.size + 512 for disk in members),
        aggregation=aggregation,
        table=table,
        filesystem=rng.choice(("ext4", "ext4", "xfs", "btrfs", "swap")),
        label=rng.choice(LABELS[1:4]),
        array_uuid=UUIDS[0] if aggregation != "none" else "",
        table_uuid=rng.choice(UUIDS),
        partition_uuid=rng.choice(UUIDS),
        filesystem_uuid=rng.choice(UUIDS),
        finished=rng.random() < 0.3,
        begun=rng.choice(("", "array", "table", "filesystem", "filesystem")),
        name="azure-ephemeral-md",
        over=rng.choice(("", "", "ntfs", "data")),
        swap_mib=SIZE // 4 // MIB if beside else 0,
        swap_uuid=UUIDS[1] if beside else "",
        swap_partition_uuid=UUIDS[2] if beside and aggregation != "lvm" else "",
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
        lvm: dict[str, Any] = {"label": rng.choice(("", made.name)), "volumes": rng.choice((None, (), ("data",)))}
        member = holding(sign("md", uuid) if made.aggregation == "mdadm" else sign("lvm2", uuid, **lvm), size=size)
        if made.aggregation == "lvm" and made.table == "gpt":
            return _nearly_cut(rng, disk, made, (blank(size), member, inner))
        return replace(disk, content=inner if rng.random() < 0.1 else member, partitions=())
    if made.table == "none":
        return replace(disk, content=inner, partitions=())
    small = part(disk.name, 1, blank(size // 4), size=size // 4)
    parts = (small, part(disk.name, 2, inner, size=size)) if made.swap_mib else (part(disk.name, 1, inner, size=size),)
    table = holding(sign("gpt", made.table_uuid), size=size)
    return replace(disk, content=table, partitions=parts[: rng.choice((0, 1, 2, 2))])


def _nearly_cut(rng: Random, disk: TemporaryDisk, made: DiskSet, inner: tuple[Content | None, ...]) -> TemporaryDisk:
    """A disk with a table of its own, whose partition is the physical volume."""
    number = made.members.index(disk.identity) if rng.random() < 0.95 else 0
    own = [f"{uuid[:-2]}{number:02d}" for uuid in (made.table_uuid, made.partition_uuid)]
    end = holding(size=disk.size, nonzero=disk.size - 16 * 1024)
    content = rng.choice((blank(disk.size), end, holding(size=disk.size))) if rng.random() < 0.2 else None
    if content is not None:
        return replace(disk, content=content, partitions=())
    content = holding(sign("gpt", own[0], partitions=(own[1],)), size=disk.size)
    held = rng.choice(inner[:2]) if rng.random() < 0.9 else inner[2]
    parts = (part(disk.name, 1, held, size=disk.size), part(disk.name, 2, blank(disk.size), size=disk.size))
    return replace(disk, content=content, partitions=parts[: rng.choice((0, 1, 1, 1, 1, 1, 1, 1, 2))])


def random_array(rng: Random, disks: tuple[TemporaryDisk, ...]) -> Assembled:
    members = rng.sample(disks, rng.randint(1, len(disks)))
    if rng.random() < 0.2:
        return idle_array(rng, members)
    size = sum(disk.size for disk in members)
    return Assembled(
        name="md127",
        path="/dev/md127",
        size=size,
        members=tuple(disk.name for disk in members),
        uuid=rng.choice(UUIDS),
        mounts=rng.choice(((), (), ("/mnt",), ("/data",))),
        swaps=rng.choice(((), (), (), ("/dev/md127",))),
        content=random_content(rng, size),
        busy=rng.choice(("", "", "claimed")),
        sequence=rng.randrange(3),
    )


def idle_array(rng: Random, members: list[TemporaryDisk], uuid: str = "") -> Assembled:
    """One that does not run: it has no size and no content, or nearly so."""
    idle = Assembled(
        name="md127",
        path="/dev/md127",
        size=0,
        members=tuple(disk.name for disk in members),
        uuid=uuid or rng.choice(UUIDS),
        busy=rng.choice(("", "it cannot be opened")),
    )
    near: tuple[dict[str, Any], ...] = (
        {}, {}, {}, {"size": SIZE}, {"mounts": ("/mnt",)}, {"swaps": ("/dev/md127",)}, {"content": holding()},
    )  # fmt: skip
    return replace(idle, **rng.choice(near))


def random_parts(rng: Random, array: Assembled, *, lvm: bool) -> tuple[Assembled, ...]:
    """Partitions of an array, or the logical volumes of a group in its place."""
    if not lvm:
        sizes = [array.size] if rng.random() < 0.5 else [SIZE // 4, array.size - SIZE // 4]
        inner = [
            (f"md127p{number}", size, {"parent": "md127", "number": number}) for number, size in enumerate(sizes, 1)
        ]
        first: tuple[Assembled, ...] = (array,)
    else:
        names = ("swap", "data", "other")[: rng.choice((1, 2, 2, 2, 3))]
        inner = [
            (f"dm-{number}", SIZE // 4, {"mapped": f"azure--ephemeral--md-{name}"}) for number, name in enumerate(names)
        ]
        first = ()
    uses: dict[str, Any] = {"mounts": rng.choice(((), (), (), ("/mnt",))), "busy": rng.choice(("", "", "", "claimed"))}
    uses["swaps"] = rng.choice(((), (), (), ("/dev/md127p1",)))
    parts = tuple(
        replace(array, name=name, path=f"/dev/{name}", size=size, content=random_content(rng, size), **uses, **more)
        for name, size, more in inner
    )
    return (*first, *parts)


def parts_nearly_ours(rng: Random, arrays: tuple[Assembled, ...], made: DiskSet) -> tuple[Assembled, ...]:
    """What the set's own work leaves on an array, or something close to it."""
    found = []
    for one in arrays:
        fs = sign(made.filesystem, made.filesystem_uuid, made.label, unfinished=rng.random() < 0.5)
        inner = rng.choice((blank(one.size), holding(size=one.size), holding(fs, size=one.size)))
        if made.table == "gpt" and made.aggregation != "lvm" and not one.parent and rng.random() < 0.8:
            inner = holding(sign("gpt", made.table_uuid), size=one.size)
        near = replace(one, content=inner, mounts=(), swaps=(), busy="")
        found.append(near if rng.random() < 0.9 else one)
    return tuple(found)


def nearly_our_array(rng: Random) -> tuple[tuple[TemporaryDisk, ...], tuple[Assembled, ...], tuple[DiskSet, ...]]:
    """A recorded array, its members, and what the kernel has of it, if it runs."""
    plain = tuple(nvme(number) for number in range(rng.choice((2, 2, 3))))
    made = random_set(rng, plain)
    while made.aggregation == "none":
        made = random_set(rng, plain)
    if rng.random() < 0.5:  # otherwise it has random values that do not fit
        whole = {"vm_id": VM, "members": tuple(disk.identity for disk in plain), "finished": rng.random() < 0.2}
        made = replace(made, **whole, sizes=tuple(disk.size for disk in plain))
    disks = tuple(nearly_ours(rng, disk, made) for disk in plain)
    if rng.random() < 0.3:
        return disks, (), (made,)
    if rng.random() < 0.2:  # udev has seen some of the members
        some = rng.sample(disks, rng.randint(1, len(disks)))
        idle = idle_array(rng, some, rng.choice((made.array_uuid, "")))
        kept = {"holders": ("md127",), "busy": "md127 consists of it"}
        return tuple(replace(disk, **kept) if disk in some else disk for disk in disks), (idle,), (made,)
    size = sum(disk.size for disk in disks)
    members = tuple(disk.name for disk in disks)
    array = Assembled(name="md127", path="/dev/md127", size=size, members=members, uuid=made.array_uuid)
    arrays: tuple[Assembled, ...] = (array,)
    if made.table == "gpt" or made.swap_uuid:
        arrays = random_parts(rng, array, lvm=made.aggregation == "lvm")
    arrays = parts_nearly_ours(rng, arrays, made)
    names = tuple(one.name for one in arrays if not one.parent)
    held = {"holders": names, "busy": f"{names[0]} consists of it"}
    return tuple(replace(disk, **held) for disk in disks), arrays, (made,)


def nearly_our_partitions(rng: Random) -> tuple[tuple[TemporaryDisk, ...], tuple[DiskSet, ...]]:
    """A recorded set of LVM on partitions, which was interrupted before the file system."""
    plain = tuple(nvme(number) for number in range(rng.choice((2, 2, 3))))
    made = random_set(rng, plain)
    whole = {"members": tuple(disk.identity for disk in plain), "sizes": tuple(disk.size for disk in plain)}
    kind = {"aggregation": "lvm", "table": "gpt", "array_uuid": UUIDS[0], "swap_partition_uuid": ""}
    made = replace(made, **whole, **kind, vm_id=VM, begun=rng.choice(("table", "table", "array")))
    return tuple(nearly_ours(rng, disk, made) for disk in plain), (made,)


def random_machine(rng: Random) -> tuple[DiskFacts, tuple[DiskSet, ...]]:
    disks = tuple(random_disk(rng, number) for number in range(rng.choice((0, 1, 1, 2, 2, 3))))
    disks += (random_disk(rng, None),) if rng.random() < 0.5 else ()
    if disks and rng.random() < 0.3:  # all of them blank, or all members of one array
        content = rng.choice((None, holding(sign("md", UUIDS[0]))))
        disks = tuple(replace(one, content=content or blank(one.size), partitions=()) for one in disks)
    assembled: tuple[Assembled, ...] = ()
    if disks and rng.random() < 0.3:
        array = random_array(rng, disks)
        assembled = random_parts(rng, array, lvm=rng.random() < 0.5) if rng.random() < 0.5 else (array,)
        names = tuple(one.name for one in assembled if not one.parent)
        held = {"holders": names, "busy": f"{names[0]} consists of it"}
        disks = tuple(replace(one, **held) if one.name in array.members else one for one in disks)
    sets = tuple(random_set(rng, disks) for _ in range(rng.choice((0, 1, 1, 2)))) if disks else ()
    if sets and rng.random() < 0.6:
        disks = tuple(nearly_ours(rng, one, sets[0]) for one in disks)
        assembled = parts_nearly_ours(rng, assembled, sets[0])
    if rng.random() < 0.2:
        disks, assembled, sets = nearly_our_array(rng)
    elif rng.random() < 0.05:
        (disks, sets), assembled = nearly_our_partitions(rng), ()
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
        tools=frozenset(tool for tool in sorted(TOOLS) if rng.random() < 0.97),
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
