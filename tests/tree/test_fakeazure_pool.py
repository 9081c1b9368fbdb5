"""A VM in the pool of the platform, asked over HTTP: before a customer takes it, and after."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from fakeazure import Fabric, Media, Pool, Vm
from fakeazure.platform import media
from fakeazure.platform.events import Reused
from support.fakeazure_runs import command, environment

DATA = "/metadata/reprovisiondata?api-version=2019-06-01"
INSTANCE = "/metadata/instance?api-version=2021-08-01&extended=true"
GOAL_STATE = "/machine?comp=goalstate"
RUNNING = Vm(pps_type="Running", name="web", username="ada", custom_data="c", password="the customer's")


def ask(base: str, target: str, *, method: str = "GET", body: bytes = b"", timeout: float = 10) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(base).netloc, timeout=timeout)
    try:
        connection.request(method, target, body=body, headers={"Metadata": "true", "x-ms-version": "2012-11-30"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def tell_ready(fabric: Fabric) -> int:
    return ask(fabric.wireserver, "/provisioning/health", method="POST", body=b'{"state":"Ready"}')[0]


def metadata(fabric: Fabric) -> Any:
    return json.loads(ask(fabric.imds, INSTANCE)[1])


def polled(fabric: Fabric) -> int:
    return ask(fabric.imds, DATA)[0]


def reuses(fabric: Fabric) -> int:
    return sum(isinstance(event, Reused) for event in fabric.ledger.events)


def test_the_pool_shows_nothing_of_the_customer_and_the_customer_nothing_of_the_pool(tmp_path: Path) -> None:
    with Fabric(vm=RUNNING, pool=Pool(password="of the pool")) as fabric:
        disc = fabric.write_media(tmp_path / "disc").read_bytes()
        before = metadata(fabric)
        state = ask(fabric.wireserver, GOAL_STATE)[1]
        assert tell_ready(fabric) == 201
        after, data = metadata(fabric), ask(fabric.imds, DATA)[1]
        later = ask(fabric.wireserver, GOAL_STATE)[1]
    compute = before["compute"]
    assert (compute["name"], compute["osProfile"]["adminUsername"]) == ("pool-vm", "pooladmin")
    assert before["extended"]["compute"] == {"hasCustomData": False, "ppsType": "Running"}
    assert before["network"]["interface"][0]["ipv4"]["ipAddress"][0]["privateIpAddress"] == "10.8.0.4"
    customers = (b"<HostName>web<", b"<UserName>ada<", b"the customer's", b"<CustomData>")
    assert [text in disc for text in customers] == [False] * 4
    assert b"<PreprovisionedVMType>Running<" in disc and b"<HostName>pool-vm<" in disc and b"of the pool" in disc
    assert after["compute"]["osProfile"]["adminUsername"] == "ada" and after["compute"]["name"] == "web"
    assert after["extended"]["compute"] == {"hasCustomData": True, "ppsType": "None"}
    assert "pool" not in json.dumps(after)
    assert [text in data for text in customers] == [True] * 4
    assert b"<PreprovisionedVm>false<" in data and b"pool" not in data
    assert b"pool-vm" in state and b"pool-vm" not in later


def test_deviations_of_the_medium_are_not_in_the_customers_data() -> None:
    data = media.reprovisioned(RUNNING, Media(hostname="other", texts={"UserName": "other"}, omit=("CustomData",)))
    assert b"<HostName>web<" in data and b"<UserName>ada<" in data and b"<CustomData>" in data


def test_the_customer_comes_after_so_many_polls() -> None:
    with Fabric(vm=RUNNING, pool=Pool(after_polls=2)) as fabric:
        assert polled(fabric) == 404
        tell_ready(fabric)
        assert [polled(fabric) for _ in range(2)] == [404, 404] and metadata(fabric)["compute"]["name"] == "pool-vm"
        assert [polled(fabric) for _ in range(2)] == [200, 200] and metadata(fabric)["compute"]["name"] == "web"
        assert reuses(fabric) == 1


def test_the_customer_comes_after_a_while() -> None:
    with Fabric(vm=RUNNING, pool=Pool(after_secs=0.3)) as fabric:
        tell_ready(fabric)
        assert polled(fabric) == 404
        assert fabric.ledger.wait(lambda ledger: bool(reuses(fabric)), timeout=10)
        assert polled(fabric) == 200


def test_the_customer_comes_when_called() -> None:
    with Fabric(vm=RUNNING, pool=Pool(on_call=True)) as fabric:
        tell_ready(fabric)
        assert polled(fabric) == 404
        assert ask(fabric.imds, "/fakeazure/reuse")[0] == 405
        assert ask(fabric.imds, "/fakeazure/reuse", method="POST")[0] == 204
        assert polled(fabric) == 200
        assert ask(fabric.imds, "/fakeazure/reuse", method="POST")[0] == 409
        assert not fabric.take()
    with Fabric() as fabric:
        assert not fabric.take(), "an ordinary machine"


def test_the_metadata_may_still_have_a_type_after_the_reuse() -> None:
    with Fabric(vm=RUNNING, pool=Pool(pps_type_after="Savable", id="22222222-2222-4333-8444-555555555555")) as fabric:
        assert metadata(fabric)["compute"]["vmId"] == "22222222-2222-4333-8444-555555555555"
        tell_ready(fabric)
        after = metadata(fabric)
    assert (after["extended"]["compute"]["ppsType"], after["compute"]["vmId"]) == ("Savable", fabric.vm.id)


@pytest.mark.parametrize("kind", ["savable", "Unknown", "None"])
def test_another_type_is_no_pool(kind: str) -> None:
    with Fabric(vm=Vm(pps_type=kind, name="web")) as fabric:
        tell_ready(fabric)
        assert polled(fabric) == 404 and metadata(fabric)["compute"]["name"] == "web"


def test_an_os_disk_is_shut_down_and_becomes_an_ordinary_machine(tmp_path: Path) -> None:
    with Fabric(vm=Vm(pps_type="PreprovisionedOSDisk", name="web"), eject=True) as fabric:
        disc = fabric.write_media(tmp_path / "disc")
        assert b"<HostName>pool-vm<" in disc.read_bytes()
        tell_ready(fabric)
        assert fabric.restart_due == "off" and not disc.exists() and polled(fabric) == 404
        fabric.reboot()
        assert fabric.restart_due == "" and b"<HostName>web<" in disc.read_bytes()
        assert b"<PreprovisionedVm>false<" in disc.read_bytes()
        assert metadata(fabric)["extended"]["compute"]["ppsType"] == "None"


def test_the_power_fails_at_each_moment_once() -> None:
    moments = ("ready", "moved", "data")
    with Fabric(vm=RUNNING, pool=Pool(restarts=moments)) as fabric:
        tell_ready(fabric)
        for status in (404, 404):
            assert fabric.restart_due == "cut" and polled(fabric) == status
            fabric.reboot()
        assert fabric.restart_due == "" and polled(fabric) == 200
        until = time.monotonic() + 10
        while not fabric.restart_due and time.monotonic() < until:
            time.sleep(0.01)
        assert fabric.restart_due == "cut"
        fabric.reboot()
        assert polled(fabric) == 200 and fabric.restart_due == "" and reuses(fabric) == 1


def test_a_report_may_be_taken_and_never_answered() -> None:
    faults = [{"path": "/provisioning/health", "answers": ["silent", "ok*"]}]
    with Fabric(vm=RUNNING, faults=faults) as fabric:
        with pytest.raises(TimeoutError):
            ask(fabric.wireserver, "/provisioning/health", method="POST", body=b'{"state":"Ready"}', timeout=0.3)
        (told,) = fabric.ledger.told
        assert (told.kind, told.acknowledged, polled(fabric)) == ("ready", False, 200)


def test_a_port_is_closed_for_a_while() -> None:
    faults = [{"path": "/metadata/reprovisiondata", "answers": ["refuse 0.5s", "ok*"]}]
    with Fabric(vm=RUNNING, faults=faults) as fabric:
        with pytest.raises(ConnectionError):
            polled(fabric)
        with pytest.raises(ConnectionRefusedError):
            polled(fabric)
        until = time.monotonic() + 10
        while not listens(fabric.imds) and time.monotonic() < until:
            time.sleep(0.05)
        assert polled(fabric) == 404


def listens(base: str) -> bool:
    host, _, port = urlsplit(base).netloc.partition(":")
    with socket.socket() as one:
        return one.connect_ex((host, int(port))) == 0


CLIENT = """
import os, sys, time, urllib.request, urllib.error
imds, wire = os.environ["FAKEAZURE_IMDS"], os.environ["FAKEAZURE_WIRESERVER"]
def get(path):
    try:
        return urllib.request.urlopen(urllib.request.Request(imds + path, headers={"Metadata": "true"})).read()
    except urllib.error.HTTPError:
        return b""
