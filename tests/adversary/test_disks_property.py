"""No disk in doubt is ever in a step that writes: random machines against a second statement of the rules."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings as limits, strategies as st

from azureinit.backends.array import STRIPED
from azureinit.backends.mount import CHECK
from azureinit.facts.disk_content import Content
from azureinit.facts.temporary_disks import DiskFacts, TemporaryDisk
from azureinit.memory.disk_sets import DiskSet
from azureinit.plan.actions import Step, Way
from azureinit.plan.disks import refusals
from support.disk_cases import VM, argvs, on_devices, plan, steps
from support.random_disks import random_machine, random_settings

EXAMPLES = 12_000
WRITERS = ("mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "mkswap", "mdadm", "sh", "wipefs", "sfdisk")
NOT_DEVICES = ("/dev/md/", "/dev/azure-ephemeral-md/", "/dev/zero", "/dev/null")


# ---- the rules, stated a second time


def plain(uuid: str) -> str:
    return uuid.replace("-", "").replace(":", "").lower()


def is_free(disk: TemporaryDisk) -> bool:
    return not (disk.busy or disk.trouble or disk.read_only or disk.holders or disk.mounts or disk.swaps)


def is_empty(content: Content | None) -> bool:
    if content is None or not content.blank or content.signatures or content.nonzero is not None:
        return False
    return not content.ambiguous and not content.ntfs and content.digest != ""


def is_pristine(disk: TemporaryDisk, *, trust: bool) -> bool:
    if disk.kind != "scsi" or len(disk.partitions) != 1 or disk.content is None or disk.content.ambiguous:
        return False
    inner = disk.partitions[0].content
    if [one.kind for one in disk.content.signatures] != ["dos"] or inner is None or inner.ambiguous:
        return False
    part = disk.partitions[0]
    if disk.content.around != (part.start, part.size) or disk.content.beside is not None:
        return False
    return is_shipped(inner, trust=trust)


def is_shipped(content: Content, *, trust: bool) -> bool:
    named = [(one.kind, one.label) for one in content.signatures] == [("ntfs", "Temporary Storage")]
    return named and (content.pristine_ntfs or (trust and content.ntfs_unreadable))


def recorded_uuids(made: DiskSet) -> set[str]:
    array = plain(made.array_uuid)
    members = {f"{array[:30]}{number:02d}" for number in range(len(made.members))} if array else set()
    if made.table == "gpt" and made.aggregation == "lvm":  # a table on each disk, numbered as the members are
        members |= {f"{plain(made.table_uuid)[:30]}{number:02d}" for number in range(len(made.members))}
    all_ = {made.array_uuid, made.table_uuid, made.filesystem_uuid, made.swap_uuid}
    return {plain(uuid) for uuid in all_ if uuid} | members


def may_be_stopped(path: str, found: DiskFacts, sets: tuple[DiskSet, ...], *, recreate: bool) -> bool:
    """It has no bytes, only temporary disks, no use, and is an array of this VM whose disks are all there."""
    (array,) = [one for one in found.assembled if one.path == path]
    if array.size or array.content is not None or array.mounts or array.swaps or array.parent:
        return False
    there = {disk.name: (disk.identity, disk.size) for disk in found.disks}
    if not array.members or not all(name in there for name in array.members):
        return False
    for made in sets:
        pairs = {*zip(made.members, made.sizes, strict=True)}
        ours = made.vm_id == VM and made.aggregation == "mdadm" and plain(made.array_uuid) == plain(array.uuid)
        if ours and pairs <= {*there.values()} and {there[name] for name in array.members} <= pairs:
            return True
    return recreate


def sequence_of(path: str, found: DiskFacts) -> int:
    for disk in found.disks:
        if path in (disk.path, *(part.path for part in disk.partitions)):
            return disk.sequence
    return next(one.sequence for one in found.assembled if one.path == path)


def is_our_work(
    identity: str, size: int, contents: list[Content | None], sets: tuple[DiskSet, ...], *, trust: bool
) -> bool:
    """Recorded by this VM with that disk and size, begun and not finished, and no signature without a recorded UUID.

    The platform's NTFS, which the set replaces, may still show through at the beginning of a new partition.
    """
    for made in sets:
        if made.vm_id != VM or made.finished or not made.begun:
            continue
        if (identity, size) not in zip(made.members, made.sizes, strict=True):
            continue
        known = recorded_uuids(made)
        for content in contents:
            if content is None or content.ambiguous:
                break
            if made.over == "ntfs" and is_shipped(content, trust=trust):
                continue
            if content.nonzero == 0 and not content.signatures and not made.over:
                break
            if any(plain(one.uuid) not in known for one in content.signatures if one.kind not in ("dos", "pmbr")):
                break
        else:
            return True
    return False


def may_be_written(path: str, found: DiskFacts, sets: tuple[DiskSet, ...], *, trust: bool) -> bool:
    for disk in found.disks:
        parts = {part.path: part for part in disk.partitions}
        if path == disk.path and is_free(disk):
            if (is_empty(disk.content) and not disk.partitions) or is_pristine(disk, trust=trust):
                return True
            return is_our_work(disk.identity, disk.size, [disk.content], sets, trust=trust)
        if path in parts and is_free(disk):
            return is_our_work(disk.identity, disk.size, [disk.content, parts[path].content], sets, trust=trust)
    for array in found.assembled:
        whole = [one for one in found.assembled if one.name == array.parent]
        if path == array.path and not any(one.mounts or one.swaps or one.busy for one in (array, *whole)):
            members = [disk for disk in found.disks if disk.name in array.members]
            unused = all(not disk.mounts and not disk.swaps and not disk.trouble for disk in members)
            contents = [array.content, *(one.content for one in whole)]
            return unused and all(is_our_work(one.identity, one.size, contents, sets, trust=trust) for one in members)
    return False


# ---- the property


@limits(max_examples=EXAMPLES, deadline=None, database=None)
@given(st.integers(min_value=0, max_value=(1 << 64) - 1))
def test_nothing_in_doubt_is_written_to_and_every_disk_is_explained(seed: int) -> None:
    rng = Random(seed)
    found, sets = random_machine(rng)
    settings = random_settings(rng)
    recreate = rng.random() < 0.2
    made = plan(found, *sets, recreate=recreate, **settings)

    written = {device.path for one in on_devices(made) for device in one.devices}
    free = {disk.path for disk in found.disks if is_free(disk)}
    for path in written:
        allowed = may_be_written(path, found, sets, trust=settings["trust_unreadable_ntfs"])
        assert allowed or (recreate and path in free), path
    for one in on_devices(made):
        assert all(device.digest and device.regions for device in one.devices)
        assert all(device.sequence == sequence_of(device.path, found) for device in one.devices)
        named = {word for word in one.run.argv if word.startswith("/dev/") and not word.startswith(NOT_DEVICES)}
        assert named <= {device.path for device in one.devices}
    checked = [one.run.argv for one in on_devices(made)]
    for argv in argvs(made):
        if argv[:2] == ("mdadm", "--stop"):
            assert may_be_stopped(argv[2], found, sets, recreate=recreate)
        elif argv[0] in WRITERS and argv not in checked:
            assert (
                argv[:2] in (("mdadm", "--assemble"), ("blockdev", "--getsz"))
                or argv[2] == CHECK
                or argv[3:5] == ("swapfile", "/mnt/swapfile")
                or argv[-1] == "/mnt/swapfile"
            )

    said = " ".join([*(f"{item.name} {item.why}" for item in made), *(" ".join(argv) for argv in argvs(made))])
    for disk in found.disks:
        assert disk.path in said, disk.path
        for part in disk.partitions:
            assert part.mounts or f"{part.path} is mounted at" not in said, part.path
    assert made or not found.disks
    for item in made:
        assert item.name
        assert item.why
        assert (
            not isinstance(item, Step)
            or any(isinstance(way, Way) for way in item.ways)
            or item.name.startswith("swap file")
        )
    assert len([item.name for item in made]) == len({item.name for item in made}), "two items have one name"


def test_the_random_machines_reach_every_decision() -> None:
    """Otherwise the property would say little."""
    rng = Random(14)
    seen: dict[str, int] = {}
    for _ in range(3000):
        found, sets = random_machine(rng)
        made = plan(found, *sets, **random_settings(rng))
        words = [step.name.split(" o")[0] for step in steps(made)]
        words += ["unfinished"] if any("unfinished work of this VM" in step.why for step in steps(made)) else []
        words += ["next part"] if any("the next part of the set" in step.why for step in steps(made)) else []
        argv = [argv for argv in argvs(made) if argv[2:3] == (STRIPED,)]
        words += ["volumes on partitions"] if any(argv[-1].endswith("p1") for argv in argv) else []
        words += ["stop"] if any(argv[:2] == ("mdadm", "--stop") for argv in argvs(made)) else []
        words += ["refusal"] if refusals(made) else []
        words += ["ntfs"] if any("NTFS that the platform ships" in step.why for step in steps(made)) else []
        for word in words:
            seen[word] = seen.get(word, 0) + 1
    wanted = (
        "file system", "swap area", "RAID 0 array", "striped logical volume", "partition table", "array", "mount",
        "refusal", "ntfs", "stop", "unfinished", "next part", "partition tables", "volumes on partitions",
    )  # fmt: skip
    assert {word for word in wanted if seen.get(word, 0) < 3} == set(), seen
