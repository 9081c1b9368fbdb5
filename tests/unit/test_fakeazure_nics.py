"""Machines with several interfaces: their metadata, its changes, the sender of a request, and the judge's rule."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from fakeazure import Imds, Interface, Vm
from fakeazure.judge import judge
from fakeazure.platform.events import Request, parse_line, to_line
from fakeazure.platform.imds_changes import changed
from fakeazure.platform.imds_document import document
from fakeazure.platform.services import with_sender
from fakeazure.platform.vm import Change
from fakeazure.show import Palette, timeline
from support.judged_events import asked, boot, ready

A = Interface(mac="00:0d:3a:12:34:56", secondary=("10.0.0.5",))
B = Interface(mac="00:0d:3a:12:34:57", address="10.0.1.4", ipv6=("fd00:1::4", "fd00:1::5"))
C = Interface(mac="00:0d:3a:12:34:58", address="10.0.2.4")
VM = Vm(nics=(A, B, C))


def listed(imds: Imds, *, vm: Vm = VM, boot_number: int = 1) -> list[dict[str, Any]]:
    whole = document(vm, imds, version="2023-11-15", extended=False, boot=boot_number)
    return list(whole["network"]["interface"])


def macs(imds: Imds, *, boot_number: int = 1) -> list[str]:
    return [str(one["macAddress"])[-2:] for one in listed(imds, boot_number=boot_number)]


def private(one: dict[str, Any], family: str = "ipv4") -> list[str]:
    return [address["privateIpAddress"] for address in one[family]["ipAddress"]]


def test_every_interface_is_listed_with_all_its_addresses() -> None:
    first, second, _third = listed(Imds())
    assert (private(first), private(first, "ipv6")) == (["10.0.0.4", "10.0.0.5"], [])
    assert private(second, "ipv6") == ["fd00:1::4", "fd00:1::5"]
    assert "subnet" not in second["ipv6"]
    with_prefix = listed(Imds(), vm=replace(VM, nics=(replace(B, ipv6_prefix=64),)))[0]
    assert with_prefix["ipv6"]["subnet"] == [{"address": "fd00:1::", "prefix": "64"}]


def test_the_order_can_be_another_one_in_each_boot() -> None:
    assert macs(Imds()) == ["56", "57", "58"]
    assert macs(Imds(nic_order="reversed")) == ["58", "57", "56"]
    boots = [macs(Imds(nic_order="random"), boot_number=number) for number in range(1, 30)]
    assert macs(Imds(nic_order="random"), boot_number=1) == boots[0]
    assert len({tuple(one) for one in boots}) > 1
    assert {tuple(sorted(one)) for one in boots} == {("56", "57", "58")}


def test_the_metadata_can_list_fewer_interfaces_and_other_addresses_than_the_machine_has() -> None:
    assert macs(Imds(listed=(2, 0))) == ["56", "58"]
    assert [private(one) for one in listed(Imds(secondary=((), ("10.0.1.9",))))] == [
        ["10.0.0.4"],
        ["10.0.1.4", "10.0.1.9"],
        ["10.0.2.4"],
    ]


def test_json_sets_what_toml_cannot_say() -> None:
    whole = document(VM, Imds(set_json='{"network": null}'), version="2023-11-15", extended=False)
    assert whole["network"] is None and whole["compute"]["name"] == "fake-vm"


def test_a_change_is_merged_into_what_was_set_before() -> None:
    before = Imds(set={"compute": {"name": "a", "zone": "1"}}, set_json='{"compute": {"zone": "2"}}', remove=("x",))
    after = changed(before, Change(set={"compute": {"name": "b"}}, remove=("y",), listed=(0,)))
    assert after.set == {"compute": {"name": "b", "zone": "2"}}
    assert (after.set_json, after.remove, after.listed) == ("", ("x", "y"), (0,))
    assert changed(after, Change(set_json='{"network": null}')).set["network"] is None
    assert before.set == {"compute": {"name": "a", "zone": "1"}}, "a change leaves the scenario as it is"


def from_address(address: str, *, path: str = "/metadata/instance", status: int | None = 200, vm: Vm = VM) -> Request:
    return with_sender(replace(asked(path), address=address, status=status), vm)


def test_the_sender_of_a_request_is_known_by_its_address() -> None:
    sent = {address: from_address(address) for address in ("10.0.0.4", "10.0.0.5", "10.0.1.4", "127.0.0.1")}
    assert {address: (one.nic[-2:], one.secondary) for address, one in sent.items()} == {
        "10.0.0.4": ("56", False),
        "10.0.0.5": ("56", True),
        "10.0.1.4": ("57", True),
        "127.0.0.1": ("", False),
    }
    other = Vm(nics=(A, replace(B, primary=True)))
    assert [from_address(one, vm=other).secondary for one in ("10.0.0.4", "10.0.1.4")] == [True, False]
    line = to_line(sent["10.0.1.4"]).strip()
    assert json.loads(line)["nic"] == "00:0d:3a:12:34:57" and parse_line(line, where="x") == sent["10.0.1.4"]


def test_a_request_from_a_secondary_interface_is_a_lie_even_if_ready_is_true() -> None:
    health = from_address("10.0.1.4", path="/provisioning/health", status=201)
    judgement = judge([boot(), from_address("10.0.0.4"), health, health, ready()])
    assert (judgement.state, judgement.ok) == ("lied", False)
    assert judgement.complaints == (
        "sent GET /provisioning/health from 10.0.1.4, a secondary address (interface 00:0d:3a:12:34:57)",
    )
    assert any(
        "from 10.0.1.4, a secondary address" in line for line in timeline([boot(), health], Palette(colour=False))
    )


def test_a_request_that_the_platform_refused_or_never_answered_does_not_count() -> None:
    tries = [from_address("10.0.1.4", status=status) for status in (404, 503, None)]
    assert judge([boot(), *tries, from_address("10.0.0.4"), ready()]).ok
