"""azure-init-disks on real distributions: installed, upgraded, removed, purged, and beside azure-vm-utils."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.container import debian_root
from support.need import need, need_root
from support.package_disks import Disk, build_debs, install

pytestmark = pytest.mark.newer

SUITES = ("bullseye", "bookworm", "trixie")
DISKS = "azure-init-disks_*.deb"
SETTING = "/etc/azure-init/azure-init.toml.d/azure-init-disks.toml"
LINK, OWN = "/usr/bin/azure-nvme-id", "../lib/azure-init/azure-nvme-id"
UNIT, OWN_UNIT = "/usr/lib/systemd/system/azure-ephemeral-disk-setup.service", "azure-init-disk.service"
WANTED = "/usr/lib/systemd/system/azure-init.service.wants/azure-init-disk.service"
THEIRS = "#!/bin/sh\necho 'azure-nvme-id v0.7.0'\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_root()
    for tool in ("mmdebstrap", "dpkg-deb"):
        need(tool)
    return build_debs(tmp_path_factory.mktemp("built"))


@pytest.fixture(params=SUITES)
def disk(request: pytest.FixtureRequest, tmp_path: Path, built: Path) -> Disk:
    """With the agent installed."""
    disk = Disk(tmp_path / "disk", built, debian_root(request.param, "udev"))
    install(disk)
    return disk


trixie = pytest.mark.parametrize("disk", ["trixie"], indirect=True)


def vm_utils(disk: Disk, command: str) -> str:
    """A package with the files of azure-vm-utils that matter here; its path inside."""
    tree = disk.place / "azure-vm-utils"
    files = {
        "DEBIAN/control": "Package: azure-vm-utils\nVersion: 0.7.0\nArchitecture: all\n"
        "Maintainer: a test <test@example.invalid>\nDescription: a test\n",
        command: THEIRS,
        "usr/lib/udev/rules.d/80-azure-disk.rules": "# theirs\n",
        UNIT.lstrip("/"): "# theirs\n[Service]\nExecStart=/bin/true\n",
        "usr/share/initramfs-tools/hooks/azure-disk": "#!/bin/sh\n",
        "usr/lib/dracut/modules.d/97azure-disk/module-setup.sh": "#!/bin/bash\n",
        "usr/share/man/man8/azure-nvme-id.8": ".Dd today\n",
    }
    for path, text in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
        (tree / path).chmod(0o755 if text.startswith("#!") else 0o644)
    made = disk.place / "upper/azure-vm-utils.deb"
    words = ("dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(tree), str(made))
    subprocess.run(words, check=True, capture_output=True)
    return "/azure-vm-utils.deb"


def test_it_names_the_command_and_purging_leaves_what_was_there_before(disk: Disk) -> None:
    before = disk.files()
    said = install(disk, DISKS)
    assert "warning" not in said.lower() and "error" not in said.lower()
    assert disk.files()[LINK].split()[-1] == OWN
    assert disk.run("azure-nvme-id --version").startswith("azure-nvme-id ")
    assert "[]" in disk.run("azure-nvme-id --format json 2>/dev/null")
    assert disk.files()[UNIT].split()[-1] == OWN_UNIT and WANTED in disk.files()
    assert disk.read(SETTING).endswith('[disk]\nsetup = "auto"\n')
    files = disk.files()
    for path in ("initramfs-tools/hooks/azure-init-disks", "man/man7/azure-init-disks.7.gz"):
        assert f"/usr/share/{path}" in files
    assert "/usr/lib/dracut/modules.d/97azure-init-disks/module-setup.sh" in files
    disk.run("dpkg --remove azure-init-disks 2>&1")
    assert set(disk.files()) - set(before) == {SETTING}
    disk.run("dpkg --purge azure-init-disks 2>&1")
    assert disk.files() == before


@trixie
def test_an_upgrade_keeps_a_changed_setting_and_the_name(disk: Disk) -> None:
    install(disk, DISKS)
    disk.run(f"sed -i 's/auto/off/' {SETTING}")
    install(disk, DISKS)
    assert 'setup = "off"' in disk.read(SETTING)
    assert disk.files()[LINK].split()[-1] == OWN


@trixie
def test_it_goes_with_the_agent_that_it_needs(disk: Disk) -> None:
    install(disk, DISKS)
    refused = disk.try_run("dpkg --remove azure-init 2>&1")
    assert refused.returncode == 1 and "azure-init-disks depends on azure-init" in refused.stdout


@trixie
@pytest.mark.parametrize("command", ["usr/sbin/azure-nvme-id", "usr/bin/azure-nvme-id"])
@pytest.mark.parametrize("first", ["theirs", "ours"])
def test_azure_vm_utils_keeps_its_command_in_either_order(disk: Disk, command: str, first: str) -> None:
    package = vm_utils(disk, command)
    if first == "ours":
        install(disk, DISKS)
    disk.run(f"dpkg --force-unsafe-io -i {package} 2>&1")
    if first == "theirs":
        install(disk, DISKS)
    assert disk.run("azure-nvme-id --version") == "azure-nvme-id v0.7.0\n"
    assert f"/{command}" == LINK or LINK not in disk.files()
    assert disk.read(UNIT).startswith("# theirs")
    disk.run("dpkg --purge azure-init-disks 2>&1")
    assert disk.run("azure-nvme-id --version") == "azure-nvme-id v0.7.0\n"
    assert disk.read(UNIT).startswith("# theirs")
    install(disk, DISKS)
    disk.run("dpkg --purge azure-vm-utils 2>&1")
    assert disk.files()[LINK].split()[-1] == OWN, "the name is free again"
    assert disk.files()[UNIT].split()[-1] == OWN_UNIT
    assert disk.run("azure-nvme-id --version").startswith("azure-nvme-id v0.1")


@trixie
def test_udev_finds_no_fault_in_the_rules(disk: Disk) -> None:
    install(disk, DISKS)
    said = disk.run("udevadm verify /usr/lib/udev/rules.d/8[01]-azure-init-disk*.rules 2>&1")
    assert "Success: 2" in said and "Fail:    0" in said
    disk.run('sed -i \'s/GOTO="azure_init_disk_scsi"/GOTO="nowhere"/\' /usr/lib/udev/rules.d/80-azure-init-disk.rules')
    assert disk.try_run("udevadm verify /usr/lib/udev/rules.d/80-azure-init-disk.rules 2>&1").returncode == 1
