"""Microsoft's list of what a provisioning agent is responsible for, row by row: the ledger, and files before and after.

Two machines are booted and asked. One is given everything by its media, and says how it wants it in a waagent.conf that
was there before us; the other has nothing but IMDS, and a DHCP client that sets no routes. What needs a kernel, a disk
or a boot loader of its own is proven elsewhere, as `ELSEWHERE` tells. Resource disks, swap and SCVMM are no part of it.
"""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fakeazure.platform.events import Login
from support.differences import Contents, States, changes, differences
from support.host_keys import carried, shown, told
from support.installed import NETWORK, Boot, Disk, Images

pytestmark = pytest.mark.newer

BOOTLOADER = (
    "test_bootloader_real.py::test_grub_s_own_menu_has_the_words_and_loses_them_again",
    "test_tuning_kernel.py::test_a_machine_boots_from_the_menu_with_our_words_in_it",
)
ELSEWHERE = {  # row of the list: where the rest of its proof is, or all of it
    "host name, published to DNS": (
        "test_publish_boot.py::test_networkd_asks_again_under_the_new_name_and_the_link_stays_up",
        "test_publish_boot.py::test_other_clients_ask_again_under_the_new_name_and_the_address_stays",
        "test_hostname_boot.py::test_every_client_asks_again_in_the_unit_that_it_runs_in",
    ),
    "fingerprint of the host key": ("test_host_keys_boot.py::test_nobody_ever_meets_a_key_of_the_image",),
    "routes of DHCP": (
        "test_endpoint_boot.py::test_routes_that_a_lease_tells_and_its_client_did_not_set_are_added_for_the_platform_alone",
        "test_endpoint_boot.py::test_without_a_lease_the_server_is_asked_and_nothing_is_changed",
    ),
    "vNUMA": BOOTLOADER,
    "Hyper-V's entropy": (
        "test_tuning_kernel.py::test_the_table_that_the_host_offers_reaches_an_older_kernel_once_a_boot",
    ),
    "serial console": BOOTLOADER,
    "deprovision": ("test_deprovision_chroot.py::test_the_distribution_s_own_userdel_removes_an_admin_who_is_at_work",),
}
PASSWORD = "correct: hörse"
SCRIPT = "#!/bin/sh\necho ran as $(id -un)\ngetent passwd azureuser >/srv/made-by-custom-data\n"
PAIR = "/home/azureuser/.ssh/id_rsa"
CONF = """\
Provisioning.Agent=waagent
Provisioning.DeleteRootPassword=y
Provisioning.RegenerateSshHostKeyPair=y
Provisioning.SshHostKeyPairType=auto
Provisioning.MonitorHostName=y
Provisioning.ExecuteCustomData=y
Provisioning.PasswordCryptId=6
Provisioning.PasswordCryptSaltLength=10
OS.RootDeviceScsiTimeout=300
OS.SshClientAliveInterval=180
"""
EVERYTHING = (
    "[imds]\nenable = false\n[azure-init.waagent]\nhonour = true\n[azure-init.kernel]\nmask_persistent_net = true\n"
)
IMDS_ALONE = "[media]\nenable = false\n"
NO_ROUTES = f"{NETWORK}\n[DHCPv4]\nUseRoutes=no\nUseGateway=no\nRoutesToDNS=no\n"
PERSISTENT = 'SUBSYSTEM=="net", ATTR{address}=="00:0d:3a:00:00:01", NAME="eth7"\n'

