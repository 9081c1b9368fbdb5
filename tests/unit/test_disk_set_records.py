"""The record of disk sets: what is read is exactly what was written, and nothing else is read."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, strategies as st

from azureinit.machine import Machine
from azureinit.memory.disk_sets import DiskSet, encode_disk_sets, parse_disk_sets, read_disk_sets
from azureinit.memory.instance import Instance, clean, has_files
from azureinit.memory.sealed import seal
from azureinit.record import replace
from support.disk_cases import VM, nvme, recorded, scsi

ONE = recorded(nvme(0), nvme(1))
TWO = recorded(scsi(), finished=True, over="ntfs")


def test_sets_are_read_as_they_were_written() -> None:
    assert parse_disk_sets(encode_disk_sets((ONE, TWO))) == (ONE, TWO)
    assert parse_disk_sets(b"") == ()


def test_a_record_of_an_older_version_has_no_chunk() -> None:
    older = {name: value for name, value in ONE.as_dict().items() if name != "chunk_kib"}
    assert parse_disk_sets(seal(older)) == (ONE,)


def test_every_changed_byte_makes_the_line_invalid() -> None:
    data = encode_disk_sets((ONE,))
    for at in range(len(data) - 1):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        assert parse_disk_sets(changed) in ((), (ONE,))
        if changed[at : at + 1] not in b" \n":
            assert parse_disk_sets(changed) == ()


def test_a_torn_line_is_ignored_and_the_others_count() -> None:
    data = encode_disk_sets((ONE, TWO))
    assert parse_disk_sets(data[: data.index(b"\n") + 40]) == (ONE,)


HOSTILE: dict[str, dict[str, object]] = {
    "no members": {"members": (), "sizes": ()},
    "fewer sizes": {"sizes": (1,)},
    "a member twice": {"members": ("a", "a")},
    "an empty member": {"members": ("a", "")},
    "a negative size": {"sizes": (5, -5)},
    "a size that is true": {"sizes": (5, True)},
    "an unknown stage": {"begun": "everything"},
    "an unknown file system": {"filesystem": "ntfs"},
    "a number as text": {"swap_mib": "5"},
    "finished as a number": {"finished": 1},
    "a path as the kind": {"kind": "../../x"},
}


def test_lines_of_another_shape_are_ignored() -> None:
    for name, values in HOSTILE.items():
        assert parse_disk_sets(seal({**ONE.as_dict(), **values})) == (), name
    assert parse_disk_sets(seal({**ONE.as_dict(), "more": 1})) == ()
    assert parse_disk_sets(seal({"purpose": "data"})) == ()


def test_a_line_without_a_checksum_is_ignored() -> None:
    from azureinit.jsontext import dumps

    assert parse_disk_sets(dumps(ONE.as_dict()).encode()) == ()


@given(st.binary(max_size=400))
def test_any_bytes_are_no_error(data: bytes) -> None:
    assert parse_disk_sets(data) == ()


def test_only_the_sets_of_this_vm_are_read(tmp_path: Path) -> None:
    machine, instance = Machine(root=str(tmp_path)), Instance(data_dir="/data", vm_id=VM)
    (tmp_path / "data").mkdir()
    assert read_disk_sets(machine, instance) == ()
    other: DiskSet = replace(TWO, vm_id="another")
    (tmp_path / "data" / f"{VM}.disks").write_bytes(encode_disk_sets((ONE, other)))
    assert read_disk_sets(machine, instance) == (ONE,)
    assert not has_files(machine, instance)
    assert clean(machine, "/data") == (f"{VM}.disks",)


def test_a_directory_in_place_of_the_record_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "data" / f"{VM}.disks").mkdir(parents=True)
    assert read_disk_sets(Machine(root=str(tmp_path)), Instance(data_dir="/data", vm_id=VM)) == ()
