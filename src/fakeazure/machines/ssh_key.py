"""A fresh SSH key pair for a machine whose scenario lists no keys."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from fakeazure.platform.scenario import Scenario
from fakeazure.platform.vm import Key


def with_fresh_key(scenario: Scenario, directory: Path) -> tuple[Scenario, Path | None]:
    """The scenario with a new key, and the private key. None: the scenario has keys, or ssh-keygen is missing."""
    tool = shutil.which("ssh-keygen")
    if scenario.own_keys or not tool:
        return scenario, None
    private = directory / "id_ed25519"
    comment = f"{scenario.vm.username}@fakeazure"
    made = subprocess.run(
        [tool, "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(private)],
        stdin=subprocess.DEVNULL, capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode != 0:
        return scenario, None
    key = Key(private.with_suffix(".pub").read_text().strip())
    return replace(scenario, vm=replace(scenario.vm, keys=(key,))), private
