"""Writes on full and failing file systems, which root mounts, and for other owners."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from azureinit.errors import LocalError, NoSpace, ReadOnly
from azureinit.machine import Machine
from support.need import need_root, unfit


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "root/etc").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("outside")
    return tmp_path / "root"


@pytest.fixture
def machine(tree: Path) -> Machine:
    return Machine(root=str(tree), environ={})


def listing(tree: Path) -> set[str]:
    return {str(path.relative_to(tree)) for path in tree.rglob("*")}


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "small"
    path.mkdir()
    options = ("-t", "tmpfs", "-o", "size=64k", "tmpfs", str(path))
    if os.geteuid() != 0 or subprocess.run(("mount", *options), capture_output=True, check=False).returncode:
        unfit("a small file system can be mounted by root only")
    try:
        yield path
    finally:
        subprocess.run(("umount", str(path)), check=True)


def test_a_full_disk_leaves_the_old_file_whole_and_nothing_beside_it(small: Path) -> None:
    machine = Machine(root=str(small), environ={})
    machine.write("/file", b"old")
    with pytest.raises(NoSpace, match=f"cannot write {machine.root}/file: No space left on device"):
        machine.write("/file", b"x" * 200_000)
    assert (small / "file").read_bytes() == b"old"
    assert listing(small) == {"file"}


def test_a_disk_that_refuses_every_write_has_its_own_error(small: Path) -> None:
    machine = Machine(root=str(small), environ={})
    machine.write("/file", b"old")
    subprocess.run(("mount", "-o", "remount,ro", str(small)), check=True)
    for attempt in (
        lambda: machine.write("/file", b"new"),
        lambda: machine.make_dir("/new", mode=0o755),
        lambda: machine.make_dirs("/new/er", mode=0o755),
        lambda: machine.symlink("/file", "x"),
        lambda: machine.remove("/file"),
        lambda: machine.appender("/log"),
    ):
        with pytest.raises(ReadOnly, match="Read-only file system"):
            attempt()
    assert (small / "file").read_bytes() == b"old"


def test_the_owner_stays_as_it_was_unless_it_is_given(tree: Path, machine: Machine) -> None:
    need_root()
    (tree / "etc/passwd").write_text("root:x:0:0::/:\nweb:x:1234:4321::/home/web:/bin/sh\n")
    (tree / "etc/group").write_text("root:x:0:\nops:x:77:\n")
    (tree / "etc/file").touch()
    os.chown(tree / "etc/file", 12, 34)
    machine.write("/etc/file", b"new")
    assert ((tree / "etc/file").stat().st_uid, (tree / "etc/file").stat().st_gid) == (12, 34)
    for owner, ids in (("web", (1234, 4321)), ("web:ops", (1234, 77)), ("56:78", (56, 78)), ("99", (99, 99))):
        machine.write("/etc/file", b"new", owner=owner)
        assert ((tree / "etc/file").stat().st_uid, (tree / "etc/file").stat().st_gid) == ids


def test_an_owner_nobody_knows_is_an_error_that_leaves_nothing_behind(tree: Path, machine: Machine) -> None:
    need_root()
    (tree / "etc/file").write_bytes(b"old")
    with pytest.raises(LocalError, match=f"no nobody-at-all in {machine.root}/etc/passwd"):
        machine.write("/etc/file", b"new", owner="nobody-at-all")
    assert listing(tree) == {"etc", "etc/file"}
    assert (tree / "etc/file").read_bytes() == b"old"
