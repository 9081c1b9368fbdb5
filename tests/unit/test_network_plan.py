"""The plan for NICs and addresses beyond the first: when it writes, for which manager, and when it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from azureinit.config.model import Config, Network
from azureinit.errors import PlanStale
from azureinit.machine.netlink import Address
from azureinit.machine.network_changes import Rule, parse_rules
from azureinit.memory.network import NetworkRecord, encode_record, parse_record
from azureinit.plan.actions import Caution, EditLink, Step
from azureinit.plan.show import as_json, as_text
from azureinit.record import replace
from azureinit.run.enact import enact
from azureinit.sources.network_metadata import parse_network
from azureinit.telemetry.events import Events
from support.several_nics import (
    INSTANCE,
    TWO,
    A,
    B,
    C,
    Several,
    commands,
    entry,
    network,
    told,
    writes,
)

FILE_A, FILE_B = (f"/etc/systemd/network/zzx-azure-init-000d3a12345{digit}.network" for digit in "67")
SEVERAL = network(entry(A, "10.0.0.4", "10.0.0.5", "10.0.0.6"))


def do(machine: Several, plan: Any) -> None:
    enact(machine, plan, events=Events(clock=machine.clock), deadline=1e9)


def edits(plan: Any) -> list[EditLink]:
    steps = [item for item in plan if isinstance(item, Step)]
    return [action for step in steps for action in step.ways[0].actions if isinstance(action, EditLink)]  # type: ignore[union-attr]


def steps(plan: Any) -> list[str]:
    return [item.name for item in plan if isinstance(item, Step)]


# ---- what is written


@pytest.mark.parametrize("document", [network(entry(A, "10.0.0.4")), network(entry(A, "10.0.0.4", ipv6=("fd00::4",)))])
def test_one_nic_with_one_address_is_left_as_it_is(tmp_path: Path, document: Any) -> None:
    assert told(Several(tmp_path, A).plan(document)).startswith("Satisfied: network: as IMDS lists it")


def test_a_second_nic_gets_a_file_and_a_reload_and_the_first_nothing(tmp_path: Path) -> None:
    machine = Several(tmp_path, A, B)
    plan = machine.plan(TWO)
    assert [*writes(plan)] == [FILE_B]
    assert commands(plan) == ["networkctl reload"]
    assert machine.plan(network(*reversed(TWO["interface"]))) == plan
    do(machine, plan)
    assert steps(machine.plan(TWO)) == []
    assert machine.ran == [("networkctl", "reload")]


def test_a_file_that_was_not_loaded_is_loaded_once(tmp_path: Path) -> None:
    machine = Several(tmp_path, A, B)
    do(machine, machine.plan(TWO))
    machine.put(INSTANCE.path("reload"), "reload\n")
    plan = machine.plan(TWO)
    assert (writes(plan), commands(plan)) == ({}, ["networkctl reload"])
    do(machine, plan)
    assert steps(machine.plan(TWO)) == []


def test_secondary_addresses_of_the_primary_are_set_at_once_and_its_file_is_not_loaded(tmp_path: Path) -> None:
    machine = Several(tmp_path, A)
    plan = machine.plan(SEVERAL)
    assert edits(plan) == [EditLink(name="eth0", index=2, mac=A, add=("10.0.0.5", "10.0.0.6"))]
    assert [*writes(plan)] == [FILE_A] and commands(plan) == []
    do(machine, plan)
    assert machine.changed == [(2, ("10.0.0.5", "10.0.0.6"), ())]


def test_files_of_both_are_written_in_an_order_that_does_not_reload_the_primary(tmp_path: Path) -> None:
    both = network(entry(A, "10.0.0.4", "10.0.0.5"), entry(B, "10.0.1.4"))
    assert steps(Several(tmp_path, A, B).plan(both)) == [
        "network record",
        "network configuration of eth1",
        "addresses of eth0",
        "network configuration of eth0",
    ]


def held(machine: Several, *addresses: str) -> None:
    own = tuple(Address(index=2, family=4, address=one, prefix=32, scope="global") for one in addresses)
    machine.addresses = (machine.addresses[0], *own)


def test_an_address_goes_after_two_answers_and_only_if_azure_init_set_it(tmp_path: Path) -> None:
    machine = Several(tmp_path, A)
    do(machine, machine.plan(SEVERAL))
    held(machine, "10.0.0.5", "10.0.0.6", "10.0.0.9")
    fewer = network(entry(A, "10.0.0.4", "10.0.0.5"))
    assert (
        "until two answers without faults are equal" in told(machine.plan(fewer)) and steps(machine.plan(fewer)) == []
    )
    plan = machine.plan(fewer, confirmed=True)
    assert edits(plan) == [EditLink(name="eth0", index=2, mac=A, remove=("10.0.0.6",))]
    assert b"10.0.0.6" not in writes(plan)[FILE_A].data  # type: ignore[operator]
    do(machine, plan)
    held(machine, "10.0.0.5", "10.0.0.9")
    assert steps(machine.plan(fewer)) == []


def test_an_address_of_another_nic_goes_after_two_answers_too(tmp_path: Path) -> None:
    machine = Several(tmp_path, A, B)
    do(machine, machine.plan(TWO))
    fewer = network(entry(A, "10.0.0.4"), entry(B, "10.0.1.4"))
    assert steps(machine.plan(fewer)) == []
    plan = machine.plan(fewer, confirmed=True)
    assert [*writes(plan)] == [FILE_B] and b"10.0.1.5" not in writes(plan)[FILE_B].data  # type: ignore[operator]


def test_an_address_that_was_there_before_is_never_removed(tmp_path: Path) -> None:
    machine = Several(tmp_path, A)
    held(machine, "10.0.0.5")
    do(machine, machine.plan(SEVERAL))
    held(machine, "10.0.0.5", "10.0.0.6")
    plan = machine.plan(network(entry(A, "10.0.0.4")), confirmed=True)
    assert edits(plan) == [EditLink(name="eth0", index=2, mac=A, remove=("10.0.0.6",))]
    assert "network files" in steps(plan), "the file is not needed any more"
    do(machine, plan)
    assert not (tmp_path / FILE_A.lstrip("/")).exists()
    assert machine.stat(INSTANCE.path("network")) is None


def test_a_nic_that_imds_does_not_list_any_more_loses_its_file_and_rules(tmp_path: Path) -> None:
    machine = Several(tmp_path, A, B)
    do(machine, machine.plan(TWO))
    ours = Rule(family=4, source="10.0.1.4", prefix=32, table=10101, priority=10101)
    others = Rule(family=4, source="10.9.9.9", prefix=32, table=100, priority=100)
    machine.rules = (ours, others)
    one = network(entry(A, "10.0.0.4"))
    assert steps(machine.plan(one)) == []
    do(machine, machine.plan(one, confirmed=True))
    assert [rule.source for rule in machine.rules] == [others.source]
    assert not (tmp_path / FILE_B.lstrip("/")).exists()
    assert steps(machine.plan(one)) == []


def test_a_link_that_is_missing_at_one_boot_keeps_its_file_and_the_tables_of_the_others(tmp_path: Path) -> None:
    three = network(entry(A, "10.0.0.4"), entry(B, "10.0.1.4"), entry(C, "10.0.2.4"))
    machine = Several(tmp_path, A, B, C)
    do(machine, machine.plan(three))
    for name in ("ifindex", "address", "type"):
        (tmp_path / f"sys/class/net/eth1/{name}").unlink()
    plan = machine.plan(three, confirmed=True)
    assert f"no link has the MAC address {B}" in told(plan)
    assert steps(plan) == []


def test_a_primary_with_a_high_metric_stays_the_default_route(tmp_path: Path) -> None:
    machine = Several(tmp_path, A, B)
    machine.routes = (replace(machine.routes[0], metric=1024), machine.routes[1])
    machine.put_state(2, "/run/systemd/network/10-netplan-eth0.network")
    assert b"RouteMetric=1124\n" in writes(machine.plan(TWO))[FILE_B].data  # type: ignore[operator]


# ---- what IMDS or the machine may say


def test_the_primary_is_not_guessed(tmp_path: Path) -> None:
    machine = Several(tmp_path, A, B, primary=C)
    machine.routes = ()
    plan = machine.plan(TWO)
    assert steps(plan) == []
    assert [type(item) for item in plan] == [Caution]
    assert "the primary NIC is not certain: no lease has routes to the platform" in told(plan)


def test_without_routes_in_leases_the_nic_by_which_imds_answered_is_the_primary(tmp_path: Path) -> None:
    machine = Several(tmp_path, A, B, primary=C)
    machine.routes = machine.routes[:1]
    assert [*writes(machine.plan(TWO))] == [FILE_B]


def test_a_nic_beside_a_bridge_is_not_the_only_one(tmp_path: Path) -> None:
    """The primary is the bridge's: its link has neither an address nor a lease of its own."""
    machine = Several(tmp_path, A, B)
    (tmp_path / "sys/class/net/eth0/master").symlink_to("../br0")
    machine.routes = (replace(machine.routes[0], index=9),)
    plan = machine.plan(TWO, confirmed=True)
    assert steps(plan) == [] and [type(item) for item in plan] == [Caution]
    assert "eth0 may lead there as a member of a bridge or bond" in told(plan)
    machine.routes = (replace(machine.routes[0], index=3),)
    assert steps(machine.plan(network(entry(A, "10.0.0.4"), entry(B, "10.0.1.4")))) == [], "B answers: the primary"


