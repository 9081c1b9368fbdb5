"""Directories and links, other users' directories, full disks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from azureinit.errors import LocalError, NoSpace
from azureinit.machine import Machine
from support.machine_trees import listing, mode


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "root/etc").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("outside")
    return tmp_path / "root"


@pytest.fixture
def machine(tree: Path) -> Machine:
    return Machine(root=str(tree), environ={})


# ---- directories and links


def test_a_directory_is_made_or_corrected(tree: Path, machine: Machine) -> None:
    machine.make_dir("/etc/new", mode=0o750)
    (tree / "etc/new/kept").touch()
    machine.make_dir("/etc/new", mode=0o700)
    assert mode(tree / "etc/new") == 0o700
    assert (tree / "etc/new/kept").exists()


def test_a_directory_in_the_place_of_a_file_is_an_error(tree: Path, machine: Machine) -> None:
    (tree / "etc/file").touch()
    with pytest.raises(LocalError, match=f"cannot make directory {machine.root}/etc/file: Not a directory"):
        machine.make_dir("/etc/file", mode=0o755)
    with pytest.raises(LocalError, match=f"cannot make directory {machine.root}/missing/new: No such file"):
        machine.make_dir("/missing/new", mode=0o755)


def test_a_directory_that_is_a_link_is_corrected_inside_the_root(tree: Path, machine: Machine) -> None:
    outside = tree.parent / "outside"
    outside.chmod(0o755)
    (tree / "inside").mkdir(mode=0o755)
    (tree / "etc/in").symlink_to("/inside")
    (tree / "etc/out").symlink_to(outside)
    machine.make_dir("/etc/in", mode=0o700)
    assert mode(tree / "inside") == 0o700
    with pytest.raises(LocalError):
        machine.make_dir("/etc/out", mode=0o700)
    assert mode(outside) == 0o755


def test_every_missing_directory_is_made(tree: Path, machine: Machine) -> None:
    (tree / "var").mkdir(mode=0o711)
    machine.make_dirs("/var/lib/azure-init/", mode=0o700)
    assert mode(tree / "var") == 0o711
    assert mode(tree / "var/lib/azure-init") == 0o700
    machine.make_dirs("/var/lib/azure-init/", mode=0o755)
    assert mode(tree / "var/lib/azure-init") == 0o700


def test_a_link_replaces_what_was_there_and_not_what_that_meant(tree: Path, machine: Machine) -> None:
    (tree / "etc/vendor").write_bytes(b"vendor's")
    (tree / "etc/link").symlink_to("vendor")
    machine.symlink("/etc/link", "other")
    assert os.readlink(tree / "etc/link") == "other"
    assert (tree / "etc/vendor").read_bytes() == b"vendor's"
    machine.symlink("/etc/vendor", "x")
    assert os.readlink(tree / "etc/vendor") == "x"


def test_removing_a_link_leaves_what_it_meant(tree: Path, machine: Machine) -> None:
    (tree / "etc/file").touch()
    (tree / "etc/link").symlink_to("file")
    assert machine.remove("/etc/link") is True
    assert listing(tree) == {"etc", "etc/file"}
    with pytest.raises(LocalError, match=f"cannot remove {machine.root}/etc: Is a directory"):
        machine.remove("/etc")


# ---- in someone else's directory


@pytest.fixture
def home(tree: Path) -> Path:
    (tree / "home/u").mkdir(parents=True)
    return tree / "home/u"


def test_beneath_a_home_files_are_written_as_elsewhere(home: Path, machine: Machine) -> None:
    machine.make_dir("/home/u/.ssh", mode=0o700, beneath="/home/u")
    machine.write("/home/u/.ssh/authorized_keys", b"key\n", mode=0o600, beneath="/home/u")
    machine.symlink("/home/u/.profile", "target", beneath="/home/u")
    assert (home / ".ssh/authorized_keys").read_bytes() == b"key\n"
    assert (mode(home / ".ssh"), mode(home / ".ssh/authorized_keys")) == (0o700, 0o600)
    assert os.readlink(home / ".profile") == "target"
    assert machine.read("/home/u/.ssh/authorized_keys", beneath="/home/u") == b"key\n"


@pytest.mark.parametrize("planted", [".ssh", ".ssh/authorized_keys"])
@pytest.mark.parametrize("living", [True, False])
def test_no_link_beneath_a_home_is_followed(
    tree: Path, home: Path, machine: Machine, planted: str, living: bool
) -> None:
    aim = tree / "aim"
    if planted == ".ssh":
        if living:
            aim.mkdir()
    else:
        (home / ".ssh").mkdir()
        if living:
            aim.write_bytes(b"root's")
    (home / planted).symlink_to("/aim")
    before = listing(tree)
    with pytest.raises(LocalError):
        machine.write("/home/u/.ssh/authorized_keys", b"key\n", beneath="/home/u")
    if planted == ".ssh":
        with pytest.raises(LocalError):
            machine.make_dir("/home/u/.ssh", mode=0o777, beneath="/home/u")
    else:
        with pytest.raises(LocalError):
            machine.read("/home/u/.ssh/authorized_keys", beneath="/home/u")
    assert listing(tree) == before
    if living:
        assert mode(aim) != 0o777
        assert aim.is_dir() or aim.read_bytes() == b"root's"


@pytest.mark.parametrize("path", ["/home/u/../../etc/x", "/home/u/a/../b", "/home/u", "/home/u/"])
def test_what_does_not_lie_beneath_is_refused(home: Path, machine: Machine, path: str) -> None:
    with pytest.raises(LocalError, match="it is outside its directory"):
        machine.write(path, b"", beneath="/home/u")


def test_what_is_not_there_beneath_a_home_is_none(home: Path, machine: Machine) -> None:
    assert machine.read("/home/u/file", beneath="/home/u") is None
    assert machine.read("/home/u/.ssh/authorized_keys", beneath="/home/u") is None
    assert machine.read("/home/nobody/file", beneath="/home/nobody") is None


def test_a_home_that_is_itself_a_link_is_the_administrator_s_choice(tree: Path, machine: Machine) -> None:
    (tree / "data/u").mkdir(parents=True)
    (tree / "home").symlink_to("/data")
    machine.write("/home/u/file", b"x", beneath="/home/u")
    assert (tree / "data/u/file").read_bytes() == b"x"


# ---- disks that are full or refuse to be written


def test_a_full_disk_has_its_own_error(machine: Machine) -> None:
    appender = machine.appender("/dev/full")
    with pytest.raises(NoSpace, match="cannot write /dev/full: No space left on device") as caught:
        appender.write(b"x")
    appender.close()
    assert caught.value.reason == "no space left on device"


# ---- what is the vendor's


@pytest.mark.parametrize("target", ["../usr/share/file", "/usr/share/file", "link"])
def test_a_link_into_usr_is_replaced_and_not_written_through(tree: Path, machine: Machine, target: str) -> None:
    (tree / "usr/share").mkdir(parents=True)
    (tree / "usr/share/file").write_text("vendor's")
    (tree / "etc/link").symlink_to("../usr/share/file")
    (tree / "etc/file").symlink_to(target)
    assert machine.vendor_target("/etc/file") == "/usr/share/file"
    machine.write("/etc/file", b"ours")
    assert (tree / "usr/share/file").read_text() == "vendor's"
    assert (tree / "etc/file").read_text() == "ours" and mode(tree / "etc/file") == 0o644
    assert not (tree / "etc/file").is_symlink() and (tree / "etc/link").is_symlink()


def test_a_link_elsewhere_is_honoured(tree: Path, machine: Machine) -> None:
    (tree / "var").mkdir()
    (tree / "var/file").write_text("old")
    (tree / "etc/file").symlink_to("../var/file")
    assert machine.vendor_target("/etc/file") is None
    machine.write("/etc/file", b"new")
    assert (tree / "etc/file").is_symlink() and (tree / "var/file").read_text() == "new"
