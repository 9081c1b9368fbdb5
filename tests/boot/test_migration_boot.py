"""Migration from WALinuxAgent: azure-init is installed on machines that Debian's waagent has provisioned."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakeazure.platform.events import Login
from fakeazure.platform.media import files
from fakeazure.platform.vm import Media, Vm
from support.boot_checks import WAAGENT_MARKER, is_its_own, is_quiet, prepare_for_waagent
from support.container import debian_root
from support.installed import Boot, Disk, Images

pytestmark = pytest.mark.newer

EXTRA = ("waagent", "fdisk", "parted", "ifupdown", "isc-dhcp-client")
PASSWORD = "correct horse"
OTHER = "battery staple"
# Debian's leaves provisioning to cloud-init unless it is told otherwise, and knows ifupdown alone.
ITS_IMAGE = """
ssh-keygen -q -A
sed -i 's/^Provisioning.Agent=.*/Provisioning.Agent=waagent/' /etc/waagent.conf
printf 'auto lo\\niface lo inet loopback\\nauto eth0\\niface eth0 inet dhcp\\n' >/etc/network/interfaces
"""
# Where the kernel knows no UDF, it finds the disc's files where it mounts them all the same.
MOUNT = """\
#!/bin/sh
case "$*" in
'') /usr/bin/mount | grep -v /dev/sr0; exit ;;
*' /dev/sr0 '*) for last; do :; done; exec /usr/bin/mount --bind -o ro /srv/disc "$last" ;;
esac
exec /usr/bin/mount "$@"
"""
INSTALL = "dpkg --force-unsafe-io -i /azure-init.deb; rm /azure-init.deb"
IMPORT = "azure-init config import-waagent --write"
HONOUR = "printf '[waagent]\\nhonour = true\\n' >/etc/azure-init/azure-init.toml.d/honour.toml"


@pytest.fixture(scope="module")
def veteran(tmp_path_factory: pytest.TempPathFactory, images: Images) -> Iterator[Disk]:
    """A machine that WALinuxAgent has provisioned, switched off."""
    place = tmp_path_factory.mktemp("veteran")
    disk = Disk((debian_root("trixie", *EXTRA),), place / "machine")
    disk.change(ITS_IMAGE)
    prepare_for_waagent(disk)
    give_disc(disk, password=PASSWORD)
    with disk.boot(vm=f'password = "{PASSWORD}"') as boot:
        boot.ready()
        assert "WALinuxAgent" in boot.verdicts()[0].agent, boot.verdicts()
        boot.until(lambda: boot.run("test", "-s", WAAGENT_MARKER).returncode == 0, "its marker is there")
        assert boot.login("id -un; hostname") == ["azureuser", "floor-1"]
    yield disk
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def machine(veteran: Disk, images: Images, tmp_path: Path) -> Iterator[Disk]:
    """A copy of that one's disk, with our package installed."""
    disk = Disk((veteran.layer, *veteran.lower), tmp_path / "machine")
    disk.vm_id = veteran.vm_id
    shutil.copy(images.package, disk.layer / "azure-init.deb")
    disk.change(INSTALL)
    yield disk
    shutil.rmtree(tmp_path, ignore_errors=True)


def give_disc(disk: Disk, *, password: str | None = None) -> None:
    key = disk.key.with_suffix(".pub").read_text().strip()
    vm = Vm(id=disk.vm_id, name=disk.name, keys=(key,), password=password)
    for name, data in files(vm, Media()).items():
        path = disk.layer / "srv/disc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    disk.write("usr/local/sbin/mount", MOUNT, mode=0o755)
    disk.write("usr/local/sbin/eject", "#!/bin/sh\n", mode=0o755)


def becomes_another(disk: Disk) -> None:
    """A new VM, made of this disk."""
    disk.vm_id, disk.name = str(uuid.uuid4()), "floor-2"
    prepare_for_waagent(disk)


def known_by(disk: Disk) -> str:
    """What its people know it by, and what it knows them by."""
    return disk.change("cd /etc; cat hostname passwd group shadow ssh/ssh_host_*.pub sudoers.d/*; cat /home/*/.ssh/*")


def logins(boot: Boot) -> list[Login]:
    boot.until(lambda: [event for event in boot.events() if isinstance(event, Login)], "the platform has tried a login")
    return [event for event in boot.events() if isinstance(event, Login)]