# By row, each file that the first boot of a machine leaves different: what it is, its mode and its owner.
FILES = {
    "user account": {
        **dict.fromkeys(("/etc/passwd", "/etc/passwd-", "/etc/group", "/etc/group-"), "file 0644 root:root"),
        **dict.fromkeys(("/etc/subuid", "/etc/subuid-", "/etc/subgid", "/etc/subgid-"), "file 0644 root:root"),
        **dict.fromkeys(("/etc/shadow", "/etc/gshadow", "/etc/gshadow-"), "file 0640 root:shadow"),
        "/etc/sudoers.d/azure-init-user": "file 0440 root:root",
        "/home/azureuser": "dir 0700 azureuser:azureuser",
        **{f"/home/azureuser/{name}": "file 0644 azureuser:azureuser" for name in (".bashrc", ".profile")},
        "/home/azureuser/.bash_logout": "file 0644 azureuser:azureuser",
    },
    "root's password": {"/etc/shadow-": "gone"},
    "SSH authentication": {"/etc/ssh/sshd_config.d/00-azure-init.conf": "file 0600 root:root"},
    "SSH public keys": {
        "/home/azureuser/.ssh": "dir 0700 azureuser:azureuser",
        "/home/azureuser/.ssh/authorized_keys": "file 0600 azureuser:azureuser",
    },
    "SSH key pairs": {PAIR: "file 0600 azureuser:azureuser", f"{PAIR}.pub": "file 0644 azureuser:azureuser"},
    "host name": {"/etc/hostname": "file 0644 root:root", "/etc/hosts": "file 0644 root:root"},
    "published host name": {"/var/lib/waagent/published_hostname": "file 0644 root:root"},
    "host keys": {
        f"/etc/ssh/ssh_host_{kind}_key{part}": f"file {mode} root:root"
        for kind in ("ecdsa", "ed25519", "rsa")
        for part, mode in (("", "0600"), (".pub", "0644"))
    },
    "customData": {
        "/var/lib/waagent/CustomData": "file 0700 root:root",
        "/var/lib/azure-init/custom-data.log": "file 0600 root:root",
        "/srv/made-by-custom-data": "file 0644 root:root",
    },
    "names of interfaces": {
        f"/etc/udev/rules.d/{name}.rules{part}": state
        for name in ("70-persistent-net", "75-persistent-net-generator")
        for part, state in (("", "-> /dev/null"), (".azure-init", "file 0644 root:root"))
    },
    "timeout of disks": {"/etc/udev/rules.d/99-azure-init-scsi-timeout.rules": "file 0644 root:root"},
    "WALinuxAgent's": {
        "/var/lib/waagent": "dir 0700 root:root",
        "/var/lib/waagent/ovf-env.xml": "file 0600 root:root",
        "/var/lib/waagent/provisioned": "file 0600 root:root",
    },
    "our own": {
        "/var/log/azure-init.log": "file 0600 root:root",
        **{
            f"/var/lib/azure-init/{name}": "file 0600 root:root"
            for name in ("VM.journal", "VM.provisioned", "VM.saved", "lock", "trace.jsonl")
        },
    },
}
NOT_OF_IMDS = (
    "root's password",
    "SSH key pairs",
    "published host name",
    "customData",
    "names of interfaces",
    "timeout of disks",
    "WALinuxAgent's",
)
BACKUPS = ("/etc/passwd-", "/etc/group-", "/etc/shadow-", "/etc/gshadow-")  # that the image had


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A machine that runs, how it was before its first boot, and all that the boot has changed."""

    boot: Boot
    image_keys: dict[str, str]
    before: Contents
    changed: States

    def of(self, row: str) -> States:
        return {path: state for path, state in self.changed.items() if path in FILES[row]}

    def text(self, path: str) -> str:
        return (self.boot.disk.layer / path[1:]).read_text()


@pytest.fixture(scope="class")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("machine")
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="class")
def whole(images: Images, place: Path) -> Iterator[Seen]:
    disk = Disk(images("trixie", "openssl"), place / "disk")
    disk.change("ssh-keygen -q -A; echo root:secret | chpasswd")
    disk.write("etc/waagent.conf", CONF)
    disk.write("etc/ssh/sshd_config.d/50-vendor.conf", "PasswordAuthentication no\n")
    disk.write("etc/udev/rules.d/70-persistent-net.rules", PERSISTENT)
    disk.write("usr/lib/udev/rules.d/75-persistent-net-generator.rules", "# a package's\n")
    vm = f'password = "{PASSWORD}"\ncustom_data = {json.dumps(SCRIPT)}\nkey_pairs = [{{ path = "{PAIR}" }}]'
    image_keys, before = carried(disk), differences(disk)
    with disk.boot(EVERYTHING, vm=vm, keys=("{}",)) as boot:
        boot.ready()
        assert boot.ended() == "success 0"
        boot.until(lambda: logins(boot), "the platform has tried a login")
        yield Seen(boot=boot, image_keys=image_keys, before=before, changed=changes(before, differences(disk)))


@pytest.fixture(scope="class")
def alone_with_imds(images: Images, place: Path) -> Iterator[Seen]:
    disk = Disk(images("trixie", "openssl"), place / "disk")
    (shim,) = images.package.parent.glob("azure-init-waagent-shim_*.deb")
    shutil.copy(shim, disk.layer / "shim.deb")
    disk.change("dpkg -i /shim.deb; rm /shim.deb; cp -p /var/lib/dpkg/status /var/lib/dpkg/status-old")
    disk.write("etc/ssh/sshd_config.d/50-vendor.conf", "PasswordAuthentication yes\n")
    disk.write("etc/systemd/network/10-eth0.network", NO_ROUTES)
    before = differences(disk)
    with disk.boot(IMDS_ALONE) as boot:
        boot.ready()
        assert boot.ended() == "success 0"
        yield Seen(boot=boot, image_keys={}, before=before, changed=changes(before, differences(disk)))


def logins(boot: Boot) -> list[Login]:
    return [event for event in boot.events() if isinstance(event, Login)]


def offered(boot: Boot, place: Path) -> str:
    """How sshd lets anybody in, as it tells one who has the wrong key."""
    key = place / "stranger"
    if not key.exists():
        subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)), check=True)
    ran = boot.ssh("true", key=key)
    assert ran.returncode == 255 and "Permission denied" in ran.stderr, ran.stderr
    return ran.stderr.rpartition("(")[2].partition(")")[0]


def sshd_says(boot: Boot) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in boot.out("sshd", "-T").splitlines() if " " in line)


class TestEverythingFromTheMedia:
    def test_user_account(self, whole: Seen) -> None:
        assert whole.of("user account") == FILES["user account"]
        fields = whole.boot.out("getent", "passwd", "azureuser").split(":")
        assert (fields[0], fields[5:]) == ("azureuser", ["/home/azureuser", "/bin/bash"])
        assert whole.text("/etc/sudoers.d/azure-init-user").splitlines()[-1] == "azureuser ALL=(ALL) ALL"
        hashed = whole.boot.out("getent", "shadow", "azureuser").split(":")[1]
        assert hashed.startswith("$6$") and len(hashed.split("$")[2]) == 10, "as waagent.conf wants it"

    def test_the_password_itself_is_written_nowhere(self, whole: Seen) -> None:
        layer = whole.boot.disk.layer
        assert not [path for path in layer.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
        assert PASSWORD not in whole.boot.console.read_text() + str(whole.boot.requests())

    def test_root_s_password_is_taken_away(self, whole: Seen) -> None:
        assert whole.of("root's password") == FILES["root's password"]
        assert whole.boot.out("getent", "shadow", "root").split(":")[1] == "*"

    def test_ssh_authentication_types(self, whole: Seen, place: Path) -> None:
        assert whole.of("SSH authentication") == FILES["SSH authentication"]
        assert offered(whole.boot, place).startswith("publickey,password")
        (login,) = logins(whole.boot)
        assert (login.how, login.user, login.ok) == ("password", "azureuser", True)
        assert sshd_says(whole.boot)["clientaliveinterval"] == "180"

    def test_ssh_public_keys(self, whole: Seen, place: Path) -> None:
        """One as it stands on the media, the other by the thumbprint of a certificate."""
        assert whole.of("SSH public keys") == FILES["SSH public keys"]
        inline, certified = whole.text("/home/azureuser/.ssh/authorized_keys").splitlines()
        assert inline == whole.boot.disk.key.with_suffix(".pub").read_text().strip()
        assert certified.startswith("ssh-rsa AAAA")
        assert whole.boot.login("id -un; hostname") == ["azureuser", "floor-1"]
        key = place / "of-the-certificate"
        key.write_text(whole.text(PAIR))
        key.chmod(0o600)
        assert whole.boot.ssh("id -un", key=key).stdout == "azureuser\n"
        (asked,) = [one for one in whole.boot.requests() if "comp=certificates" in one.target]
        assert asked.status == 200

    def test_ssh_key_pairs(self, whole: Seen) -> None:
        assert whole.of("SSH key pairs") == FILES["SSH key pairs"]
        public = whole.boot.out("ssh-keygen", "-y", "-f", PAIR).split()[:2]
        assert whole.text(f"{PAIR}.pub").split()[:2] == public
        assert public[0] == "ssh-rsa"

    def test_host_name(self, whole: Seen) -> None:
        assert whole.of("host name") == FILES["host name"]
        assert whole.boot.out("hostname") == whole.text("/etc/hostname").strip() == "floor-1"
        assert "127.0.1.1\tfloor-1" in whole.text("/etc/hosts").splitlines()

    def test_host_name_published_to_the_platform_s_dns(self, whole: Seen) -> None:
        assert whole.of("published host name") == FILES["published host name"]
        assert {lease.hostname for lease in whole.boot.leases()} == {"floor-1"}
        assert whole.text("/var/lib/waagent/published_hostname").strip() == "floor-1"
        whole.boot.out("hostnamectl", "set-hostname", "floor-9")
        whole.boot.until(lambda: whole.boot.leases()[-1].hostname == "floor-9", "the new name is told")

    def test_fingerprint_of_the_host_key_reported(self, whole: Seen) -> None:
        assert whole.of("host keys") == FILES["host keys"]
        now = shown(whole.boot)
        assert not set(now.values()) & set(whole.image_keys.values()), "made anew"
        assert told(whole.boot) == [now["ed25519"].replace(":", "")]

    def test_custom_data(self, whole: Seen) -> None:
        assert whole.of("customData") == FILES["customData"]
        assert whole.text("/var/lib/waagent/CustomData") == SCRIPT
        assert whole.text("/var/lib/azure-init/custom-data.log") == "ran as root\n"
        assert whole.text("/srv/made-by-custom-data").startswith("azureuser:"), "when the account was there"

    def test_stable_names_of_interfaces(self, whole: Seen) -> None:
        assert whole.of("names of interfaces") == FILES["names of interfaces"]
        assert whole.text("/etc/udev/rules.d/70-persistent-net.rules.azure-init").endswith(PERSISTENT)
        assert "/usr/lib/udev/rules.d/75-persistent-net-generator.rules" not in whole.changed

    def test_scsi_timeout(self, whole: Seen) -> None:
        assert whole.of("timeout of disks") == FILES["timeout of disks"]
        assert "300" in whole.text("/etc/udev/rules.d/99-azure-init-scsi-timeout.rules")

    def test_console(self, whole: Seen) -> None:
        key = shown(whole.boot)["ed25519"]
        whole.boot.until(lambda: key in whole.boot.console.read_text(), "the console has come to the host keys")
        lines = whole.boot.console.read_text().splitlines()
        # systemd and the kernel may have begun a line that we end.
        said = ["azure-init:" + line.partition("azure-init:")[2] for line in lines if "azure-init:" in line]
        assert "started" in said[0] and "Ready" in said[1]
        assert any(key in line for line in said[2:])

    def test_walinuxagent_finds_what_its_own_provisioning_would_have_left(self, whole: Seen) -> None:
        assert whole.of("WALinuxAgent's") == FILES["WALinuxAgent's"]
        assert whole.text("/var/lib/waagent/provisioned").strip() == whole.boot.disk.vm_id
        assert "<UserPassword>REDACTED</UserPassword>" in whole.text("/var/lib/waagent/ovf-env.xml")

    def test_one_ready_and_no_file_that_no_row_accounts_for(self, whole: Seen) -> None:
        assert whole.boot.told() == ["ready"]
        assert whole.changed == {path: state for row in FILES.values() for path, state in row.items()}
        assert whole.boot.failed_units() == []


class TestNothingButImds:
    def test_user_account_without_a_password(self, alone_with_imds: Seen) -> None:
        seen = alone_with_imds
        assert seen.of("user account") == FILES["user account"]
        assert seen.text("/etc/sudoers.d/azure-init-user").splitlines()[-1] == "azureuser ALL=(ALL) NOPASSWD: ALL"
        assert seen.boot.out("getent", "shadow", "azureuser").split(":")[1] in ("!", "*", "!*")
        assert seen.boot.login("id -un; hostname; sudo -n id -u") == ["azureuser", "floor-1", "0"]

    def test_ssh_authentication_by_key_alone(self, alone_with_imds: Seen, place: Path) -> None:
        assert alone_with_imds.of("SSH authentication") == FILES["SSH authentication"]
        assert offered(alone_with_imds.boot, place) == "publickey"
        assert logins(alone_with_imds.boot) == []

    def test_host_name_published_although_it_came_after_the_lease(self, alone_with_imds: Seen) -> None:
        boot = alone_with_imds.boot
        assert boot.leases()[0].hostname != "floor-1"
        boot.until(lambda: boot.leases()[-1].hostname == "floor-1", "the name is told")

    def test_routes_of_dhcp(self, alone_with_imds: Seen) -> None:
        """To the platform alone, as the lease tells them; without them neither could have been asked."""
        boot, said = alone_with_imds.boot, alone_with_imds.boot.journal("-b", "-u", "azure-init")
        assert all(f"added a route to {address} by " in said for address in ("168.63.129.16", "169.254.169.254"))
        routes = {line.split(" ", 1)[0]: line for line in boot.out("ip", "-4", "route").splitlines()}
        assert set(routes) == {"10.0.0.0/24", "168.63.129.16", "169.254.169.254"}, "there again after the new lease"
        assert all("via 10.0.0.1 " in routes[address] for address in ("168.63.129.16", "169.254.169.254"))

    def test_fingerprint_of_the_host_key_reported(self, alone_with_imds: Seen) -> None:
        assert alone_with_imds.of("host keys") == FILES["host keys"]
        assert told(alone_with_imds.boot) == [shown(alone_with_imds.boot)["ed25519"].replace(":", "")]

    def test_one_ready_and_no_file_that_no_row_accounts_for(self, alone_with_imds: Seen) -> None:
        assert alone_with_imds.boot.told() == ["ready"]
        rows = (FILES[row] for row in FILES if row not in NOT_OF_IMDS)
        expected = {path: state for row in rows for path, state in row.items() if not path.endswith(".saved")}
        assert alone_with_imds.changed == expected | {"/etc/shadow-": "file 0640 root:shadow"}
        assert alone_with_imds.boot.failed_units() == []

    def test_deprovision(self, alone_with_imds: Seen) -> None:
        """By the words that a template of an image builder uses; then the machine is its image again, or less."""
        boot = alone_with_imds.boot
        boot.out("waagent", "-force", "-deprovision+user")
        left = changes(alone_with_imds.before, differences(boot.disk))
        gone = dict.fromkeys(("/etc/hostname", "/etc/resolv.conf", *BACKUPS), "gone")
        assert left == gone
        assert boot.out("cat", "/etc/machine-id") in ("", "uninitialized")


def test_what_is_proven_elsewhere_is_there() -> None:
    named = [name.split("::") for names in ELSEWHERE.values() for name in names]
    for file, test in named:
        tree = ast.parse((Path(__file__).parent / file).read_text())
        assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{file} has no {test}"
