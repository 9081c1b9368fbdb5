"""WALinuxAgent beside azure-init: the files that it finds, and a machine that was another VM before."""

from __future__ import annotations

import gzip
from base64 import b64encode

import pytest

from fakeazure import Expect, Imds, Media, Vm
from support.bench import Bench, Benches
from support.trees import listing
from support.waagent_machines import BIRD, PASSWORD, with_waagent

WA = "http://schemas.microsoft.com/windowsazure"


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
