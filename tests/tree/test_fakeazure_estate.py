"""Fleet: many machines behind one HTTP server, each with its own answers, faults and judgement."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import given, strategies as st

import fakeazure
from fakeazure import Expect, Fabric, Fleet, Imds, Machine, Media, Scenario, Vm, Wireserver
from fakeazure.platform.faults import parse_script
from fakeazure.platform.fleet import By, NotDistinct, unprefixed
from fakeazure.platform.http import HttpRequest
from fakeazure.platform.http_server import CannotListen, HttpServer
from support.need import need

METADATA = "/metadata/instance?api-version=2023-11-15"
ATTESTED = "/metadata/attested/document?api-version=2023-11-15"
READY = b'{"state":"Ready"}'
FAILED = b'{"state":"NotReady","details":{"subStatus":"ProvisioningFailed","description":"result=error|reason=x"}}'
BENCH = Path(__file__).parents[2] / "bench/fabric"


def ask(base: str, target: str, *, source: str = "", body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    """`source`: the client address."""
    place = urlsplit(base)
    connection = http.client.HTTPConnection(place.netloc, timeout=20, source_address=(source, 0) if source else None)
    try:
        sent = {"Metadata": "true", **{name.replace("_", "-"): text for name, text in headers.items()}}
        connection.request("GET" if body is None else "POST", place.path + target, body=body, headers=sent)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def name_told(machine: Machine) -> str:
    status, body = ask(machine.imds, METADATA, source=machine.address)
    assert status == 200
    return str(json.loads(body)["compute"]["name"])


def tell(machine: Machine, body: bytes = READY) -> int:
    return ask(machine.wireserver, "/provisioning/health", source=machine.address, body=body)[0]


def scenario(name: str, **more: Any) -> Scenario:
    return Scenario(vm=Vm(name=name), **more)


@pytest.mark.parametrize("by", ["address", "path"])
def test_machines_are_told_apart(by: By) -> None:
    with Fleet(by=by) as fleet:
        one, two, three = (fleet.add(scenario(name)) for name in ("one", "two", "three"))
        assert [name_told(machine) for machine in (one, two, three)] == ["one", "two", "three"]
        assert tell(one) == tell(two, FAILED) == 201
        assert [machine.judge().state for machine in (one, two, three)] == ["ready", "failed", "waiting"]
        assert [len(machine.ledger.requests) for machine in (one, two, three)] == [2, 2, 1]
        assert one.ledger.requests[0].path == "/metadata/instance"
        assert not fleet.ledger.events


def test_addresses_are_of_the_loopback_network_unless_given() -> None:
    with Fleet(by="address") as fleet:
        given_one = fleet.add(scenario("given"), address="127.1.0.2")
        found = [fleet.add(scenario(f"{n}")).address for n in range(3)]
    assert given_one.address == "127.1.0.2"
    assert len({*found, "127.1.0.2"}) == 4 and all(address.startswith("127.1.0.") for address in found)


def test_a_machine_is_known_by_its_id_too() -> None:
    with Fleet(by="path") as fleet:
        machine = fleet.add(scenario("web"))
        status, body = ask(fleet.imds, f"/vm/{machine.vm.id}{METADATA}")
        assert status == 200 and json.loads(body)["compute"]["vmId"] == machine.vm.id


def test_a_command_can_be_run_for_one_of_the_machines() -> None:
    with Fleet(by="path") as fleet:
        machine = fleet.add(scenario("web"))
        ran = machine.run("sh", "-c", 'case "$FAKEAZURE_IMDS" in */vm/web) exit 7;; esac')
        assert ran.returncode == 7


def test_links_in_the_goal_state_lead_to_the_same_machine() -> None:
    with Fleet(by="path") as fleet:
        machines = [fleet.add(scenario(name)) for name in ("web", "a/b ?ü")]
        for machine in machines:
            version: dict[str, Any] = {"x_ms_version": "2015-04-05"}
            _, goal = ask(machine.wireserver, "/machine/?comp=goalstate", **version)
            link = re.search(r"<SharedConfig>(.*?)</SharedConfig>", goal.decode())
            assert link and link[1].startswith(machine.wireserver + "/machine/")
            place = urlsplit(link[1].replace("&amp;", "&"))
            status, config = ask(f"http://{place.netloc}", f"{place.path}?{place.query}", **version)
            assert status == 200 and f'instance="_{machine.vm.name}"' in config.decode()


@pytest.mark.parametrize(
    ("by", "target", "says"),
    [
        ("path", METADATA, "the path names no machine: it must begin with /vm/NAME"),
        ("path", "/vm/nobody" + METADATA, "no machine has the name 'nobody'"),
        ("path", "/vm/", "the path names no machine"),
        ("address", METADATA, "no machine has the address 127.0.0.1"),
    ],
)
def test_nobody_known_is_told_so_and_noted(by: By, target: str, says: str) -> None:
    with Fleet(by=by) as fleet:
        machine = fleet.add(scenario("web"))
        status, body = ask(fleet.imds, target)
        assert status == 404 and says in json.loads(body)["error"]
        (stranger,) = fleet.ledger.requests
        assert (stranger.service, stranger.status) == ("imds", 404) and says in stranger.note
        assert not machine.ledger.requests


@pytest.mark.parametrize("by", ["address", "path"])
def test_what_is_not_http_is_refused(by: By) -> None:
    with Fleet(by=by) as fleet:
        machine = fleet.add(scenario("web"))
        place = urlsplit(machine.imds)
        source = (machine.address, 0) if machine.address else None
        with socket.create_connection((place.hostname or "", place.port or 80), 10, source) as connection:
            connection.sendall(b"hello\r\n\r\n")
            assert connection.recv(1000).startswith(b"HTTP/1.1 400 ")
        noted = machine.ledger if by == "address" else fleet.ledger
        assert len(noted.requests) == 1


def test_whoever_asks_is_the_only_machine_there_is() -> None:
    with Fleet(by="anyone") as fleet:
        machine = fleet.add(scenario("only"))
        assert name_told(machine) == "only" and machine.imds == fleet.imds
        with pytest.raises(NotDistinct, match="a fleet by 'anyone' holds one machine"):
            fleet.add(scenario("other"))


def test_each_machine_has_its_own_faults() -> None:
    faults = (parse_script({"path": "/metadata/instance", "answers": [503, "ok"]}),)
    with Fleet() as fleet:
        machines = [fleet.add(scenario(name, faults=faults)) for name in ("one", "two")]
        found = [ask(machine.imds, METADATA)[0] for machine in (*machines, *machines)]
        assert found == [503, 503, 200, 200]


def test_a_service_that_one_machine_lacks_is_there_for_the_others() -> None:
    with Fleet() as fleet:
        deaf = fleet.add(scenario("deaf", imds=Imds(enable=False), wireserver=Wireserver(enable=False)))
        other = fleet.add(scenario("other"))
        with pytest.raises(ConnectionError):
            name_told(deaf)
        with pytest.raises(ConnectionError):
            tell(deaf)
        assert name_told(other) == "other"
        assert not deaf.ledger.requests and not fleet.ledger.requests


@pytest.mark.parametrize(
    ("by", "twins"),
    [
        ("path", [Vm(name="web"), Vm(name="web")]),
        ("address", [Vm(name="web"), Vm(name="web")]),
        (
            "path",
            [Vm(name="a", id="550e8400-e29b-41d4-a716-446655440000"), Vm(id="550e8400-e29b-41d4-a716-446655440000")],
        ),
    ],
)
def test_machines_that_cannot_be_told_apart_are_refused(by: By, twins: list[Vm]) -> None:
    with Fleet(by=by) as fleet:
        fleet.add(Scenario(vm=twins[0]))
        with pytest.raises(NotDistinct, match="two machines are known as"):
            fleet.add(Scenario(vm=twins[1]))


def test_two_machines_cannot_ask_from_one_address() -> None:
    with Fleet(by="address") as fleet:
        fleet.add(scenario("one"), address="127.1.2.3")
        with pytest.raises(NotDistinct, match=r"known as '127\.1\.2\.3'"):
            fleet.add(scenario("two"), address="127.1.2.3")


def test_the_proxy_agent_of_one_machine_is_not_the_others(tmp_path: Path) -> None:
    with Fleet() as fleet:
        one, two = (fleet.add(scenario(name, imds=Imds(protected=True))) for name in ("one", "two"))
        stub = one.write_proxy_agent(tmp_path)
        assert stub
        subprocess.run([stub, "--status"], check=True, stdout=subprocess.DEVNULL)
        assert [ask(machine.imds, METADATA)[0] for machine in (one, two)] == [200, 401]


@given(name=st.text(min_size=1), target=st.from_regex(r"\A/[ -~]*\Z"))
def test_the_prefix_comes_off_as_it_went_on(name: str, target: str) -> None:
    try:
        prefix = f"/vm/{quote(name, safe='')}"
    except UnicodeEncodeError:  # a lone surrogate cannot be encoded
        return
    assert unprefixed(HttpRequest(method="GET", target=prefix + target)) == (
        name,
        HttpRequest(method="GET", target=target),
    )


@given(target=st.text())
def test_no_target_breaks_the_reception(target: str) -> None:
    machine, request = unprefixed(HttpRequest(method="GET", target=target))
    assert (request.target == target) if machine == "" else request.target.startswith("/")


def use_tool(directory: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts a substitute for openssl first on the PATH."""
    tool = directory / "bin/openssl"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")


