"""A fresh SSH key pair for a machine whose scenario lists no keys."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from fakeazure.platform.pool import POOL_KEY, is_pooled
from fakeazure.platform.scenario import Scenario
from fakeazure.platform.vm import Key


def with_fresh_key(scenario: Scenario, directory: Path) -> tuple[Scenario, Path | None]:
    """The scenario with a new key, and the private key. None: the scenario has keys, or ssh-keygen is missing."""
    private = directory / "id_ed25519"
    key = None if scenario.own_keys else make_key(private, comment=f"{scenario.vm.username}@fakeazure")
    if key is None:
        return scenario, None
    return replace(scenario, vm=replace(scenario.vm, keys=(key,))), private


def with_fresh_pool_key(scenario: Scenario, directory: Path) -> tuple[Scenario, Path | None]:
    """The same for the VM in the pool, if the scenario has one and lists no keys for it."""
    private = directory / "id_pool"
    pool = scenario.pool
    wanted = is_pooled(scenario.vm) and pool.keys == (POOL_KEY,)
    key = make_key(private, comment=f"{pool.username}@fakeazure") if wanted else None
    if key is None:
        return scenario, None
    return replace(scenario, pool=replace(pool, keys=(key,))), private


def make_key(private: Path, *, comment: str) -> Key | None:
    """None: ssh-keygen is missing."""
    tool = shutil.which("ssh-keygen")
    if tool is None:
        return None
    made = subprocess.run(
        [tool, "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(private)],
        stdin=subprocess.DEVNULL, capture_output=True, check=False,
    )  # fmt: skip
    return Key(private.with_suffix(".pub").read_text().strip()) if made.returncode == 0 else None
