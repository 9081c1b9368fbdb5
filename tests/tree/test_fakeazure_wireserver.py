"""The wireserver: goal state and what it points to, certificates, XML health reports, and the host plugin."""

from __future__ import annotations

import base64
import http.client
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, strategies as st

from fakeazure import Fabric, Interface, Media, Vm, Wireserver
from fakeazure.platform.events import Ejected, MediaMade
from fakeazure.platform.health import accepted_health
from fakeazure.platform.http import HttpRequest
from support.need import need

VERSION = {"x-ms-agent-name": "WALinuxAgent", "x-ms-version": "2012-11-30"}


def ask(
    base: str, target: str, *, method: str = "GET", body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, http.client.HTTPMessage, bytes]:
    connection = http.client.HTTPConnection(urlsplit(base).netloc, timeout=30)
    try:
        connection.request(method, target, body=body, headers=VERSION if headers is None else headers)
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def goal_state(fabric: Fabric) -> ElementTree.Element:
    status, headers, body = ask(fabric.wireserver, "/machine/?comp=goalstate")
    assert (status, headers["Content-Type"]) == (200, "text/xml; charset=utf-8")
    return ElementTree.fromstring(body)


def said(tree: ElementTree.Element, path: str) -> str:
    found = tree.findtext(path)
    assert found, path
    return found


def link(fabric: Fabric, name: str) -> str:
    url = said(goal_state(fabric), f"Container/RoleInstanceList/RoleInstance/Configuration/{name}")
    assert url.startswith(fabric.wireserver + "/machine/")
    return url.removeprefix(fabric.wireserver)


def report(fabric: Fabric, state: str, *, sub_status: str = "", description: str = "", container: str = "") -> bytes:
    state_of = goal_state(fabric)
    details = (
        f"<Details><SubStatus>{sub_status}</SubStatus><Description>{escape(description)}</Description></Details>"
        if sub_status
        else ""
    )
    return (
        '<?xml version="1.0" encoding="utf-8"?>'
        '<Health xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema">'
        f"<GoalStateIncarnation>{said(state_of, 'Incarnation')}</GoalStateIncarnation><Container>"
        f"<ContainerId>{container or said(state_of, 'Container/ContainerId')}</ContainerId><RoleInstanceList><Role>"
        f"<InstanceId>{said(state_of, 'Container/RoleInstanceList/RoleInstance/InstanceId')}</InstanceId>"
        f"<Health><State>{state}</State>{details}</Health></Role></RoleInstanceList></Container></Health>"
    ).encode()


def tell(fabric: Fabric, body: bytes) -> int:
    return ask(fabric.wireserver, "/machine?comp=health", method="POST", body=body)[0]


def test_versions_are_told_to_everyone() -> None:
    with Fabric() as fabric:
        status, _, body = ask(fabric.wireserver, "/?comp=versions", headers={})
        versions = ElementTree.fromstring(body)
        assert (status, versions.findtext("Preferred/Version")) == (200, "2015-04-05")
        assert "2012-11-30" in [version.text for version in versions.findall("Supported/Version")]


def test_the_goal_state_leads_to_the_configurations() -> None:
    with Fabric(vm=Vm(name="web")) as fabric:
        role = "Container/RoleInstanceList/RoleInstance/InstanceId"
        name = said(goal_state(fabric), role)
        for kind, root in (
            ("HostingEnvironmentConfig", "HostingEnvironmentConfig"),
            ("SharedConfig", "SharedConfig"),
            ("ExtensionsConfig", "Extensions"),
        ):
            status, _, body = ask(fabric.wireserver, link(fabric, kind))
            tree = ElementTree.fromstring(body)
            assert (status, tree.tag) == (200, root)
            if root != "Extensions":
                incarnation = tree.find("Incarnation")
                assert incarnation is not None and incarnation.get("instance") == name


def test_an_agent_is_told_where_its_status_belongs() -> None:
    with Fabric(vm=Vm(name="a & b")) as fabric:
        _, _, body = ask(fabric.wireserver, link(fabric, "ExtensionsConfig"))
        blob = ElementTree.fromstring(body).find("StatusUploadBlob")
        assert blob is not None and blob.get("statusBlobType") == "BlockBlob"
        assert (blob.text or "").startswith("https://") and "a%20%26%20b" in (blob.text or "")
        assert ask(fabric.host_plugin, "/status", method="PUT", body=b"{}")[0] == 200


def test_links_are_links_whatever_the_machine_is_called() -> None:
    with Fabric(vm=Vm(name='two "words" & <more>')) as fabric:
        target = link(fabric, "SharedConfig")
        assert " " not in target and '"' not in target
        status, _, body = ask(fabric.wireserver, target)
        instance = ElementTree.fromstring(body).find("Instances/Instance")
        assert status == 200 and instance is not None and instance.get("id") == '_two "words" & <more>'