def ready():
    urllib.request.urlopen(wire + "/provisioning/health", data=b'{"state":"Ready"}').read()
marker = sys.argv[1]
note = open(marker).read() if os.path.exists(marker) else ""
if "osdisk" in sys.argv:
    if not note:
        ready(); open(marker, "w").write("x"); time.sleep(600)
elif not note:
    ready(); open(marker, "w").write("x")
while "osdisk" not in sys.argv and not get("/metadata/reprovisiondata?api-version=2019-06-01"):
    time.sleep(1)
if "forgetful" not in sys.argv:
    get("/metadata/instance?api-version=2021-08-01")
if "liar" in sys.argv:
    ready()
time.sleep(1)
ready()
"""


def run_client(tmp_path: Path, kind: str, *words: str, pool: str = "") -> tuple[int, str]:
    scenario, client = tmp_path / "scenario.toml", tmp_path / "client.py"
    scenario.write_text(f'[vm]\npps_type = "{kind}"\n[pool]\n{pool}\n[expect]\nwithin_secs = 20\n')
    client.write_text(CLIENT)
    words = (sys.executable, str(client), str(tmp_path / "marker"), *words)
    ran = subprocess.run(
        command("run", str(scenario), "--", *words),
        env=environment(tmp_path), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return ran.returncode, ran.stdout


@pytest.mark.parametrize("pool", ["after_polls = 2", "after_secs = 1", 'restarts = ["pool", "moved", "data"]'])
def test_a_whole_life_on_loopback(tmp_path: Path, pool: str) -> None:
    status, out = run_client(tmp_path, "Running", pool=pool)
    assert status == 0 and "a customer takes the VM from the pool" in out and out.count("tells: Ready") == 2, out


def test_the_life_of_an_os_disk_on_loopback(tmp_path: Path) -> None:
    status, out = run_client(tmp_path, "PreprovisionedOSDisk", "osdisk", pool="after_secs = 1")
    assert status == 0 and "boot 2" in out and out.count("tells: Ready") == 2, out


@pytest.mark.parametrize(
    ("word", "says"),
    [("liar", "told Ready twice in one boot"), ("forgetful", "told Ready with metadata that are older than the reuse")],
)
def test_a_life_that_is_not_honest(tmp_path: Path, word: str, says: str) -> None:
    status, out = run_client(tmp_path, "Savable", word)
    assert status == 1 and f"Wrong: {says}" in out, out
