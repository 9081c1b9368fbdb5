"""Answers of IMDS that cannot be right: nothing is made of them, and nothing is removed because of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from azureinit.machine.network_changes import Rule
from azureinit.plan.actions import Step
from azureinit.run.enact import enact
from azureinit.sources.network_metadata import parse_network
from azureinit.telemetry.events import Events
from support.several_nics import INSTANCE, TWO, A, B, Several, entry, network, told, writes

FILE_A, FILE_B = (f"/etc/systemd/network/zzx-azure-init-000d3a12345{digit}.network" for digit in "67")


def do(machine: Several, plan: Any) -> None:
    enact(machine, plan, events=Events(clock=machine.clock), deadline=1e9)


def steps(plan: Any) -> list[str]:
    return [item.name for item in plan if isinstance(item, Step)]


NO_ADDRESSES = (
    "127.0.0.1", "169.254.169.254", "168.63.129.16", "255.255.255.255", "0.1.2.3", "224.0.0.1", "240.0.0.1",
    "10.0.0.0", "10.0.0.1", "10.0.0.255", "10.0.0.5%eth0", "10.0.0.5\n10.0.0.6",
)  # fmt: skip
NO_ADDRESSES6 = (
    "::", "::1", "fe80::1234:5678:9abc", "ff02::1", "::ffff:10.0.0.9", "::10.0.0.9", "64:ff9b::a00:9",
    "fd00::5%eth0", "fd00::5%$(reboot)", "fd00::5%x\n[Route]\nGateway=1.2.3.4", "fd00::5%\ud800",
)  # fmt: skip


@pytest.mark.parametrize("address", NO_ADDRESSES + NO_ADDRESSES6)
def test_what_no_nic_can_have_is_left_out_with_a_warning(tmp_path: Path, address: str) -> None:
    """The platform's addresses would make it unreachable; what follows % may be any text, and files and commands are
    made of addresses.
    """
    ipv4, ipv6 = ((address,), ()) if address in NO_ADDRESSES else ((), (address,))
    answer = parse_network(network(entry(A, "10.0.0.4", "10.0.0.7", *ipv4, ipv6=("fd00::4", *ipv6))))
    (nic,) = answer.nics
    assert (nic.ipv4, nic.ipv6) == (("10.0.0.4", "10.0.0.7"), ("fd00::4",))
    (warning,) = answer.warnings
    assert "is left out" in warning and "\n" not in warning and "\ud800" not in warning


@pytest.mark.parametrize("address", ["10.0.0.200", "20.1.2.3", "100.64.0.9", "fd00::5", "2603:1030::7"])
def test_any_other_address_of_a_virtual_network_is_used(address: str) -> None:
    ipv4, ipv6 = ((), (address,)) if ":" in address else ((address,), ())
    answer = parse_network(network(entry(A, "10.0.0.4", *ipv4, ipv6=ipv6)))
    assert answer.warnings == () and address in (*answer.nics[0].ipv4, *answer.nics[0].ipv6)


@pytest.mark.parametrize("shared", ["10.0.0.4", "10.0.1.4", "10.0.0.7"])
def test_nics_that_share_an_address_keep_their_defaults(tmp_path: Path, shared: str) -> None:
    others = {"10.0.0.4", "10.0.0.7", "10.0.1.4"} - {shared}
    first = [one for one in ("10.0.0.4", "10.0.0.7", shared) if one in others or one == shared]
    document = network(entry(A, *dict.fromkeys(first)), entry(B, *dict.fromkeys(("10.0.1.4", shared))))
    answer = parse_network(document)
    assert answer.nics == () and answer.warnings == (
        f"network interfaces {A} and {B} both have {shared}: they keep their defaults",
    )
    plan = Several(tmp_path, A, B).plan(document, confirmed=True)
    assert steps(plan) == [] and f"both have {shared}" in told(plan)


def test_an_address_that_another_link_has_is_not_routed_by_this_one(tmp_path: Path) -> None:
    """IMDS lists the primary's address for the other NIC alone."""
    machine = Several(tmp_path, A, B)
    plan = machine.plan(network(entry(A), entry(B, "10.0.1.4", "10.0.0.4")), confirmed=True)
    assert steps(plan) == []
    assert "eth1 stays without 10.0.0.4, policy routing: eth0 has 10.0.0.4" in told(plan)


