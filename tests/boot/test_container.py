"""The agent on a whole Debian, with that system's own tools, from its first boot to a login over ssh."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fakeazure import Expect, Fabric, Vm
from support.container import Container
from support.installed import Images
from support.need import need

pytestmark = pytest.mark.newer

DEBIANS = ("bookworm", "trixie")
GROUPS = ["adm", "sudo"]
PASSWORD = "Correct-horse 7'\"$battery"
FILES: dict[str, Any] = {"user_provisioners": {"backends": ["files"]}, "password_provisioners": {"backends": ["files"]}}
TOOLS: dict[str, Any] = {
    "user_provisioners": {"backends": ["useradd"]},
    "password_provisioners": {"backends": ["chpasswd"]},
}
ACCOUNT_FILES = ("passwd", "group", "gshadow", "subuid", "subgid")
OLD_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl old"


class Site:
    """One machine, one platform, and somebody who wants to log in."""

    def __init__(self, lower: tuple[Path, ...], place: Path, **vm: Any) -> None:
        self.key = place / "id"
        subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key)), check=True)
        values: dict[str, Any] = {"name": "real-1", "keys": (self.key.with_suffix(".pub").read_text().strip(),), **vm}
        self.fabric = Fabric(vm=Vm(**values)).start()
        self.machine = Container(lower, place)
        self.media = self.fabric.write_media(place / "medium")

    def boot(self, *, agent: bool = True, **tables: Mapping[str, Any]) -> None:
        """With `agent`, systemd runs it; without, nobody does."""
        self.machine.write("etc/azure-init.toml", self.fabric.config_text(user={"groups": GROUPS}, **tables))
        self.machine.boot(agent=agent, bind=(self.media,))

    def provisioned(self) -> float:
        """Asserts that the platform was told so; when, by the wall clock."""
        judgement = self.fabric.judge()
        assert judgement.ok, f"{judgement}\n{self.machine.run('systemctl', 'status', '--full', 'azure-init').stdout}"
        ready = self.fabric.ledger.verdicts[-1]
        assert ready.kind == "ready"
        return time.time() - (self.fabric.ledger.now() - ready.t)

    def took(self) -> float:
        """From the agent's start to the platform's hearing Ready: both clocks are the kernel's one."""
        ledger = self.fabric.ledger
        started = self.machine.out(
            "systemctl", "show", "--value", "-p", "ExecMainStartTimestampMonotonic", "azure-init"
        )
        return time.monotonic() - (ledger.now() - ledger.verdicts[-1].t) - int(started) / 1e6

    def nothing_left(self) -> None:
        """A second run with the marker gone finds everything as it was asked for."""
        (marker,) = self.machine.files("var/lib/azure-init/*.provisioned")
        marker.unlink()
        plan = json.loads(self.machine.out("azure-init", "plan", "--json", "--check"))
        assert plan, "the plan says what it found"
        self.fabric.reboot(expect=Expect(verdict="ready"))
        again = self.machine.run("azure-init")
        assert again.returncode == 0, again.stderr
        assert self.fabric.judge().ok

    def login(self, command: str, **how: Any) -> str:
        ran = self.machine.ssh(self.fabric.vm.username, command, **how)
        assert ran.returncode == 0, ran.stderr + self.machine.run("journalctl", "--no-pager", "-u", "ssh").stdout
        return ran.stdout

    def close(self) -> None:
        self.machine.stop()
        self.fabric.stop()


class Sites:
    def __init__(self, images: Images, directory: Path) -> None:
        self.images, self.directory = images, directory
        self.open: list[Site] = []

    def __call__(self, suite: str = "bookworm", **vm: Any) -> Site:
        place = self.directory / str(len(self.open))
        place.mkdir()
        self.open.append(Site(self.images.without_package(suite), place, **vm))
        return self.open[-1]


@pytest.fixture
def site(images: Images, tmp_path: Path) -> Iterator[Sites]:
    sites = Sites(images, tmp_path)
    try:
        yield sites
    finally:
        for one in sites.open:
            one.close()
        shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.parametrize("suite", DEBIANS)
