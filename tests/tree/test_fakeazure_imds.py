"""The metadata service: paths, formats, the other endpoints, and refusals."""

from __future__ import annotations

import base64
import http.client
import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, strategies as st

from fakeazure import Fabric, Imds, Vm
from fakeazure.platform.http import HttpRequest
from fakeazure.platform.imds import VERSIONS, Standing, answer
from fakeazure.platform.imds_document import SINCE, document
from fakeazure.platform.vm import Disk, Interface
from support.need import need

VERSION = "api-version=2023-11-15"


def ask(fabric: Fabric, target: str, *, method: str = "GET", **headers: str) -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection(urlsplit(fabric.imds).netloc, timeout=30)
    try:
        connection.request(method, target, headers={"Metadata": "true", **headers})
        response = connection.getresponse()
        return response.status, response.headers["Content-Type"] or "", response.read()
    finally:
        connection.close()


def text(fabric: Fabric, path: str, *, version: str = "2023-11-15") -> str:
    status, kind, body = ask(fabric, f"/metadata/instance/{path}?api-version={version}&format=text")
    assert (status, kind) == (200, "text/plain; charset=utf-8")
    return body.decode()


def test_a_path_leads_into_the_document() -> None:
    with Fabric(vm=Vm(name="web", username="ada")) as fabric:
        status, kind, body = ask(fabric, f"/metadata/instance/compute/osProfile?{VERSION}")
        assert (status, kind) == (200, "application/json; charset=utf-8")
        assert json.loads(body)["adminUsername"] == "ada"
        status, _, body = ask(fabric, f"/metadata/instance/network/interface/0?{VERSION}")
        assert status == 200 and json.loads(body)["macAddress"] == fabric.vm.interfaces[0].mac.replace(":", "").upper()
        assert text(fabric, "network/interface/0/ipv4/ipAddress/0/privateIpAddress") == "10.0.0.4"


def test_what_afterburn_and_ignition_ask_for() -> None:
    with Fabric(vm=Vm(name="web", username="ada", user_data=b"{}")) as fabric:
        assert text(fabric, "compute/name", version="2017-08-01") == "web"
        assert text(fabric, "compute/vmSize", version="2017-08-01").startswith("Standard_")
        assert text(fabric, "compute/osProfile/adminUsername", version="2021-02-01") == "ada"
        assert base64.b64decode(text(fabric, "compute/userData", version="2021-01-01")) == b"{}"
        status, _, body = ask(fabric, "/metadata/instance/compute/publicKeys?api-version=2021-02-01")
        assert status == 200 and json.loads(body)[0]["path"] == "/home/ada/.ssh/authorized_keys"


def test_text_lists_what_is_below() -> None:
    with Fabric() as fabric:
        assert text(fabric, "") == "compute/\nnetwork/"
        assert text(fabric, "compute/osProfile").split() == [
            "adminUsername", "computerName", "disablePasswordAuthentication"
        ]  # fmt: skip
        assert text(fabric, "network/interface") == "0/"
        assert text(fabric, "compute/licenseType") == "", "an absent value is empty"


@pytest.mark.parametrize(
    ("target", "status", "says"),
    [
        (f"/metadata/instance/compute/name?{VERSION}", 400, "format=text"),
        (f"/metadata/instance/compute/name?{VERSION}&format=json", 400, "format=text"),
        (f"/metadata/instance?{VERSION}&format=xml", 400, "xml is not supported"),
        (f"/metadata/instance/compute/nothing?{VERSION}", 404, "Not found"),
        (f"/metadata/instance/network/interface/1?{VERSION}", 404, "Not found"),
        (f"/metadata/instance/network/interface/-1?{VERSION}", 404, "Not found"),
        (f"/metadata/instance/compute/name/deeper?{VERSION}", 404, "Not found"),
        ("/metadata/instance/compute/osProfile?api-version=2019-06-01", 404, "Not found"),
        (f"/metadata/instance?{VERSION}&{VERSION}", 400, "api-version was given more than once"),
        ("/metadata/attested/document?api-version=2018-04-02", 400, "api-version is invalid"),
        ("/metadata/scheduledevents?api-version=2023-11-15", 400, "api-version is invalid"),
        (f"/metadata/reprovisiondata?{VERSION}", 404, "Not found"),
        (f"/metadata/instancex?{VERSION}", 404, "Not found"),
        (f"/metadata?{VERSION}", 404, "Not found"),
    ],
)
def test_what_the_service_refuses(target: str, status: int, says: str) -> None:
    with Fabric() as fabric:
        found, _, body = ask(fabric, target)
        assert (found, says in json.loads(body)["error"]) == (status, True)


