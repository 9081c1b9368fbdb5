"""The agent in every scenario that fakeazure ships: each ends with the expected verdict."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fakeazure.judge import judge
from fakeazure.platform.events import Kvp, Request, read_events
from fakeazure.scenarios.catalogue import find_scenario, names
from support.bench import PYTHON, SRC
from support.enacted import enacted_steps, planned_steps
from support.trees import changed, listing, make_tree

UNDELIVERED = 75
# What this agent calls each failure; the scenarios themselves say only that it is one.
REASONS = {
    "custom-data-unreadable": "failure to read customData while hasCustomData=true",
    "custom-data-without-media": "failure to read customData while hasCustomData=true",
    "host-blank": "invalid hostname",
    "host-dash": "invalid hostname",
    "host-long": "invalid hostname",
    "imds-2019-without-media": "provisioning media not found",
    "imds-403-for-good": "http error 403 querying IMDS",
    "imds-html-for-good": "error parsing IMDS metadata",
    "imds-protected-agent-absent": "http error 401 querying IMDS",
    "imds-protected-agent-fails": "azure-proxy-agent status failure",
    "imds-without-keys-or-media": "provisioning media not found",
    "imds-wrong-shape": "invalid IMDS metadata for key=compute",
    "key-cut-off": "invalid SSH public key",
    "key-garbage": "invalid SSH public key",
    "key-line-feed": "invalid SSH public key",
    "key-pair-missing": "failed to retrieve certificates",
    "no-credential": "no usable credential",
    "no-sources": "connection error querying IMDS",
    "ovf-broken-alone": "error parsing ovf-env.xml",
    "ovf-doctype": "error parsing ovf-env.xml",
    "password-without-media": "provisioning media not found",
    "pre-provisioned-running": "pre-provisioning is not supported",
    "pre-provisioned-savable": "pre-provisioning is not supported",
    "proxy-agent-absent": "azure-proxy-agent not found",
    "proxy-agent-fails": "azure-proxy-agent status failure",
    "user-colon": "invalid username",
    "user-dash": "invalid username",
    "user-newline": "invalid username",
    "user-root": "invalid username",
    "user-taken": "invalid username",
}


INTO = 'out=$1; shift; exec "$@" >"$out"'


def fake(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fakeazure", "run", *words],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SRC), "TMPDIR": str(place)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", names())
def test_the_agent_is_honest(name: str, tmp_path: Path) -> None:
    """And the plan before it, of the same machine, names exactly the steps that the run takes."""
    ledger, tree = tmp_path / "ledger.jsonl", make_tree(tmp_path / "root")
    pools = tree / "var/lib/hyperv"
    pools.mkdir(parents=True)
    agent = [PYTHON, "-m", "azureinit", "--root", str(tree)]
    before, plan = listing(tree), tmp_path / "plan.json"
    shown = fake(tmp_path, name, "--no-verdict", "--", "sh", "-c", INTO, "sh", str(plan), *agent, "plan", "--json")
    assert changed(before, listing(tree)) == set(), "a plan changes nothing"
    ran = fake(tmp_path, name, "--pools", str(pools), "--ledger", str(ledger), "--", *agent)
    assert "Traceback" not in shown.stderr + ran.stderr, shown.stderr + ran.stderr
    assert enacted_steps(tree) == (planned_steps(plan.read_text()) if plan.read_text() else []), shown.stderr
    assert ran.returncode == 0, ran.stdout + ran.stderr
    judgement = judge(read_events(ledger))
    marked = bool(list((tree / "var/lib/azure-init").glob("*.provisioned")))
    assert marked == (judgement.state == "ready"), "the marker exists if and only if the platform has accepted Ready"
    if judgement.state == "failed":
        assert judgement.reason == REASONS[name]
        assert judgement.report["vm_id"]
    elif judgement.state == "waiting":
        assert f"the command ends with status {UNDELIVERED}" in ran.stdout
    if judgement.state in ("ready", "failed"):
        told = [event for event in read_events(ledger) if isinstance(event, Kvp) and event.kind == "report"]
        assert told and not any(event.late for event in told), "the host had the report with the verdict"
    unasked = [line for line in ran.stdout.splitlines() if "were not used" in line]
    assert not unasked, "a fault that nobody meets tests nothing"


def test_every_failure_of_the_catalogue_has_its_reason_here() -> None:
    verdicts = {name: found.verdict for name in names() if (found := find_scenario(name).expect)}
    assert {name for name, verdict in verdicts.items() if verdict in ("failure", "either")} == REASONS.keys()


def test_the_stub_of_the_proxy_agent_is_what_opens_the_door(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    command = [PYTHON, "-m", "azureinit", "--root", str(make_tree(tmp_path / "root"))]
    subprocess.run(
        [sys.executable, "-m", "fakeazure", "run", "imds-protected", "--ledger", str(ledger), "--", *command],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SRC)}, stdin=subprocess.DEVNULL, capture_output=True,
        timeout=60, check=True,
    )  # fmt: skip
    met = [event for event in read_events(ledger) if isinstance(event, Request) and event.service != "wireserver"]
    assert [(event.service, event.status) for event in met] == [("imds", 401), ("proxy-agent", 204), ("imds", 200)]
    assert "--status" in met[1].body