def at_once(calls: list[partial[tuple[int, bytes]]]) -> list[tuple[int, bytes]]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result(60) for future in [pool.submit(call) for call in calls]]


def test_a_slow_signature_keeps_nobody_else_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released = tmp_path / "released"
    use_tool(tmp_path, f'while [ ! -e "{released}" ]; do sleep 0.01; done; echo no such luck >&2; exit 1', monkeypatch)
    with Fleet() as fleet:
        signing, other = fleet.add(scenario("signing")), fleet.add(scenario("other"))
        results: list[int] = []
        asker = threading.Thread(target=lambda: results.append(ask(signing.imds, ATTESTED)[0]))
        asker.start()
        assert [name_told(other) for _ in range(3)] == ["other"] * 3
        assert name_told(signing) == "signing" and not results
        released.touch()
        asker.join(20)
        assert results == [500]
        assert "no such luck" in signing.ledger.requests[-1].note


def test_a_platform_that_ends_does_not_wait_for_the_signatures_still_queued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tmp_path / "calls"
    use_tool(tmp_path, f'echo x >>"{calls}"; sleep 0.5; exit 1', monkeypatch)
    with Fleet() as fleet:
        machines = [fleet.add(scenario(f"{n}")) for n in range(40)]
        connections = [
            socket.create_connection((urlsplit(fleet.imds).hostname, urlsplit(fleet.imds).port)) for _ in machines
        ]
        for machine, connection in zip(machines, connections, strict=True):
            path = urlsplit(machine.imds).path
            connection.sendall(f"GET {path}{ATTESTED} HTTP/1.1\r\nMetadata: true\r\n\r\n".encode())
        assert ask(machines[-1].imds, METADATA)[0] == 200
    for connection in connections:
        connection.close()
    assert not calls.exists() or len(calls.read_text().split()) < 40


