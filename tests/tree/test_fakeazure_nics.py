"""Metadata that change while the machine runs: after requests, after Ready, by the API, and by a command."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fakeazure import Change, Fabric, Imds, Interface, Vm
from fakeazure.cli import UsageError, check_control
from fakeazure.machines.control import Control, NotTold, tell
from fakeazure.platform.events import MetadataChanged
from fakeazure.platform.imds_changes import NoSuchChange
from support.bench import SRC

pytestmark = pytest.mark.newer

VM = Vm(nics=(Interface(), Interface(address="10.0.1.4")))


def listed(fabric: Fabric) -> list[list[str]]:
    connection = http.client.HTTPConnection(urlsplit(fabric.imds).netloc, timeout=30)
    try:
        connection.request("GET", "/metadata/instance/network?api-version=2023-11-15", headers={"Metadata": "true"})
        document = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return [[one["privateIpAddress"] for one in nic["ipv4"]["ipAddress"]] for nic in document["interface"]]


def tell_ready(fabric: Fabric) -> None:
    connection = http.client.HTTPConnection(urlsplit(fabric.wireserver).netloc, timeout=30)
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/provisioning/health", b'{"state": "Ready"}', headers)
    assert connection.getresponse().status == 201
    connection.close()


def changes(fabric: Fabric) -> list[str]:
    return [event.text for event in fabric.ledger.events if isinstance(event, MetadataChanged)]


def test_the_metadata_change_after_requests_and_after_ready() -> None:
    later = (
        Change(after_requests=2, listed=(0, 1)),
        Change(after_ready=True, secondary=(("10.0.0.5",),)),
    )
    with Fabric(vm=VM, imds=Imds(listed=(0,), changes=later)) as fabric:
        assert [listed(fabric), listed(fabric)] == [[["10.0.0.4"]], [["10.0.0.4"]]]
        assert listed(fabric) == [["10.0.0.4"], ["10.0.1.4"]]
        tell_ready(fabric)
        assert listed(fabric) == [["10.0.0.4", "10.0.0.5"], ["10.0.1.4"]]
        assert changes(fabric) == ["the metadata change, after 2 requests", "the metadata change, after Ready"]


def test_a_named_change_waits_for_a_call() -> None:
    with Fabric(vm=VM, imds=Imds(changes=(Change(name="gone", listed=(0,)),))) as fabric:
        assert len(listed(fabric)) == 2
        with pytest.raises(NoSuchChange, match="no change 'gnoe' in .*; its named changes: gone"):
            fabric.changes.call("gnoe")
        fabric.changes.call("gone")
        assert len(listed(fabric)) == 1
        fabric.changes.make(Change(listed=(0, 1)))
        assert len(listed(fabric)) == 2
        assert changes(fabric) == ["the metadata change (gone), on command", "the metadata change, on command"]


def test_a_command_reaches_a_running_machine(tmp_path: Path) -> None:
    control = tmp_path / "control"
    command = [sys.executable, "-m", "fakeazure", "tell", str(control), "imds"]
    with Fabric(vm=VM, imds=Imds(changes=(Change(name="gone", listed=(0,)),))) as fabric:
        with Control(control, fabric):
            ran = subprocess.run([*command, "gone"], env={"PYTHONPATH": str(SRC)}, capture_output=True, text=True)
            assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
            assert len(listed(fabric)) == 1
            with pytest.raises(NotTold, match="the scenario has no change 'other'"):
                tell(control, ["imds", "other"])
            with pytest.raises(NotTold, match="imds takes the name of a change"):
                tell(control, ["imds"])
            with pytest.raises(NotTold, match="no such command; the commands are: imds"):
                tell(control, ["reboot"])
        assert not control.exists()
        ran = subprocess.run([*command, "gone"], env={"PYTHONPATH": str(SRC)}, capture_output=True, text=True)
        assert ran.returncode == 2
        advice = "give the file of --control of a running container or boot"
        assert ran.stderr == f"fakeazure: {control}: no such file or directory: {advice}\n"


@pytest.mark.parametrize(
    ("name", "why"),
    [("here", "exists already"), ("long" * 30, "the path of a socket has at most 107 bytes"), ("free", "")],
)
def test_a_control_file_that_cannot_be_made_is_refused(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "here").touch()
    refused = pytest.raises(UsageError, match=why) if why else contextlib.nullcontext()
    with refused:
        check_control(tmp_path / name)