def test_versions_need_no_version() -> None:
    with Fabric() as fabric:
        status, _, body = ask(fabric, "/metadata/versions")
        assert status == 200 and json.loads(body) == {"apiVersions": list(VERSIONS)}


def test_nothing_is_scheduled() -> None:
    with Fabric() as fabric:
        status, _, body = ask(fabric, "/metadata/scheduledevents?api-version=2020-07-01")
        assert status == 200 and json.loads(body) == {"DocumentIncarnation": 1, "Events": []}
        assert ask(fabric, "/metadata/scheduledevents?api-version=2020-07-01", method="POST")[0] == 200
        assert ask(fabric, "/metadata/scheduledevents?api-version=2020-07-01", method="PUT")[0] == 405


def test_the_attested_document_is_signed(tmp_path: Path) -> None:
    with Fabric() as fabric:
        status, _, body = ask(fabric, f"/metadata/attested/document?{VERSION}&nonce=12345")
        given = json.loads(body)
        assert (status, given["encoding"]) == (200, "pkcs7")
        signature = tmp_path / "signature"
        signature.write_bytes(base64.b64decode(given["signature"]))
        verify: list[str | Path] = ["cms", "-verify", "-noverify", "-inform", "DER", "-in", signature]
        shown = subprocess.run([need("openssl"), *verify], capture_output=True, check=True).stdout
        assert (json.loads(shown)["nonce"], json.loads(shown)["vmId"]) == ("12345", fabric.vm.id)


def test_the_security_protocol_opens_once_the_proxy_agent_has_run(tmp_path: Path) -> None:
    with Fabric(imds=Imds(protected=True)) as fabric:
        assert ask(fabric, f"/metadata/instance?{VERSION}")[0] == 401
        stub = fabric.write_proxy_agent(tmp_path / "bin")
        assert stub is not None and stub.name == "azure-proxy-agent"
        subprocess.run([stub, "--status", "--wait", "120"], env={}, check=True, capture_output=True)
        assert ask(fabric, f"/metadata/instance?{VERSION}")[0] == 200
        fabric.reboot()
        assert ask(fabric, f"/metadata/instance?{VERSION}")[0] == 401


def test_the_proxy_agent_may_fail_or_be_absent(tmp_path: Path) -> None:
    with Fabric(imds=Imds(protected=True, proxy_agent="fails")) as fabric:
        stub = fabric.write_proxy_agent(tmp_path)
        assert stub is not None
        failed = subprocess.run([stub, "--status"], capture_output=True, check=False)
        assert failed.returncode == 1 and b"to fail" in failed.stderr
        assert ask(fabric, f"/metadata/instance?{VERSION}")[0] == 401
    for imds in (Imds(), Imds(protected=True, proxy_agent="absent")):
        with Fabric(imds=imds) as fabric:
            assert fabric.write_proxy_agent(tmp_path / "none") is None
    with Fabric(vm=Vm(proxy_agent=True)) as fabric:
        assert fabric.write_proxy_agent(tmp_path / "asked") is not None


def test_too_many_questions_a_second_are_refused() -> None:
    question = HttpRequest(method="GET", target="/metadata/versions", headers={"metadata": "true"})
    standing = Standing()

    def status(now: float) -> int:
        return answer(question, Vm(), Imds(rate_limit=5), standing=standing, now=now).status

    assert [status(0.1) for _ in range(7)] == [200] * 5 + [429] * 2
    assert status(2.0) == 200


