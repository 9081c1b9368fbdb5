"""The package and its units on whole distributions: their order, their verdicts, and their behaviour after faults."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import pytest

from support.boot_checks import (
    LATE,
    OURS,
    READY,
    is_orderly,
    is_provisioned,
    is_quiet,
    prepare_for_waagent,
)
from support.container import PROJECT
from support.installed import Boot, Disk, Images, Machines

pytestmark = pytest.mark.newer

SYSTEMS = ("bullseye", "bookworm", "trixie", "jammy", "noble")
MARKER = "var/lib/azure-init/*.provisioned"
PENDING = "var/lib/azure-init/*.pending"
WANTED = "../here.service ../elsewhere.service ../switched-off.service"
# IMDS is asked, and the run waits for the answer: whatever happens now happens before any verdict.
UNANSWERED = '[media]\nenable = false\n[[faults]]\npath = "/metadata/instance"\nanswers = ["hang", "ok*"]\n'
UNANSWERED_FOR_EVER = UNANSWERED.replace("ok*", "hang*") + "[azure-init.boot]\nhold_logins_secs = 1\n"
DEAD_WIRESERVER = "[wireserver]\nenable = false\n[azure-init.wireserver]\ntotal_retry_timeout_secs = 1\n"
# cloud-init's own generator says so before any unit runs.
CLOUD_INIT = "#!/bin/sh\nmkdir -p /run/cloud-init\n: > /run/cloud-init/enabled\n"
SLOW_RSA = '#!/bin/sh\ncase "$*" in *rsa*) sleep 30 ;; esac\nexec /usr/bin/ssh-keygen "$@"\n'
# Mounts that an image's own units would have made.
EARLY = """
[Unit]
DefaultDependencies=no
Before=azure-init-local.service systemd-networkd.service
Before=systemd-journal-flush.service systemd-random-seed.service systemd-update-utmp.service
Before=systemd-tmpfiles-setup.service systemd-machine-id-commit.service systemd-sysusers.service
After=systemd-remount-fs.service
[Service]
Type=oneshot
ExecStart=/bin/sh -ec '{}'
[Install]
WantedBy=sysinit.target
"""
# Refused for as long as anybody has a file of it open to write, as the journal has from early in a boot on.
READ_ONLY = (
    "for d in /etc /var /home; do mount --rbind $d $d; done; "
    "for n in $(seq 200); do mount -o remount,bind,ro / && exit 0; sleep 0.05; done; exit 1"
)
ETC_OVERLAY = (
    "mkdir -p /run/etc/upper /run/etc/work; cp /etc/azure-init/azure-init.toml.d/* /run/etc; "
    "mount -t overlay -o lowerdir=/etc,upperdir=/run/etc/upper,workdir=/run/etc/work overlay /etc; "
    "mv /run/etc/*.toml /etc/azure-init/azure-init.toml.d"
)


def picture(boot: Boot) -> str:
    """All that provisioning is to leave on a machine, in one text; no keys, which differ by themselves.

    Nor sudo's own note in the home, which comes with the first use by a member of the group sudo.
    """
    script = """
    cd /etc; cat passwd group hostname hosts subuid subgid sudoers.d/* ssh/sshd_config.d/*; cut -d: -f1,2 shadow
    stat -c '%n %A %U %G' passwd shadow group gshadow sudoers.d/* ssh/ssh_host_* ssh/sshd_config.d/*
    find /home ! -name .sudo_as_admin_successful -printf '%p %M %U %G %l\\n' | sort
    ls -A /var/lib/azure-init | sed 's/^[^.]*//' | sort
    """
    return boot.out("sh", "-ec", script)


def conditional(old: str, new: str) -> str:
    """A unit under the conditions of ours, but for one word."""
    lines = (PROJECT / "systemd/azure-init.service").read_text().splitlines()
    conditions = [line.replace(old, new) for line in lines if line.startswith("Condition")]
    return "\n".join(("[Unit]", *conditions, "[Service]", "Type=oneshot", "ExecStart=/bin/true", ""))


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_conditions_are_understood_by_every_systemd(machine: Machines, system: str) -> None:
    """The machine's only sign of Azure is azure-init=force."""
    disk = machine(system)
    units = {
        "here": conditional("=force", "=force"),
        "elsewhere": conditional("=force", "=never-said"),
        "switched-off": conditional("=off", "=force"),
    }
    for name, text in units.items():
        disk.write(f"etc/systemd/system/{name}.service", text)
    disk.change(f"cd /etc/systemd/system; mkdir -p multi-user.target.wants; ln -s {WANTED} multi-user.target.wants")
    with disk.boot() as boot:
        met = {name: boot.shown(name, "ConditionResult") for name in units}
        assert met == {"here": "yes", "elsewhere": "no", "switched-off": "no"}


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_distribution_is_provisioned_at_its_first_boot_and_left_alone_at_the_second(
    machine: Machines, system: str
) -> None:
    disk = machine(system)
    with disk.boot('[azure-init.user]\ngroups = ["adm", "sudo"]\n') as boot:
        boot.ready()
        is_provisioned(boot)
        assert set(boot.out("id", "-nG", "azureuser").split()) == {"azureuser", "adm", "sudo"}
        is_orderly(boot)
        assert {lease.hostname for lease in boot.leases()} == {"floor-1"}, "the name was there before DHCP"
        assert boot.ended() == "success 0"
        assert READY in boot.journal("-b", *OURS)
    assert disk.files(MARKER) and not disk.files(PENDING)
    with disk.boot() as boot:
        assert boot.ended() == "success 0"
        is_provisioned(boot)
        is_orderly(boot)
        assert boot.requests() == []
        cost = boot.moment("azure-init", "ExecMainExit") - boot.moment("azure-init", "ExecMainStart")
        print(f"{system}: a later boot's look takes {cost / 1000:.0f} ms")
        assert boot.journal("-b", "-q", "-u", "azure-init-resend") == "", "nothing is left to tell"