def test_the_platforms_keys_are_made_once_for_all_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    openssl, calls = need("openssl"), tmp_path / "calls"
    key, certificate = tmp_path / "t.key", tmp_path / "t.crt"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=t", "-keyout", key,
         "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    der = subprocess.run([openssl, "x509", "-in", certificate, "-outform", "DER"], check=True, capture_output=True)
    transport = b64encode(der.stdout).decode()
    use_tool(tmp_path, f'echo "$1" >>"{calls}"; exec {openssl} "$@"', monkeypatch)
    wire: dict[str, Any] = {"x_ms_version": "2015-04-05", "x_ms_guest_agent_public_x509_cert": transport}
    with Fleet() as estate:
        machines = [estate.add(scenario(f"{n}")) for n in range(4)]
        asked = [partial(ask, machine.imds, ATTESTED) for machine in machines]
        asked += [partial(ask, machine.wireserver, "/machine/x/y?comp=certificates", **wire) for machine in machines]
        assert [status for status, _ in at_once(asked)] == [200] * 8
    counts = calls.read_text().split()
    assert (counts.count("req"), counts.count("pkcs12"), counts.count("cms")) == (2, 1, 8)


def test_a_door_that_does_not_open_says_why_and_what_to_do() -> None:
    server = HttpServer()
    try:
        taken = urlsplit(server.listen(lambda _address, _request: None))
        with pytest.raises(CannotListen, match=f"another program listens at 127.0.0.1:{taken.port}: end it, or choose"):
            server.listen(lambda _address, _request: None, at=("127.0.0.1", taken.port or 0))
        with pytest.raises(
            CannotListen, match=r"192\.0\.2\.7 is not an address of this host: .*ip address add 192\.0\.2\.7"
        ):
            server.listen(lambda _address, _request: None, at=("192.0.2.7", 0))
    finally:
        server.stop()
    refused = CannotListen(("127.0.0.1", 80), PermissionError(13, "Permission denied"))
    assert str(refused) == "port 80 needs root: run as root, or choose a port from 1024 on"


