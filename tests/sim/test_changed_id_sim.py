"""A changed VM id, with and without WALinuxAgent's files."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from fakeazure import Expect, Imds, Media, Vm
from support.bench import Bench, Benches
from support.trees import changed, listing
from support.waagent_machines import BIRD, with_waagent

OTHER = "c0ffee00-1111-4222-8333-444444444444"
PROFILE = ("compute.osProfile", "compute.publicKeys")


def as_another(one: Bench) -> set[str]:
    """The same disk, provisioned before as somebody else; what was that VM's alone."""
    library = with_waagent(one)
    gone = {
        "var/lib/waagent/Protocol", "var/lib/waagent/GoalState.1.xml", "var/lib/waagent/Some.Ext-1.0/mrseq",
        "var/lib/dhcp/dhclient.eth0.leases",
    }  # fmt: skip
    for name in (*gone, "etc/resolv.conf", "var/lib/cloud/instance/obj.pkl", "var/lib/waagent/Some.Ext-1.0/bin/run"):
        (one.tree / name).parent.mkdir(parents=True, exist_ok=True)
        (one.tree / name).write_text("x")
    (library / "provisioned").write_text(OTHER.upper())
    (one.tree / "etc/hostname").write_text("former-name\n")
    return gone


def test_a_changed_id_is_provisioned_anew_by_default(bench: Benches) -> None:
    one = bench(vm=Vm(name="web-1"))
    as_another(one)
    one.data.mkdir()
    for kind in ("provisioned", "journal", "saved"):
        (one.data / f"{OTHER}.{kind}").touch()
    assert one.agent().status == 0
    assert one.read("etc/hostname") == "web-1\n"
    assert one.read("var/lib/waagent/Protocol") == "x"
    assert {path.name.partition(".")[0] for path in one.data.iterdir()} == {one.fabric.vm.id, "lock", "trace"}


NOWHERE: dict[str, dict[str, Any]] = {
    "a specialised VM": {"vm": Vm(specialised=True)},
    "a specialised VM without IMDS": {"vm": Vm(specialised=True), "imds": Imds(enable=False)},
    "no source at all": {"imds": Imds(enable=False), "media": Media(enable=False)},
    "IMDS that is ill": {
        "faults": [{"path": "/metadata/instance", "answers": ["503*"]}],
        "media": Media(enable=False),
    },
    "IMDS without anything": {"imds": Imds(remove=PROFILE), "media": Media(enable=False)},
}


def was_another(one: Bench) -> set[str]:
    """Also by our own marker; what must not change then."""
    as_another(one)
    one.data.mkdir()
    for kind in ("provisioned", "journal", "saved"):
        (one.data / f"{OTHER}.{kind}").touch()
    mine = {"var/lib/waagent", "var/lib/waagent/provisioned"}
    return {name for name in listing(one.tree) if not name.startswith(("var/lib/azure-init", "var/log"))} - mine


@pytest.mark.parametrize("platform", NOWHERE.values(), ids=NOWHERE)
def test_a_changed_id_with_nothing_to_provision_from_stays_as_it_is_and_is_ready(
    bench: Benches, platform: dict[str, Any]
) -> None:
    one = bench(**platform, expect=Expect(verdict="ready"))  # the platform cannot know that it was in order
    kept = was_another(one)
    before = listing(one.tree)
    ran = one.agent()
    assert ran.status == 0, ran.err
    assert one.fabric.judge().ok
    assert not changed(before, listing(one.tree)) & kept
    assert one.state("provisioned").exists()
    if platform != NOWHERE["a specialised VM"]:
        told = f"changed VM id: this was VM {OTHER}, and no source has anything to provision it from"
        assert f"{told}: the machine keeps its state" in ran.err
    asked = len(one.fabric.ledger.requests)
    assert one.agent().status == 0 and len(one.fabric.ledger.requests) == asked, "a later boot asks nothing"


