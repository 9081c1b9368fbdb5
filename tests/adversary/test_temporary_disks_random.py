"""Random machines and hostile files of sysfs: no managed disk and no disk of the system is ever temporary."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, given, settings, strategies as st

from support.disk_trees import DATA, GEN1_RESOURCE, GEN2, REMOTE, V1, V2, DiskTree

# Thousands of small files: on a busy disk these take minutes.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
DISKS = st.lists(
    st.sampled_from(["os", "resource", "gen1", "data", "local", "local2", "remote", "virtio", "scsi"]),
    min_size=1,
    max_size=9,
)
POINTS = ("/", "/usr", "/boot", "/var", "/mnt", "/data")
TEMPORARY = {"resource", "gen1", "local", "local2"}
STACKS = st.lists(
    st.tuples(st.sampled_from(["part", "md", "dm", "raw"]), st.integers(0, 8), st.sampled_from(POINTS)), max_size=6
)
LINKS = st.lists(
    st.tuples(st.sampled_from(["azure/resource", "azure/os", "cloud/azure_root"]), st.integers(0, 8)), max_size=2
)


@given(kinds=DISKS, stacks=STACKS, links=LINKS, order=st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_managed_disk_and_no_disk_of_the_system_is_ever_temporary(
    kinds: list[str], stacks: list[tuple[str, int, str]], links: list[tuple[str, int]], order: Random
) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as place:
        tree = DiskTree(Path(place))
        made: list[tuple[str, str]] = []
        order.shuffle(kinds)
        for number, kind in enumerate(kinds):
            made.append((_make(tree, kind, number), kind))
        system: set[str] = set()
        used: set[str] = set()
        for at, (kind, which, point) in enumerate(stacks):
            disk = made[which % len(made)][0]
            device = disk
            if kind == "part":
                device = tree.partition(disk, at + 1)
            elif kind in ("md", "dm"):
                device = tree.stack(f"{kind}{'-' if kind == 'dm' else ''}{at}", [tree.partition(disk, at + 1)])
            tree.mount(point, device)
            used.add(disk)
            if point in POINTS[:4]:
                system.add(disk)
        for name, which in dict(links).items():
            tree.link(f"dev/disk/{name}", f"../../{made[which % len(made)][0]}")
        if not tree.mounts:
            tree.mount("/proc", "0:20", kind="proc")
        facts = tree.facts()
        for one in facts.disks:
            kind = dict(made)[one.name]
            by_link = not (tree.place / "sys/bus/vmbus").exists() and kind == "scsi"
            assert kind in TEMPORARY or (by_link and "names it" in one.evidence)
            assert one.name not in system
            assert bool(one.busy) is (one.name in used)
            assert one.content is None or one.content.blank is (one.name not in used)
        assert {one.name for one in facts.disks} | {other.name for other in facts.others} == {name for name, _ in made}
        assert all(other.why for other in facts.others)


def _make(tree: DiskTree, kind: str, number: int) -> str:
    if kind in ("local", "local2", "remote"):
        model = {"local": V1, "local2": V2, "remote": REMOTE}[kind]
        return tree.namespace(tree.controller(model, f"S{number % 7}"), size=1)
    if kind == "virtio":
        return tree.disk(
            f"vd{'abcdefghi'[number]}", f"devices/pci/virtio{number}/block/vd{'abcdefghi'[number]}", size=1
        )
    if kind == "scsi":
        return tree.virtio_scsi(lun=number, size=1)
    bus_id = {"os": GEN2, "resource": GEN2, "gen1": GEN1_RESOURCE, "data": DATA[number % 3]}[kind]
    return tree.scsi(bus_id, lun={"os": 0, "resource": 1}.get(kind, number), size=1)


HOSTILE = st.one_of(
    st.binary(max_size=60), st.sampled_from([b"local", b"../..", b"9" * 60, b"Microsoft NVMe Direct Disk"])
)


@given(contents=st.lists(HOSTILE, min_size=40, max_size=40), seed=st.integers(0, 1000))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_file_of_sysfs_makes_reading_fail(contents: list[bytes], seed: int) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as place:
        tree = DiskTree(Path(place))
        tree.gen2(data=1)
        tree.local_nvme("A1")
        tree.stack("md127", ["nvme0n1"], uuid="12345678:12345678:12345678:12345678")
        files = sorted(path for path in (tree.place / "sys").rglob("*") if path.is_file() and not path.is_symlink())
        for number, content in enumerate(contents):
            files[(seed + 7 * number) % len(files)].write_bytes(content)
        facts = tree.facts()
        assert not {"sda", "sdc"} & {disk.name for disk in facts.disks}
