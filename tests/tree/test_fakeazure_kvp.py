"""KVP pools read by a platform that listens, and by commands that run under it."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import fakeazure
from fakeazure import Fabric, Vm, show
from fakeazure.platform.events import Kvp, PoolRead, Told
from fakeazure.platform.kvp import GUEST_POOL, Record, events_of

SOURCE = str(Path(fakeazure.__file__).parent.parent)
VM_ID = "52d3a29b-c2e6-43db-9bff-bb2ff1bfd7e2"
SUCCESS = f"result=success|agent=azure-init/1|pps_type=None|vm_id={VM_ID}|timestamp=2026-01-01T00:00:00Z"


def record(key: str, value: str) -> bytes:
    return key.encode().ljust(512, b"\0") + value.encode().ljust(2048, b"\0")


def only(*pairs: tuple[str, str]) -> Kvp:
    (event,) = events_of([Record(key, value) for key, value in pairs], t=1)
    return event


def shown(pair: tuple[str, str]) -> list[str]:
    return [line.strip() for line in show.timeline([only(pair)], show.Palette(colour=False))[1:-1]]


def tell(fabric: Fabric, body: bytes) -> None:
    connection = http.client.HTTPConnection(urlsplit(fabric.wireserver).netloc, timeout=10)
    connection.request("POST", "/provisioning/health", body=body)
    assert connection.getresponse().status == 201
    connection.close()


def test_the_pool_is_read_when_the_verdict_comes_and_before_it_is_answered(tmp_path: Path) -> None:
    pool = tmp_path / GUEST_POOL
    with Fabric(vm=Vm(id=VM_ID), pools=tmp_path) as fabric:
        pool.write_bytes(record("before", "1"))
        tell(fabric, b'{"state":"NotReady","details":{"subStatus":"Provisioning","description":"wait"}}')
        assert not any(isinstance(event, PoolRead) for event in fabric.ledger.events)
        pool.write_bytes(record("before", "1") + record("PROVISIONING_REPORT", SUCCESS))
        tell(fabric, b'{"state":"Ready"}')
        kinds = [type(event) for event in fabric.ledger.events][-4:]
        assert kinds == [Told, PoolRead, Kvp, Kvp]
        with pool.open("ab") as file:
            file.write(record("after", "2"))
        fabric.read_pool(late=True)
        found = [(event.key, event.late) for event in fabric.ledger.events if isinstance(event, Kvp)]
        judgement = fabric.judge()
    assert found == [("before", False), ("PROVISIONING_REPORT", False), ("after", True)]
    assert judgement.ok
    assert judgement.remarks == ("1 record came after the verdict, when the host reads no more",)


LIAR = f"""
import os, urllib.request
def put(key, value):
    with open(os.environ["FAKEAZURE_KVP"] + "/{GUEST_POOL}", "ab") as pool:
        pool.write(key.encode().ljust(512, b"\\0") + value.encode().ljust(2048, b"\\0"))
put("PROVISIONING_REPORT", "result=error|reason=no luck")
url = os.environ["FAKEAZURE_WIRESERVER"] + "/provisioning/health"
urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open(url, b'{{"state":"Ready"}}').read()
put("too", "late")
"""


def test_a_command_is_told_where_its_pools_are_and_a_lie_in_them_is_found(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fakeazure", "run", "--", sys.executable, "-c", LIAR],
        env={**os.environ, "PYTHONPATH": SOURCE, "TMPDIR": str(tmp_path)},
        capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 1 and "Traceback" not in done.stderr
    shown = [line[12:] for line in done.stdout.splitlines()]
    assert "the host reads 1 record from the key-value pool" in shown
    assert "            the report says error: no luck" in shown
    assert (
        "the host reads 1 record from the key-value pool  (after the verdict: Azure's host would not read it)" in shown
    )
    assert "Wrong: told Ready, but its PROVISIONING_REPORT says error: no luck" in done.stdout


def test_azure_init_is_told_where_its_pools_are_unless_it_knows(tmp_path: Path) -> None:
    script = 'cat "$AZURE_INIT_CONFIG"; echo; echo "pools: $FAKEAZURE_KVP"; ls -d "$FAKEAZURE_KVP"'

    def config(*options: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "fakeazure", "run", *options, "--", "sh", "-c", script],
            env={**os.environ, "PYTHONPATH": SOURCE}, capture_output=True, text=True, timeout=60, check=False,
            stdin=subprocess.DEVNULL,
        ).stdout  # fmt: skip

    own = config()
    place = own.split("pools: ")[1].split()[0]
    assert f'[telemetry]\nkvp_directory = "{place}"\n' in own and f"pools: {place}\n{place}\n" in own
    known = config("--pools", str(tmp_path))
    assert "kvp_directory" not in known and f"pools: {tmp_path}\n" in known
