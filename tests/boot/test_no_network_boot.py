"""Machines without a network: their messages, the login on the console, and the verdict once there is a network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.installed import Boot, Disk, Machines

pytestmark = pytest.mark.newer

MARKER, PENDING = "var/lib/azure-init/*.provisioned", "var/lib/azure-init/*.pending"
PASSWORD = 'password = "correct horse 1"\ndisable_password = false'
# Short, where the wait is not what is tested. The machine is not given up within the test.
SHORT = "[azure-init.boot]\nnetwork_secs = 4\n"
SILENT = "[Match]\nName=eth0\n\n[Network]\nDHCP=no\nLinkLocalAddressing=no\n"
NO_CARD = """
[Unit]
DefaultDependencies=no
Before=azure-init-local.service systemd-networkd.service
[Service]
Type=oneshot
ExecStart=ip link delete eth0
[Install]
WantedBy=sysinit.target
"""


def without_a_manager(disk: Disk) -> None:
    disk.change("systemctl disable systemd-networkd.service systemd-networkd.socket")


def without_a_server(disk: Disk) -> None:
    disk.write("etc/systemd/network/10-eth0.network", SILENT)


def without_a_card(disk: Disk) -> None:
    disk.write("etc/systemd/system/no-card.service", NO_CARD)
    disk.change("systemctl enable no-card.service")


WAYS = {
    "nothing has brought it up": (without_a_manager, "eth0 is down: nothing has brought it up"),
    "no lease": (without_a_server, "eth0 has no IPv4 address: no DHCP lease"),
    "no card": (without_a_card, "no network interface but lo"),
}


def console(boot: Boot) -> list[str]:
    """What the agent said there."""
    text = boot.console.read_text(errors="replace") if boot.console.exists() else ""
    return [line.partition("azure-init: ")[2] for line in text.splitlines() if "azure-init: " in line]


def lines(boot: Boot, *parts: str) -> list[str]:
    return [line for line in console(boot) if all(part in line for part in parts)]


def told(boot: Boot, *parts: str) -> str:
    """Waits for a line on the console that has all these parts."""
    return boot.until(lambda: lines(boot, *parts), f"the console says {parts}")[0]


def pending(disk: Disk) -> dict[str, str]:
    (name,) = disk.files(PENDING)
    found: dict[str, str] = json.loads((disk.layer / name).read_text())
    return found


def has_its_account(boot: Boot) -> None:
    """What the serial console needs."""
    assert boot.out("hostname") == "floor-1"
    assert boot.out("getent", "passwd", "azureuser").split(":")[5] == "/home/azureuser"
    assert boot.out("getent", "shadow", "azureuser").split(":")[1].startswith("$")


@pytest.mark.parametrize("way", WAYS)
def test_a_machine_without_a_network_says_so_and_is_set_up_from_its_media(machine: Machines, way: str) -> None:
    prepare, cause = WAYS[way]
    disk = machine("trixie")
    prepare(disk)
    with disk.boot(SHORT, vm=PASSWORD) as boot:
        told(boot, "no network", cause, "applying the media alone")
        has_its_account(boot)
        assert boot.out("systemctl", "is-active", "systemd-user-sessions", "ssh").split() == ["active"] * 2
        told(boot, "waiting for the network", cause, "IMDS has to agree")
        status = boot.until(lambda: boot.shown("azure-init", "StatusText"), "there is a status")
        assert "waiting for" in status and cause in status
        assert boot.told() == [] and boot.failed_units() == []
    kept = pending(disk)
    assert (kept["verdict"], kept["failure"], kept["sources"]) == ("ready", "", "media alone")
    assert not disk.files(MARKER)


def test_what_is_waited_for_is_told_every_ten_seconds(machine: Machines) -> None:
    disk = machine("trixie")
    without_a_manager(disk)
    with disk.boot("[media]\nenable = false\n", wait=False) as boot:
        words = ("waiting for the platform's metadata", "eth0 is down: nothing has brought it up")
        boot.until(lambda: len(lines(boot, *words)) >= 2, "it is told again and again")
        assert boot.run("getent", "passwd", "azureuser").returncode == 2


@pytest.mark.parametrize("system", ["bookworm", "trixie"])
def test_ready_is_sent_when_the_network_comes_and_imds_agrees(machine: Machines, system: str) -> None:
    disk = machine(system)
    without_a_manager(disk)
    with disk.boot(SHORT, vm=PASSWORD) as boot:
        told(boot, "applying the media alone")
        asked = [one for one in boot.requests() if one.service == "imds"]
        assert asked == []
        boot.out("systemctl", "start", "systemd-networkd")
        boot.ready()
        assert [one for one in boot.requests() if one.service == "imds"], "asked before Ready was told"
        assert boot.ended() == "success 0"
        assert boot.shown("azure-init", "StatusText") == "provisioned; the platform has accepted Ready"
        assert boot.login("id -un") == ["azureuser"]
    assert disk.files(MARKER) and not disk.files(PENDING)


def test_an_imds_that_contradicts_what_was_applied_is_a_failure_that_names_both(machine: Machines) -> None:
    disk = machine("trixie")
    without_a_manager(disk)
    with disk.boot(f'{SHORT}[media]\ntexts = {{ UserName = "somebody" }}\n', vm=PASSWORD) as boot:
        told(boot, "applying the media alone")
        boot.out("systemctl", "start", "systemd-networkd")
        boot.until(boot.told, "a verdict is told")
        (verdict,) = boot.verdicts()
        assert verdict.kind == "failed"
        assert "reason=provisioning media contradict IMDS" in verdict.description
        assert "IMDS says 'azureuser'" in verdict.description and "the media say 'somebody'" in verdict.description
        assert boot.run("getent", "passwd", "azureuser").returncode == 2, "no second account"
    assert not disk.files(MARKER)


@pytest.mark.parametrize(("name", "verdict"), [("azureuser", "ready"), ("somebody", "failed")])
def test_a_later_boot_with_a_network_asks_imds_before_it_sends_ready(
    machine: Machines, name: str, verdict: str
) -> None:
    disk = machine("trixie")
    without_a_manager(disk)
    with disk.boot(f'{SHORT}[media]\ntexts = {{ UserName = "{name}" }}\n', vm=PASSWORD) as boot:
        told(boot, "applying the media alone")
        boot.until(lambda: boot.run("sh", "-c", f"cat /{PENDING}").stdout, "Ready is kept")
    disk.change("systemctl enable systemd-networkd.service")
    with disk.boot(f'[media]\ntexts = {{ UserName = "{name}" }}\n', vm=PASSWORD) as boot:
        boot.until(boot.told, "a verdict is told")
        assert boot.told() == [verdict]
        assert [one for one in boot.requests() if one.service == "imds"]


def test_without_network_and_media_the_failure_names_the_network_and_says_that_it_was_not_heard(
    machine: Machines,
) -> None:
    disk = machine("trixie")
    without_a_manager(disk)
    short = "[azure-init.boot]\nnetwork_secs = 2\nsources_secs = 6\ndeadline_secs = 14\n"
    short += "[azure-init.imds]\ntotal_retry_timeout_secs = 4\n[azure-init.provisioning_media]\nwait_secs = 2\n"
    short += "[azure-init.run]\nverdict_reserve_secs = 2\n[media]\nenable = false\n"
    with disk.boot(short) as boot:
        told(boot, "provisioning failed: no network", "eth0 is down: nothing has brought it up")
        told(boot, "the failure was not reported")
        assert boot.ended() == "exit-code 1"
        boot.ended("azure-init-failure.service")
        said = boot.journal("-u", "azure-init-failure.service")
        assert "the platform has not accepted it" in said and "has told" not in said
        assert boot.out("cat", "/run/azure-init/verdict") == "failure, not delivered"
        assert boot.told() == []
        assert boot.shown("azure-init", "StatusText") == "failed: no network; the platform has not accepted the report"
    assert pending(disk)["failure"] == "no network"


@pytest.mark.parametrize("texts", ['{ PreprovisionedVm = "true" }', '{ PreprovisionedVMType = "Savable" }'])
def test_a_medium_that_asks_for_pre_provisioning_is_not_applied_alone(machine: Machines, texts: str) -> None:
    disk = machine("trixie")
    without_a_manager(disk)
    # Only IMDS can say whether the machine waits in a pool: logins are held until the run ends, whatever their limit.
    limits = "hold_logins_secs = 1\ndeadline_secs = 15\n"
    with disk.boot(f"{SHORT}{limits}[media]\ntexts = {texts}\n", vm=PASSWORD) as boot:
        told(boot, "provisioning failed", "in the pool")
        assert boot.run("getent", "passwd", "azureuser").returncode == 2
        assert not lines(boot, "alone")


def test_a_program_given_as_custom_data_is_run_when_there_is_a_network(machine: Machines, tmp_path: Path) -> None:
    disk = machine("trixie")
    without_a_manager(disk)
    program = "#!/bin/sh\\nip route get 168.63.129.16 >/var/tmp/route || exit 1\\n"
    with disk.boot(
        f"{SHORT}[azure-init.custom_data]\nexecute = true\n", vm=f'{PASSWORD}\ncustom_data = "{program}"'
    ) as boot:
        told(boot, "applying the media alone")
        boot.until(lambda: boot.shown("azure-init", "ActiveState") == "active", "logins are let go")
        assert boot.run("cat", "/var/tmp/route").returncode == 1
        boot.out("systemctl", "start", "systemd-networkd")
        boot.ready()
        assert "168.63.129.16" in boot.out("cat", "/var/tmp/route")
