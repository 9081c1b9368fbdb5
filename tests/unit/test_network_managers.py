"""The plan for each network manager: which file, how it is loaded, and whose configuration stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from azureinit.facts.link_managers import NETPLAN
from azureinit.plan.actions import Step
from azureinit.run.enact import enact
from azureinit.telemetry.events import Events
from support.several_nics import (
    LEASE,
    PLATFORM,
    TWO,
    A,
    B,
    Several,
    commands,
    entry,
    network,
    told,
    writes,
)

FILE_A, FILE_B = (f"/etc/systemd/network/zzx-azure-init-000d3a12345{digit}.network" for digit in "67")
KEYFILE = "/etc/NetworkManager/system-connections/azure-init-000d3a123457.nmconnection"
GENERATED = "/run/systemd/network/10-netplan-eth1.network"


def do(machine: Several, plan: Any) -> None:
    enact(machine, plan, events=Events(clock=machine.clock), deadline=1e9)


def steps(plan: Any) -> list[str]:
    return [item.name for item in plan if isinstance(item, Step)]


def test_networkmanager_gets_a_keyfile_and_activates_it(tmp_path: Path) -> None:
    machine = Several(tmp_path, A, B, managed=False)
    for index, lease in ((2, "classless_static_routes=168.63.129.16/32 10.0.0.1\n"), (3, "routers=10.0.1.1\n")):
        text = f"[device]\nmanaged=true\n\n[dhcp4]\nip_address=10.0.{index - 2}.4\n{lease}"
        machine.put(f"/run/NetworkManager/devices/{index}", text.replace("classless", "rfc3442_classless"))
    plan = machine.plan(TWO)
    assert [*writes(plan)] == [KEYFILE] and writes(plan)[KEYFILE].mode == 0o600
    assert [command.rpartition(" uuid ")[0] for command in commands(plan)] == ["", "nmcli --wait 45 connection up"]
    primary = machine.plan(network(entry(A, "10.0.0.4", "10.0.0.5"), entry(B, "10.0.1.4")))
    assert [command for command in commands(primary) if "000d3a123456" in command] == [
        f"nmcli connection load {KEYFILE.replace('57.nm', '56.nm')}"
    ]


def test_netplan_s_file_is_for_the_next_boot_and_one_in_run_for_this(tmp_path: Path) -> None:
    machine = Several(tmp_path, A, B)
    machine.put("/etc/netplan/50-cloud-init.yaml", "network:\n  ethernets:\n    eth0: {dhcp4: true}\n")
    plan = machine.plan(TWO)
    runtime = FILE_B.replace("/etc/", "/run/")
    assert [*writes(plan)] == ["/etc/netplan/60-azure-init.yaml", runtime]
    assert commands(plan) == ["networkctl reload"]
    assert [way.backend for item in plan if isinstance(item, Step) for way in item.ways][1:] == [NETPLAN]
    do(machine, plan)
    machine.put_state(3, runtime)
    assert steps(machine.plan(TWO)) == []
    generated = "/run/systemd/network/10-netplan-azure-init-000d3a123457.network"
    machine.put_state(3, generated)  # after a boot
    assert steps(machine.plan(TWO)) == []
    # systemd-networkd takes the first file by name, which netplan wrote when the machine started.
    more = machine.plan(network(entry(A, "10.0.0.4"), entry(B, "10.0.1.4", "10.0.1.5", "10.0.1.6")))
    assert [*writes(more)] == ["/etc/netplan/60-azure-init.yaml", generated]
    assert b"Address=10.0.1.6/32\n" in writes(more)[generated].data  # type: ignore[operator]


@pytest.mark.parametrize("others", [True, False])
@pytest.mark.parametrize("manager", ["networkd", "netplan", "NetworkManager"])
def test_a_nic_that_becomes_the_primary_gets_its_dns_servers_at_once(
    tmp_path: Path, manager: str, others: bool
) -> None:
    """Its file says that the lease's DNS servers are not used: no other NIC gives any now. `others`: A stays."""
    machine = Several(tmp_path, A, B, managed=manager != "NetworkManager")
    path, loaded = {
        "networkd": (FILE_B, FILE_B),
        "netplan": (
            "/etc/netplan/60-azure-init.yaml",
            "/run/systemd/network/10-netplan-azure-init-000d3a123457.network",
        ),
        "NetworkManager": (KEYFILE, ""),
    }[manager]
    if manager == "netplan":
        machine.put("/etc/netplan/50-image.yaml", "network:\n  ethernets:\n    eth9: {dhcp4: true}\n")
    routes = "rfc3442_classless_static_routes=168.63.129.16/32 10.0.0.1\n"

    def lead(primary: int) -> None:
        for index in (2, 3):
            leads = index == primary
            text = f"ADDRESS=10.0.{index - 2}.4\nROUTER=10.0.{index - 2}.1\n"
            if manager != "NetworkManager":
                machine.put(f"/run/systemd/netif/leases/{index}", text + PLATFORM * leads)
            else:
                text = f"[device]\nmanaged=true\n\n[dhcp4]\nip_address=10.0.{index - 2}.4\n{routes * leads}"
                machine.put(f"/run/NetworkManager/devices/{index}", text)

    lead(2)
    do(machine, machine.plan(network(entry(A, "10.0.0.4"), entry(B, "10.0.1.4"))))
    if loaded:
        machine.put_state(3, loaded)
    lead(3)
    listed = [entry(B, "10.0.1.4")]
    if others:
        listed.append(entry(A, "10.0.0.4"))
    else:
        for name in ("ifindex", "address", "type"):
            (tmp_path / f"sys/class/net/eth0/{name}").unlink()
    plan = machine.plan(network(*listed))
    assert steps(plan)[-1] == "eth1 as the primary NIC"
    assert commands(plan)[-1].startswith("nmcli --wait 45 connection up" if not loaded else "networkctl reload")
    own = writes(plan)[path].data
    assert isinstance(own, bytes)
    own = own.partition(b"azure-init-000d3a123457:")[2].partition(b" azure-init-")[0] or own
    assert b"use-dns" not in own and b"UseDNS" not in own and b"ignore-auto-dns" not in own
    if manager == "netplan":
        assert b"UseDNS" not in writes(plan)[loaded].data  # type: ignore[operator]
    do(machine, plan)
    if manager == "netplan" and others:
        machine.put_state(2, FILE_A.replace("/etc/", "/run/"))
    again = machine.plan(network(*listed), confirmed=True)
    assert "eth1 as the primary NIC" not in steps(again)
    # netplan's one file is written anew without the primary, and loaded for the other NIC.
    assert commands(again) == (["networkctl reload"] if manager == "netplan" and others else [])
    do(machine, again)
    assert steps(machine.plan(network(*listed))) == []