def test_a_pre_provisioned_machine_gets_its_owner_after_it_said_ready() -> None:
    with Fabric(vm=Vm(pps_type="Running", name="web")) as fabric:
        target = "/metadata/reprovisiondata?api-version=2019-06-01"
        assert ask(fabric, target)[0] == 404
        connection = http.client.HTTPConnection(urlsplit(fabric.wireserver).netloc, timeout=10)
        connection.request("POST", "/provisioning/health", body=b'{"state":"Ready"}')
        assert connection.getresponse().status == 201
        connection.close()
        status, kind, body = ask(fabric, target)
        assert (status, kind) == (200, "text/xml; charset=utf-8")
        assert b"<HostName>web</HostName>" in body and b"<PreprovisionedVm>false</PreprovisionedVm>" in body


def test_the_interfaces_are_the_machines_own() -> None:
    nics = (Interface(public_address="20.50.1.2"), Interface(mac="00:0d:3a:aa:bb:cc", address="10.7.1.9", prefix=26))
    whole = document(Vm(nics=nics), Imds(), version="2023-11-15", extended=False)["network"]["interface"]
    first, second = whole
    assert first["ipv4"] == {
        "ipAddress": [{"privateIpAddress": "10.0.0.4", "publicIpAddress": "20.50.1.2"}],
        "subnet": [{"address": "10.0.0.0", "prefix": "24"}],
    }
    assert re.fullmatch("000D3A[0-9A-F]{6}", first["macAddress"]) and first["ipv6"] == {"ipAddress": []}
    assert second["macAddress"] == "000D3AAABBCC"
    assert second["ipv4"]["subnet"] == [{"address": "10.7.1.0", "prefix": "26"}]


def test_a_machine_keeps_its_addresses_and_shares_them_with_nobody() -> None:
    one, other = Vm(id="a", nics=(Interface(),) * 3), Vm(id="b", nics=(Interface(),) * 3)
    assert one.interfaces == Vm(id="a", nics=(Interface(),) * 3).interfaces
    assert len({nic.mac for nic in (*one.interfaces, *other.interfaces)}) == 6
    assert [nic.address for nic in one.interfaces] == ["10.0.0.4", "10.0.0.5", "10.0.0.6"]
    assert replace(one, id="b").interfaces == other.interfaces


def test_the_disks_are_the_machines_own() -> None:
    vm = Vm(name="web", disks=(Disk(lun=0), Disk(lun=7, size_gb=64, name="logs", caching="ReadOnly")))
    profile = document(vm, Imds(), version="2023-11-15", extended=False)["compute"]["storageProfile"]
    shown = [(disk["lun"], disk["name"], disk["diskSizeGB"], disk["caching"]) for disk in profile["dataDisks"]]
    assert shown == [("0", "web_DataDisk_0", "4", "None"), ("7", "logs", "64", "ReadOnly")]
    assert profile["dataDisks"][1]["diskCapacityBytes"] == str(64 * 1024**3)
    assert profile["dataDisks"][1]["managedDisk"]["id"].endswith("/disks/logs")


@pytest.mark.parametrize(("kind", "size"), [("scsi", "32768"), ("nvme", "0"), ("none", "0")])
def test_the_resource_disk_is_the_temporary_one_on_scsi(kind: str, size: str) -> None:
    vm = Vm(temporary_disk=kind, temporary_disk_gb=32)
    compute = document(vm, Imds(), version="2023-11-15", extended=False)["compute"]
    assert compute["storageProfile"]["resourceDisk"] == {"size": size}
    assert compute["vmSize"].startswith("Standard_D2")


@pytest.mark.parametrize("path", sorted(SINCE))
def test_a_value_is_there_from_its_version_on_and_not_before(path: str) -> None:
    def has(version: str) -> bool:
        value: Any = document(Vm(disks=(Disk(lun=0),)), Imds(), version=version, extended=True)
        for part in path.split("."):
            value = value[0] if isinstance(value, list) else value
            if part not in value:
                return False
            value = value[part]
        return True

    since = SINCE[path]
    assert since in VERSIONS
    assert has(since) and not has(VERSIONS[VERSIONS.index(since) - 1])


@given(path=st.text("/0aZ.%é", max_size=20), query=st.text("aformt=ex&api-vson20", max_size=30))
def test_no_question_breaks_the_service(path: str, query: str) -> None:
    target = f"/metadata/instance/{path}?{VERSION}&{query}"
    request = HttpRequest(method="GET", target=target, headers={"metadata": "true"})
    assert answer(request, Vm(), Imds()).status in (200, 400, 404)
