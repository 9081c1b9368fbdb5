"""The agent in every scenario that fakeazure ships: each ends with the expected verdict."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from fakeazure.judge import judge
from fakeazure.platform.events import Kvp, Request, read_events
from fakeazure.platform.pool import is_pooled
from fakeazure.scenarios.catalogue import find_scenario, names
from support.bench import PYTHON, SRC
from support.enacted import enacted_steps, planned_steps
from support.pooled import marker
from support.shipped import played_names
from support.trees import changed, listing, make_tree

Results = dict[str, "Future[Played]"]
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
    "pre-provisioned-still-savable": "invalid IMDS metadata for key=extended.compute.ppsType",
    "proxy-agent-absent": "azure-proxy-agent not found",
    "proxy-agent-fails": "azure-proxy-agent status failure",
    "user-colon": "invalid username",
    "user-dash": "invalid username",
    "user-newline": "invalid username",
    "user-root": "invalid username",
    "user-taken": "invalid username",
}


INTO = 'out=$1; shift; exec "$@" >"$out"'
AT_ONCE = 4  # most scenarios wait more than they work


class Played:
    """One scenario, planned on one machine and run on another of the same kind, at the same time."""

    def __init__(self, name: str, place: Path) -> None:
        self.ledger, self.tree = place / "ledger.jsonl", make_tree(place / "root")
        pools = self.tree / "var/lib/hyperv"
        pools.mkdir(parents=True)
        shown_tree, self.plan = make_tree(place / "shown"), place / "plan.json"
        before = listing(shown_tree)
        planning = start(place, name, "--no-verdict", "--", "sh", "-c", INTO, "sh", str(self.plan), *agent(shown_tree),
                         "plan", "--json")  # fmt: skip
        running = start(place, name, "--pools", str(pools), "--ledger", str(self.ledger), "--", *agent(self.tree))
        self.out, self.err = running.communicate(timeout=60)
        self.shown_err = planning.communicate(timeout=60)[1]
        self.status, self.changed = running.returncode, changed(before, listing(shown_tree))


def agent(tree: Path) -> list[str]:
    return [PYTHON, "-m", "azureinit", "--root", str(tree)]


def start(place: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "fakeazure", "run", *words],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SRC), "TMPDIR": str(place)},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    """The selected scenarios, played ahead of the tests that look at them."""
    asked = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    chosen = [found.params["name"] for found in asked if found is not None and "name" in found.params]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {name: pool.submit(Played, name, tmp_path_factory.mktemp(name)) for name in chosen}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", played_names(10))
def test_the_agent_is_honest(name: str, played: Results) -> None:
    """And the plan of such a machine names exactly the steps that the run takes."""
    one = played[name].result()
    ledger, tree = one.ledger, one.tree
    assert "Traceback" not in one.shown_err + one.err, one.shown_err + one.err
    assert one.changed == set(), "a plan changes nothing"
    planned = planned_steps(one.plan.read_text()) if one.plan.read_text() else []
    if is_pooled(find_scenario(name).vm):
        assert planned == [], "nothing is planned for a VM in a pool"
    else:
        assert enacted_steps(tree) == planned, one.shown_err
    assert one.status == 0, one.out + one.err
    judgement = judge(read_events(ledger))
    marked = bool(list((tree / "var/lib/azure-init").glob("*.provisioned")))
    assert marked == (judgement.state == "ready"), "the marker exists if and only if the platform has accepted Ready"
    if judgement.state == "failed":
        assert judgement.reason == REASONS[name]
        assert judgement.report["vm_id"]
    elif judgement.state == "waiting" and is_pooled(find_scenario(name).vm):
        assert marker(tree / "var/lib/azure-init")["state"] == "waiting", one.out
        assert "the command is stopped at the deadline" in one.out
    elif judgement.state == "waiting":
        assert f"the command ends with status {UNDELIVERED}" in one.out
    if judgement.state in ("ready", "failed"):
        told = [event for event in read_events(ledger) if isinstance(event, Kvp) and event.kind == "report"]
        assert told and not any(event.late for event in told), "the host had the report with the verdict"
    unasked = [line for line in one.out.splitlines() if "were not used" in line]
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
