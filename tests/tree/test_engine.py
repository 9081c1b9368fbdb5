"""A whole run on a tree, with a minimal platform and a clock that the test controls.

A listener is how a test reaches into a run: it hears every step begin and end, and may then move the clock or a file.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from azureinit.config.model import Imds, Platform
from azureinit.errors import AzureInitError, ConfigInvalid, NoNetwork, ReadOnly
from azureinit.facts.gather import read_facts
from azureinit.machine import Machine
from azureinit.memory.sealed import seal
from azureinit.record import replace
from azureinit.run import reject
from azureinit.run.gather import accept
from azureinit.run.identify import identify
from azureinit.run.platform import Platform as Reached
from azureinit.run.recall import recall
from azureinit.run.state import Asked, Knowing, Known
from azureinit.sources.gather import Gathered
from azureinit.sources.imds import PublicKey
from azureinit.sources.metadata import Metadata
from support.engine_runs import ID, KEYS, PROFILE, World, Worlds, field, make_worlds
from support.ssh_trees import ed25519
from support.trees import changed, listing
from support.wire import Answer, answer

NOTHING = {"adminUsername": "", "computerName": "", "disablePasswordAuthentication": ""}
SPECIALISED = {"compute": {"vmId": ID, "osProfile": NOTHING}}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Worlds]:
    yield from make_worlds(tmp_path)


# ---- the way through


def test_a_machine_is_made_and_the_platform_told_once(world: Worlds) -> None:
    one = world()
    assert one.provision() == 0
    assert one.verdicts == ["Ready"]
    assert [body["state"] for body in one.told] == ["NotReady", "Ready"], "in progress, then the verdict"
    assert one.read("etc/hostname") == "web-1\n"
    assert one.state("provisioned").exists()


def test_a_provisioned_machine_asks_and_tells_nothing(world: Worlds) -> None:
    one = world()
    one.state("provisioned").parent.mkdir()
    one.state("provisioned").touch()
    before = listing(one.tree)
    assert one.provision() == 0
    assert (one.imds.requests, one.health.requests) == ([], [])
    assert changed(before, listing(one.tree)) == set()


def test_not_on_azure_nothing_is_asked_told_or_touched(world: Worlds) -> None:
    one = world()
    one.config = replace(one.config, platform=Platform(require_azure=True))
    before = listing(one.tree)
    assert one.provision() == 0
    assert (one.imds.requests, one.health.requests) == ([], [])
    assert changed(before, listing(one.tree)) == set()


def test_a_specialised_machine_is_ready_and_untouched(world: Worlds) -> None:
    one = world(imds=SPECIALISED)
    before = listing(one.tree)
    assert one.provision() == 0
    assert one.verdicts == ["Ready"]
    assert {name.split("/")[0] for name in changed(before, listing(one.tree))} == {"var"}
    assert not one.state("saved").exists(), "there is nothing to save"


def test_the_vm_id_comes_from_imds_where_the_firmware_has_none(world: Worlds) -> None:
    one = world()
    one.config = replace(one.config, platform=Platform(require_azure=False))
    assert one.provision() == 0
    assert one.verdicts == ["Ready"]
    assert one.state("provisioned").exists()
    assert len(one.told) == 2, "in progress is told once it is known of whom"


def test_a_marker_found_by_the_id_from_imds_is_honoured(world: Worlds) -> None:
    one = world(imds={"compute": {"vmId": ID, "osProfile": {"adminUsername": "ada"}}})
    one.config = replace(one.config, platform=Platform(require_azure=False))
    one.state("provisioned").parent.mkdir()
    one.state("provisioned").touch()
    before = listing(one.tree)
    assert one.provision() == 0
    assert one.verdicts == [], "what is missing in the answer is no matter any more"
    assert changed(before, listing(one.tree)) <= {"var/lib/azure-init", "var/lib/azure-init/lock"}


def test_no_vm_id_at_all_is_a_failure_that_says_so(world: Worlds) -> None:
    one = world(imds={"compute": {"vmId": "", "osProfile": PROFILE, "publicKeys": KEYS}})
    one.config = replace(one.config, platform=Platform(require_azure=False))
    assert one.provision() == 1
    (report,) = one.verdicts
    assert field(report, "reason") == "failed to identify the VM ID"
    assert field(report, "vm_id") == "unknown"


def test_in_progress_is_over_before_the_verdict_begins(world: Worlds) -> None:
    order: list[str] = []

    def slowly(connection: Any) -> None:
        time.sleep(0.3)
        order.append("in progress answered")
        connection.sendall(answer(200))

    one = world(health=(slowly, answer(200)))
    one.on("start", "report Ready", lambda: order.append("verdict begins"))
    assert one.provision() == 0
    assert order == ["in progress answered", "verdict begins"]


@pytest.mark.parametrize("first", [answer(503), answer(400), lambda connection: None])
def test_in_progress_that_is_refused_is_no_matter(world: Worlds, first: Answer) -> None:
    one = world(health=(first, answer(200)))
    assert one.provision() == 0
    assert [body["state"] for body in one.told] == ["NotReady", "Ready"]


# ---- what must not happen


class Broken(Machine):
    """A bug of ours, where a file is read or written."""

    bad_read = ""
    bad_write = ""

    def read(self, path: str, **options: Any) -> bytes | None:
        if path == self.bad_read:
            raise ZeroDivisionError("a bug")
        return super().read(path, **options)

    def write(self, path: str, data: bytes, **options: Any) -> None:
        if self.bad_write and path.endswith(self.bad_write):
            raise ReadOnly(f"cannot write {path}: Read-only file system", path=path)
        super().write(path, data, **options)


def broken(one: World) -> Broken:
    one.machine = Broken(root=str(one.tree), kernel=str(one.kernel), clock=one.clock, environ={})
    return one.machine


def test_a_bug_of_ours_is_one_verdict_with_its_line(world: Worlds) -> None:
    one = world()
    broken(one).bad_read = "/etc/hosts"
    assert one.provision() == 1
    (report,) = one.verdicts
    assert field(report, "reason") == "unhandled error"
    assert "ZeroDivisionError: a bug at test_engine.py:" in field(report, "error")
    assert "Traceback" not in one.said
    assert not one.state("provisioned").exists()


def test_a_marker_that_cannot_be_written_does_not_undo_ready(world: Worlds) -> None:
    one = world()
    broken(one).bad_write = ".provisioned"
    one.provision()
    assert one.verdicts == ["Ready"], "and no second verdict"
    assert "Read-only file system" in one.said


def test_a_marker_that_cannot_be_looked_for_is_a_verdict_too(world: Worlds) -> None:
    one = world()
    (one.tree / "var/lib/azure-init").symlink_to("azure-init")
    assert one.provision() == 1
    (report,) = one.verdicts
    assert field(report, "reason") == "I/O error"


def test_a_pending_verdict_that_cannot_be_written_is_told_and_lost(world: Worlds) -> None:
    one = world(health=(answer(503),))
    broken(one).bad_write = ".pending"
    assert one.provision() == 75
    assert "Read-only file system" in one.said


def test_a_failure_names_the_one_before_it(world: Worlds) -> None:
    one = world(imds={"compute": {"vmId": ID, "osProfile": PROFILE}})
    one.state("pending").parent.mkdir()
    one.state("pending").write_text('{"verdict": "failure", "failure": "no space left on device"}')
    assert one.provision() == 1
    (report,) = one.verdicts
    assert field(report, "reason") == "no usable credential"
    assert field(report, "previous") == "no space left on device"
    assert not one.state("pending").exists()


# ---- a configuration that cannot be used


def test_a_wrong_configuration_is_a_verdict(world: Worlds) -> None:
    one = world()
    before = listing(one.tree)
    assert reject(one.context(), ConfigInvalid("a.toml:3: imds.endpoint: must start with http://")) == 78
    (report,) = one.verdicts
    assert field(report, "reason") == "invalid configuration"
    assert field(report, "vm_id") == ID
    assert one.imds.requests == []
    assert changed(before, listing(one.tree)) == set()


def test_a_wrong_configuration_elsewhere_than_on_azure_is_told_to_whoever_asked(world: Worlds) -> None:
    one = world()
    one.config = replace(one.config, platform=Platform(require_azure=True))
    with pytest.raises(ConfigInvalid):
        reject(one.context(), ConfigInvalid("wrong"))
    assert one.told == []


def test_a_vm_id_that_is_none_is_a_verdict_and_not_ours_to_guess(world: Worlds) -> None:
    one = world()
    one.config = replace(one.config, platform=Platform(require_azure=False, vm_id="../../etc/passwd"))
    assert one.provision() == 78
    (report,) = one.verdicts
    assert field(report, "reason") == "invalid configuration"
    assert field(report, "vm_id") == "unknown"
    assert "platform.vm_id" in field(report, "error")


def test_media_that_were_taken_for_want_of_a_network_wait_for_imds_though_a_route_has_come_since(world: Worlds) -> None:
    one = world()
    context = replace(one.context(), booted=one.clock.monotonic())
    identity = identify(context)
    facts = read_facts(one.machine, one.config)
    asked = Asked(identity=identity, memory=recall(context, identity), facts=facts)
    media = Metadata(username="ada", hostname="web-1", keys=(PublicKey(data=ed25519()),))
    failures: dict[str, AzureInitError] = {"imds": NoNetwork("eth0 has no IPv4 address: no DHCP lease")}
    gathered = Gathered(answers={"media": media}, failures=failures, device=None)
    accepted = accept(context, asked, gathered, Knowing(Known()), platform=Reached(context))
    assert accepted.unconfirmed is not None


def test_that_imds_has_still_to_agree_is_on_the_disk_before_the_media_alone_change_anything(world: Worlds) -> None:
    """On another file system than the accounts, the record could otherwise be lost where the account is not."""
    one = world()
    (one.kernel / "proc/net").mkdir(parents=True)
    (one.kernel / "proc/net/route").write_text("Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n")
    one.config = replace(one.config, imds=Imds(endpoint="http://0.0.0.1", total_retry_timeout_secs=1.0))
    one.state("saved").parent.mkdir(parents=True)
    saved = {"username": "ada", "hostname": "web-1", "keys": [[ed25519(), None]]}
    one.state("saved").write_bytes(seal(saved))
    one.state("pending").write_bytes(seal({"verdict": "unfinished", "failure": "", "sources": "media alone"}))
    unsynced: list[set[str]] = []
    one.on("start", "hostname", lambda: unsynced.append(set(one.machine.unsynced.directories)))
    assert one.provision() == 75, one.said
    assert unsynced and str(one.tree / "var/lib/azure-init") not in unsynced[0]
