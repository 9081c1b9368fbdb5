"""Invalid input and a faulty platform: each ends in a verdict that names the cause."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fakeazure import Expect, Imds, Media, Vm
from fakeazure.platform.vm import PUBLIC_KEY
from support.bench import Bench, Benches
from support.need import need_root
from support.trees import changed, listing

INSTANCE = "/metadata/instance"
HEALTH = "/provisioning/health"


def failed(one: Bench, *, inside: str = "") -> dict[str, str]:
    """The report the platform got, after a run that failed honestly."""
    ran = one.agent(inside=inside)
    status = 1
    assert ran.status == status, ran.err
    judgement = one.fabric.judge()
    assert judgement.state == "failed", judgement
    assert not one.state("provisioned").exists()
    return judgement.report


FAILURE = Expect(verdict="failure")


@pytest.mark.parametrize(
    ("vm", "reason"),
    [
        (Vm(username="root"), "invalid username"),
        (Vm(username="-rf"), "invalid username"),
        (Vm(username="a:b"), "invalid username"),
        (Vm(username="two\nlines"), "invalid username"),
        (Vm(username="daemon"), "invalid username"),
        (Vm(username="a\0b"), "invalid username"),
        (Vm(username="u" * 300), "invalid username"),
        (Vm(name="h" * (1 << 16)), "invalid hostname"),
        (Vm(name="-leading"), "invalid hostname"),
        (Vm(name="a b"), "invalid hostname"),
        (Vm(keys=(PUBLIC_KEY.replace(" ", "\n", 1),)), "invalid SSH public key"),
        (Vm(keys=("not a key",)), "invalid SSH public key"),
    ],
)
def test_what_must_not_become_a_machine(bench: Benches, vm: Vm, reason: str) -> None:
    one = bench(vm=vm, expect=FAILURE, media=Media(enable=False))
    before = listing(one.tree)
    assert failed(one)["reason"] == reason
    assert all(name.startswith("var/") for name in changed(before, listing(one.tree))), "nothing was touched"


NOT_GIVEN = [
    (Vm(keys=(), disable_password=True), "no usable credential"),
    (Vm(username=""), "failed to determine username"),
    (Vm(name=""), "failed to determine hostname"),
]


@pytest.mark.parametrize(("vm", "reason"), NOT_GIVEN)
def test_what_no_source_gives_is_named(bench: Benches, vm: Vm, reason: str) -> None:
    assert failed(bench(vm=vm, expect=FAILURE))["reason"] == reason


@pytest.mark.parametrize(("vm", "_reason"), NOT_GIVEN)
def test_where_a_source_never_came_that_is_the_reason(bench: Benches, vm: Vm, _reason: str) -> None:
    one = bench(vm=vm, expect=FAILURE, media=Media(enable=False))
    before = listing(one.tree)
    report = failed(one)
    assert report["reason"] == "provisioning media not found"
    assert "no source names" in report["error"] or "neither a key nor a password" in report["error"]
    assert all(name.startswith("var/") for name in changed(before, listing(one.tree))), "nothing was touched"


@pytest.mark.parametrize(
    "answers",
    [
        ["truncate 200", "ok*"],
        ["garbage", "ok*"],
        ["html", "ok*"],
        [503, 404, 410, 429, 500, 502, 504, 408, "ok*"],
        ["reset", "ok*"],
        [{"status": 429, "retry_after": 1}, "ok*"],
    ],
)
def test_what_imds_gets_over(bench: Benches, answers: list[Any]) -> None:
    one = bench(faults=[{"path": INSTANCE, "answers": answers}], media=Media(enable=False))
    ran = one.agent()
    assert ran.status == 0, ran.err
    assert one.fabric.judge().ok


@pytest.mark.parametrize("status", [401, 403, 405])
def test_what_imds_does_not_get_over_is_final_after_five_answers_at_least(bench: Benches, status: int) -> None:
    one = bench(faults=[{"path": INSTANCE, "answers": [f"{status}*"]}], media=Media(enable=False), expect=FAILURE)
    report = failed(one)
    assert 5 <= len([r for r in one.fabric.ledger.requests if r.path == INSTANCE]) <= 8
    assert report["reason"] == f"http error {status} querying IMDS"
    assert report["status"] == str(status)
    assert str(status) in report["imds"] and "media" in report


@pytest.mark.parametrize(
    ("answer", "told", "reason"),
    [
        ("html*", "not JSON", "error parsing IMDS metadata"),
        ("503*", "status 503", "http error 503 querying IMDS"),
        ("404*", "status 404", "http error 404 querying IMDS"),
        ("reset*", "reset", "connection error querying IMDS"),
        ("hang*", "timed out", "read timeout querying IMDS"),
    ],
)
def test_imds_down_for_good_is_named_with_its_cause(bench: Benches, answer: str, told: str, reason: str) -> None:
    one = bench(faults=[{"path": INSTANCE, "answers": [answer]}], media=Media(enable=False), expect=FAILURE)
    report = failed(one)
    assert report["reason"] == reason
    assert told in report["imds"] and "media" in report


def test_both_sources_absent_and_both_reasons_told(bench: Benches) -> None:
    one = bench(imds=Imds(enable=False), media=Media(enable=False), expect=FAILURE)
    report = failed(one)
    assert "refused" in report["imds"]
    assert report["media"]
    assert report["vm_id"] == one.fabric.vm.id


def test_a_doctype_in_the_ovf_is_refused(bench: Benches) -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa">]><Environment>&a;</Environment>'
    one = bench(imds=Imds(enable=False), media=Media(ovf=bomb), expect=FAILURE)
    assert "DOCTYPE" in failed(one)["media"]


def test_passwords_on_without_a_key_need_the_media(bench: Benches) -> None:
    one = bench(vm=Vm(keys=(), password="x", disable_password=False), media=Media(enable=False), expect=FAILURE)
    report = failed(one)
    assert report["reason"] == "provisioning media not found"
    assert "a password" in report["error"] and "media" in report
    assert "azureuser" not in one.read("etc/passwd"), "no locked account is left behind"


def test_not_on_azure_says_so_and_touches_nothing(bench: Benches) -> None:
    one = bench(expect=Expect(verdict="none"))
    one.configure(platform={"require_azure": True})
    before = listing(one.tree)
    ran = one.agent()
    assert ran.status == 0
    assert "not an Azure VM" in ran.err
    assert one.fabric.ledger.requests == ()
    assert changed(before, listing(one.tree)) == set()


def test_a_wireserver_down_loses_nothing_and_is_told_at_the_next_start(bench: Benches) -> None:
    one = bench(faults=[{"path": HEALTH, "answers": ["503*"]}], expect=Expect(verdict="none"))
    ran = one.agent()
    assert ran.status == 75, ran.err
    assert not one.state("provisioned").exists()
    assert json.loads(one.state("pending").read_text())["verdict"] == "ready"
    provisioned = listing(one.tree)
    one.fabric.scripts.clear()
    one.fabric.reboot(expect=Expect(verdict="ready"))
    assert one.agent().status == 0
    assert one.fabric.judge().ok
    assert not one.state("pending").exists()
    assert all(name.startswith("var/") for name in changed(provisioned, listing(one.tree)))


def test_an_undelivered_failure_is_carried_by_the_next_verdict(bench: Benches) -> None:
    one = bench(
        vm=Vm(keys=("not a key",)), faults=[{"path": HEALTH, "answers": ["503*"]}], expect=Expect(verdict="none")
    )
    assert one.agent().status == 1
    one.fabric.scripts.clear()
    one.fabric.reboot(expect=FAILURE)
    assert failed(one)["previous"] == "invalid SSH public key"
    assert not one.state("pending").exists()


def test_health_gets_over_what_it_should(bench: Benches) -> None:
    answers = ["ok", 503, 429, 500, "ok*"]
    one = bench(faults=[{"path": HEALTH, "answers": answers}])
    assert one.agent().status == 0
    assert one.fabric.judge().ok


def test_a_refused_verdict_is_not_retried(bench: Benches) -> None:
    one = bench(faults=[{"path": HEALTH, "answers": ["ok", "400*"]}], expect=Expect(verdict="none"))
    one.configure(report={"protocol": "json"})
    assert one.agent().status == 75
    assert len([r for r in one.fabric.ledger.requests if r.path == HEALTH]) == 2


def test_where_the_newer_endpoint_refuses_the_older_one_is_told(bench: Benches) -> None:
    one = bench(faults=[{"path": HEALTH, "answers": ["404*"]}], expect=Expect(verdict="ready"))
    assert one.agent().status == 0
    assert one.fabric.judge().ok and len(one.fabric.ledger.verdicts) == 1
    assert len([r for r in one.fabric.ledger.requests if r.path == HEALTH]) == 4, "in progress once, the verdict thrice"


def test_every_backends_failure_reaches_the_report(bench: Benches) -> None:
    one = bench(expect=FAILURE)
    one.configure(user_provisioners={"backends": ["useradd"]})
    report = failed(one)
    assert report["reason"] == "failed to provision user"
    assert "--root" in report["useradd"]


def test_a_read_only_etc_is_named(bench: Benches) -> None:
    need_root()
    one = bench(expect=FAILURE)
    etc = one.tree / "etc"
    report = failed(one, inside=f"mount --bind {etc} {etc} && mount -o remount,ro,bind {etc}")
    assert report["reason"] == "failed to provision hostname"
    assert report["native"] == f"cannot write {etc}/hostname: Read-only file system"


def test_a_full_disk_is_named(bench: Benches) -> None:
    need_root()
    one = bench(expect=FAILURE, vm=Vm(username="u" * 20))
    home = one.tree / "home"
    report = failed(one, inside=f"mount -t tmpfs -o size=4k,nr_inodes=3 none {home}")
    assert report["reason"] == "failed to provision user"
    assert "No space left on device" in report["files"]
    assert "u" * 20 not in one.read("etc/passwd"), "no account without a home"


def test_a_one_mebibyte_host_name_is_more_than_we_read(bench: Benches) -> None:
    one = bench(vm=Vm(name="h" * (1 << 20)), media=Media(enable=False), expect=FAILURE)
    assert "larger than 1048576 bytes" in failed(one)["imds"]


def test_a_dangling_hostname_link_is_replaced(bench: Benches) -> None:
    one = bench(vm=Vm(name="web-1"))
    (one.tree / "etc/hostname").unlink()
    (one.tree / "etc/hostname").symlink_to("/nowhere/at/all")
    assert one.agent().status == 0
    assert one.read("etc/hostname") == "web-1\n"
    assert not (one.tree / "etc/hostname").is_symlink()


def test_a_wrong_configuration_is_told_to_the_platform(bench: Benches) -> None:
    one = bench(expect=FAILURE)
    one.configure(imds={"retry_interval_secs": -1}, ssh={"query_sshd_config": "yes"})
    ran = one.agent()
    assert ran.status == 78
    report = one.fabric.judge().report
    assert report["reason"] == "invalid configuration"
    for key in ("imds.retry_interval_secs", "ssh.query_sshd_config"):
        assert key in ran.err
        assert key in report["error"]


def test_a_provisioned_machine_keeps_its_verdict_when_its_configuration_breaks(bench: Benches) -> None:
    one = bench()
    assert one.agent().status == 0
    one.configure(imds={"retry_interval_secs": -1})
    ran = one.agent()
    assert ran.status == 78
    assert "imds.retry_interval_secs" in ran.err
    assert one.fabric.judge().ok and one.fabric.judge().state == "ready"


def test_a_report_fits_whatever_the_failure(bench: Benches) -> None:
    one = bench(imds=Imds(enable=False), media=Media(ovf="<" * 100_000), expect=FAILURE)
    failed(one)
    assert all(len(json.dumps(told.description)) <= 4096 for told in one.fabric.ledger.told)


def test_a_planted_link_in_the_home_is_not_followed(bench: Benches) -> None:
    one = bench()
    assert one.agent().status == 0
    one.agent("clean")
    (one.tree / "home/azureuser/.ssh/authorized_keys").unlink()
    (one.tree / "home/azureuser/.ssh/authorized_keys").symlink_to("/etc/shadow")
    shadow = one.read("etc/shadow")
    one.fabric.reboot(expect=FAILURE)
    assert failed(one)["reason"] == "failed to install SSH keys"
    assert one.read("etc/shadow") == shadow