def test_the_address_of_a_lease_is_routed_by_no_other_nic_also_where_the_record_has_it(tmp_path: Path) -> None:
    """The record lists every address of a NIC that has a file, also the one that DHCP gave it."""
    machine = Several(tmp_path, A, B)
    do(machine, machine.plan(network(entry(A, "10.0.0.4", "10.0.0.5"), entry(B, "10.0.1.4"))))
    moved = network(entry(A, "10.0.0.7", "10.0.0.5"), entry(B, "10.0.1.4", "10.0.0.4"))
    plan = machine.plan(moved, confirmed=True)
    assert "eth1 stays without 10.0.0.4, policy routing: eth0 has 10.0.0.4" in told(plan)
    assert all(b"10.0.0.4" not in one.data for path, one in writes(plan).items() if "57" in path)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("address", "prefix"),
    [("255.255.255.255", "32"), ("10.0.1.0", 0), ("10.0.1.0", "-0"), ("10.0.1.0", "31"), ("192.168.7.0", "24")],
)
def test_a_subnet_that_cannot_be_the_nic_s_spoils_that_nic_alone(tmp_path: Path, address: str, prefix: Any) -> None:
    other = entry(B, "10.0.1.4")
    other["ipv4"]["subnet"] = [{"address": address, "prefix": prefix}]
    plan = Several(tmp_path, A, B).plan(network(entry(A, "10.0.0.4", "10.0.0.5"), other))
    assert [*writes(plan)] == [FILE_A]
    assert "which is none of 10.0.1.4: the interface keeps its defaults" in told(plan)


def test_the_subnet_is_the_one_that_has_the_first_address() -> None:
    other = entry(B, "10.0.1.4")
    other["ipv4"]["subnet"].insert(0, {"address": "10.7.0.0", "prefix": "16"})
    assert parse_network(network(other)).nics[0].subnet == "10.0.1.0/24"


def test_addresses_beyond_the_limit_are_told() -> None:
    many = [f"10.0.{number // 200}.{number % 200 + 4}" for number in range(600)]
    document = network(entry(A, *many, prefix="16"))
    answer = parse_network(document)
    assert len(answer.nics[0].ipv4) == 512
    assert answer.warnings == (f"network interface {A}: ipv4 has more than 512 addresses: the others are not used",)


def test_without_a_record_own_files_and_rules_go_after_two_answers_too(tmp_path: Path) -> None:
    machine = Several(tmp_path, A, B)
    do(machine, machine.plan(TWO))
    machine.rules = (Rule(family=4, source="10.0.1.4", prefix=32, table=10101, priority=10101),)
    machine.remove(INSTANCE.path("network"))
    garbled = network(entry(A, "10.0.0.4"), entry(B, "10.0.1.4", prefix="x"))
    for document in (garbled, network(entry(A, "10.0.0.4"))):
        assert steps(machine.plan(document)) == []
        assert "until two answers without faults are equal" in told(machine.plan(document))
    do(machine, machine.plan(network(entry(A, "10.0.0.4")), confirmed=True))
    assert not machine.rules and not (tmp_path / FILE_B.lstrip("/")).exists()


def test_a_rule_for_a_network_is_an_administrator_s(tmp_path: Path) -> None:
    machine = Several(tmp_path, A, B)
    do(machine, machine.plan(TWO))
    machine.rules = (Rule(family=4, source="172.16.0.0", prefix=12, table=10120, priority=10120),)
    do(machine, machine.plan(network(entry(A, "10.0.0.4")), confirmed=True))
    assert len(machine.rules) == 1


@pytest.mark.parametrize(
    ("document", "stays"),
    [
        # Without a subnet only the lease and the routes tell which address the gateway has.
        (network(entry(A, "10.0.0.4", "10.0.0.1", prefix=""), entry(B, "10.0.1.4")), "eth0 stays without 10.0.0.1"),
        (network(entry(A, "10.0.0.4"), entry(B, "10.0.1.4", "10.0.0.1")), "eth1 stays without 10.0.0.1"),
        (network(entry(A, "10.0.0.4", "10.0.1.1"), entry(B, "10.0.1.4")), "eth0 stays without 10.0.1.1"),
    ],
)
def test_the_address_of_a_gateway_is_given_to_no_nic(tmp_path: Path, document: Any, stays: str) -> None:
    plan = Several(tmp_path, A, B).plan(document, confirmed=True)
    assert stays in told(plan) and "is the address of a gateway" in told(plan)
    assert ([*writes(plan)] == [FILE_B]) == ("eth0" in stays), "the other NIC is configured all the same"


def test_the_gateway_of_a_static_route_is_given_to_no_nic(tmp_path: Path) -> None:
    """No lease names it: the kernel's default route does."""
    machine = Several(tmp_path, A)
    (tmp_path / "run/systemd/netif/leases/2").unlink()
    plan = machine.plan(network(entry(A, "10.0.0.4", "10.0.0.1", "10.0.0.5", prefix="")), confirmed=True)
    assert steps(plan) == [] and "10.0.0.1 is the address of a gateway" in told(plan)


def test_the_address_of_the_lease_is_not_a_secondary_one_wherever_imds_lists_it(tmp_path: Path) -> None:
    first = Several(tmp_path / "1", A, B).plan(network(entry(A, "10.0.0.4", "10.0.0.5"), TWO["interface"][1]))
    swapped = network(entry(A, "10.0.0.5", "10.0.0.4"), entry(B, "10.0.1.5", "10.0.1.4"))
    plan = Several(tmp_path / "2", A, B).plan(swapped)
    assert {path: one.data for path, one in writes(plan).items()} == {
        path: one.data for path, one in writes(first).items()
    }
