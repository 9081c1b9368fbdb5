"""Several boots of one machine, and the warning without a DHCP request."""

from __future__ import annotations

import argparse

import pytest

from fakeazure import Fabric
from fakeazure.arguments import boot_count
from fakeazure.judge import judge
from fakeazure.machines.reboots import NetworkWatch, was_ready_before
from fakeazure.platform.events import Lease, Login, Told
from fakeazure.platform.ledger import Ledger


def told(kind: str, ledger: Ledger) -> None:
    ledger.add(Told(t=ledger.now(), kind=kind))


def login(ledger: Ledger, *, ok: bool) -> None:
    ledger.add(Login(t=ledger.now(), how="key", user="azureuser", ok=ok, text="" if ok else "Permission denied"))


def test_a_machine_was_ready_before_from_its_second_boot_on_where_the_platform_believes_ready() -> None:
    with Fabric() as fabric:
        assert not was_ready_before(fabric.ledger)
        told("ready", fabric.ledger)
        assert fabric.ledger.has_verdict and not was_ready_before(fabric.ledger)
        fabric.reboot()
        assert not fabric.ledger.has_verdict and was_ready_before(fabric.ledger)
        told("failed", fabric.ledger)
        fabric.reboot()
        assert not was_ready_before(fabric.ledger)


@pytest.mark.parametrize(("ok", "complaints"), [
    (True, ()),
    (False, ("boot 2: was Ready, and now a login as azureuser with the key was refused (Permission denied)",)),
])  # fmt: skip
def test_a_later_boot_owes_its_owner_a_login(ok: bool, complaints: tuple[str, ...]) -> None:
    with Fabric() as fabric:
        told("ready", fabric.ledger)
        login(fabric.ledger, ok=True)
        fabric.reboot()
        login(fabric.ledger, ok=ok)
        assert judge(fabric.ledger.events).complaints == complaints


def test_a_later_boot_of_a_machine_that_failed_owes_none() -> None:
    with Fabric() as fabric:
        told("failed", fabric.ledger)
        fabric.reboot()
        login(fabric.ledger, ok=False)
        assert not any("boot 2" in text for text in judge(fabric.ledger.events).complaints)


def test_that_no_address_was_asked_for_is_said_once_and_only_then(capsys: pytest.CaptureFixture[str]) -> None:
    with Fabric() as fabric:
        soon, later = NetworkWatch(fabric.ledger, seconds=0), NetworkWatch(fabric.ledger, seconds=3600)
        for watch in (soon, soon, later):
            watch.check()
        said = "after 0 s the machine has not sent a DHCP request: does it have a network configuration?"
        assert capsys.readouterr().err == f"fakeazure: {said}\n"
        fabric.ledger.add(Lease(t=1, kind="discover", mac="00:0d:3a:00:00:01", address="10.0.0.4"))
        NetworkWatch(fabric.ledger, seconds=0).check()
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize("text", ["0", "101", "-1", "two", "", "\u0663"])
def test_a_number_of_boots_that_cannot_be_meant(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="a number from 1 to 100"):
        boot_count(text)