def test_a_key_machine_is_provisioned_at_boot_and_lets_its_admin_in(site: Sites, suite: str) -> None:
    one = site(suite)
    machine = one.machine
    one.boot()
    ready = one.provisioned()
    assert machine.out("systemctl", "is-active", "azure-init", "ssh").split() == ["active", "active"]
    assert machine.out("hostname") == machine.out("hostnamectl", "--static") == "real-1"
    assert machine.out("getent", "hosts", "real-1").split() == ["127.0.1.1", "real-1"]
    assert machine.out("getent", "passwd", "azureuser") == (
        "azureuser:x:1000:1000:Azure admin user:/home/azureuser:/bin/bash"
    )
    assert set(machine.out("id", "-nG", "azureuser").split()) == {"azureuser", *GROUPS}
    assert machine.out("getent", "shadow", "azureuser").split(":")[1] == "*"
    assert "azure-init-user: parsed OK" in machine.out("visudo", "-c")
    made = {path.name: path.stat().st_mtime for path in machine.files("etc/ssh/ssh_host_*_key")}
    assert made.keys() == {f"ssh_host_{kind}_key" for kind in ("ed25519", "ecdsa", "rsa")}
    assert max(made["ssh_host_ed25519_key"], made["ssh_host_ecdsa_key"]) <= ready <= made["ssh_host_rsa_key"]
    assert in_force(machine) == {"passwordauthentication no", "kbdinteractiveauthentication no"}
    assert one.login("id -un; hostname; sudo -n id -u", key=one.key).split() == ["azureuser", "real-1", "0"]
    one.nothing_left()


@pytest.mark.parametrize("suite", DEBIANS)
def test_sshd_is_asked_where_it_answers(site: Sites, suite: str) -> None:
    one = site(suite)
    one.boot(agent=False)
    ssh = json.loads(one.machine.out("azure-init", "facts"))["ssh"]
    if one.machine.run("sshd", "-G").returncode == 0:
        assert (ssh["version"], ssh["query_failure"]) == ([9, 3], "")
    else:
        assert ssh["version"] < [9, 3] and ssh["query_failure"]
    assert ssh["logins"] == {"password": False, "keyboard": False}
    assert ssh["use_pam"] is True


@pytest.mark.parametrize("suite", DEBIANS)
def test_a_password_machine_takes_the_password_and_shows_it_to_no_process(site: Sites, suite: str) -> None:
    one = site(suite, keys=(), password=PASSWORD)
    machine = one.machine
    machine.prepare("ssh-keygen", "-A")  # so that sshd is running by then, and must be told
    one.boot(agent=False, **TOOLS)
    assert machine.out("systemctl", "is-active", "ssh") == "active"
    trace = machine.place / "trace"
    strace = (need("strace"), "-f", "-v", "-s", "65536", "-e", "trace=execve", "-o", str(trace))
    ran = machine.run("azure-init", before=strace)
    assert ran.returncode == 0, ran.stderr
    one.provisioned()
    hashed = machine.out("getent", "shadow", "azureuser").split(":")[1]
    assert hashed.startswith("$y$")
    children = trace.read_text()
    assert all(tool in children for tool in ("useradd", "chpasswd", "systemctl", "sshd"))
    seen = children + ran.stderr + machine.read("var/log/azure-init.log")
    assert not [secret for secret in (hashed, hashed.split("$")[2], "Correct-horse", "battery") if secret in seen]
    # The vendor's drop-in says no; ours is read first.
    assert in_force(machine) == {"passwordauthentication yes", "kbdinteractiveauthentication yes"}
    machine.settled()
    assert one.login("id -un", password=PASSWORD).split() == ["azureuser"]
    assert machine.ssh("azureuser", "true", password="something else").returncode == 255
    asked = one.login("sudo -n true 2>/dev/null; echo $?", password=PASSWORD)
    assert asked.split() == ["1"], "an admin with a password is asked for it"
    one.nothing_left()


@pytest.mark.parametrize("suite", DEBIANS)
def test_files_edited_by_us_are_what_the_tools_write(site: Sites, suite: str) -> None:
    results = []
    for backends in (TOOLS, FILES):
        one = site(suite, password=PASSWORD)
        one.boot(**backends)
        one.provisioned()
        print(f"{suite}, {backends['user_provisioners']['backends'][0]}: Ready after {one.took() * 1000:.0f} ms")
        assert one.login("id -un", password=PASSWORD).split() == ["azureuser"]
        assert one.login("id -un", key=one.key).split() == ["azureuser"]
        machine = one.machine
        accounts = {name: machine.read(f"etc/{name}") for name in ACCOUNT_FILES}
        home = machine.out("sh", "-c", "cd /home && find . -printf '%p %M %u %g %s %l\\n' | sort")
        shadow = [machine.out("getent", "shadow", name).split(":") for name in ("root", "azureuser")]
        modes = machine.out("sh", "-c", "cd /etc && stat -c '%n %A %U %G' passwd* shadow* group* gshadow* sub?id*")
        assert machine.out("pwck", "-r", "-q") == machine.out("grpck", "-r") == ""
        del shadow[1][1]
        results.append((accounts, home, shadow, modes))
        one.close()
    assert results[0] == results[1]


