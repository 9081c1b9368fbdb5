"""The settings of a pool, the VM in it, and what is recognised on a machine as provisioned too early or kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fakeazure import Pool, Vm
from fakeazure.machines.pool_machine import network_vm
from fakeazure.machines.qemu import network_card
from fakeazure.machines.traces import Traces, kept, provisioned, read_traces
from fakeazure.platform.pool import POOL_KEY, is_pooled, pool_vm
from fakeazure.platform.scenario import Scenario
from fakeazure.scenarios.spec import SpecInvalid, parse_scenario

IMAGE = Traces(homes=frozenset(), users=frozenset({"root"}), host_keys=frozenset(), hostname="localhost", keys="")


def test_the_pools_vm_has_the_hardware_of_the_customers_and_nothing_else() -> None:
    vm = Vm(
        pps_type="Savable", name="web", username="ada", password="x", custom_data="c", user_data="u", tags={"a": "b"}
    )
    pool = pool_vm(vm, Pool())
    assert (pool.id, pool.pps_type, pool.name, pool.username) == (vm.id, "Savable", "pool-vm", "pooladmin")
    assert (pool.password, pool.custom_data, pool.user_data, pool.tags) == (None, None, None, {})
    assert pool.keys == (POOL_KEY,)
    assert pool.interfaces[0].mac != vm.interfaces[0].mac and pool.interfaces[0].address == "10.8.0.4"
    running = replace(vm, pps_type="Running")
    assert pool_vm(running, Pool()).interfaces[0].mac == vm.interfaces[0].mac, "the same interface, in another network"


@pytest.mark.parametrize(
    ("kind", "pooled"), [("Running", True), ("PreprovisionedOSDisk", True), ("running", False), ("None", False)]
)
def test_which_types_are_a_pools(kind: str, pooled: bool) -> None:
    vm = Vm(pps_type=kind)
    assert is_pooled(vm) == pooled
    assert (network_vm(Scenario(vm=vm)).name == "pool-vm") == pooled


def test_settings_are_read_and_mistakes_are_named() -> None:
    text = b'[vm]\npps_type = "Savable"\n[pool]\nafter_polls = 3\nothers = ["vf"]\nrestarts = ["ready", "data"]\n'
    pool = parse_scenario(text, name="x").pool
    assert (pool.after_polls, pool.others, pool.restarts) == (3, ("vf",), ("ready", "data"))
    assert network_vm(parse_scenario(text, name="x")).interfaces[0].vf
    with pytest.raises(SpecInvalid) as found:
        parse_scenario(b'[pool]\nothers = ["nic"]\nlink = "gone"\nafter_sec = 1\n', name="x")
    assert found.value.problems == [
        "x:2: pool.others: 'nic' is not one of vf, secondary, docker0",
        "x:3: pool.link: 'gone' is not one of auto, none",
        "x:4: pool.after_sec: is not known; did you mean after_secs?",
    ]


def test_what_was_provisioned_in_the_pool_is_named() -> None:
    assert provisioned(IMAGE, IMAGE) == []
    now = Traces(
        homes=frozenset({"ada"}),
        users=frozenset({"root", "ada"}),
        host_keys=frozenset({"ssh_host_ed25519_key"}),
        hostname="web",
        keys="ssh-ed25519 A",
    )
    assert provisioned(IMAGE, now) == [
        "the home directory ada",
        "the account ada",
        "the host key ssh_host_ed25519_key",
        "the host name 'web'",
        "authorized keys",
    ]


def test_what_is_kept_of_the_pools_vm_is_named(tmp_path: Path) -> None:
    files = {
        "etc/passwd": "root:x:0\npooladmin:x:1000\n",
        "etc/hostname": "pool-vm\n",
        "home/pooladmin/.ssh/authorized_keys": f"{POOL_KEY}\n",
        "etc/ssh/ssh_host_rsa_key": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    now = read_traces(tmp_path)
    assert now.host_keys == {"ssh_host_rsa_key"}
    assert kept(now, pool_vm(Vm(pps_type="Running"), Pool())) == [
        "the home directory of pooladmin",
        "the account pooladmin",
        "the host name 'pool-vm'",
        "the key of pooladmin",
    ]
    assert kept(IMAGE, pool_vm(Vm(pps_type="Running"), Pool())) == []


def test_a_card_that_is_exchanged_has_a_place_where_it_can_be_plugged_in() -> None:
    assert network_card(Vm(pps_type="Savable", generation=2), 0)["bus"] == "plug"
    assert "bus" not in network_card(Vm(pps_type="Savable", generation=1), 0)
    assert "bus" not in network_card(Vm(generation=2), 0)