@pytest.mark.parametrize("system", ["bullseye", "trixie"])
def test_an_image_without_a_network_of_its_own_gets_its_address_by_the_default(machine: Machines, system: str) -> None:
    disk = machine(system)
    disk.change("rm /etc/systemd/network/10-eth0.network")
    with disk.boot() as boot:
        boot.ready()
        is_provisioned(boot)
        is_orderly(boot)
        assert "/zzz-azure-init-forced.network" in boot.out("networkctl", "status", "--no-pager", "eth0")


@pytest.mark.parametrize("system", ["bookworm", "trixie", "jammy"])
def test_a_dead_imds_is_no_loss_where_there_are_media(machine: Machines, system: str) -> None:
    with machine(system).boot("[imds]\nenable = false\n") as boot:
        boot.ready()
        is_provisioned(boot)
        is_orderly(boot)


@pytest.mark.parametrize("system", ["bullseye", "noble"])
def test_a_dead_wireserver_holds_nobody_up_and_hears_ready_when_it_is_back(machine: Machines, system: str) -> None:
    disk = machine(system)
    with disk.boot(DEAD_WIRESERVER) as boot:
        is_provisioned(boot)
        assert boot.ended() == "success 75"
        is_orderly(boot)
    assert disk.files(PENDING) and not disk.files(MARKER)
    with disk.boot(DEAD_WIRESERVER) as boot:
        is_provisioned(boot)
        assert boot.ended() == "success 0"
        assert boot.ended("azure-init-resend.service") == "exit-code 75"
        assert boot.shown("azure-init-resend", "SubState") == "auto-restart", "it goes on trying"
        is_orderly(boot)
    assert disk.files(PENDING) and not disk.files(MARKER)
    with disk.boot() as boot:
        boot.ready()
        # Its work done, it is forgotten by systemd: nobody but the run asks for it.
        boot.until(lambda: boot.shown("azure-init-resend", "ActiveState") == "inactive", "it has ended")
        assert "the platform accepted it" in boot.journal("-b", "-u", "azure-init-resend")
        assert boot.told() == ["ready"]
        is_provisioned(boot)
        is_orderly(boot)
    assert disk.files(MARKER) and not disk.files(PENDING)


def test_a_platform_that_comes_late_holds_logins_only_for_a_while_and_hears_ready_all_the_same(
    machine: Machines,
) -> None:
    disk = machine("trixie")
    disk.write("etc/systemd/system/azure-init.service.d/short.conf", "[Service]\nTimeoutStartSec=2\n")
    with disk.boot(LATE) as boot:
        assert boot.out("systemctl", "is-active", "ssh", "multi-user.target", "azure-init").split() == ["active"] * 3
        assert boot.told() == [], "the machine is up before its platform is"
        boot.ready()
        is_provisioned(boot)
        assert boot.ended() == "success 0"
        is_orderly(boot)