def test_doors_of_which_one_stays_shut_leave_none_open() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        free = ("127.0.0.1", 0)
        with pytest.raises(CannotListen):
            Fleet(listen_at=(free, free, taken.getsockname()))


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, BENCH, *arguments], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("by", ["address", "path"])
def test_fifty_machines_at_once_are_all_judged_right(by: str) -> None:
    ran = bench("50", "--by", by)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"^verdicts +50 right, 0 wrong$", ran.stdout, re.MULTILINE)
    assert re.search(r"^requests +255 in [\d.]+ s, [\d,]+ a second$", ran.stdout, re.MULTILINE)
    assert re.search(r"^latency in ms +p50 \d+, p90 \d+, p99 \d+, most \d+$", ran.stdout, re.MULTILINE)
    assert re.search(r"^platform's memory +\d+ MiB at most", ran.stdout, re.MULTILINE)


def test_one_liar_among_fifty_is_found() -> None:
    ran = bench("50", "--liars", "1")
    assert ran.returncode == 1, ran.stderr
    assert "49 right, 1 wrong" in ran.stdout
    assert "machine-0: lied: told Ready, and then a failure, in one boot" in ran.stdout


def test_the_former_name_of_a_fleet_still_works() -> None:
    assert fakeazure.Estate is Fleet


def test_the_platform_of_a_scenario_has_all_its_parts(tmp_path: Path) -> None:
    scenario = Scenario(
        vm=Vm(name="web"),
        media=Media(format="iso"),
        imds=Imds(enable=False),
        wireserver=Wireserver(goal_state_after_secs=2),
        faults=(parse_script({"path": "/a", "answers": [503, "ok"]}),),
        expect=Expect(verdict="failure", within_secs=7),
        azure_init={"sources": {"grace_secs": 1}},
    )
    with Fabric.of(scenario, ledger=tmp_path / "ledger", eject=True, pools=tmp_path) as fabric:
        assert (fabric.vm, fabric.media, fabric.metadata) == (scenario.vm, scenario.media, scenario.imds)
        assert (fabric.wire, fabric.expect, fabric.azure_init) == (
            scenario.wireserver, scenario.expect, scenario.azure_init
        )  # fmt: skip
        assert fabric.scripts == {"/a": scenario.faults[0]}
        assert (fabric.eject, fabric.pools, fabric.ledger_path) == (True, tmp_path, tmp_path / "ledger")