def test_a_ready_that_nobody_hears_is_kept_and_the_machine_provisioned_once_there_is_something(bench: Benches) -> None:
    lost = [{"path": "/provisioning/health", "method": "POST", "answers": ["503*"]}]
    dead = bench(imds=Imds(enable=False), media=Media(enable=False), faults=lost, expect=Expect(verdict="none"))
    kept = was_another(dead)
    before = listing(dead.tree)
    for _ in range(2):
        assert dead.agent().status == 75
        assert json.loads(dead.state("pending").read_text())["verdict"] == "ready"
        assert (dead.data / f"{OTHER}.provisioned").exists()
    assert not changed(before, listing(dead.tree)) & kept
    alive = bench(vm=Vm(name="web-1", id=dead.fabric.vm.id))
    dead.config.write_text(alive.config.read_text())
    assert dead.agent().status == 0
    assert alive.fabric.judge().ok
    assert dead.read("etc/hostname") == "web-1\n"


@pytest.mark.parametrize(
    "platform",
    [
        {"imds": Imds(enable=False), "media": Media(ovf="<Environment")},
        {"faults": [{"path": "/metadata/instance", "answers": ["html*"]}], "media": Media(enable=False)},
        {"imds": Imds(remove=("compute.osProfile.adminUsername",)), "media": Media(enable=False)},
    ],
    ids=["unreadable media", "unreadable IMDS", "half of it"],
)
def test_a_changed_id_for_which_there_is_something_that_cannot_be_used_is_a_failure(
    bench: Benches, platform: dict[str, Any]
) -> None:
    one = bench(**platform, expect=Expect(verdict="failure"))
    was_another(one)
    assert one.agent().status == 1
    assert one.fabric.judge().ok
    assert (one.data / f"{OTHER}.provisioned").exists()


def test_a_changed_id_that_was_begun_anew_does_not_pass_for_what_it_was(bench: Benches) -> None:
    one = bench(imds=Imds(enable=False), media=Media(enable=False), expect=Expect(verdict="failure"))
    was_another(one)
    one.state("journal").write_text('{"run": 1.0, "boot": "", "pid": 1, "temporaries": [], "locks": []}\n')
    assert one.agent().status == 1
    assert one.fabric.judge().ok


def test_what_stays_for_want_shows_in_the_plan(bench: Benches) -> None:
    one = bench(imds=Imds(enable=False), media=Media(enable=False))
    was_another(one)
    before = listing(one.tree)
    shown = one.agent("plan").out
    assert f"+ changed VM id: this was VM {OTHER}, and stays as it is: no source has anything" in shown
    assert "remove" not in shown
    assert changed(before, listing(one.tree)) == set()


@pytest.mark.parametrize("ours", [True, False], ids=["our own marker", "WALinuxAgent's marker"])
def test_a_changed_id_can_be_kept_as_it_is(bench: Benches, ours: bool) -> None:
    one = bench(vm=BIRD)
    one.configure(platform={"changed_vm_id": "keep"})
    gone = as_another(one)
    if ours:
        one.data.mkdir()
        (one.data / f"{OTHER}.provisioned").touch()
        (one.tree / "var/lib/waagent/provisioned").unlink()
    before = listing(one.tree)
    shown = one.agent("plan").out
    assert OTHER in shown.lower() and all(f"remove /{name}\n" in shown for name in gone)
    assert changed(before, listing(one.tree)) == set()
    assert one.agent("--stage", "local").status == 0
    ran = one.agent()
    assert ran.status == 0, ran.err
    assert one.fabric.judge().ok
    after = listing(one.tree)
    assert {name for name in before if name not in after} == gone | (
        {f"var/lib/azure-init/{OTHER}.provisioned"} if ours else set()
    )
    told = {
        name
        for name in changed(before, after)
        if name in after and not name.startswith(("var/lib/azure-init", "var/log"))
    }
    assert told == {"var/lib/waagent/provisioned", "var/lib/waagent"}, "and the directory is root's alone now"
    assert one.read("var/lib/waagent/provisioned") == f"{BIRD.id}\n"
    assert one.read("etc/hostname") == "former-name\n"
    assert all(request.target.startswith("/provisioning") for request in one.fabric.ledger.requests)
    one.state("provisioned").unlink()
    again = one.agent("plan", "--check")
    assert again.status == 0 and "= changed VM id" in again.out, again.out