def test_a_run_that_dies_is_told_as_a_failure_once_and_the_next_boot_makes_the_same_machine(
    machine: Machines, tmp_path: Path, images: Images
) -> None:
    disk = machine("bookworm")
    with disk.boot(UNANSWERED, wait=False) as boot:
        boot.until(boot.requests, "IMDS is asked")
        os.kill(boot.until(boot.agent, "the agent runs"), signal.SIGKILL)
        boot.until(boot.told, "a verdict is told")
        boot.wait_until_up()
        assert boot.ended("azure-init-failure.service") == "success 0"
        (verdict,) = boot.verdicts()
        assert verdict.kind == "failed"
        assert "azure-init did not finish" in verdict.description
        assert boot.ended() == "signal 9"
    assert not disk.files(MARKER)
    with disk.boot() as boot:
        boot.ready()
        is_provisioned(boot)
        assert boot.ended() == "success 0"
        after = picture(boot)
    with Disk(images("bookworm"), tmp_path / "undisturbed").boot() as boot:
        boot.ready()
        assert boot.ended() == "success 0"
        assert picture(boot) == after


def test_a_run_that_hangs_is_ended_and_told_as_a_failure_once(machine: Machines) -> None:
    disk = machine("bullseye")
    disk.write("etc/systemd/system/azure-init.service.d/short.conf", "[Service]\nRuntimeMaxSec=2\n")
    with disk.boot(UNANSWERED_FOR_EVER) as boot:
        boot.until(boot.told, "a verdict is told")
        assert boot.ended("azure-init-failure.service") == "success 0"
        assert boot.shown("azure-init", "Result") == "timeout"
        assert boot.failed_units() == ["azure-init.service"]
        (verdict,) = boot.verdicts()
        assert verdict.kind == "failed"
        assert "azure-init was stopped" in verdict.description
    assert not disk.files(MARKER)


@pytest.mark.parametrize(("seed", "system"), list(enumerate(SYSTEMS)))
def test_a_kill_at_any_moment_never_makes_the_machine_contradict_itself(
    machine: Machines, seed: int, system: str
) -> None:
    disk = machine(system)
    delay = random.Random(seed).uniform(0, 0.7)
    with disk.boot("[imds]\nlatency_secs = 0.5\n", wait=False) as boot:
        # On a busy computer the run may have ended before it is seen: then there is nothing to kill.
        agent = boot.until(
            lambda: boot.agent() or (-1 if boot.told() else 0), "the agent runs, or has told its verdict"
        )
        time.sleep(delay)
        with contextlib.suppress(ProcessLookupError):
            if agent > 0:
                os.kill(agent, signal.SIGKILL)
        boot.wait_until_up()
        boot.ended()
        if boot.shown("azure-init", "Result") == "signal":
            boot.ended("azure-init-failure.service")
        print(f"killed after {delay:.3f} s: {boot.told()}")
        # A Ready that was on its way is sent again: the platform may have had it.
        told = boot.until(boot.told, "a verdict is told, if only by azure-init-resend")
        assert told in (["ready"], ["failed"], ["ready", "ready"])
        boot.until(lambda: told == ["failed"] or disk.files(MARKER), "the marker is there after Ready")
    provisioned = bool(disk.files(MARKER))
    with disk.boot() as boot:
        assert boot.ended() == "success 0"
        assert boot.told() == ([] if provisioned else ["ready"])
        assert not provisioned or "ready" in told
        is_provisioned(boot)
        is_orderly(boot)


def test_a_death_after_the_verdict_adds_nothing_to_it(machine: Machines) -> None:
    disk = machine("trixie")
    disk.write("usr/local/sbin/ssh-keygen", SLOW_RSA, mode=0o755)
    with disk.boot() as boot:
        boot.ready()
        boot.until(lambda: disk.files(MARKER), "the marker is there after Ready")
        os.kill(boot.until(boot.agent, "the agent runs"), signal.SIGKILL)
        assert boot.until(lambda: boot.ended("azure-init-failure.service"), "") == "success 0"
        assert "nothing to add" in boot.journal("-u", "azure-init-failure.service")
        assert boot.told() == ["ready"]
        is_provisioned(boot)