@pytest.mark.parametrize("document", [None, network(), {"interface": None}])
def test_a_document_without_nics_leaves_everything(tmp_path: Path, document: Any) -> None:
    machine = Several(tmp_path, A, B)
    do(machine, machine.plan(TWO))
    plan = machine.plan(document, confirmed=True)
    assert steps(plan) == [] and "everything stays as it is" in told(plan)
    assert isinstance(plan[0], Caution) and "list of network interfaces" in told(plan)


def test_a_nic_without_addresses_keeps_its_defaults(tmp_path: Path) -> None:
    plan = Several(tmp_path, A, B).plan(network(entry(A, "10.0.0.4", "10.0.0.5"), entry(B)))
    assert [*writes(plan)] == [FILE_A]


def test_a_nic_that_imds_does_not_list_is_told_and_stays(tmp_path: Path) -> None:
    plan = Several(tmp_path, A, B).plan(network(entry(A, "10.0.0.4", "10.0.0.5")))
    assert f"IMDS does not list eth1 ({B}): it keeps its defaults" in told(plan)
    assert [*writes(plan)] == [FILE_A]


def test_an_entry_that_cannot_be_used_spoils_no_other(tmp_path: Path) -> None:
    plan = Several(tmp_path, A, B).plan(network(entry(A, "10.0.0.4", "10.0.0.5"), entry(B, "10.0.1.4", prefix="33")))
    assert [*writes(plan)] == [FILE_A] and "which is none" in told(plan)


