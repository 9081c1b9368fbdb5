"""Faults in the data directory: the verdict is still reported, and the next run still succeeds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from azureinit.cli import show
from azureinit.config.load import load
from azureinit.errors import ToolMissing
from azureinit.machine import Machine
from fakeazure import Expect, Key, KeyPair, Media, Vm
from support.bench import PYTHON, SRC, Bench, Benches
from support.need import need_root
from support.trees import changed, listing

FAILURE = Expect(verdict="failure")
HEALTH = "/provisioning/health"
INSTANCE = "/metadata/instance"


def read_only(one: Bench) -> str:
    one.data.mkdir(exist_ok=True)
    return f"mount --bind {one.data} {one.data} && mount -o remount,ro,bind {one.data}"


def test_a_read_only_data_directory_is_named_before_anything_is_touched(bench: Benches) -> None:
    need_root()
    one = bench(expect=FAILURE)
    inside = read_only(one)
    before = listing(one.tree)
    ran = one.agent(inside=inside)
    assert ran.status == 1
    judgement = one.fabric.judge()
    assert judgement.ok, judgement
    assert judgement.report["reason"] == "read-only file system"
    assert changed(before, listing(one.tree)) <= {"var/log/azure-init.log"}


def test_a_full_data_directory_is_named(bench: Benches) -> None:
    need_root()
    one = bench(expect=FAILURE, vm=Vm(password="correct horse", custom_data=b"x" * 50_000, disable_password=False))
    one.data.mkdir()
    ran = one.agent(inside=f"mount -t tmpfs -o size=8k none {one.data}")
    assert ran.status == 1
    assert one.fabric.judge().report["reason"] == "no space left on device"
    assert "azureuser" not in one.read("etc/passwd")


def test_a_wrong_vm_id_is_told_to_the_platform(bench: Benches) -> None:
    one = bench(expect=FAILURE)
    one.configure(platform={"vm_id": "not-a-uuid"})
    ran = one.agent()
    assert ran.status == 78
    report = one.fabric.judge().report
    assert report["reason"] == "invalid configuration"
    assert "platform.vm_id" in report["error"]


def test_unprivileged_the_plan_says_which_owners_are_not_set(
    bench: Benches, capsys: pytest.CaptureFixture[str]
) -> None:
    one = bench(vm=Vm(name="web-1"))
    before = listing(one.tree)
    machine = Machine(root=str(one.tree), environ={})
    machine.privileged = False
    config = load(machine, config=str(one.config), groups=None).config
    assert show.plan(["--check"], machine=machine, configured=lambda: config) == 3
    told = capsys.readouterr().out
    assert "directory /home/azureuser mode 0750 (owner 1000:1000 not set: not root)" in told
    assert " owner " not in told.replace("(owner ", "")
    assert changed(before, listing(one.tree)) == set()


@pytest.mark.parametrize("keys", [{"key_pairs": (KeyPair(path="/home/azureuser/id"),)}, {"keys": (Key(""),)}])
def test_the_plan_says_that_openssl_is_missing_where_the_media_name_certificates(
    bench: Benches, tmp_path: Path, keys: dict[str, Any]
) -> None:
    one = bench(vm=Vm(**keys), expect=FAILURE)
    machine = Machine(root=str(one.tree), search=(str(tmp_path / "nothing"),), environ={})
    config = load(machine, config=str(one.config), groups=None).config
    with pytest.raises(ToolMissing, match="openssl is not installed") as caught:
        show.plan([], machine=machine, configured=lambda: config)
    assert caught.value.hint == "install openssl"
    plain = bench(vm=Vm(name="web-2"))
    config = load(machine, config=str(plain.config), groups=None).config
    machine = Machine(root=str(plain.tree), search=(str(tmp_path / "nothing"),), environ={})
    assert show.plan([], machine=machine, configured=lambda: config) == 0, "where they do not, it is not missed"


def test_a_run_that_is_told_to_stop_leaves_the_next_one_nothing_to_mend(bench: Benches) -> None:
    one = bench(vm=Vm(name="web-1"), faults=[{"path": INSTANCE, "answers": ["503*"]}], media=Media(enable=False))
    one.configure(imds={"total_retry_timeout_secs": 60})
    command = [PYTHON, "-m", "azureinit", "--config", str(one.config), "--root", str(one.tree)]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SRC)}
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as agent:
        try:
            while not any(request.path == INSTANCE for request in one.fabric.ledger.requests):
                time.sleep(0.01)
            agent.send_signal(signal.SIGTERM)
            assert agent.stderr is not None
            told = agent.stderr.read()
        finally:
            agent.kill()
    assert agent.returncode == -signal.SIGTERM
    assert "Traceback" not in told
    assert not any(said.kind in ("ready", "failed") for said in one.fabric.ledger.told)
    one.fabric.scripts.clear()
    one.fabric.reboot()
    assert one.agent().status == 0
    assert one.fabric.judge().ok


def test_an_undelivered_ready_is_found_empty_and_told_at_the_next_start(bench: Benches) -> None:
    one = bench(
        vm=Vm(password="correct horse", disable_password=False),
        faults=[{"path": HEALTH, "answers": ["ok", "503*"]}],
        expect=Expect(verdict="none"),
    )
    assert one.agent().status == 75
    assert json.loads(one.state("pending").read_text())["verdict"] == "ready"
    assert "password_hash" in json.loads(one.state("saved").read_text())
    # The host takes the media away; what it said is still known.
    assert one.fabric.media_path is not None
    one.fabric.media_path.unlink()
    shadow = one.read("etc/shadow")
    one.fabric.scripts.clear()
    one.fabric.reboot(expect=Expect(verdict="ready"))
    assert one.agent("plan", "--check").status == 0
    assert one.agent().status == 0
    assert one.fabric.judge().ok
    assert one.read("etc/shadow") == shadow
    assert "password_hash" not in json.loads(one.state("saved").read_text()), "no longer than it is needed"
