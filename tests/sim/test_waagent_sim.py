"""WALinuxAgent beside azure-init: the files that it finds, and a machine that was another VM before."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from fakeazure import Expect, Imds, Media, Vm
from support.bench import Bench, Benches
from support.trees import changed, listing

PASSWORD = "Kanarienvogel&<Voliere>"
BIRD = Vm(name="web-1", password=PASSWORD, disable_password=False, custom_data=b"\x00\xffbinary\n")
OTHER = "c0ffee00-1111-4222-8333-444444444444"
PROFILE = ("compute.osProfile", "compute.publicKeys")
WA = "http://schemas.microsoft.com/windowsazure"


def with_waagent(one: Bench, library: str = "var/lib/waagent") -> Path:
    (one.tree / "etc/waagent.conf").write_text("Provisioning.Agent=auto\n")
    return one.tree / library


def leaks(one: Bench) -> set[str]:
    """Every file that holds the password, in any encoding that a document or a log may have."""
    plain = (PASSWORD, PASSWORD.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"), PASSWORD[:13])
    spelt = {text.encode(codec) for text in plain for codec in ("utf-8", "utf-16-le", "utf-16-be")}
    spelt |= {b64encode(text.encode())[:-4] for text in plain}
    files = listing(one.tree).items()
    return {name for name, (_mode, _owner, data) in files if any(part in data for part in spelt)}


def wrapped(password: str, *, prefix: str = "", declared: str = "utf-8", inside: str = "") -> str:
    wa, declares = (f"{prefix}:", f"xmlns:{prefix}") if prefix else ("", "xmlns")
    return (
        f'<?xml version="1.0" encoding="{declared}"?><e:Environment {declares}="{WA}" '
        f'xmlns:e="http://schemas.dmtf.org/ovf/environment/1"><{wa}ProvisioningSection>'
        f"<{wa}Version>1.0</{wa}Version><{wa}LinuxProvisioningConfigurationSet><{wa}HostName>web-1</{wa}HostName>"
        f"<{wa}UserName>azureuser</{wa}UserName><{wa}UserPassword a='>'>{password}</{wa}UserPassword>{inside}"
        f"<{wa}DisableSshPasswordAuthentication>false</{wa}DisableSshPasswordAuthentication>"
        f"</{wa}LinuxProvisioningConfigurationSet></{wa}ProvisioningSection><{wa}PlatformSettingsSection>"
        f"<{wa}Version>1.0</{wa}Version><{wa}PlatformSettings><{wa}ProvisionGuestAgent>true</{wa}ProvisionGuestAgent>"
        f"</{wa}PlatformSettings></{wa}PlatformSettingsSection></e:Environment>"
    )


def test_the_media_are_kept_without_the_password(bench: Benches) -> None:
    one = bench(vm=BIRD)
    library = with_waagent(one)
    shown = one.agent("plan")
    assert "write /var/lib/waagent/ovf-env.xml mode 0600" in shown.out
    assert PASSWORD not in shown.out + shown.err and "<UserName>" not in shown.out
    assert one.agent().status == 0
    assert one.fabric.judge().ok
    kept = (library / "ovf-env.xml").read_text()
    assert ">REDACTED</" in kept and b64encode(b"\x00\xffbinary\n").decode() in kept
    assert (library / "ovf-env.xml").stat().st_mode & 0o777 == 0o600
    assert library.stat().st_mode & 0o777 == 0o700
    assert (library / "provisioned").read_text() == f"{BIRD.id}\n"
    assert leaks(one) == set()
    one.state("provisioned").unlink()
    one.fabric.reboot()
    again = one.agent("plan", "--check")
    assert again.status == 0, again.out


@pytest.mark.parametrize(
    ("document", "codec"),
    [
        (wrapped("<![CDATA[Kanarienvogel]]>", prefix="ns1"), "utf-8"),
        (wrapped("Kanarienvogel", declared="utf-16"), "utf-16"),
        (wrapped("<!-- x -->Kana&#114;ienvogel"), "utf-8-sig"),
        (wrapped("Kanarienvogel", inside="<x:UserPassword xmlns:x='urn:x'>Kanarienvogel</x:UserPassword>"), "utf-8"),
    ],
    ids=["CDATA and a prefix", "UTF-16", "a comment and a reference", "twice"],
)
def test_however_the_password_is_written_none_of_it_stays(bench: Benches, document: str, codec: str) -> None:
    one = bench(vm=BIRD, imds=Imds(enable=False), media=Media(ovf=document.encode(codec)))
    library = with_waagent(one)
    ran = one.agent()
    assert ran.status == 0, ran.err
    assert leaks(one) == set()
    assert "<!-- x -->" not in (library / "ovf-env.xml").read_text(encoding="utf-8-sig")
    assert ":$6$" in one.read("etc/shadow")


def test_a_failed_run_keeps_them_too_because_the_platform_takes_them_away(bench: Benches) -> None:
    one = bench(
        vm=BIRD, media=Media(texts={"HostName": "-"}), imds=Imds(enable=False), expect=Expect(verdict="failure")
    )
    library = with_waagent(one)
    assert one.agent().status == 1
    assert one.fabric.judge().ok
    assert "REDACTED" in (library / "ovf-env.xml").read_text()
    assert leaks(one) == set()


def test_without_walinuxagent_only_custom_data_is_kept(bench: Benches) -> None:
    one = bench(vm=BIRD)
    assert one.agent().status == 0
    assert [path.name for path in (one.tree / "var/lib/waagent").iterdir()] == ["CustomData"]


def test_where_the_platform_wants_no_agent_it_rests(bench: Benches) -> None:
    one = bench(vm=BIRD, media=Media(texts={"ProvisionGuestAgent": "False"}))
    library = with_waagent(one, "opt/agent")
    one.configure(waagent={"lib_dir": "/opt/agent"})
    library.parent.mkdir()
    assert "+ waagent off: " in one.agent("plan").out
    assert one.agent().status == 0
    assert (library / "disable_agent").read_bytes() == b""
    assert {path.name for path in library.iterdir()} >= {"CustomData", "disable_agent", "ovf-env.xml", "provisioned"}
    assert not (one.tree / "var/lib/waagent").exists()


@pytest.mark.parametrize("shared", ["/var/lib", "/var/lib/.", "/", "/."])
def test_a_directory_that_is_others_too_stays_open_to_them(bench: Benches, shared: str) -> None:
    one = bench(vm=BIRD)
    with_waagent(one)
    one.configure(waagent={"lib_dir": shared})
    modes = {path: path.stat().st_mode for path in (one.tree, one.tree / "var/lib")}
    assert one.agent().status == 0
    assert {path: path.stat().st_mode for path in modes} == modes
    assert one.agent("plan", "--check").status == 0


def test_its_own_configuration_says_where_it_keeps_things(bench: Benches) -> None:
    one = bench(vm=BIRD)
    with_waagent(one)
    (one.tree / "etc/waagent.conf").write_text("Lib.Dir=/var/lib/elsewhere\nProvisioning.DecodeCustomData=y\n")
    one.configure(waagent={"honour": True})
    assert one.agent().status == 0
    assert (one.tree / "var/lib/elsewhere/CustomData").read_bytes() == b"\x00\xffbinary\n"
    assert (one.tree / "var/lib/elsewhere/provisioned").exists()
    assert not (one.tree / "var/lib/waagent").exists()
    assert one.agent("deprovision", "--force").status == 0
    assert list((one.tree / "var/lib/elsewhere").iterdir()) == []


# ---- customData


@pytest.mark.parametrize("data", [b"#!/bin/sh\n", gzip.compress(b"x" * 1000, mtime=0), bytes(range(256)), b"caf\xe9"])
def test_custom_data_is_kept_as_given_or_decoded(bench: Benches, data: bytes) -> None:
    one = bench(vm=Vm(custom_data=data))
    file = one.tree / "var/lib/waagent/CustomData"
    assert one.agent().status == 0
    assert file.read_bytes().strip() == b64encode(data)
    one.configure(custom_data={"decode": True})
    one.agent("clean")
    one.fabric.reboot()
    assert one.agent().status == 0
    assert file.read_bytes() == data
    assert file.stat().st_mode & 0o777 == 0o600
    one.configure(custom_data={"save": False})
    assert one.agent("deprovision", "--force").status == 0
    assert not file.exists()
    one.fabric.reboot()
    assert one.agent().status == 0
    assert not file.exists()


def test_what_is_not_base64_is_kept_as_given_and_told(bench: Benches) -> None:
    one = bench(vm=Vm(custom_data="x"), media=Media(texts={"CustomData": "not base64!"}))
    one.configure(custom_data={"decode": True})
    ran = one.agent()
    assert ran.status == 0 and "customData: is not base64: saved as it was given" in ran.err
    assert one.read("var/lib/waagent/CustomData") == "not base64!"


def test_in_a_file_tree_a_program_is_kept_and_not_run(bench: Benches) -> None:
    one = bench(vm=Vm(custom_data="#!/bin/sh\ntouch /tmp/never\n"))
    one.configure(custom_data={"execute": True})
    ran = one.agent()
    assert ran.status == 0 and "customData program: not run" in ran.err
    assert (one.tree / "var/lib/waagent/CustomData").stat().st_mode & 0o777 == 0o700


# ---- a changed VM id


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