BAD_PRIMARY: dict[str, Any] = {
    "a prefix that is none": entry(A, "10.0.0.4", "10.0.0.5", prefix="33"),
    "no MAC address": {**entry(A, "10.0.0.4", "10.0.0.5"), "macAddress": ""},
    "a text": "text",
    "a MAC address of no link": {**entry(A, "10.0.0.4", "10.0.0.5"), "macAddress": "00-0D-3A-12-34-56"},
}


@pytest.mark.parametrize("name", BAD_PRIMARY)
def test_an_entry_of_the_primary_that_cannot_be_used_spoils_no_other(tmp_path: Path, name: str) -> None:
    """Its lease shows which NIC is the primary, not IMDS."""
    machine = Several(tmp_path, A, B, C)
    document = network(BAD_PRIMARY[name], TWO["interface"][1], entry(C, "10.0.2.4"))
    plan = machine.plan(document)
    assert {path: one.data for path, one in writes(plan).items()} == {
        path: one.data
        for path, one in writes(
            Several(tmp_path / "good", A, B, C).plan(network(*TWO["interface"], entry(C, "10.0.2.4")))
        ).items()
    }
    assert "IMDS has no usable entry for eth0" in told(plan) and edits(plan) == []
    do(machine, plan)
    assert steps(machine.plan(document, confirmed=True)) == []


def test_while_an_entry_cannot_be_used_nothing_is_removed_also_without_a_record(tmp_path: Path) -> None:
    machine = Several(tmp_path, A, B)
    do(machine, machine.plan(network(entry(A, "10.0.0.4", "10.0.0.5"), entry(B, "10.0.1.4"))))
    machine.remove(INSTANCE.path("network"))
    machine.put_state(2, FILE_A)
    do(machine, machine.plan(network(BAD_PRIMARY["no MAC address"], entry(B, "10.0.1.4")), confirmed=True))
    assert (tmp_path / FILE_A.lstrip("/")).is_file() and (tmp_path / FILE_B.lstrip("/")).is_file()


