"""azure-init's directories on separate file systems: local ones, and those that need the network."""

from __future__ import annotations

import pytest

from support.boot_checks import has_no_cycle, is_in_order
from support.installed import Disk, Machines

pytestmark = pytest.mark.newer

MARKER = "var/lib/azure-init/*.provisioned"
# What is mounted over the directory, from another place on the same disk, as another file system would be.
MOVE = "mkdir -p /srv/{0}; cp -a /{0}/. /srv/{0}; echo '/srv/{0} /{0} none bind{1} 0 0' >>/etc/fstab"
NEVER = "[Unit]\nDescription=A mount that fails\n[Mount]\nWhat=nothing\nWhere=/{0}\nType=unknown\nOptions=_netdev\n"
NEVER += "[Install]\nWantedBy=remote-fs.target\n"


def mounted(disk: Disk, directory: str, options: str) -> None:
    disk.change(MOVE.format(directory, options))


@pytest.mark.parametrize("options", ["", ",_netdev"], ids=["local", "netdev"])
@pytest.mark.parametrize("directories", [("var",), ("var/log",), ("home",), ("var", "var/log", "home")])
def test_a_directory_of_ours_that_is_mounted_is_written_to_only_then(
    machine: Machines, directories: tuple[str, ...], options: str
) -> None:
    disk = machine("trixie")
    for directory in directories:
        # One below another lies on that one.
        mounted(disk, directory, options)
    with disk.boot() as boot:
        is_in_order(boot)
        for directory in directories:
            assert boot.run("mountpoint", "-q", f"/{directory}").returncode == 0
        assert {lease.hostname for lease in boot.leases()} == {"floor-1"}, "the name was there before DHCP"
    hidden = [name for directory in directories for name in disk.files(f"{directory}/**/*azure-init*")]
    hidden += disk.files("home/azureuser") if "home" in directories else []
    assert hidden == [], "below the mount point"
    where = "srv/" if "var" in directories else ""
    assert disk.files(where + MARKER)
    with disk.boot() as boot:
        assert boot.ended() == "success 0"
        assert boot.requests() == [], "the marker is found"
        has_no_cycle(boot)
        assert boot.login("id -un") == ["azureuser"]


@pytest.mark.parametrize("options", ["", ",nofail", ",_netdev"])
def test_a_data_directory_of_ones_own_is_mounted_before_the_run_looks_into_it(machine: Machines, options: str) -> None:
    disk = machine("trixie")
    disk.change(f"mkdir -p /data /srv/data; echo '/srv/data /data none bind{options} 0 0' >>/etc/fstab")
    moved = '[azure-init.azure_init_data_dir]\npath = "/data/state"\n'
    with disk.boot(moved) as boot:
        is_in_order(boot)
    assert disk.files("srv/data/state/*.provisioned") and not disk.files("data/*")
    with disk.boot(moved) as boot:
        assert boot.ended() == "success 0"
        assert boot.requests() == []


def test_a_data_directory_of_ones_own_that_cannot_be_mounted_is_a_failure(machine: Machines) -> None:
    disk = machine("trixie")
    disk.write("etc/systemd/system/data.mount", NEVER.format("data"))
    disk.change("systemctl enable data.mount")
    with disk.boot('[azure-init.azure_init_data_dir]\npath = "/data/state"\n') as boot:
        boot.until(boot.told, "a verdict is told")
        (verdict,) = boot.verdicts()
        assert verdict.kind == "failed" and "/data is not mounted" in verdict.description
        assert disk.vm_id in verdict.description
    assert not disk.files("data/*")


def test_a_name_that_was_changed_since_stays_where_the_marker_is_mounted_late(machine: Machines) -> None:
    disk = machine("bookworm")
    mounted(disk, "var", ",_netdev")
    with disk.boot() as boot:
        is_in_order(boot)
    disk.change("echo renamed >/etc/hostname")
    with disk.boot() as boot:
        assert boot.ended() == "success 0"
        assert boot.out("hostname") == boot.out("cat", "/etc/hostname") == "renamed"


@pytest.mark.parametrize("directory", ["var", "home"])
def test_a_file_system_of_ours_that_cannot_be_mounted_is_a_failure_that_names_it(
    machine: Machines, directory: str
) -> None:
    disk = machine("trixie")
    disk.write(f"etc/systemd/system/{directory}.mount", NEVER.format(directory))
    disk.change(f"systemctl enable {directory}.mount")
    with disk.boot() as boot:
        boot.until(boot.told, "a verdict is told")
        (verdict,) = boot.verdicts()
        assert verdict.kind == "failed"
        assert f"/{directory} is not mounted" in verdict.description
        has_no_cycle(boot)
    assert disk.files("home/azureuser") == [] and disk.files("var/lib/azure-init/*.provisioned") == []
    if directory == "var":
        assert disk.files("var/lib/azure-init/*") + disk.files("var/log/azure-init*") == []
