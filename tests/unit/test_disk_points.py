"""/etc/fstab, mount points, and other agents that would set up the resource disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.config.model import Disk
from azureinit.config.waagent import parse_waagent_conf
from azureinit.facts.disk_conflicts import parse_formats
from azureinit.facts.disk_reading import MOST_READINGS
from azureinit.facts.fstab import parse_fstab
from azureinit.facts.temporary_disks import MountPoint, read_disk_facts
from azureinit.sources.identity import stand_down
from support.disk_trees import DiskTree

CLOUD_INIT = "/dev/disk/cloud/azure_resource-part1\t/mnt\tauto\tdefaults,nofail,comment=cloudconfig\t0\t2\n"


@pytest.fixture
def tree(tmp_path: Path) -> DiskTree:
    made = DiskTree(tmp_path)
    made.gen2()
    made.local_nvme("A1")
    return made


# ---- /etc/fstab


def test_entries_keep_their_line_and_have_their_mount_point_decoded() -> None:
    line = "LABEL=a\\040b  /my\\040data  ext4 defaults,nofail 0 2"
    (entry,) = parse_fstab(f"# comment /x\n\n  # other /y\n{line}\nword\n".encode())
    assert (entry.line, entry.source, entry.point) == (line, "LABEL=a b", "/my data")
    assert (entry.filesystem, entry.options) == ("ext4", "defaults,nofail")


def test_short_entries_have_empty_fields() -> None:
    first, second = parse_fstab(b"/dev/a /a\n/dev/b /b xfs\n")
    assert (first.filesystem, first.options) == ("", "")
    assert (second.filesystem, second.options) == ("xfs", "")


@given(st.binary(max_size=300))
def test_any_bytes_are_a_table(data: bytes) -> None:
    for entry in parse_fstab(data):
        assert entry.line.encode("utf-8", "surrogateescape") in data


def test_the_table_is_handed_over_as_it_is(tree: DiskTree) -> None:
    tree.write("etc/fstab", b"LABEL=\xff / ext4\n")
    facts = tree.facts()
    assert facts.fstab == b"LABEL=\xff / ext4\n"
    assert facts.fstab_writable
    assert [entry.point for entry in facts.entries] == ["/"]


def test_a_table_of_the_vendor_is_not_writable(tree: DiskTree) -> None:
    tree.write("usr/share/fstab", "")
    (tree.place / "etc/fstab").unlink()
    tree.link("etc/fstab", "../usr/share/fstab")
    facts = tree.facts()
    assert (facts.fstab, facts.fstab_writable) == (b"", False)


def test_a_table_that_is_mounted_over_is_not_writable(tree: DiskTree) -> None:
    tree.mount("/etc/fstab", "0:60", kind="tmpfs")
    assert not tree.facts().fstab_writable


def test_a_missing_table_is_not_writable(tree: DiskTree) -> None:
    (tree.place / "etc/fstab").unlink()
    facts = tree.facts()
    assert (facts.fstab, facts.fstab_writable, facts.entries) == (None, False, ())


# ---- mount points


def point(tree: DiskTree, path: str = "/mnt") -> MountPoint:
    return next(one for one in tree.facts(Disk(mount_point=path)).points if one.path == path)


def test_both_configured_points_are_told(tree: DiskTree) -> None:
    assert [one.path for one in tree.facts().points] == ["/mnt", "/mnt/resource"]
    assert [one.path for one in tree.facts(Disk(mount_point="/d", scsi_mount_point="/d")).points] == ["/d"]


def test_absent_empty_and_not_empty(tree: DiskTree) -> None:
    assert point(tree).state == "absent"
    (tree.place / "mnt").mkdir()
    assert point(tree).state == "empty"
    (tree.place / "mnt/.hidden").touch()
    assert point(tree).state == "not empty"


def test_a_link_and_a_file_are_no_directories(tree: DiskTree) -> None:
    (tree.place / "data").mkdir()
    tree.link("mnt", "data")
    assert point(tree).state == "a symbolic link"
    (tree.place / "mnt").unlink()
    tree.link("mnt", "nowhere")
    assert point(tree).state == "a symbolic link"
    tree.write("file", "")
    assert point(tree, "/file").state == "not a directory"
    assert point(tree, "/file/below").state == "not a directory"
    assert point(tree, "/file/far/below").state == "not a directory"
    assert point(tree, "/data/far/below").state == "absent"


@pytest.mark.parametrize("mounted", [False, True])
def test_a_link_above_the_point_is_said_with_the_real_path(tree: DiskTree, mounted: bool) -> None:
    """The kernel's table of mounts and systemd's units have that path, so the configured one would never be found."""
    (tree.place / "srv/data").mkdir(parents=True)
    tree.link("mnt", "/srv")
    if mounted:
        tree.mount("/srv/data", "nvme0n1")
    for name in ("data", "new"):
        found = point(tree, f"/mnt/{name}")
        assert (found.state, found.source) == ("below a symbolic link", f"/srv/{name}")


def test_links_in_a_circle_are_hidden(tree: DiskTree) -> None:
    tree.link("a", "b")
    tree.link("b", "a")
    assert point(tree, "/a/x").state == "hidden"


def test_a_mounted_point_has_its_source_without_links_and_its_label(tree: DiskTree) -> None:
    head = bytearray(1 << 20)
    head[1080:1082] = b"\x53\xef"
    head[1024 + 120 : 1024 + 132] = b"AzureEphmDsk"
    with (tree.place / "dev/nvme0n1").open("r+b") as file:
        file.write(head)
    tree.link("dev/disk/by-label/other", "../../sda1")
    tree.mount("/mnt", "0:50", kind="btrfs", source="/dev/disk/azure/local/by-serial/A1")
    tree.link("dev/disk/azure/local/by-serial/A1", "../../../../nvme0n1")
    assert point(tree) == MountPoint(path="/mnt", state="mounted", source="/dev/nvme0n1", label="AzureEphmDsk")


def test_the_label_of_a_foreign_file_system_comes_from_its_link(tree: DiskTree) -> None:
    tree.link("dev/disk/by-label/my\\x20data", "../../sda1")
    tree.mount("/mnt", "sda1")
    assert point(tree) == MountPoint(path="/mnt", state="mounted", source="/dev/sda1", label="my data")


def test_a_source_that_is_no_device_is_told_as_it_is(tree: DiskTree) -> None:
    tree.mount("/mnt", "0:60", kind="nfs4", source="server:/export")
    assert point(tree) == MountPoint(path="/mnt", state="mounted", source="server:/export")


def test_an_automount_point_is_mounted_and_nothing_below_it_is_entered(tree: DiskTree) -> None:
    """Entering it would mount it, or wait forever."""
    tree.mount("/mnt", "0:70", kind="autofs", source="systemd-1")
    (tree.place / "mnt/resource").mkdir(parents=True)
    entered: list[str] = []
    machine = tree.machine()
    for name in ("names", "stat", "read_link"):
        real = getattr(machine, name)

        def watched(path: str, real: object = real, **options: object) -> object:
            entered.append(path)
            return real(path, **options)  # type: ignore[operator]

        setattr(machine, name, watched)
    top, below = read_disk_facts(machine, Disk(), ()).points
    assert (top.state, top.source, below.state) == ("mounted", "systemd-1", "hidden")
    assert entered and not [path for path in entered if path.startswith("/mnt")]


def test_what_is_mounted_during_the_reading_is_no_directory_with_files(tree: DiskTree) -> None:
    """At a boot systemd mounts what /etc/fstab names at the same time."""
    (tree.place / "mnt").mkdir()
    machine, readings = tree.machine(), []

    def mount() -> None:
        readings.append(len(tree.mounts))
        if len(readings) == 1:
            tree.mount("/mnt", "nvme0n1")
            tree.write("mnt/file", "")

    machine.meanwhile = mount
    facts = read_disk_facts(machine, Disk(scsi="off"), ())
    assert (facts.points[0].state, facts.points[0].source) == ("mounted", "/dev/nvme0n1")
    assert next(disk for disk in facts.disks if disk.name == "nvme0n1").mounts == ("/mnt",)


def test_mounts_that_never_rest_do_not_keep_the_reading_from_its_end(tree: DiskTree) -> None:
    quiet, restless = tree.machine(), tree.machine()
    read_disk_facts(quiet, Disk(), ())
    restless.meanwhile = lambda: tree.mount(f"/srv/{len(tree.mounts)}", "sda1")
    assert read_disk_facts(restless, Disk(), ()).disks
    assert restless.count == MOST_READINGS * quiet.count > 0, "UUIDs that were asked for, the same number each time"


# ---- other agents


def install_waagent(tree: DiskTree, *, text: str = "ResourceDisk.Format=y\n") -> None:
    tree.write("usr/sbin/waagent", "#!/usr/bin/python3\n")
    tree.write("etc/waagent.conf", text)


def test_walinuxagent_that_formats_is_told(tree: DiskTree) -> None:
    install_waagent(tree)
    assert tree.facts().waagent_formats == "/etc/waagent.conf"
    tree.write("var/lib/waagent/disable_agent", "")
    assert tree.facts().waagent_formats == "/etc/waagent.conf"


def test_walinuxagent_that_does_not_format_or_does_not_run_is_none(tree: DiskTree) -> None:
    install_waagent(tree, text="ResourceDisk.Format=n\n")
    assert tree.facts().waagent_formats == ""
    install_waagent(tree)
    tree.link("etc/systemd/system/walinuxagent.service", "/dev/null")
    assert tree.facts().waagent_formats == ""


def test_a_configuration_without_the_program_formats_nothing(tree: DiskTree) -> None:
    install_waagent(tree)
    (tree.place / "usr/sbin/waagent").unlink()
    assert tree.facts().waagent_formats == ""
    tree.write("usr/lib/azure-init/waagent", "")
    tree.link("usr/sbin/waagent", "../lib/azure-init/waagent")
    assert tree.facts().waagent_formats == ""


LINES = st.lists(
    st.sampled_from(
        [
            "ResourceDisk.Format=y",
            "ResourceDisk.Format=n",
            ' ResourceDisk.Format = "Y" # format',
            "ResourceDisk.Format=yes",
            "#ResourceDisk.Format=y",
            " # ResourceDisk.Format=y",
            "ResourceDisk.Format=None",
            "ResourceDisk.Format=",
            'ResourceDisk.Format="y"\r',
            "ResourceDisk.Formats=y",
            "resourcedisk.format=y",
            "ResourceDisk.Format",
        ]
    ),
    min_size=1,
    max_size=5,
)


@given(LINES)
def test_the_switch_is_read_as_walinuxagent_reads_it(lines: list[str]) -> None:
    data = "\n".join(lines).encode()
    assert parse_formats(data) is parse_waagent_conf(data).switch("ResourceDisk.Format")


def test_the_entry_of_cloud_init_is_told(tree: DiskTree) -> None:
    tree.write("etc/fstab", CLOUD_INIT)
    assert tree.facts().cloud_init == "fstab: its entry mounts /dev/disk/cloud/azure_resource-part1 at /mnt"
    tree.write("etc/fstab", CLOUD_INIT.replace("comment=cloudconfig", "comment=mine"))
    assert tree.facts().cloud_init == ""


@pytest.mark.parametrize(
    ("choice", "enabled"),
    [
        (None, True),
        ("datasource_list: [ Azure, None ]\n", True),
        ("datasource_list: [ NoCloud ]\n", False),
        ("x: y\n", True),
    ],
)
def test_cloud_init_is_enabled_exactly_where_the_agent_stands_down(
    tree: DiskTree, choice: str | None, enabled: bool
) -> None:
    assert tree.facts().cloud_init == ""
    tree.write("run/cloud-init/enabled", "")
    if choice is not None:
        tree.write("run/cloud-init/cloud.cfg", choice)
    assert tree.facts().cloud_init == ("enabled: /run/cloud-init/enabled exists" if enabled else "")
    machine = tree.machine()
    machine.root = "/"  # the agent looks for cloud-init on a running system only
    machine.stat = tree.machine().stat  # type: ignore[method-assign]
    machine.read = tree.machine().read  # type: ignore[method-assign]
    assert (stand_down(machine, require_azure=False) is not None) is enabled