def test_ifupdown_gets_a_file_where_interfaces_reads_it(tmp_path: Path) -> None:
    machine = Several(tmp_path, A, B, managed=False)
    machine.put("/etc/network/interfaces", "source /etc/network/interfaces.d/*\nauto eth0\niface eth0 inet dhcp\n")
    machine.put("/etc/systemd/system/multi-user.target.wants/networking.service", "")
    machine.put("/run/network/ifstate", "eth0=eth0\n")
    machine.put("/var/lib/dhcp/dhclient.eth0.leases", LEASE)
    plan = machine.plan(TWO)
    assert [*writes(plan)] == ["/etc/network/interfaces.d/60-azure-init"]
    assert commands(plan) == ["ifup eth1"]
    machine.put("/run/network/ifstate", "eth0=eth0\neth1=eth1\n")
    assert commands(machine.plan(TWO)) == ["ifdown eth1", "ifup eth1"]


@pytest.mark.parametrize(
    ("path", "text", "why"),
    [
        ("/run/systemd/netif/links/3", f"ADMIN_STATE=configured\nNETWORK_FILE={GENERATED}\n",
         f"eth1 stays without 10.0.1.5, policy routing: {GENERATED} configures it"),
        ("/run/wicked/leaseinfo.eth1.dhcp.ipv4", "", "azure-init writes nothing for wicked"),
        ("/run/dhcpcd/eth1.pid", "1", "azure-init writes nothing for dhcpcd"),
    ],
)  # fmt: skip
def test_configuration_of_others_stays_and_is_told(tmp_path: Path, path: str, text: str, why: str) -> None:
    machine = Several(tmp_path, A, B)
    if "netif" not in path:
        (tmp_path / "run/systemd/netif/links/3").unlink()
    machine.put(path, text)
    plan = machine.plan(TWO)
    assert steps(plan) == [] and why in told(plan)


def test_cloud_netconfig_does_all_of_it(tmp_path: Path) -> None:
    machine = Several(tmp_path, A, B)
    machine.put("/etc/systemd/system/timers.target.wants/cloud-netconfig.timer", "")
    plan = machine.plan(TWO)
    assert steps(plan) == [] and "cloud-netconfig configures it" in told(plan)
