"""`azure-nvme-id`: its options, and its output in every format."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest

from azureinit.cli.nvme_id import USAGE, main
from azureinit.machine import Machine
from azureinit.version import VERSION
from support.nvme_trees import DIRECT_V2, NvmeMachine, add_controller, azure_vm

sys.path.insert(0, str(Path(__file__).parents[2] / "packaging"))

import commands

PLAIN = """\
/dev/nvme0n1: type=os
/dev/nvme0n2: type=data,lun=1
/dev/nvme0n3: type=data,lun=0
/dev/nvme0n10: type=data,lun=31
/dev/nvme2n1: type=local
/dev/nvme10n1: type=local,index=1,name=nvme-110G-1
"""


def run(machine: Machine, *words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    status = main(list(words), machine=machine, out=out, err=err)
    return status, out.getvalue(), err.getvalue()


def test_plain_output(tmp_path: Path) -> None:
    machine = azure_vm(tmp_path)
    assert run(machine) == (0, PLAIN, "")
    assert run(machine, "--format", "plain") == (0, PLAIN, "")
    assert run(machine, "--format", "json", "--format", "plain") == (0, PLAIN, "")


def test_json_output(tmp_path: Path) -> None:
    status, out, err = run(azure_vm(tmp_path), "--format", "json")
    assert (status, err) == (0, "")
    rows = json.loads(out)
    assert [list(row) for row in rows] == [["path", "model", "properties", "vs"]] * 6
    assert rows[3] == {
        "path": "/dev/nvme0n10",
        "model": "MSFT NVMe Accelerator v1.0",
        "properties": {"type": "data", "lun": 31},
        "vs": "",
    }
    assert rows[5] == {
        "path": "/dev/nvme10n1",
        "model": DIRECT_V2,
        "properties": {"type": "local", "index": 1, "name": "nvme-110G-1"},
        "vs": "type=local,index=1,name=nvme-110G-1",
    }


def test_a_namespace_that_cannot_be_asked(tmp_path: Path) -> None:
    add_controller(tmp_path, "nvme0", model=DIRECT_V2, namespaces={"nvme0n1": 1})
    machine = NvmeMachine(tmp_path, {})
    why = "cannot identify /dev/nvme0n1: Operation not permitted\n"
    assert run(machine) == (0, "", why)
    status, out, err = run(machine, "--format", "json")
    assert (status, err) == (0, why)
    assert json.loads(out) == [{"path": "/dev/nvme0n1", "model": DIRECT_V2, "properties": {}, "vs": None}]


def test_a_number_that_is_none_stays_text(tmp_path: Path) -> None:
    add_controller(tmp_path, "nvme0", model=DIRECT_V2, namespaces={"nvme0n1": 1})
    machine = NvmeMachine(tmp_path, {"/dev/nvme0n1": b"index=x1,lun=-3,name=7"})
    (row,) = json.loads(run(machine, "--format", "json")[1])
    assert row["properties"] == {"index": "x1", "lun": "-3", "name": "7"}


def test_a_kernel_without_nvme(tmp_path: Path) -> None:
    said = "no NVMe devices in /sys/class/nvme: No such file or directory\n"
    assert run(Machine(kernel=str(tmp_path))) == (0, "", said)
    assert run(Machine(kernel=str(tmp_path)), "--format", "json") == (0, "[]\n", said)


def udev(tmp_path: Path, area: bytes, *words: str) -> tuple[int, str, str]:
    return run(NvmeMachine(tmp_path, {"/dev/nvme1n1": area}, {"DEVNAME": "/dev/nvme1n1"}), "--udev", *words)


def test_properties_for_udev(tmp_path: Path) -> None:
    told = "AZURE_DISK_VS=type=local,index=1,name=nvme-110G-1\nAZURE_DISK_TYPE=local\nAZURE_DISK_INDEX=1\n"
    told += "AZURE_DISK_NAME=nvme-110G-1\n"
    assert udev(tmp_path, b"type=local,index=1,name=nvme-110G-1\0x") == (0, told, "")
    assert udev(tmp_path, b"") == (0, "AZURE_DISK_VS=\n", ""), "the rules know the models that say nothing"


def test_a_disk_sets_no_property_of_another_name(tmp_path: Path) -> None:
    status, out, err = udev(tmp_path, b"type=os\nID_FS_UUID=x,a b=c,plain,lun=1")
    assert status == 0
    assert [line.partition("=")[0] for line in out.splitlines()] == [
        "AZURE_DISK_VS",
        "AZURE_DISK_TYPE",
        "AZURE_DISK_LUN",
    ]
    assert err == "/dev/nvme1n1: not key=value: a b=c\n/dev/nvme1n1: not key=value: plain\n"


def test_udev_needs_a_device_that_answers(tmp_path: Path) -> None:
    assert run(NvmeMachine(tmp_path, {}), "--udev") == (1, "", "environment variable 'DEVNAME' not set\n")
    status, out, err = run(NvmeMachine(tmp_path, {}, {"DEVNAME": "/dev/nvme9n1"}), "--udev")
    assert (status, out, err) == (1, "", "cannot identify /dev/nvme9n1: Operation not permitted\n")


def test_debug_adds_to_standard_error_only(tmp_path: Path) -> None:
    status, out, err = run(azure_vm(tmp_path), "--debug")
    assert (status, out) == (0, PLAIN)
    assert len(err.splitlines()) == 6 and all(line.startswith("DEBUG: /dev/nvme") for line in err.splitlines())


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (("zzz",), "zzz"),
        (("--format",), "--format"),
        (("--format", "xml"), "xml"),
        (("--format", "xml", "--help"), "xml"),
        (("--debug", "--zzz", "--help"), "--zzz"),
        (("-V",), "-V"),
        (("",), ""),
    ],
)
def test_a_bad_argument(tmp_path: Path, words: tuple[str, ...], wrong: str) -> None:
    assert run(azure_vm(tmp_path), *words) == (1, USAGE, f"invalid argument: {wrong}\n")


def test_help_and_version(tmp_path: Path) -> None:
    machine = azure_vm(tmp_path)
    assert run(machine, "--help") == run(machine, "-h") == (0, USAGE, "")
    assert USAGE.startswith("Usage: azure-nvme-id ")
    assert run(machine, "--version", "zzz") == (0, f"azure-nvme-id v{VERSION}\n", "")


def test_the_table_for_manual_page_and_completions_has_the_options_of_the_help() -> None:
    named = {name for option in commands.nvme_id().options for name in option.names}
    assert named == set(re.findall(r"(?<![\w-])--?[a-z]+", USAGE))