def test_an_account_of_the_images_own_gains_and_loses_nothing(site: Sites) -> None:
    one = site()
    machine = one.machine
    machine.prepare("useradd", "--create-home", "--shell", "/bin/sh", "--groups", "audio", "--uid", "1234", "azureuser")
    machine.prepare("sh", "-c", "echo azureuser:an-old-one | chpasswd")
    keys = f"install -d -m 700 -o azureuser ~azureuser/.ssh && echo {OLD_KEY!r} > ~azureuser/.ssh/authorized_keys"
    machine.prepare("sh", "-c", keys)
    one.boot()
    one.provisioned()
    assert machine.out("getent", "passwd", "azureuser").split(":")[2:] == [
        "1234",
        "1234",
        "",
        "/home/azureuser",
        "/bin/sh",
    ]
    assert set(machine.out("id", "-nG", "azureuser").split()) == {"azureuser", "audio", *GROUPS}
    assert machine.out("getent", "shadow", "azureuser").split(":")[1].startswith("$")
    mine = one.key.with_suffix(".pub").read_text()
    assert machine.read("home/azureuser/.ssh/authorized_keys") == f"{OLD_KEY}\n{mine}"
    assert one.login("sudo -n id -u", key=one.key).split() == ["0"]
    one.nothing_left()


@pytest.mark.parametrize("backends", [TOOLS, FILES], ids=["useradd", "files"])
def test_a_home_begun_for_a_number_that_went_to_another_is_wholly_the_admins(site: Sites, backends: Any) -> None:
    one = site()
    begun = "mkdir /etc/skel/.config && cp -a /etc/skel /home/azureuser && chown -R 1000:1000 /home/azureuser"
    one.machine.prepare("sh", "-c", f"{begun} && useradd --uid 1000 another")
    one.boot(**backends)
    one.provisioned()
    assert one.machine.out("id", "-u", "azureuser") == "1001"
    assert one.machine.out("find", "/home/azureuser", "!", "-user", "azureuser") == ""
    assert one.login("id -un", key=one.key).split() == ["azureuser"]
    one.nothing_left()


def test_hostnamectl_names_the_machine_too(site: Sites) -> None:
    one = site()
    one.boot(hostname_provisioners={"backends": ["hostnamectl"]})
    one.provisioned()
    assert one.machine.out("hostname") == one.machine.out("hostnamectl", "--static") == "real-1"
    assert one.machine.read("etc/hostname") == "real-1\n"
    one.nothing_left()


def test_at_the_next_boot_nothing_is_asked_and_nothing_told(site: Sites) -> None:
    one = site()
    one.boot()
    one.provisioned()
    one.machine.stop()
    one.fabric.reboot(expect=Expect(verdict="none"))
    asked = len(one.fabric.ledger.requests)
    one.boot()
    assert one.machine.out("systemctl", "is-active", "azure-init", "ssh").split() == ["active", "active"]
    assert len(one.fabric.ledger.requests) == asked
    assert one.machine.out("hostname") == "real-1"
    assert one.login("id -un", key=one.key).split() == ["azureuser"]


def test_host_keys_that_another_makes_meanwhile_are_kept(site: Sites) -> None:
    one = site("trixie")
    rival = '#!/bin/sh\n/usr/bin/ssh-keygen -A >/dev/null\nexec /usr/bin/ssh-keygen "$@"\n'
    one.machine.write("usr/local/sbin/ssh-keygen", rival, mode=0o755)
    one.boot()
    one.provisioned()
    assert one.login("id -un", key=one.key).split() == ["azureuser"]


def test_without_privileges_one_may_look_and_the_platform_hears_nothing(site: Sites) -> None:
    one = site()
    one.boot(agent=False)
    before = len(one.fabric.ledger.told)
    for words in (("plan",), ("plan", "--check"), ("facts",), ("config", "show"), ("clean",), ()):
        ran = one.machine.run("azure-init", *words, user="nobody")
        assert "Traceback" not in ran.stderr, ran.stderr
        assert ran.returncode == {("plan", "--check"): 3, ("clean",): 1, (): 1}.get(words, 0), f"{words}: {ran}"
    assert len(one.fabric.ledger.told) == before
    assert one.machine.run("azure-init").returncode == 0
    ran = one.machine.run("azure-init", "plan", user="nobody")
    assert "Traceback" not in ran.stderr
    one.provisioned()


def in_force(machine: Container) -> set[str]:
    """What a running sshd would go by, in its own words."""
    lines = machine.out("sshd", "-T").split("\n")
    return {line for line in lines if line.startswith(("passwordauthentication", "kbdinteractiveauthentication"))}
