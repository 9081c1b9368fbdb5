"""Records that azure-init writes into a pool, as fakeazure's host reads them: the two share no code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fakeazure.judge import judge
from fakeazure.platform.events import Kvp, read_events
from support.bench import PYTHON, SRC

VM_ID = "52d3a29b-c2e6-43db-9bff-bb2ff1bfd7e2"
AGENT = """
import os, subprocess, sys, urllib.request
KVP = "import sys; from azureinit.cli.kvp import command; sys.exit(command())"
def kvp(*arguments):
    subprocess.run([sys.argv[1], "-c", KVP, "--dir", os.environ["FAKEAZURE_KVP"], *arguments], check=True)
about = ("--vm-id", "52d3a29b-c2e6-43db-9bff-bb2ff1bfd7e2")
kvp("emit", "--name", "disk", "--message", "\u00e9" * 2000, *about)
kvp("write", "colour", "red")
kvp("write", "colour", "blue")
kvp("report-failure", "--reason", 'no "luck" | at all', *about)
url = os.environ["FAKEAZURE_WIRESERVER"] + "/provisioning/health"
failed = b'{"state":"NotReady","details":{"subStatus":"ProvisioningFailed","description":"result=error|reason=x"}}'
urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, failed).read()
kvp("emit", "--name", "afterthought", "--message", "late", *about)
"""


def test_the_host_reads_what_the_tool_wrote(tmp_path: Path) -> None:
    scenario, ledger = tmp_path / "s.toml", tmp_path / "ledger.jsonl"
    scenario.write_text(f'[vm]\nid = "{VM_ID}"\n[expect]\nverdict = "failure"\n')
    run = [sys.executable, "-m", "fakeazure", "run", str(scenario), "--ledger", str(ledger)]
    ran = subprocess.run(
        [*run, "--", sys.executable, "-c", AGENT, PYTHON], env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SRC)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    disk, colour, report, late = [event for event in read_events(ledger) if isinstance(event, Kvp)]
    assert disk.value == "\u00e9" * 2000 and disk.text.startswith("libazureinit-kvp/") and ": disk: " in disk.text
    assert colour.text == "colour = blue"
    assert report.text.startswith('the report says error: no "luck" | at all (by libazureinit-kvp/')
    assert not any((disk.cut, colour.cut, report.cut, report.late)) and late.late
    assert judge(read_events(ledger)).remarks == ("1 record came after the verdict, when the host reads no more",)