@pytest.mark.parametrize(
    ("target", "method", "headers", "status", "says"),
    [
        ("/machine/?comp=goalstate", "GET", {}, 400, "x-ms-version"),
        ("/machine/?comp=goalstate", "GET", {"x-ms-version": "1999-01-01"}, 400, "x-ms-version"),
        ("/machine/?comp=nothing", "GET", VERSION, 404, "no such resource"),
        ("/machine/?comp=config&type=nothing", "GET", VERSION, 404, "no such resource"),
        ("/machine?comp=nothing", "POST", VERSION, 404, "no such resource"),
        ("/machine?comp=health", "GET", VERSION, 405, "posted"),
        ("/machine?comp=certificates", "GET", VERSION, 400, "x-ms-guest-agent-public-x509-cert is missing"),
    ],
)
def test_what_the_wireserver_refuses(target: str, method: str, headers: dict[str, str], status: int, says: str) -> None:
    with Fabric() as fabric:
        found, _, body = ask(fabric.wireserver, target, method=method, headers=headers)
        assert (found, says.encode() in body) == (status, True)
        assert says in fabric.ledger.requests[0].note


def transport(tmp_path: Path, *extra: str) -> tuple[Path, Path, str]:
    key, certificate = tmp_path / "key.pem", tmp_path / "transport.pem"
    make = ["req", "-x509", "-nodes", "-subj", "/CN=LinuxTransport", "-days", "730", "-newkey", "rsa:2048", *extra]
    subprocess.run([need("openssl"), *make, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return key, certificate, "".join(certificate.read_text().split("\n")[1:-2])


@pytest.mark.parametrize(("cipher", "algorithm", "wrap"), [
    ("AES128_CBC", "aes-128-cbc", "rsaesOaep"),
    ("DES_EDE3_CBC", "des-ede3-cbc", "rsaEncryption"),
])  # fmt: skip
def test_certificates_open_with_the_transport_key_alone(cipher: str, algorithm: str, wrap: str, tmp_path: Path) -> None:
    key, certificate, header = transport(tmp_path)
    with Fabric() as fabric:
        headers = {**VERSION, "x-ms-cipher-name": cipher, "x-ms-guest-agent-public-x509-cert": header}
        status, _, body = ask(fabric.wireserver, link(fabric, "Certificates"), headers=headers)
    file = ElementTree.fromstring(body)
    assert (status, file.findtext("Format")) == (200, "Pkcs7BlobWithPfxContents")
    envelope, bag = tmp_path / "envelope", tmp_path / "bag"
    envelope.write_bytes(base64.b64decode(said(file, "Data")))
    openssl = need("openssl")
    shown = subprocess.run([openssl, "cms", "-cmsout", "-print", "-inform", "DER", "-in", envelope], check=True,
                           capture_output=True, text=True).stdout  # fmt: skip
    assert algorithm in shown and wrap in shown and "subjectKeyIdentifier" in shown
    opened: list[str | Path] = [
        "cms",
        "-decrypt",
        "-inform",
        "DER",
        "-in",
        envelope,
        "-inkey",
        key,
        "-recip",
        certificate,
        "-out",
        bag,
    ]
    subprocess.run([openssl, *opened], check=True, capture_output=True)
    pem = subprocess.run([openssl, "pkcs12", "-nodes", "-password", "pass:", "-in", bag], check=True,
                         capture_output=True, text=True).stdout  # fmt: skip
    assert "BEGIN CERTIFICATE" in pem and "BEGIN PRIVATE KEY" in pem


def test_certificates_can_be_read_as_the_mail_that_agents_make_of_them(tmp_path: Path) -> None:
    key, certificate, header = transport(tmp_path)
    with Fabric() as fabric:
        headers = {**VERSION, "x-ms-cipher-name": "AES128_CBC", "x-ms-guest-agent-public-x509-cert": header}
        _, _, body = ask(fabric.wireserver, link(fabric, "Certificates"), headers=headers)
    head = "MIME-Version:1.0\nContent-Type: application/x-pkcs7-mime\nContent-Transfer-Encoding: base64\n\n"
    mail = tmp_path / "Certificates.p7m"
    mail.write_text(head + said(ElementTree.fromstring(body), "Data"))
    opened = subprocess.run([need("openssl"), "cms", "-decrypt", "-in", mail, "-inkey", key, "-recip", certificate],
                            capture_output=True)  # fmt: skip
    assert opened.returncode == 0, opened.stderr
    assert opened.stdout.startswith(b"\x30")  # a PKCS#12 file, in DER


def test_a_transport_certificate_without_key_identifier_will_do(tmp_path: Path) -> None:
    _, _, header = transport(tmp_path, "-addext", "subjectKeyIdentifier=none")
    with Fabric() as fabric:
        headers = {**VERSION, "x-ms-guest-agent-public-x509-cert": header}
        assert ask(fabric.wireserver, "/machine?comp=certificates", headers=headers)[0] == 200


@pytest.mark.parametrize(
    ("certificate", "cipher", "status"),
    [("!!", "AES128_CBC", 400), ("AAAA", "ROT13", 400), ("AAAA", "AES128_CBC", 500)],
)
def test_a_transport_certificate_that_is_none_is_refused(certificate: str, cipher: str, status: int) -> None:
    need("openssl")
    with Fabric() as fabric:
        headers = {**VERSION, "x-ms-cipher-name": cipher, "x-ms-guest-agent-public-x509-cert": certificate}
        assert ask(fabric.wireserver, "/machine?comp=certificates", headers=headers)[0] == status


def test_a_verdict_in_xml_is_as_good_as_one_in_json() -> None:
    with Fabric() as fabric:
        assert tell(fabric, report(fabric, "NotReady", sub_status="Provisioning", description="Starting")) == 201
        assert tell(fabric, report(fabric, "NotReady")) == 201
        assert tell(fabric, report(fabric, "Ready")) == 201
        assert [told.kind for told in fabric.ledger.told] == ["progress", "progress", "ready"]
        assert fabric.judge().ok


def test_a_failure_in_xml_keeps_its_words() -> None:
    with Fabric() as fabric:
        body = report(fabric, "NotReady", sub_status="ProvisioningFailed", description="result=error|reason=a < b & c")
        assert tell(fabric, body) == 201
        assert fabric.judge().reason == "a < b & c"


@pytest.mark.parametrize(
    ("description", "status"), [("x" * 4096, 201), ("x" * 4097, 500), ("&" * 819, 201), ("&" * 820, 500)]
)
def test_the_xml_description_is_measured_as_it_is_escaped(description: str, status: int) -> None:
    with Fabric() as fabric:
        body = report(fabric, "NotReady", sub_status="ProvisioningFailed", description=description)
        assert tell(fabric, body) == status
        assert len(fabric.ledger.verdicts) == (status == 201)


def test_xml_that_is_no_report_is_refused() -> None:
    with Fabric() as fabric:
        for body in (
            b"", b"<Health/>", b"<Other><State>Ready</State></Other>",
            b"<!DOCTYPE x><Health><State>Ready</State></Health>",
            report(fabric, "Perhaps"), report(fabric, "NotReady", sub_status="Perhaps"),
            report(fabric, "Ready", container="somebody else's"),
        ):  # fmt: skip
            assert tell(fabric, body) == 400
        assert not fabric.ledger.told


@given(body=st.one_of(st.binary(), st.text("<>/Health State&;\"'=!", max_size=80).map(str.encode)))
def test_no_body_breaks_the_xml_endpoint(body: bytes) -> None:
    found = accepted_health(HttpRequest(method="POST", target="/machine?comp=health", body=body))
    assert found is None or found.kind in ("ready", "failed", "progress")


def test_ready_by_both_endpoints_is_one_too_many() -> None:
    with Fabric() as fabric:
        assert tell(fabric, report(fabric, "Ready")) == 201
        assert ask(fabric.wireserver, "/provisioning/health", method="POST", body=b'{"state":"Ready"}')[0] == 201
        assert fabric.judge().state == "lied"


def test_nothing_is_heard_before_the_goal_state_is_ready() -> None:
    with Fabric(wireserver=Wireserver(goal_state_after_secs=3600)) as fabric:
        assert ask(fabric.wireserver, "/machine/?comp=goalstate")[0] == 503
        assert ask(fabric.wireserver, "/provisioning/health", method="POST", body=b'{"state":"Ready"}')[0] == 503
        assert ask(fabric.wireserver, "/?comp=versions")[0] == 200
        assert fabric.judge().state == "waiting"


def test_role_properties_telemetry_and_observations_are_taken() -> None:
    with Fabric() as fabric:
        assert ask(fabric.wireserver, "/HealthService", method="POST", body=b"{}")[0] == 200
        assert ask(fabric.wireserver, "/HealthService")[0] == 405
        assert ask(fabric.wireserver, "/machine?comp=roleProperties", method="POST", body=b"<x/>")[0] == 202
        assert ask(fabric.wireserver, "/machine?comp=telemetrydata", method="POST", body=b"<x/>")[0] == 200


def test_a_script_may_name_one_document_of_the_wireserver() -> None:
    faults: list[Mapping[str, Any]] = [
        {"path": "/machine/?comp=goalstate", "answers": [410, "ok*"]},
        {"path": "/machine?comp=config&type=sharedConfig", "answers": ["404*"]},
    ]
    with Fabric(faults=faults) as fabric:
        assert [ask(fabric.wireserver, "/machine/?comp=goalstate")[0] for _ in range(2)] == [410, 200]
        assert ask(fabric.wireserver, link(fabric, "SharedConfig"))[0] == 404
        assert ask(fabric.wireserver, link(fabric, "ExtensionsConfig"))[0] == 200
        assert tell(fabric, report(fabric, "Ready")) == 201


def test_all_documents_speak_of_the_same_machine() -> None:
    with Fabric(vm=Vm(nics=(Interface(address="10.0.7.9"),), temporary_disk="none")) as fabric:
        shared = ask(fabric.wireserver, link(fabric, "SharedConfig"))[2]
        assert b'address="10.0.7.9"' in shared
        headers = {"x-ms-containerid": said(goal_state(fabric), "Container/ContainerId")}
        settings = json.loads(ask(fabric.host_plugin, "/vmSettings", headers=headers)[2])
        assert settings["inVMMetadata"]["vmSize"] == "Standard_D2s_v5"


def test_the_host_plugin_has_a_door_of_its_own() -> None:
    with Fabric() as fabric:
        status, _, body = ask(fabric.host_plugin, "/versions")
        assert (status, json.loads(body)) == (200, ["2015-09-01"])
        assert ask(fabric.host_plugin, "/health")[0] == 200
        assert ask(fabric.host_plugin, "/vmSettings")[0] == 400
        headers = {"x-ms-containerid": said(goal_state(fabric), "Container/ContainerId")}
        status, answered, body = ask(fabric.host_plugin, "/vmSettings", headers=headers)
        assert (status, json.loads(body)["inVMMetadata"]["vmId"]) == (200, fabric.vm.id)
        headers["if-none-match"] = answered["ETag"]
        assert ask(fabric.host_plugin, "/vmSettings", headers=headers)[0] == 304
        assert ask(fabric.host_plugin, "/vmSettings", method="POST")[0] == 405
        assert ask(fabric.host_plugin, "/nothing")[0] == 404
        assert {request.service for request in fabric.ledger.requests} == {"hostplugin", "wireserver"}


def test_without_a_wireserver_there_is_no_host_plugin() -> None:
    with Fabric(wireserver=False) as fabric, pytest.raises(ConnectionRefusedError):
        ask(fabric.host_plugin, "/versions")


@pytest.mark.parametrize(("eject", "stays"), [(True, False), (False, True)])
def test_the_platform_takes_its_medium_after_a_verdict(eject: bool, stays: bool, tmp_path: Path) -> None:
    with Fabric(eject=eject) as fabric:
        disc = fabric.write_media(tmp_path / "disc")
        tell(fabric, report(fabric, "NotReady", sub_status="Provisioning"))
        assert disc.exists(), "not before"
        tell(fabric, report(fabric, "Ready"))
        assert disc.exists() == stays
        assert any(isinstance(event, Ejected) for event in fabric.ledger.events) != stays


def test_a_scenario_may_keep_the_medium(tmp_path: Path) -> None:
    with Fabric(eject=True, media=Media(eject=False)) as fabric:
        disc = fabric.write_media(tmp_path / "disc")
        tell(fabric, report(fabric, "Ready"))
        assert disc.exists()


def test_a_medium_may_come_late(tmp_path: Path) -> None:
    with Fabric(media=Media(late_secs=0.05)) as fabric:
        disc = fabric.write_media(tmp_path / "disc")
        assert fabric.ledger.wait(lambda ledger: any(isinstance(e, MediaMade) for e in ledger.events), timeout=20)
        assert disc.stat().st_size > 500_000


def test_after_a_verdict_no_medium_comes_any_more(tmp_path: Path) -> None:
    with Fabric(media=Media(late_secs=0.3), eject=True) as fabric:
        disc = fabric.write_media(tmp_path / "disc")
        assert tell(fabric, report(fabric, "Ready")) == 201
        assert not fabric.ledger.wait(lambda ledger: any(isinstance(e, MediaMade) for e in ledger.events), timeout=0.5)
        assert not disc.exists()


def test_a_medium_that_is_too_late_never_comes(tmp_path: Path) -> None:
    with Fabric(media=Media(late_secs=3600)) as fabric:
        disc = fabric.write_media(tmp_path / "disc")
    assert not disc.exists()
