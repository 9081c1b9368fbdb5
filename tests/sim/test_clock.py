"""The agent on a machine whose clock is wrong by years."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fakeazure.judge import judge
from fakeazure.machines.faketime import NoFaketime, find_library
from fakeazure.platform.events import read_events
from support.bench import PYTHON, SRC
from support.need import unfit
from support.trees import make_tree

SCENARIO = """
[clock]
offset = "{}"
[[faults]]
path = "/metadata/instance"
answers = [503, 503, "ok*"]
[media]
enable = false
[azure-init]
imds = {{ retry_interval_secs = 0.05 }}
[expect]
within_secs = 30
"""


@pytest.mark.parametrize("offset", ["-3 years", "+10 years", "1970-01-03"])
def test_the_agent_arrives_whatever_its_clock_says(offset: str, tmp_path: Path) -> None:
    try:
        find_library()
    except NoFaketime as error:
        unfit(str(error))
    scenario, ledger, tree = tmp_path / "s.toml", tmp_path / "ledger.jsonl", make_tree(tmp_path / "root")
    scenario.write_text(SCENARIO.format(offset))
    agent = [PYTHON, "-m", "azureinit", "--root", str(tree)]
    ran = subprocess.run(
        [sys.executable, "-m", "fakeazure", "run", str(scenario), "--ledger", str(ledger), "--", *agent],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SRC), "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 0 and "Traceback" not in ran.stderr, ran.stdout + ran.stderr
    assert judge(read_events(ledger)).state == "ready"
