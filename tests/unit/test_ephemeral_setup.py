"""The file of azure-vm-utils: read as its service reads it, as a layer below azure-init's own files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.config.ephemeral_setup import OPTIONS, PREFIX, parse_ephemeral_setup
from azureinit.config.load import EPHEMERAL_SETUP, Origin, load
from support.config_trees import ETC, machine, write

CONF = EPHEMERAL_SETUP.lstrip("/")


def taken(text: str) -> dict[str, object]:
    found = parse_ephemeral_setup(text.encode())
    assert found.problems == ()
    return {one.key: one.value for one in found.taken}


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("AGGREGATION=auto", "disk.aggregation", "auto"),
        ("AGGREGATION=mdadm", "disk.aggregation", "mdadm"),
        ("AGGREGATION=none", "disk.aggregation", "none"),
        ("FS_TYPE=xfs", "disk.filesystem", "xfs"),
        ("MDADM_CHUNK=512K", "disk.chunk_kib", 512),
        ("MDADM_CHUNK=1M", "disk.chunk_kib", 1024),
        ("MDADM_CHUNK=1G", "disk.chunk_kib", 1 << 20),
        ("MDADM_NAME=scratch_0", "disk.md_name", "scratch_0"),
        ("MOUNT_POINT=/mnt/deep/down", "disk.mount_point", "/mnt/deep/down"),
        ("SCSI_RESOURCE=true", "disk.scsi", "fallback"),
        ("SCSI_RESOURCE=false", "disk.scsi", "off"),
    ],
)
def test_an_option_becomes_a_key(line: str, key: str, value: object) -> None:
    assert taken(PREFIX + line) == {key: value}


@pytest.mark.parametrize("name", ["SYSTEMD_UNIT_TIMEOUT_SECS", "UDEVADM_SETTLE_TIMEOUT_SECS"])
def test_the_timeouts_are_accepted_and_have_no_key(name: str) -> None:
    assert taken(f"{PREFIX}{name}=120") == {}
    assert parse_ephemeral_setup(f"{PREFIX}{name}=0".encode()).problems


@pytest.mark.parametrize(
    "line",
    [
        "{}FS_TYPE=xfs",
        "  {}FS_TYPE  =  xfs  ",
        '{}FS_TYPE="xfs"',
        "{}FS_TYPE='xfs'",
        '{}FS_TYPE = "xfs" \r',
        "{}FS_TYPE=ext4\n{}FS_TYPE=xfs",
        "{}FS_TYPE=rubbish\n{}FS_TYPE=xfs",
        "# {}FS_TYPE=ext4\n\n=\n  #{}FS_TYPE=ext4\n{}FS_TYPE=xfs\n",
    ],
)
def test_blanks_quotes_comments_and_repeats(line: str) -> None:
    assert taken(line.replace("{}", PREFIX)) == {"disk.filesystem": "xfs"}


@pytest.mark.parametrize(
    "line",
    [
        "AGGREGATION=lvm",
        "AGGREGATION=",
        "FS_TYPE=btrfs",
        "FS_TYPE=\"'xfs'\"",
        "MDADM_CHUNK=512",
        "MDADM_CHUNK=0K",
        "MDADM_CHUNK=012K",
        "MDADM_CHUNK=1k",
        "MDADM_CHUNK=6K",
        "MDADM_CHUNK=2T",
        "MDADM_CHUNK=-1M",
        "MDADM_NAME=a b",
        "MDADM_NAME=",
        "MDADM_NAME=-x",
        "MOUNT_POINT=mnt",
        "MOUNT_POINT=/",
        "MOUNT_POINT=/a b",
        "MOUNT_POINT=/a/../b",
        "SCSI_RESOURCE=yes",
        "UDEVADM_SETTLE_TIMEOUT_SECS=1.5",
    ],
)
def test_a_wrong_value_is_a_problem_with_its_line_and_its_name(line: str) -> None:
    found = parse_ephemeral_setup(f"\n{PREFIX}{line}\n".encode())
    (problem,) = found.problems
    assert found.taken == ()
    assert problem.startswith(f"line 2: {PREFIX}{line.partition('=')[0]} must ")


def test_an_unknown_option_is_warned_about_and_ignored() -> None:
    found = parse_ephemeral_setup(f"{PREFIX}SWAP=1\nFS_TYPE=xfs\n{PREFIX}FS_TYPE=xfs\n".encode())
    assert [one.key for one in found.taken] == ["disk.filesystem"]
    assert found.warnings == (
        f"line 1: {PREFIX}SWAP is not an option: ignored",
        "line 2: FS_TYPE is not an option: ignored",
    )


@given(st.lists(st.tuples(st.sampled_from(sorted(OPTIONS)), st.text(max_size=12))), st.binary(max_size=60))
def test_any_text_is_taken_or_told(rows: list[tuple[str, str]], noise: bytes) -> None:
    text = "".join(f"{PREFIX}{name}={value}\n" for name, value in rows).encode("utf-8", "surrogatepass")
    found = parse_ephemeral_setup(text + noise)
    assert all(told.isprintable() for told in (*found.problems, *found.warnings))


# ---- as a layer


def test_without_the_file_nothing_is_said(tmp_path: Path) -> None:
    assert load(machine(tmp_path), config=None, groups=None).warnings == ()


def test_it_is_above_the_defaults_and_below_every_file_of_ours(tmp_path: Path) -> None:
    write(tmp_path, CONF, f"\n{PREFIX}FS_TYPE=xfs\n{PREFIX}MOUNT_POINT=/scratch\n")
    write(tmp_path, ETC, '[disk]\nmount_point = "/data"\n')
    loaded = load(machine(tmp_path), config=None, groups=None)
    assert (loaded.config.disk.filesystem, loaded.config.disk.mount_point) == ("xfs", "/data")
    assert loaded.origin["disk.filesystem"] == Origin(layer="file", name=f"{tmp_path}/{CONF}:2")
    assert loaded.config.disk.setup == "off", "the file switches nothing on"


def test_it_is_above_waagent_conf(tmp_path: Path) -> None:
    write(tmp_path, CONF, f"{PREFIX}SCSI_RESOURCE=false\n")
    write(tmp_path, "etc/waagent.conf", "ResourceDisk.Format=y\nResourceDisk.Filesystem=xfs\n")
    write(tmp_path, ETC, "[waagent]\nhonour = true\n")
    disk = load(machine(tmp_path), config=None, groups=None).config.disk
    assert (disk.setup, disk.scsi, disk.filesystem) == ("auto", "off", "xfs")


def test_its_mistakes_are_warnings_and_only_if_disks_are_set_up(tmp_path: Path) -> None:
    write(tmp_path, CONF, f"{PREFIX}FS_TYPE=zfs\n{PREFIX}COLOUR=red\n")
    assert load(machine(tmp_path), config=None, groups=None).warnings == ()
    write(tmp_path, ETC, '[disk]\nsetup = "auto"\n')
    wrong, unknown = load(machine(tmp_path), config=None, groups=None).warnings
    assert "FS_TYPE must be one of ext4, xfs, not zfs: no disk is set up until this is corrected" in wrong
    assert "COLOUR is not an option: ignored" in unknown


def test_a_file_that_cannot_be_read_prevents_no_run(tmp_path: Path) -> None:
    (tmp_path / CONF).mkdir(parents=True)
    (warning,) = load(machine(tmp_path), config=None, groups=None).warnings
    assert CONF in warning
