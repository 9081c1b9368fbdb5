"""A host name that changes after provisioning, on machines with the package installed: the DHCP messages."""

from __future__ import annotations

import pytest

from support.dhcp_clients import CLIENTS, PROFILE
from support.installed import ADDRESS, Boot, Disk, Machines

pytestmark = pytest.mark.newer

MONITOR = "azure-init-hostname.service"
ON = "[azure-init.hostname]\nmonitor = true\nmonitor_secs = 3600\n"
FILE = "/var/lib/azure-init/published_hostname"
STATIC = 'send host-name "of-the-image";\nrequest subnet-mask, routers;\n'
# Clients that somebody starts by hand, behind the unit that sets the name.
CLIENT = """
[Unit]
DefaultDependencies=no
After=network-pre.target systemd-tmpfiles-setup.service systemd-udev-trigger.service dbus.service
Wants=network-pre.target
Before=multi-user.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'ip link set eth0 up; {}'
[Install]
WantedBy=multi-user.target
"""
START = {
    "dhclient": "dhclient -4 -pf /run/dhclient.eth0.pid -lf /var/lib/dhcp/dhclient.eth0.leases eth0",
    "dhcpcd": "dhcpcd --ipv4only eth0",
    "NetworkManager": "true",
}


def with_client(disk: Disk, client: str) -> None:
    disk.change("systemctl disable systemd-networkd.service systemd-networkd.socket")
    if client != "NetworkManager":
        disk.change("systemctl mask NetworkManager.service")
    disk.write("etc/NetworkManager/system-connections/eth0.nmconnection", PROFILE, mode=0o600)
    disk.write("etc/systemd/system/client.service", CLIENT.format(START[client]))
    disk.change("systemctl enable client.service")


def names(boot: Boot) -> list[str]:
    return [lease.hostname for lease in boot.leases() if lease.kind == "request"]


def watched(boot: Boot) -> None:
    boot.until(lambda: boot.run("test", "-e", FILE).returncode == 0, "the monitor has taken the name down")
    boot.out("sh", "-c", "ip -4 monitor link address >/run/seen 2>&1 </dev/null & sleep 0.3")


def is_undisturbed(boot: Boot, *, keeps: bool = True) -> None:
    """The link never went down; and where the client can do that, the address was there all the time."""
    seen = boot.out("cat", "/run/seen").splitlines()
    assert not [line for line in seen if "eth0" in line and ("state DOWN" in line or "NO-CARRIER" in line)]
    assert not keeps or not [line for line in seen if "Deleted" in line and f"inet {ADDRESS}" in line]
    boot.until(lambda: f"{ADDRESS}/24" in boot.out("ip", "-4", "-brief", "address", "show", "eth0"), "it is there")


@pytest.mark.parametrize("system", ["bookworm", "trixie"])
def test_a_name_that_is_changed_by_whatever_means_reaches_dns_and_localhost_does_not(
    machine: Machines, system: str
) -> None:
    disk = machine(system)
    with disk.boot(ON) as boot:
        boot.ready()
        watched(boot)
        assert set(names(boot)) == {"floor-1"}
        boot.out("hostnamectl", "set-hostname", "web-9")
        boot.until(lambda: names(boot)[-1] == "web-9", "the lease is asked for as web-9")
        boot.out("hostname", "web-10")  # the kernel's alone: no file changes
        boot.until(lambda: names(boot)[-1] == "web-10", "the lease is asked for as web-10")
        boot.until(lambda: boot.out("cat", FILE) == "web-10", "it is taken down")
        boot.out("hostname", "localhost")
        boot.out("hostname", "web-11")
        boot.until(lambda: names(boot)[-1] == "web-11", "the lease is asked for as web-11")
        assert "localhost" not in names(boot)
        is_undisturbed(boot, keeps=system == "trixie")
        assert boot.shown(MONITOR, "NRestarts") == "0"
        pid = boot.shown(MONITOR, "MainPID")
        print(f"{system}: the monitor holds {boot.out('grep', 'VmRSS', f'/proc/{pid}/status')}")
        assert boot.failed_units() == []
    with disk.boot(ON) as boot:  # provisioned already
        boot.until(lambda: boot.out("cat", FILE) == "web-9", "what is in /etc/hostname is the name again")
        assert names(boot)[-1] == "web-9"
        assert boot.shown(MONITOR, "ActiveState") == "active"
        assert boot.told() == []


@pytest.mark.parametrize("client", sorted(START))
def test_every_client_asks_again_in_the_unit_that_it_runs_in(machine: Machines, client: str) -> None:
    disk = machine("trixie", *CLIENTS)
    with_client(disk, client)
    with disk.boot(ON) as boot:
        boot.ready()
        watched(boot)
        boot.out("hostname", "web-9")
        boot.until(lambda: names(boot)[-1:] == ["web-9"], "the lease is asked for as web-9")
        is_undisturbed(boot)
        assert boot.failed_units() == []


def test_a_name_that_the_image_has_dhclient_send_gives_way_before_the_first_lease(machine: Machines) -> None:
    disk = machine("trixie", *CLIENTS)
    with_client(disk, "dhclient")
    disk.write("etc/dhcp/dhclient.conf", STATIC)
    with disk.boot() as boot:
        boot.ready()
        assert set(names(boot)) == {"floor-1"}
        assert boot.out("cat", "/etc/dhcp/dhclient.conf") == STATIC.replace("of-the-image", "floor-1").strip()


def test_a_name_that_comes_after_dhclient_s_lease_is_published_by_the_run(machine: Machines) -> None:
    disk = machine("trixie", *CLIENTS)
    with_client(disk, "dhclient")
    disk.write("etc/dhcp/dhclient.conf", STATIC)
    with disk.boot("[media]\nenable = false\n") as boot:
        boot.ready()
        assert names(boot)[0] == "of-the-image"
        boot.until(lambda: names(boot)[-1] == "floor-1", "the lease is asked for as floor-1")
        assert boot.ended() == "success 0"


def test_where_nobody_asked_for_it_nothing_watches(machine: Machines) -> None:
    with machine("trixie").boot() as boot:
        boot.ready()
        assert boot.ended() == "success 0"
        assert boot.shown(MONITOR, "ActiveState") == "inactive"
        assert boot.moment(MONITOR, "ExecMainStart") == 0
        assert boot.run("test", "-e", FILE).returncode == 1


def test_a_machine_that_becomes_an_image_is_watched_no_longer_and_forgets_the_name(machine: Machines) -> None:
    with machine("trixie").boot(ON) as boot:
        boot.ready()
        assert boot.ended() == "success 0"
        watched(boot)
        said = boot.out("azure-init", "deprovision", "--force")
        assert f"{MONITOR}: is running, and would write the files again" in said
        assert boot.shown(MONITOR, "ActiveState") == "inactive"
        assert boot.run("test", "-e", FILE).returncode == 1