@pytest.mark.parametrize(("username", "verdict"), [("azureuser", "ready"), ("root", "failed")])
def test_walinuxagent_beside_us_keeps_running_and_leaves_the_verdict_to_us(
    machine: Machines, username: str, verdict: str
) -> None:
    disk = machine("trixie", "waagent")
    prepare_for_waagent(disk)
    with disk.boot(vm=f'username = "{username}"') as boot:
        boot.until(boot.told, "a verdict is told")
        is_quiet(boot)
        assert 0 < boot.moment("azure-init", "ActiveEnter") <= boot.moment("walinuxagent", "ExecMainStart")
        assert boot.out("systemctl", "is-active", "ssh") == "active"
        assert boot.told() == [verdict]


def test_walinuxagent_stays_quiet_also_after_a_run_that_died(machine: Machines) -> None:
    disk = machine("trixie", "waagent")
    prepare_for_waagent(disk)
    with disk.boot(UNANSWERED, wait=False) as boot:
        boot.until(boot.requests, "IMDS is asked")
        os.kill(boot.until(boot.agent, "the agent runs"), signal.SIGKILL)
        boot.wait_until_up()
        is_quiet(boot)
        assert boot.told() == ["failed"]


def test_where_cloud_init_is_enabled_we_stand_down_with_one_line(machine: Machines) -> None:
    disk = machine("bookworm")
    disk.write("etc/systemd/system-generators/cloud-init-generator", CLOUD_INIT, mode=0o755)
    with disk.boot() as boot:
        assert boot.ended() == "success 0"
        said = [line for line in boot.journal("-b", *OURS).splitlines() if "cloud-init" in line]
        assert len(said) == 1, said
        assert boot.requests() == []
        assert boot.failed_units() == []
        assert boot.run("getent", "passwd", "azureuser").returncode == 2
    assert not disk.files("var/lib/azure-init/*")


def test_ssh_that_is_started_by_its_socket_is_no_cycle(machine: Machines) -> None:
    disk = machine("trixie")
    disk.change("systemctl disable ssh.service; systemctl enable ssh.socket")
    with disk.boot() as boot:
        boot.ready()
        assert boot.out("systemctl", "is-active", "ssh.socket") == "active"
        is_provisioned(boot)
        is_orderly(boot)


@pytest.mark.parametrize("how", [READ_ONLY, ETC_OVERLAY], ids=["read-only root", "overlay on etc"])
def test_a_root_that_is_not_all_writable_is_provisioned_where_it_is(machine: Machines, how: str) -> None:
    disk = machine("trixie")
    disk.write("etc/systemd/system/early.service", EARLY.format(how))
    disk.change("systemctl enable early.service")
    with disk.boot() as boot:
        boot.ready()
        is_provisioned(boot)
        is_orderly(boot)


def test_without_useradd_the_account_is_made_all_the_same(machine: Machines) -> None:
    disk = machine("trixie")
    disk.change("rm /usr/sbin/useradd /usr/sbin/usermod /usr/sbin/groupadd /usr/sbin/chpasswd")
    with disk.boot() as boot:
        boot.ready()
        is_provisioned(boot)
        is_orderly(boot)


def test_without_sudo_there_is_an_admin_who_cannot_become_root(machine: Machines) -> None:
    disk = machine("trixie")
    disk.change("SUDO_FORCE_REMOVE=yes dpkg --purge sudo")
    with disk.boot() as boot:
        boot.ready()
        assert boot.login("id -un") == ["azureuser"]
        assert "sudo is not installed" in boot.journal("-b", "-u", "azure-init")
        is_orderly(boot)


def test_without_sshd_the_machine_is_ready_with_its_account_and_keys(machine: Machines) -> None:
    disk = machine("trixie")
    disk.change("dpkg --purge openssh-server")
    with disk.boot() as boot:
        boot.ready()
        assert boot.ended() == "success 0"
        assert (
            boot.out("cat", "/home/azureuser/.ssh/authorized_keys") == disk.key.with_suffix(".pub").read_text().strip()
        )
        assert boot.failed_units() == []


def test_a_user_of_the_images_own_becomes_the_admin_and_loses_nothing(machine: Machines) -> None:
    disk = machine("trixie")
    disk.change("useradd --create-home --uid 1234 --shell /bin/sh --groups audio azureuser")
    with disk.boot() as boot:
        boot.ready()
        is_provisioned(boot)
        is_orderly(boot)
        assert boot.out("getent", "passwd", "azureuser").split(":")[2] == "1234"
        assert "audio" in boot.out("id", "-nG", "azureuser").split()
