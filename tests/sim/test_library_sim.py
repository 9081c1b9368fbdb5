"""The functions of the library that need a platform."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import azureinit
from azureinit import Config, Machine, Provision, PublicKey, Secret, User
from azureinit.config.model import Imds as ImdsConfig, Wireserver
from azureinit.errors import AzureInitError, ImdsUnavailable, MediaUnreadable, NoSpace, StepFailed, VerdictUndelivered
from fakeazure import Expect, Fabric, Imds, Media, Vm
from fakeazure.platform.vm import PUBLIC_KEY
from support.trees import make_tree

HEALTH = "/provisioning/health"
INSTANCE = "/metadata/instance"


class Fabrics:
    def __init__(self) -> None:
        self.made: list[Fabric] = []

    def __call__(self, **options: object) -> Fabric:
        self.made.append(Fabric(**options).start())  # type: ignore[arg-type]
        return self.made[-1]


@pytest.fixture
def fabrics() -> Iterator[Fabrics]:
    fabrics = Fabrics()
    yield fabrics
    for fabric in fabrics.made:
        fabric.stop()


def config(fabric: Fabric) -> Config:
    quick: dict[str, Any] = {"retry_interval_secs": 0.05, "total_retry_timeout_secs": 1.0}
    return Config(
        imds=ImdsConfig(endpoint=fabric.imds, **quick),
        wireserver=Wireserver(health_endpoint=fabric.health_endpoint, **quick),
    )


def test_imds_is_asked_until_it_answers(fabrics: Fabrics) -> None:
    fabric = fabrics(vm=Vm(name="web-1"), faults=[{"path": INSTANCE, "answers": [503, "reset", "garbage", "ok*"]}])
    asked = azureinit.query_imds(config=config(fabric))
    assert (asked.vm_id, asked.hostname, asked.username) == (fabric.vm.id, "web-1", "azureuser")
    assert asked.keys == (PublicKey(data=PUBLIC_KEY, path="/home/azureuser/.ssh/authorized_keys"),)
    assert asked.disable_password is True


def test_imds_that_is_not_there_is_an_error_with_its_cause(fabrics: Fabrics) -> None:
    fabric = fabrics(imds=Imds(enable=False))
    with pytest.raises(ImdsUnavailable, match="refused"):
        azureinit.query_imds(config=config(fabric))


@pytest.mark.parametrize("layout", Media.FORMATS)
def test_media_of_every_format_are_read(fabrics: Fabrics, tmp_path: Path, layout: str) -> None:
    vm = Vm(name="web-1", password="correct horse", custom_data=b"#!/bin/sh\n")
    fabric = fabrics(vm=vm, media=Media(format=layout))
    told = azureinit.read_media(str(fabric.write_media(tmp_path / "dvd")))
    assert (told.hostname, told.username) == ("web-1", "azureuser")
    assert told.password == Secret("correct horse")
    assert told.custom_data == Secret(b"#!/bin/sh\n")
    assert "correct horse" not in repr(told)


def test_media_that_are_something_else_are_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "dvd").write_bytes(b"\0" * (1 << 20))
    with pytest.raises(MediaUnreadable):
        azureinit.read_media(str(tmp_path / "dvd"), machine=Machine(root=str(tmp_path)), wait_secs=0.1)


def test_ready_is_told(fabrics: Fabrics) -> None:
    fabric = fabrics(faults=[{"path": HEALTH, "answers": ["ok", 503, 429, "ok*"]}])
    azureinit.report_in_progress(fabric.vm.id, config=config(fabric))
    azureinit.report_ready(config=config(fabric))
    assert fabric.judge().ok


def test_in_progress_is_told_once_or_not_at_all(fabrics: Fabrics) -> None:
    fabric = fabrics(expect=Expect(verdict="none"))
    azureinit.report_in_progress(fabric.vm.id, config=config(fabric))
    (told,) = fabric.ledger.told
    assert fabric.vm.id in told.description
    down = fabrics(faults=[{"path": HEALTH, "answers": ["503*"]}], expect=Expect(verdict="none"))
    with pytest.raises(VerdictUndelivered):
        azureinit.report_in_progress(down.vm.id, config=config(down))
    assert len(down.ledger.requests) == 1


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (NoSpace("cannot write /etc/hosts: No space left on device", path="/etc/hosts"), "path=/etc/hosts"),
        (StepFailed("hostname", {"native": AzureInitError("one"), "hostnamectl": AzureInitError("two")}), "native=one"),
    ],
)
def test_a_failure_is_told_with_its_cause(fabrics: Fabrics, error: AzureInitError, says: str) -> None:
    fabric = fabrics(expect=Expect(verdict="failure", reason=error.reason, says=(says,)))
    azureinit.report_failure(error, fabric.vm.id, config=config(fabric))
    judgement = fabric.judge()
    assert judgement.ok, judgement
    assert judgement.report["vm_id"] == fabric.vm.id


def test_a_verdict_nobody_takes_is_an_error(fabrics: Fabrics) -> None:
    fabric = fabrics(faults=[{"path": HEALTH, "answers": ["503*"]}], expect=Expect(verdict="none"))
    reports: tuple[Callable[[], object], ...] = (
        lambda: azureinit.report_ready(config=config(fabric)),
        lambda: azureinit.report_failure(NoSpace("full"), fabric.vm.id, config=config(fabric)),
    )
    for tell in reports:
        with pytest.raises(VerdictUndelivered, match="503"):
            tell()


def test_a_program_can_do_all_of_it_by_itself(fabrics: Fabrics, tmp_path: Path) -> None:
    fabric = fabrics(vm=Vm(name="web-1"))
    machine = Machine(root=str(make_tree(tmp_path / "root")))
    asked = azureinit.query_imds(config=config(fabric))
    user = User(asked.username or "", [key.data for key in asked.keys])
    assert Provision(asked.hostname or "", user, machine=machine).provision()
    azureinit.report_ready(config=config(fabric))
    assert fabric.judge().ok
    assert (tmp_path / "root/etc/hostname").read_text() == "web-1\n"
