"""Network files that several NICs share, or that have the names of links; and subnets that IMDS does not give."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from azureinit.plan.actions import Caution
from azureinit.run.enact import enact
from azureinit.telemetry.events import Events
from support.several_nics import LEASE, A, B, C, Several, entry, network, writes

if TYPE_CHECKING:
    from azureinit.plan.actions import Plan

FILE_B = "/etc/systemd/network/zzx-azure-init-000d3a123457.network"


def do(machine: Several, plan: Plan) -> None:
    enact(machine, plan, events=Events(clock=machine.clock), deadline=1e9)


@pytest.mark.parametrize("macs", [(A, B), (A, B, C)])
@pytest.mark.parametrize("manager", ["netplan", "ifupdown", "network-scripts"])
def test_a_file_that_names_a_missing_link_stays_too(tmp_path: Path, manager: str, macs: tuple[str, ...]) -> None:
    """netplan and ifupdown have one file for all NICs, network-scripts have files by name."""
    document = network(*(entry(mac, f"10.0.{number}.4") for number, mac in enumerate(macs)))
    machine = Several(tmp_path, *macs, managed=manager == "netplan")
    if manager == "netplan":
        machine.put("/etc/netplan/50-image.yaml", "network:\n  ethernets:\n    eth9: {dhcp4: true}\n")
    else:
        machine.put("/var/lib/dhcp/dhclient.eth0.leases", LEASE)
    if manager == "ifupdown":
        machine.put("/etc/network/interfaces", "source /etc/network/interfaces.d/*\n")
        machine.put("/etc/systemd/system/multi-user.target.wants/networking.service", "")
    if manager == "network-scripts":
        machine.put("/etc/sysconfig/network-scripts/ifup-eth", "")
    do(machine, machine.plan(document))
    before = {path: path.read_bytes() for path in tmp_path.rglob("etc/**/*") if path.is_file()}
    assert any(b"10101" in data for data in before.values())
    for name in ("ifindex", "address", "type"):
        (tmp_path / f"sys/class/net/eth1/{name}").unlink()
    do(machine, machine.plan(document, confirmed=True))
    assert {path: path.read_bytes() for path in tmp_path.rglob("etc/**/*") if path.is_file()} == before


def test_a_subnet_that_imds_does_not_give_is_told_of(tmp_path: Path) -> None:
    document = network(entry(A, "10.0.0.4", prefix=""), entry(B, "10.0.1.4", "10.0.1.5", prefix=""))
    plan = Several(tmp_path, A, B).plan(document)
    assert b"Destination" not in writes(plan)[FILE_B].data  # type: ignore[operator]
    cautions = [item.why for item in plan if isinstance(item, Caution)]
    assert cautions == ["IMDS gives no IPv4 subnet of eth1: table 10101 has no route to it"]
