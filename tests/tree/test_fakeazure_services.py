"""The metadata service and the health endpoint, over real sockets."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import tomllib
from base64 import b64decode
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, strategies as st

from fakeazure import Fabric, Imds, Key, Media, Vm
from fakeazure.platform.http import HttpRequest
from fakeazure.platform.wireserver import answer as health_answer

NEWEST = "/metadata/instance?api-version=2023-11-15&extended=true"
READY = b'{"state":"Ready"}'


def ask(
    base: str, target: str, *, method: str = "GET", body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, http.client.HTTPMessage, bytes]:
    connection = http.client.HTTPConnection(urlsplit(base).netloc, timeout=10)
    try:
        connection.request(method, target, body=body, headers={"Metadata": "true"} if headers is None else headers)
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def metadata(fabric: Fabric, target: str = NEWEST) -> Any:
    status, _, body = ask(fabric.imds, target)
    assert status == 200
    return json.loads(body)


def tell(fabric: Fabric, body: bytes = READY) -> int:
    return ask(fabric.wireserver, "/provisioning/health", method="POST", body=body, headers={})[0]


def failure(description: str, *, sub_status: str = "ProvisioningFailed", ascii_only: bool = True) -> bytes:
    report = {"state": "NotReady", "details": {"subStatus": sub_status, "description": description}}
    return json.dumps(report, ensure_ascii=ascii_only).encode()


def test_the_document_describes_the_machine() -> None:
    vm = Vm(name="web", username="ada", password="x", keys=(Key("ssh-rsa A", "/k"), "ssh-rsa B"), custom_data="c",
            user_data=b"#!", tags={"a": "1", "b": "2"}, location="eastus", pps_type="Unknown")  # fmt: skip
    with Fabric(vm=vm) as fabric:
        whole = metadata(fabric)
    compute = whole["compute"]
    assert compute["osProfile"] == {
        "adminUsername": "ada", "computerName": "web", "disablePasswordAuthentication": "false"
    }  # fmt: skip
    assert compute["publicKeys"] == [
        {"keyData": "ssh-rsa A", "path": "/k"},
        {"keyData": "ssh-rsa B", "path": "/home/ada/.ssh/authorized_keys"},
    ]
    assert (compute["vmId"], compute["name"], compute["location"]) == (vm.id, "web", "eastus")
    assert compute["tags"] == "a:1;b:2"
    assert compute["tagsList"] == [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]
    assert b64decode(compute["userData"]) == b"#!"
    assert compute["customData"] == ""
    assert "x" not in (compute["osProfile"].values())
    assert whole["extended"] == {"compute": {"hasCustomData": True, "ppsType": "Unknown"}}
    assert whole["network"]["interface"][0]["ipv4"]["ipAddress"][0]["privateIpAddress"] == "10.0.0.4"


def test_passwords_are_off_by_default() -> None:
    with Fabric() as fabric:
        assert metadata(fabric)["compute"]["osProfile"]["disablePasswordAuthentication"] == "true"


def test_a_specialised_machine_has_an_empty_profile_and_no_keys() -> None:
    with Fabric(vm=Vm(specialised=True)) as fabric:
        compute = metadata(fabric)["compute"]
    assert set(compute["osProfile"].values()) == {""}
    assert compute["publicKeys"] == []


def test_extended_is_given_only_where_it_is_asked_for() -> None:
    with Fabric() as fabric:
        assert "extended" not in metadata(fabric, "/metadata/instance?api-version=2023-11-15")


def test_an_old_version_does_not_know_the_newer_values() -> None:
    with Fabric() as fabric:
        old = metadata(fabric, "/metadata/instance?api-version=2019-06-01&extended=true")
        middle = metadata(fabric, "/metadata/instance?api-version=2020-07-15")["compute"]["osProfile"]
    assert "osProfile" not in old["compute"] and "extended" not in old
    assert old["compute"]["publicKeys"]
    assert set(middle) == {"adminUsername", "computerName"}


@pytest.mark.parametrize(
    ("target", "headers", "method", "status", "says"),
    [
        (NEWEST, {}, "GET", 400, "Required metadata header not specified"),
        (NEWEST, {"Metadata": "false"}, "GET", 400, "Required metadata header not specified"),
        (NEWEST, {"Metadata": "true", "X-Forwarded-For": "1.2.3.4"}, "GET", 400, "X-Forwarded-For"),
        ("/metadata/instance", None, "GET", 400, "api-version was not specified"),
        ("/metadata/instance?api-version=2050-01-01", None, "GET", 400, "api-version is invalid"),
        ("/metadata/nonsense?api-version=2023-11-15", None, "GET", 404, "Not found"),
        ("/", None, "GET", 404, "Not found"),
        (NEWEST, None, "POST", 405, "does not support"),
        (NEWEST, None, "DELETE", 405, "does not support"),
    ],
)
def test_imds_refuses(target: str, headers: dict[str, str] | None, method: str, status: int, says: str) -> None:
    with Fabric() as fabric:
        found, _, body = ask(fabric.imds, target, method=method, headers=headers)
        assert found == status
        assert says in json.loads(body)["error"]
        assert fabric.ledger.requests[0].status == status


def test_a_wrong_version_is_answered_with_the_newest_ones() -> None:
    with Fabric(imds=Imds(api_versions=("2019-06-01", "2021-08-01"))) as fabric:
        _, _, body = ask(fabric.imds, NEWEST)
        assert json.loads(body)["newest-versions"] == ["2021-08-01", "2019-06-01"]
        assert metadata(fabric, "/metadata/instance?api-version=2021-08-01")["compute"]


def test_values_can_be_changed_and_taken_out() -> None:
    changes = Imds(set={"compute": {"osProfile": {"computerName": ""}}}, remove=("compute.publicKeys", "no.such"))
    with Fabric(imds=changes) as fabric:
        compute = metadata(fabric)["compute"]
    assert compute["osProfile"]["computerName"] == "" and compute["osProfile"]["adminUsername"] == "azureuser"
    assert "publicKeys" not in compute


def test_a_platform_without_imds_refuses_the_connection() -> None:
    with Fabric(imds=Imds(enable=False)) as fabric, pytest.raises(ConnectionRefusedError):
        metadata(fabric)


@pytest.mark.parametrize(
    ("body", "status", "kinds"),
    [
        (READY, 201, ["ready"]),
        (b'{"state":"Ready","details":null}', 201, ["ready"]),
        (failure("result=error|reason=x"), 201, ["failed"]),
        (failure("wait", sub_status="Provisioning"), 201, ["progress"]),
        (b"", 400, []),
        (b"not json", 400, []),
        (b"[]", 400, []),
        (b'{"state":"ready"}', 400, []),
        (b'{"state":"NotReady"}', 400, []),
        (b'{"state":"NotReady","details":[]}', 400, []),
        (b'{"state":"NotReady","details":{"subStatus":"Perhaps"}}', 400, []),
        (b'{"state":"NotReady","details":{"subStatus":["x"]}}', 400, []),
        (b'{"state":"Ready","details":{"description":7}}', 400, []),
        (b"[" * 100_000, 400, []),
    ],
)
def test_the_health_endpoint_takes_reports_and_nothing_else(body: bytes, status: int, kinds: list[str]) -> None:
    with Fabric() as fabric:
        assert tell(fabric, body) == status
        assert [told.kind for told in fabric.ledger.told] == kinds


def test_the_description_is_measured_as_it_is_escaped_on_the_wire() -> None:
    with Fabric() as fabric:
        assert tell(fabric, failure("x" * 4096)) == 201
        assert tell(fabric, failure("x" * 4097)) == 500
        assert tell(fabric, failure("\n" * 2049)) == 500
        assert tell(fabric, failure("é" * 2048, ascii_only=False)) == 201
        assert tell(fabric, failure("é" * 2048, ascii_only=True)) == 500
        assert tell(fabric, failure('"description": "' + "x" * 4000)) == 201
        assert len(fabric.ledger.verdicts) == 3


@pytest.mark.parametrize(("target", "method", "status"), [("/", "POST", 404), ("/provisioning/health", "GET", 405)])
def test_the_wireserver_refuses(target: str, method: str, status: int) -> None:
    with Fabric() as fabric:
        assert ask(fabric.wireserver, target, method=method)[0] == status
        assert not fabric.ledger.told


@given(body=st.one_of(st.binary(), st.recursive(
    st.one_of(st.none(), st.booleans(), st.text(), st.sampled_from(["Ready", "NotReady", "Provisioning"])),
    lambda inner: st.dictionaries(st.sampled_from(["state", "details", "subStatus", "description"]), inner),
).map(lambda value: json.dumps(value).encode())))  # fmt: skip
def test_no_body_breaks_the_health_endpoint(body: bytes) -> None:
    response, health = health_answer(HttpRequest(method="POST", target="/provisioning/health", body=body))
    assert (response.status == 201) == (health is not None)


def test_the_ledger_has_the_request_with_its_headers_and_body() -> None:
    with Fabric() as fabric:
        ask(fabric.wireserver, "/provisioning/health?x=1", method="POST", body=READY,
            headers={"x-ms-guest-agent-name": "agent 7"})  # fmt: skip
        request = fabric.ledger.requests[0]
        assert (request.service, request.method, request.path) == ("wireserver", "POST", "/provisioning/health")
        assert (request.body, request.headers["content-length"], request.fault) == (READY.decode(), "17", None)
        assert fabric.ledger.verdicts[0].agent == "agent 7"


def test_one_connection_serves_many_requests() -> None:
    with Fabric() as fabric:
        connection = http.client.HTTPConnection(urlsplit(fabric.imds).netloc, timeout=10)
        for _ in range(3):
            connection.request("GET", NEWEST, headers={"Metadata": "true"})
            assert json.loads(connection.getresponse().read())["compute"]
        connection.close()
        assert len(fabric.ledger.requests) == 3


def raw(base: str, data: bytes) -> bytes:
    host, port = urlsplit(base).netloc.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while part := connection.recv(65536):
            received += part
        return received


def test_a_chunked_report_is_heard() -> None:
    with Fabric() as fabric:
        head = b"POST /provisioning/health HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        received = raw(fabric.wireserver, head + b'9\r\n{"state":\r\n8\r\n"Ready"}\r\n0\r\n\r\n')
        assert received.startswith(b"HTTP/1.1 201 Created\r\n")
        assert fabric.judge().state == "ready"


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01 hello\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc",
        b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused_and_noted(data: bytes) -> None:
    with Fabric() as fabric:
        assert raw(fabric.imds, data).startswith(b"HTTP/1.1 400 ")
        assert fabric.ledger.requests[0].note
        assert metadata(fabric)


def test_clients_that_vanish_disturb_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    with Fabric() as fabric:
        host, port = urlsplit(fabric.imds).netloc.split(":")
        for part in (b"", b"GET", b"GET / HTTP/1.1\r\n", f"GET {NEWEST} HTTP/1.1\r\nMetadata: true\r\n\r\n".encode()):
            with socket.create_connection((host, int(port))) as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                connection.sendall(part)
        assert metadata(fabric)
    assert capfd.readouterr() == ("", "")


def test_many_machines_may_ask_at_once() -> None:
    with Fabric() as fabric:
        askers = [threading.Thread(target=metadata, args=(fabric,)) for _ in range(50)]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()
        assert [request.status for request in fabric.ledger.requests] == [200] * 50


def test_the_config_leads_to_this_platform() -> None:
    with Fabric(vm=Vm(name="x")) as fabric:
        config = tomllib.loads(fabric.config_text(imds={"tries": [1, 2.5]}, own={"quote": 'a"b\\', "on": True}))
        assert config == {
            "imds": {"endpoint": fabric.imds, "tries": [1, 2.5]},
            "wireserver": {"health_endpoint": fabric.wireserver + "/provisioning/health"},
            "provisioning_media": {"path": str(fabric.media_path)},
            "platform": {"require_azure": False, "vm_id": fabric.vm.id},
            "own": {"quote": 'a"b\\', "on": True},
        }
        place = fabric.directory
        assert fabric.media_path is not None and fabric.media_path.exists()
    assert not place.exists()


def test_the_config_of_a_machine_without_media_names_a_file_that_is_not_there() -> None:
    with Fabric(media=Media(enable=False)) as fabric:
        fabric.config_text()
        assert fabric.media_path is not None
        assert fabric.media_path.name == "no-media.iso" and not fabric.media_path.exists()


def test_the_firmware_of_an_old_generation_swaps_its_bytes() -> None:
    vm = Vm(id="550e8400-e29b-41d4-a716-446655440000", generation=1)
    assert vm.dmi_uuid == "00840e55-9be2-d441-a716-446655440000"
    assert Vm(id=vm.id).dmi_uuid == vm.id
