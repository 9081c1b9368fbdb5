"""Azure's NVMe namespaces: what they say of themselves, and which of them are listed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.facts.nvme_namespaces import (
    ACCELERATOR_MODEL,
    DIRECT_DISK_MODELS,
    Namespace,
    described,
    pairs,
    parse_vendor_specific,
    read_namespaces,
    vendor_text,
)
from azureinit.machine import Machine
from azureinit.machine.block import _identify_command
from support.nvme_trees import DIRECT_V2, NvmeMachine, add_controller, azure_vm


@pytest.mark.parametrize(
    ("area", "told"),
    [
        (b"type=local,index=2,name=nvme-600G-2\0", (("type", "local"), ("index", "2"), ("name", "nvme-600G-2"))),
        (b"type=local,index=1\0after,the=end", (("type", "local"), ("index", "1"))),
        (b"type=os", (("type", "os"),)),
        (b"type=data,lun=0", (("type", "data"), ("lun", "0"))),
        (b"", ()),
        (b"\0type=os", ()),
        (b",,type=os,,", (("type", "os"),)),
        (b"type=,=os,type,=,lun=3", (("lun", "3"),)),
        (b"name=a=b", (("name", "a=b"),)),
        (b"a b=c,d=e f", (("d", "e f"),)),
        (b"type=os\nID_FS_TYPE=ext4", (("type", "os?ID_FS_TYPE=ext4"),)),
        (b"n\xc3\xa4me=x,name=\xff\x01", (("name", "??"),)),
    ],
)  # fmt: skip
def test_keys_and_values_of_the_vendor_specific_area(area: bytes, told: tuple[tuple[str, str], ...]) -> None:
    assert parse_vendor_specific(area) == told


@given(st.binary(max_size=300))
def test_any_area_is_printable_and_its_pairs_are_whole(area: bytes) -> None:
    text = vendor_text(area)
    assert all(" " <= letter <= "~" for letter in text) and len(text) <= len(area)
    for key, value in parse_vendor_specific(area):
        assert key and value and "," not in key + value and "=" not in key
        assert key.replace("_", "a").isalnum() and key.isascii()


words = st.text("abcdefghijklmnopqrstuvwxyz0123456789_", min_size=1)


@given(st.lists(st.tuples(words, st.text("abcXYZ0123456789-./ ", min_size=1))))
def test_what_is_written_as_pairs_is_read_as_the_same_pairs(given_pairs: list[tuple[str, str]]) -> None:
    text = ",".join(f"{key}={value}" for key, value in given_pairs)
    assert pairs(text) == (tuple(given_pairs), ())


def test_parts_that_are_not_pairs_are_named() -> None:
    assert pairs("type=os,what,=x,a/b=c") == ((("type", "os"),), ("what", "=x", "a/b=c"))


def test_models_that_say_nothing_are_described_by_model_and_number() -> None:
    assert described(ACCELERATOR_MODEL, 1) == "type=os"
    assert [described(ACCELERATOR_MODEL, nsid) for nsid in (2, 33)] == ["type=data,lun=0", "type=data,lun=31"]
    assert [described(model, 7) for model in DIRECT_DISK_MODELS] == ["type=local", "type=local"]
    assert described("Samsung SSD", 1) == ""


def test_the_namespaces_of_azures_controllers_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    found = read_namespaces(azure_vm(tmp_path))
    assert found is not None
    assert [(one.path, one.nsid, one.description) for one in found] == [
        ("/dev/nvme0n1", 1, "type=os"),
        ("/dev/nvme0n2", 3, "type=data,lun=1"),  # the number in the name is not the namespace's id
        ("/dev/nvme0n3", 2, "type=data,lun=0"),
        ("/dev/nvme0n10", 33, "type=data,lun=31"),
        ("/dev/nvme2n1", 1, "type=local"),
        ("/dev/nvme10n1", 1, "type=local,index=1,name=nvme-110G-1"),
    ]
    assert found[-1] == Namespace(
        path="/dev/nvme10n1",
        model=DIRECT_V2,
        serial="d4e5f6",
        nsid=1,
        vendor_specific="type=local,index=1,name=nvme-110G-1",
    )


def test_a_namespace_with_several_paths_has_one_device(tmp_path: Path) -> None:
    """The controller's directory then holds a hidden path, and the device belongs to the subsystem."""
    add_controller(tmp_path, "nvme1", model=DIRECT_V2, namespaces={"nvme0c1n1": 1, "nvme0c1n": 1, "nvmexc1n1": 1})
    found = read_namespaces(NvmeMachine(tmp_path, {"/dev/nvme0n1": b"type=local"}))
    assert found is not None and [(one.path, one.vendor_specific) for one in found] == [("/dev/nvme0n1", "type=local")]


def test_a_namespace_that_cannot_be_asked_is_listed_with_the_reason(tmp_path: Path) -> None:
    add_controller(tmp_path, "nvme0", model=DIRECT_V2, namespaces={"nvme0n1": 1})
    (one,) = read_namespaces(NvmeMachine(tmp_path, {})) or ()
    assert (one.vendor_specific, one.description) == (None, "")
    assert one.why == "cannot identify /dev/nvme0n1: Operation not permitted"


def test_a_controller_whose_files_are_missing_or_strange_is_no_error(tmp_path: Path) -> None:
    add_controller(tmp_path, "nvme0", model=DIRECT_V2, namespaces={"nvme0n7": 1})
    for name in ("model", "serial", "nvme0n7/nsid"):
        (tmp_path / "sys/class/nvme/nvme0" / name).unlink()
    add_controller(tmp_path, "nvme1", model=DIRECT_V2, vendor="Microsoft", namespaces={"nvme1n1": 1})
    (one,) = read_namespaces(NvmeMachine(tmp_path, {"/dev/nvme0n7": b""})) or ()
    assert (one.path, one.model, one.serial, one.nsid, one.description) == ("/dev/nvme0n7", "", "", 7, "")


def test_a_kernel_without_nvme_has_no_list(tmp_path: Path) -> None:
    assert read_namespaces(Machine(kernel=str(tmp_path))) is None
    (tmp_path / "sys/class/nvme").mkdir(parents=True)
    assert read_namespaces(Machine(kernel=str(tmp_path))) == ()


def test_the_command_for_the_kernel_has_its_fields_where_the_kernel_reads_them() -> None:
    """opcode u8, flags u8, u16, nsid u32, 2 u32, metadata u64, addr u64, metadata_len u32, data_len u32, ..."""
    import struct

    command = _identify_command(33, 0x1122334455667788)
    assert struct.unpack("=BBHIIIQQIIIIIIIIII", command) == (
        (6, 0, 0, 33, 0, 0, 0, 0x1122334455667788, 0, 4096) + (0,) * 8
    )  # fmt: skip
