"""Files through Machine: roots, links, atomic replacement, directories of other users, full disks."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.errors import LocalError
from azureinit.machine import Machine, temporary_path
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


# ---- where things lie


def test_without_a_root_paths_are_themselves() -> None:
    assert Machine(environ={}).real("/etc/../etc/hostname") == "/etc/../etc/hostname"
    assert not Machine(environ={}).rooted


def test_files_lie_under_the_root_and_the_kernel_s_do_not(tree: Path, machine: Machine) -> None:
    assert machine.rooted
    assert machine.real("/etc/hostname") == f"{tree}/etc/hostname"
    assert machine.real("/") == str(tree)
    for path in ("/proc/self/status", "/sys/class", "/dev/null"):
        assert machine.real(path) == path
    assert machine.real("/device") == f"{tree}/device"


def test_the_kernel_s_files_can_lie_elsewhere_too(tmp_path: Path) -> None:
    machine = Machine(root="/", kernel=str(tmp_path), environ={})
    assert machine.real("/sys/class/dmi") == f"{tmp_path}/sys/class/dmi"
    assert machine.real("/etc/hostname") == "/etc/hostname"


def test_a_root_that_is_a_link_is_resolved_once(tmp_path: Path, tree: Path) -> None:
    (tmp_path / "link").symlink_to(tree)
    assert Machine(root=str(tmp_path / "link"), environ={}).real("/etc/x") == f"{tree}/etc/x"


@pytest.mark.parametrize(
    ("links", "path", "lies"),
    [
        ({"etc/a": "b"}, "/etc/a", "/etc/b"),
        ({"etc/a": "/etc/b"}, "/etc/a", "/etc/b"),
        ({"etc/a": "../../../../etc/b"}, "/etc/a", "/etc/b"),
        ({"etc/a": "/../../b"}, "/etc/a", "/b"),
        ({"lib": "usr/lib"}, "/lib/x", "/usr/lib/x"),
        ({"etc/a": "b", "etc/b": "/c", "c": "etc/d"}, "/etc/a", "/etc/d"),
        ({}, "/../../../etc/passwd", "/etc/passwd"),
        ({}, "/etc/./../etc//x/", "/etc/x"),
        ({"etc/a": "/"}, "/etc/a/etc/x", "/etc/x"),
    ],
)
def test_links_are_followed_inside_the_root(
    tree: Path, machine: Machine, links: dict[str, str], path: str, lies: str
) -> None:
    for name, target in links.items():
        (tree / name).symlink_to(target)
    assert machine.real(path) == f"{tree}{lies}"


def test_the_last_link_is_followed_only_if_asked(tree: Path, machine: Machine) -> None:
    (tree / "etc/a").symlink_to("b")
    (tree / "also").symlink_to("etc")
    assert machine.real("/also/a", final=False) == f"{tree}/etc/a"


def test_links_in_a_ring_are_an_error(tree: Path, machine: Machine) -> None:
    (tree / "etc/a").symlink_to("b")
    (tree / "etc/b").symlink_to("a")
    with pytest.raises(LocalError, match=f"too many links at {machine.root}/etc/a"):
        machine.real("/etc/a")


@given(
    st.lists(st.sampled_from(["..", ".", "", "etc", "up", "out", "x"]), max_size=8),
    st.lists(st.sampled_from(["..", "/", "etc", "x", "../..", "/etc/../.."]), min_size=2, max_size=2),
)
def test_nothing_leads_out_of_the_root(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], targets: list[str]
) -> None:
    tree = tmp_path_factory.mktemp("root")
    (tree / "etc").mkdir()
    (tree / "up").symlink_to(targets[0])
    (tree / "etc/out").symlink_to(targets[1])
    try:
        real = Machine(root=str(tree), environ={}).real("/" + "/".join(parts))
    except LocalError:
        return
    assert os.path.realpath(real) == real.rstrip("/")
    assert f"{real}/".startswith(f"{tree}/")


# ---- reading


def test_what_is_not_there_is_none(machine: Machine) -> None:
    assert machine.read("/etc/missing") is None
    assert machine.read("/etc/missing/deeper") is None
    assert machine.stat("/etc/missing") is None
    assert machine.names("/etc/missing") is None
    assert machine.read_link("/etc/missing") is None
    assert machine.remove("/etc/missing") is False


def test_a_file_is_not_a_directory_and_so_not_there(tree: Path, machine: Machine) -> None:
    (tree / "etc/file").write_bytes(b"")
    assert machine.read("/etc/file/below") is None
    assert machine.names("/etc/file") is None
    assert machine.read_link("/etc/file") is None
    assert (machine.is_file("/etc/file"), machine.is_dir("/etc/file")) == (True, False)
    assert (machine.is_file("/etc"), machine.is_dir("/etc")) == (False, True)


def test_a_directory_cannot_be_read(machine: Machine) -> None:
    with pytest.raises(LocalError, match=f"cannot read {machine.root}/etc: Is a directory"):
        machine.read("/etc")


def test_the_limit_is_kept_to_the_byte(tree: Path, machine: Machine) -> None:
    (tree / "etc/file").write_bytes(b"x" * 1000)
    assert machine.read("/etc/file", limit=1000) == b"x" * 1000
    with pytest.raises(LocalError, match="/etc/file: it is larger than 999 bytes"):
        machine.read("/etc/file", limit=999)


def test_an_endless_file_is_not_read_for_ever(machine: Machine) -> None:
    with pytest.raises(LocalError, match="larger than 100000 bytes"):
        machine.read("/dev/zero", limit=100_000)


def test_a_pipe_nobody_writes_to_is_not_waited_for(tree: Path, machine: Machine) -> None:
    os.mkfifo(tree / "etc/pipe")
    assert machine.read("/etc/pipe") == b""


def test_names_are_sorted(tree: Path, machine: Machine) -> None:
    for name in ("b", "a", ".c"):
        (tree / "etc" / name).touch()
    assert machine.names("/etc") == (".c", "a", "b")


def test_an_absolute_link_is_read_inside_the_root(tree: Path, machine: Machine) -> None:
    (tree / "etc/real").write_bytes(b"inside")
    (tree / "etc/link").symlink_to("/etc/real")
    assert machine.read("/etc/link") == b"inside"
    assert machine.read_link("/etc/link") == "/etc/real"
    found = machine.stat("/etc/link", follow=False)
    assert found is not None and stat.S_ISLNK(found.st_mode)


def test_a_link_out_of_the_root_leads_nowhere(tree: Path, machine: Machine) -> None:
    (tree / "etc/link").symlink_to(tree.parent / "outside/file")
    assert machine.read("/etc/link") is None
    assert machine.stat("/etc/link") is None


def test_the_host_s_files_are_read_where_they_are(tree: Path, machine: Machine) -> None:
    assert machine.read_host(str(tree.parent / "outside/file")) == b"outside"
    assert machine.names_host(str(tree.parent / "outside")) == ("file",)


def test_an_image_under_the_root_goes_before_the_host_s(tree: Path, machine: Machine) -> None:
    outside = tree.parent / "outside/file"
    image = machine.open_image(str(outside))
    assert (image.read(3, 100), image.size) == (b"side", 7)
    image.close()
    with pytest.raises(LocalError, match="cannot open /nowhere: No such file"):
        machine.open_image("/nowhere")


# ---- writing


def test_a_new_file_is_readable_and_nothing_else_appears(tree: Path, machine: Machine) -> None:
    machine.write("/etc/hostname", b"web-1\n")
    assert (tree / "etc/hostname").read_bytes() == b"web-1\n"
    assert mode(tree / "etc/hostname") == 0o644
    assert listing(tree) == {"etc", "etc/hostname"}


def test_mode_stays_as_it_was_unless_it_is_given(tree: Path, machine: Machine) -> None:
    (tree / "etc/file").write_bytes(b"old")
    (tree / "etc/file").chmod(0o640)
    machine.write("/etc/file", b"new")
    assert (mode(tree / "etc/file"), (tree / "etc/file").read_bytes()) == (0o640, b"new")
    machine.write("/etc/file", b"new", mode=0o440)
    assert mode(tree / "etc/file") == 0o440


def test_the_umask_takes_nothing_away(tree: Path, machine: Machine) -> None:
    before = os.umask(0o077)
    try:
        machine.write("/etc/file", b"", mode=0o666)
        machine.make_dir("/etc/directory", mode=0o755)
    finally:
        os.umask(before)
    assert (mode(tree / "etc/file"), mode(tree / "etc/directory")) == (0o666, 0o755)


def test_a_reader_of_the_old_file_keeps_the_old_file(tree: Path, machine: Machine) -> None:
    (tree / "etc/file").write_bytes(b"old")
    with (tree / "etc/file").open("rb") as reader:
        machine.write("/etc/file", b"new")
        assert reader.read() == b"old"


def test_unprivileged_owners_are_not_set(tree: Path, machine: Machine) -> None:
    machine.privileged = False
    machine.write("/etc/file", b"new", owner="nobody-at-all")
    assert (tree / "etc/file").stat().st_uid == os.geteuid()


def test_a_living_link_is_honoured_inside_the_root(tree: Path, machine: Machine) -> None:
    (tree / "etc/real").write_bytes(b"old")
    (tree / "etc/link").symlink_to("/etc/real")
    machine.write("/etc/link", b"new")
    assert (tree / "etc/link").is_symlink()
    assert (tree / "etc/real").read_bytes() == b"new"


@pytest.mark.parametrize("target", ["nowhere", "/nowhere/at/all"])
def test_a_dangling_link_is_replaced(tree: Path, machine: Machine, target: str) -> None:
    (tree / "etc/hostname").symlink_to(target)
    machine.write("/etc/hostname", b"web-1\n")
    assert not (tree / "etc/hostname").is_symlink()
    assert listing(tree) == {"etc", "etc/hostname"}


def test_a_link_out_of_the_root_is_replaced_and_what_it_meant_untouched(tree: Path, machine: Machine) -> None:
    (tree / "etc/link").symlink_to(tree.parent / "outside/file")
    machine.write("/etc/link", b"new")
    assert (tree.parent / "outside/file").read_text() == "outside"
    assert not (tree / "etc/link").is_symlink()


@pytest.mark.parametrize("kind", ["directory", "pipe"])
def test_what_is_no_regular_file_is_not_replaced(tree: Path, machine: Machine, kind: str) -> None:
    if kind == "directory":
        (tree / "etc/odd").mkdir()
    else:
        os.mkfifo(tree / "etc/odd")
    with pytest.raises(LocalError, match=f"cannot write {machine.root}/etc/odd: it is not a regular file"):
        machine.write("/etc/odd", b"new")
    assert listing(tree) == {"etc", "etc/odd"}


def test_a_missing_directory_is_told(machine: Machine) -> None:
    with pytest.raises(
        LocalError, match=f"cannot write {machine.root}/missing/file: No such file or directory"
    ) as caught:
        machine.write("/missing/file", b"")
    assert caught.value.data == {"path": f"{machine.root}/missing/file"}


@pytest.mark.parametrize("left", ["file", "link"])
def test_what_a_dead_run_left_is_in_nobody_s_way(tree: Path, machine: Machine, left: str) -> None:
    temporary = Path(temporary_path(str(tree / "etc/file")))
    if left == "file":
        temporary.write_bytes(b"half")
    else:
        temporary.symlink_to(tree.parent / "outside/file")
    machine.write("/etc/file", b"new")
    assert listing(tree) == {"etc", "etc/file"}
    assert (tree.parent / "outside/file").read_text() == "outside"


def test_no_reader_of_a_directory_takes_a_temporary_file() -> None:
    directory, _, name = temporary_path("/etc/sudoers.d/90-azure-init").rpartition("/")
    assert directory == "/etc/sudoers.d"
    assert name.startswith(".") and name.endswith("~") and "90-azure-init" in name  # sudo, run-parts and shells skip it
    assert not temporary_path("/etc/ssh/sshd_config.d/x.conf").endswith(".conf")
    assert temporary_path("plain") == ".plain.azure-init~"


def test_a_copy_that_is_kept_is_what_the_file_was(tree: Path, machine: Machine) -> None:
    (tree / "etc/shadow").write_bytes(b"old")
    (tree / "etc/shadow").chmod(0o640)
    (tree / "etc/shadow-").write_bytes(b"older")
    machine.keep("/etc/shadow", "/etc/shadow-")
    machine.write("/etc/shadow", b"new")
    assert ((tree / "etc/shadow-").read_bytes(), mode(tree / "etc/shadow-")) == (b"old", 0o640)
    assert (tree / "etc/shadow").read_bytes() == b"new"


@pytest.mark.parametrize("rooted", [True, False])
def test_a_copy_of_what_a_link_leads_to_is_what_it_was(tree: Path, *, rooted: bool) -> None:
    (tree / "etc/real").write_bytes(b"old")
    (tree / "etc/real").chmod(0o640)
    (tree / "etc/shadow").symlink_to("real")
    (tree / "etc/shadow-").symlink_to("real")
    machine, etc = (Machine(root=str(tree)), "/etc") if rooted else (Machine(), f"{tree}/etc")
    machine.keep(f"{etc}/shadow", f"{etc}/shadow-")
    machine.write(f"{etc}/shadow", b"new")
    assert not (tree / "etc/shadow-").is_symlink()
    assert ((tree / "etc/shadow-").read_bytes(), mode(tree / "etc/shadow-")) == (b"old", 0o640)
    assert ((tree / "etc/shadow").read_bytes(), os.readlink(tree / "etc/shadow")) == (b"new", "real")


def test_the_end_of_a_file_is_appended_to(tree: Path, machine: Machine) -> None:
    for data in (b"one\n", b"two\n"):
        appender = machine.appender("/etc/log")
        appender.write(data, sync=True)
        appender.close()
    assert (tree / "etc/log").read_bytes() == b"one\ntwo\n"
    assert mode(tree / "etc/log") == 0o600


def test_no_file_stays_open(tree: Path, machine: Machine) -> None:
    (tree / "home/u/.ssh").mkdir(parents=True)
    before = sorted(os.listdir("/proc/self/fd"))
    machine.write("/etc/file", b"new")
    machine.read("/etc/file")
    machine.make_dir("/etc/directory", mode=0o755)
    machine.symlink("/etc/link", "file")
    machine.write("/home/u/.ssh/authorized_keys", b"", beneath="/home/u")
    for path, beneath in (("/missing/x", None), ("/etc/directory", None), ("/home/u/no/x", "/home/u")):
        with pytest.raises(LocalError):
            machine.write(path, b"", beneath=beneath)
    with pytest.raises(LocalError):
        machine.read("/etc")
    with pytest.raises(LocalError):
        machine.open_image("/etc").read(0, 1)
    assert len(os.listdir("/proc/self/fd")) == len(before) + 1  # the image, whose owner closes it