def test_a_kept_machine_whose_ready_was_lost_is_kept_when_it_tries_again(bench: Benches) -> None:
    lost = [{"path": "/provisioning/health", "method": "POST", "answers": ["503*"]}]
    one = bench(vm=BIRD, faults=lost, expect=Expect(verdict="either"))
    one.configure(platform={"changed_vm_id": "keep"})
    as_another(one)
    assert one.agent().status == 75
    assert one.read("var/lib/waagent/provisioned") == f"{BIRD.id}\n", "nothing else says any more who it was"
    (one.tree / "var/lib/waagent/Protocol").write_text("this VM's own")
    one.fabric.reboot()
    assert one.agent().status == 75
    assert one.read("etc/hostname") == "former-name\n"
    assert one.read("var/lib/waagent/Protocol") == "this VM's own"


@pytest.mark.parametrize("marker", [OTHER.upper(), ""])
def test_a_run_that_dies_before_it_decided_leaves_the_witness(bench: Benches, marker: str) -> None:
    one = bench(vm=BIRD, expect=Expect(verdict="either"))
    one.configure(platform={"changed_vm_id": "keep"})
    as_another(one)
    (one.tree / "var/lib/waagent/provisioned").write_text(marker)
    assert one.agent("--stage", "failed").status == 0
    assert one.read("var/lib/waagent/provisioned") == marker
    one.fabric.reboot()
    assert one.agent().status == 0
    assert one.read("etc/hostname") == "former-name\n"


def test_a_new_machine_is_provisioned_where_changed_ones_are_kept(bench: Benches) -> None:
    one = bench(vm=BIRD)
    with_waagent(one)
    one.configure(platform={"changed_vm_id": "keep"})
    assert one.agent().status == 0
    assert one.read("etc/hostname") == "web-1\n"
    assert one.fabric.judge().ok


@pytest.mark.parametrize(
    "spelling",
    [BIRD.id, BIRD.id.upper(), str(UUID(bytes_le=UUID(BIRD.id).bytes))],
    ids=["plain", "capitals", "generation 1"],
)
def test_what_walinuxagent_has_provisioned_before_we_came_stays_as_it_is(bench: Benches, spelling: str) -> None:
    one = bench(vm=BIRD, expect=Expect(verdict="none"))
    library = with_waagent(one)
    library.mkdir(parents=True)
    (library / "provisioned").write_text(spelling)
    assert one.agent().status == 0
    assert not one.fabric.ledger.requests
    assert "by WALinuxAgent: nothing to do" in one.read("var/log/azure-init.log")
    assert "azureuser" not in one.read("etc/passwd") and (library / "provisioned").read_text() == spelling


def test_after_clean_what_walinuxagent_has_provisioned_is_provisioned_by_us(bench: Benches) -> None:
    one = bench(vm=BIRD)
    library = with_waagent(one)
    library.mkdir(parents=True)
    (library / "provisioned").write_text(BIRD.id)
    assert one.agent().status == 0
    assert "forgot that WALinuxAgent provisioned this machine" in one.agent("clean").out
    assert (library / "provisioned").read_text() == f"{BIRD.id}\n", "and it stays quiet"
    assert one.agent().status == 0
    assert one.state("provisioned").exists()


def test_a_run_of_ours_that_died_is_not_taken_for_walinuxagent_s_work(bench: Benches) -> None:
    one = bench(vm=BIRD)
    library = with_waagent(one)
    library.mkdir(parents=True)
    (library / "provisioned").write_text(BIRD.id)
    one.data.mkdir(parents=True, exist_ok=True)
    one.state("journal").write_text("")
    assert one.agent().status == 0
    assert one.state("provisioned").exists()