# ---- switches, and trees


@pytest.mark.parametrize(
    ("settings", "files", "added"),
    [
        ({"secondary_nics": False}, [FILE_A], ("10.0.0.5",)),
        ({"secondary_addresses": False}, [FILE_B], ()),
    ],
)
def test_each_part_can_be_switched_off(tmp_path: Path, settings: Any, files: list[str], added: tuple[str, ...]) -> None:
    both = network(entry(A, "10.0.0.4", "10.0.0.5"), entry(B, "10.0.1.4", "10.0.1.5"))
    plan = Several(tmp_path, A, B).plan(both, config=Config(network=Network(**settings)))
    assert [*writes(plan)] == files
    assert tuple(address for edit in edits(plan) for address in edit.add) == added


class Tree(Several):
    @property
    def rooted(self) -> bool:
        return True

    def read_rules(self) -> tuple[Rule, ...]:
        raise AssertionError("the running kernel is not the tree's")

    read_addresses = read_routes = read_links = read_rules  # type: ignore[assignment]


def test_under_root_files_are_written_and_the_kernel_is_left_alone(tmp_path: Path) -> None:
    both = network(entry(A, "10.0.0.4", "10.0.0.5"), entry(B, "10.0.1.4"))
    machine = Tree(tmp_path, A, B)
    plan = machine.plan(both)
    assert [*writes(plan)] == [FILE_B, FILE_A]
    assert commands(plan) == [] and edits(plan) == []
    do(machine, plan)
    assert all((tmp_path / file.lstrip("/")).is_file() for file in (FILE_A, FILE_B))
    assert (machine.ran, machine.changed, steps(machine.plan(both))) == ([], [], [])


# ---- records and the kernel's rules


def test_a_damaged_record_counts_as_none() -> None:
    record = NetworkRecord(files={A: ("10.0.0.4", "10.0.0.5")}, addresses={A: ("10.0.0.5",)})
    data = encode_record(record)
    assert parse_record(data) == record
    assert parse_record(data.replace(b"10.0.0.5", b"10.0.0.6")) == NetworkRecord()
    assert parse_record(b'{"files": 1}') == parse_record(b"") == NetworkRecord()


def test_rules_without_a_source_are_not_read() -> None:
    assert parse_rules(b"") == parse_rules(b"\0" * 40) == []


@given(st.binary(max_size=200))
def test_any_bytes_are_read_as_rules_or_as_a_record(data: bytes) -> None:
    assert isinstance(parse_rules(data), list)
    assert isinstance(parse_record(data), NetworkRecord)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.sampled_from((A, "10.0.0.4", "24")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                (
                    "interface",
                    "macAddress",
                    "ipv4",
                    "ipv6",
                    "ipAddress",
                    "privateIpAddress",
                    "subnet",
                    "prefix",
                    "address",
                )
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_document_is_parsed_or_warned_about(document: Any) -> None:
    found = parse_network({"interface": document} if isinstance(document, list) else document)
    assert found.nics or found.warnings


def test_a_link_that_became_another_one_is_not_changed(tmp_path: Path) -> None:
    machine = Several(tmp_path, A)
    plan = machine.plan(SEVERAL)
    machine.links = (replace(machine.links[0], mac=B),)
    with pytest.raises(PlanStale, match="is not the link with the MAC address"):
        do(machine, plan)
    assert machine.changed == []


def test_the_plan_shows_files_with_their_differences_and_addresses(tmp_path: Path) -> None:
    machine = Several(tmp_path, A, B)
    shown = as_text(machine.plan(network(entry(A, "10.0.0.4", "10.0.0.5"), entry(B, "10.0.1.4"))), privileged=True)
    assert f"write {FILE_B} mode 0644\n        +[Match]\n" in shown
    assert "add address 10.0.0.5 to eth0\n" in shown
    assert "run networkctl reload\n" in shown
    assert '"action": "EditLink"' in as_json(machine.plan(SEVERAL))
