"""Numbers of routing tables that change with a new NIC: the order of the steps, and the rules that go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from azureinit.machine.network_changes import Rule
from azureinit.plan.actions import Step
from azureinit.record import replace
from azureinit.run.enact import enact
from azureinit.telemetry.events import Events
from support.several_nics import LEASE, A, B, C, Several, entry, network, writes


def do(machine: Several, plan: Any) -> None:
    enact(machine, plan, events=Events(clock=machine.clock), deadline=1e9)


WITHOUT_B = network(entry(A, "10.0.0.4"), entry(C, "10.0.2.4"))
WITH_B = network(entry(A, "10.0.0.4"), entry(B, "10.0.1.4"), entry(C, "10.0.2.4"))
OLD = Rule(family=4, source="10.0.2.4", prefix=32, table=10101, priority=10101)


@pytest.mark.parametrize("manager", ["ifupdown", "network-scripts"])
def test_a_link_goes_down_with_its_old_file_where_its_table_becomes_another_nic_s(tmp_path: Path, manager: str) -> None:
    """`ifdown` removes the rules that the file names. C's table was 10101, which is B's now."""
    machine = Several(tmp_path, A, B, C, managed=False)
    machine.put("/var/lib/dhcp/dhclient.eth0.leases", LEASE)
    if manager == "ifupdown":
        machine.put("/etc/network/interfaces", "source /etc/network/interfaces.d/*\n")
        machine.put("/etc/systemd/system/multi-user.target.wants/networking.service", "")
    else:
        machine.put("/etc/sysconfig/network-scripts/ifup-eth", "")
    do(machine, machine.plan(WITHOUT_B))
    machine.put("/run/network/ifstate" if manager == "ifupdown" else "/run/dhclient-eth2.pid", "eth2=eth2\n")
    machine.rules = (OLD,)
    plan = machine.plan(WITH_B)
    (step,) = (item for item in plan if isinstance(item, Step) and item.name.startswith("network configuration"))
    order = [getattr(one, "argv", None) or one.path for one in step.ways[0].actions]  # type: ignore[union-attr]
    written = [number for number, one in enumerate(order) if one in writes(plan)]
    assert order.index(("ifdown", "eth2")) < min(written) and max(written) < order.index(("ifup", "eth1")), order
    do(machine, plan)
    assert not machine.rules


@pytest.mark.parametrize(
    ("document", "rule", "stays"),
    [
        (WITH_B, OLD, False),
        (WITH_B, replace(OLD, table=10102, priority=10102), True),
        (WITH_B, replace(OLD, source="10.0.0.4"), False),  # the primary has no table
        (WITH_B, replace(OLD, source="10.9.9.9"), False),
        (WITH_B, replace(OLD, source="10.9.9.9", priority=100), True),  # not of the range
        (network(*WITH_B["interface"], entry("00:0d:3a:12:34:59", "10.0.3.4")), replace(OLD, source="10.0.3.4"), True),
    ],
)
def test_a_rule_stays_if_its_address_has_this_table_or_its_link_is_not_here(
    tmp_path: Path, document: Any, rule: Rule, stays: bool
) -> None:
    machine = Several(tmp_path, A, B, C)
    machine.rules = (rule,)
    do(machine, machine.plan(document, confirmed=True))
    assert machine.rules == ((rule,) if stays else ())


def test_a_rule_stays_where_its_manager_loads_the_new_table_only_at_the_next_boot(tmp_path: Path) -> None:
    class Without(Several):
        def find(self, tool: str) -> str | None:
            return None

    machine = Without(tmp_path, A, B, C)
    machine.rules = (OLD,)
    do(machine, machine.plan(WITH_B))
    assert machine.rules == (OLD,)
