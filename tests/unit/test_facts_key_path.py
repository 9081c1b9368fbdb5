"""How far the path to a key file is trusted."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.ssh_facts import way
from support.ssh_trees import own, tree


@pytest.mark.parametrize("home", ["/home//ada", "/home/./ada", "//home/ada/", "/home/ada/."])
def test_a_home_is_the_same_however_it_is_written(tmp_path: Path, home: str) -> None:
    file = way(tree(tmp_path, {}), home)
    assert (file.path, file.home, file.beneath) == ("/home/ada/.ssh/authorized_keys", "/home/ada", "/home/ada")
    assert [directory.path for directory in file.directories] == ["/home/ada/.ssh"]
    (tmp_path / "home/ada/.ssh").symlink_to("/root")
    assert way(tree(tmp_path, {}), home).problem == "/home/ada/.ssh is a symbolic link"


@pytest.mark.parametrize(
    ("home", "told"), [("/home/x/../ada", "has .. in it"), ("ada", "absolute"), ("", "absolute"), ("/a\0b", "NUL")]
)
def test_a_home_that_cannot_be_taken_at_its_word_is_a_problem(tmp_path: Path, home: str, told: str) -> None:
    file = way(tree(tmp_path, {}), home, "/home/ada/x")
    assert file.problem is not None
    assert told in file.problem


@pytest.mark.parametrize("path", ["/srv/../x", "/srv/\0x"])
def test_a_key_files_path_that_cannot_be_taken_at_its_word_is_a_problem(tmp_path: Path, path: str) -> None:
    assert way(tree(tmp_path, {}), "/home/ada", path).problem


@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o775])
def test_trust_ends_where_others_can_write(tmp_path: Path, mode: int) -> None:
    machine = tree(tmp_path, {})
    (tmp_path / "home").chmod(mode)
    file = way(machine, "/home/ada")
    assert (file.home, file.beneath, file.problem) == ("/home/ada", "/home", None)
    (tmp_path / "home/ada").rename(tmp_path / "data")
    (tmp_path / "home/ada").symlink_to("/data")
    assert way(machine, "/home/ada").problem == "/home/ada is a symbolic link"


def test_a_home_that_root_made_a_link_keeps_working(tmp_path: Path) -> None:
    machine = tree(tmp_path, {"/data/ada/.ssh/authorized_keys": "x\n"}, home=False)
    own(tmp_path / "data/ada")
    (tmp_path / "home").mkdir()
    for target in ("/data/ada", "../data/ada/", "/link/ada"):
        (tmp_path / "home/ada").symlink_to(target)
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to("data")
        file = way(machine, "/home/ada")
        assert (file.problem, file.beneath, file.data) == (None, "/home/ada", b"x\n")
        (tmp_path / "home/ada").unlink()


def test_a_link_of_roots_through_somebodys_directory_is_a_problem(tmp_path: Path) -> None:
    machine = tree(tmp_path, {"/data/x/ada/.ssh/authorized_keys": "x\n"}, home=False)
    (tmp_path / "data/x").chmod(0o777)
    (tmp_path / "home").mkdir()
    (tmp_path / "home/ada").symlink_to("/data/x/ada")
    assert way(machine, "/home/ada").problem == "/home/ada leads through /data/x, which others can change"
    (tmp_path / "home/ada").unlink()
    (tmp_path / "home/ada").symlink_to("/nowhere")
    assert way(machine, "/home/ada").problem == "/home/ada is a dangling link"
    (tmp_path / "home/ada").unlink()
    (tmp_path / "home/ada").symlink_to("ada")
    assert way(machine, "/home/ada").problem


def test_a_file_of_the_systems_is_refused_where_others_can_write(tmp_path: Path) -> None:
    machine = tree(tmp_path, {"/srv/keys/x": ""})
    file = way(machine, "/home/ada", "/srv/keys/ada")
    assert (file.home, file.beneath, file.problem) == (None, None, None)
    (tmp_path / "srv/keys").chmod(0o1777)
    assert way(machine, "/home/ada", "/srv/keys/ada").problem == "/srv/keys can be changed by others than root"


def test_a_home_yet_to_be_made_is_trusted_no_more_than_one_that_is_there(tmp_path: Path) -> None:
    file = way(tree(tmp_path, {}, home=False), "/home/ada")
    assert (file.beneath, file.problem) == ("/home/ada", None)