def guest_agent_works(boot: Boot) -> None:
    """Its daemon does not provision, and its other half asks for extensions again and again."""
    boot.until(lambda: len([one for one in boot.requests() if is_its_own(one)]) >= 3, "it asks for the goal state")
    assert "Provisioning already completed, skipping" in boot.out("cat", "/var/log/waagent.log")
    assert boot.out("systemctl", "is-active", "walinuxagent") == "active"
    assert boot.out("pgrep", "-f", "run-exthandlers"), "it works on extensions"
    assert [one for one in boot.requests() if "type=extensionsConfig" in one.target], "and knows of them"


def is_ours_alone(boot: Boot) -> None:
    is_quiet(boot)
    (verdict,) = boot.verdicts()
    assert verdict.kind == "ready" and verdict.agent.startswith("azure-init ")


def its_files_are_right(boot: Boot) -> None:
    assert boot.out("cat", "/var/lib/waagent/provisioned") == boot.disk.vm_id
    assert boot.out("cat", "/var/lib/waagent/published_hostname") == boot.disk.name
    document = boot.out("cat", "/var/lib/waagent/ovf-env.xml")
    assert f"<HostName>{boot.disk.name}</HostName>" in document
    assert OTHER not in document and "<UserPassword>REDACTED</UserPassword>" in document
    assert boot.out("stat", "-c", "%a %U", "/var/lib/waagent/ovf-env.xml").split()[1] == "root"


@pytest.mark.parametrize("taken_over", [IMPORT, HONOUR], ids=["imported", "honoured"])
def test_an_image_of_its_machine_is_provisioned_by_us_and_it_goes_on_with_extensions(
    machine: Disk, taken_over: str
) -> None:
    machine.change(taken_over)
    before = known_by(machine)
    machine.change("azure-init deprovision --user --force")
    assert not machine.change(
        "ls -A /var/lib/waagent; getent passwd azureuser || true; ls /etc/ssh | grep host_ || true"
    )
    becomes_another(machine)
    with machine.boot(vm=f'password = "{OTHER}"') as boot:
        boot.ready()
        guest_agent_works(boot)
        is_ours_alone(boot)
        its_files_are_right(boot)
        assert boot.login("id -un; hostname") == ["azureuser", "floor-2"]
        assert {login.how for login in logins(boot) if login.ok} == {"password"}
        assert not set(before.splitlines()) & set(boot.out("sh", "-c", "cat /etc/ssh/ssh_host_*.pub").splitlines())
        assert boot.out("getent", "shadow", "root").split(":")[1].startswith("*"), "as waagent.conf wants it"
        assert boot.failed_units() == []
    with machine.boot() as boot:
        guest_agent_works(boot)
        assert boot.told() == []


def test_a_copy_of_its_machine_becomes_the_vm_that_was_asked_for(machine: Disk) -> None:
    """Nobody has deprovisioned it: the admin is there already, with another password and other keys."""
    machine.change(IMPORT)
    before = known_by(machine)
    becomes_another(machine)
    with machine.boot(vm=f'password = "{OTHER}"') as boot:
        boot.ready()
        guest_agent_works(boot)
        is_ours_alone(boot)
        its_files_are_right(boot)
        assert boot.login("id -un; hostname") == ["azureuser", "floor-2"]
        assert {login.how for login in logins(boot) if login.ok} == {"password"}
        assert not set(before.splitlines()) & set(boot.out("sh", "-c", "cat /etc/ssh/ssh_host_*.pub").splitlines())


def test_its_own_machine_stays_as_it_is_when_our_package_is_installed(machine: Disk) -> None:
    """The media are gone with its Ready, and the platform says that there is a password."""
    machine.change(IMPORT)
    before = known_by(machine)
    machine.key = machine.lower[0].parent / "id"
    with machine.boot("[media]\nenable = false\n", vm="disable_password = false") as boot:
        assert boot.ended() == "success 0"
        assert "already provisioned by WALinuxAgent" in boot.journal("-b", "-u", "azure-init")
        guest_agent_works(boot)
        assert boot.told() == []
        assert boot.login("id -un; hostname") == ["azureuser", "floor-1"]
        assert [one for one in boot.requests() if "azure-init" in one.headers.get("user-agent", "")] == []
        assert boot.failed_units() == []
    assert known_by(machine) == before
