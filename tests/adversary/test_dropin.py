"""The KVP tool does what Azure's own does, command for command.

Random commands run with both on copies of random pools, where a Rust binary is given (`pytest --rust PATH`, as
bench/peers takes it, or AZURE_INIT_RUST=PATH; a file or the directory it is in). What the Rust tool did with some of
them is recorded beside this file, and is compared everywhere.
"""

from __future__ import annotations

import os
import sys
from itertools import islice
from pathlib import Path

import pytest

from support.bounds import SEED, bounded
from support.dropin import Case, Did, cases, deliberate, load_vectors, run_ours, run_tool

OURS = [sys.executable, "-B", "-c", "from azureinit.cli.kvp import command; command()"]
RECORDED = load_vectors(Path(__file__).with_name("dropin.json"))


def rust_binary(config: pytest.Config, name: str) -> str:
    given = config.getoption("--rust") or os.environ.get("AZURE_INIT_RUST", "")
    if not given:
        pytest.skip(
            f"no {name} of Azure's own to compare with: name one with --rust PATH (recorded vectors ran instead)"
        )
    path = Path(given) / name if Path(given).is_dir() else Path(given)
    if not path.is_file():
        pytest.fail(f"--rust: {path}: no such file")
    if path.name != name:
        pytest.skip(f"--rust names {path.name}, not {name}")
    return str(path.resolve())


def check(case: Case, theirs: Did, ours: Did) -> None:
    if theirs != ours and not deliberate(case, theirs, ours):
        pytest.fail(f"seed {SEED}: {case}\nthe Rust tool: {theirs}\nours:          {ours}")


def test_recorded_commands_end_as_they_did_with_the_rust_tool(tmp_path: Path) -> None:
    assert len(RECORDED) >= 1000
    for case, theirs in RECORDED:
        check(case, theirs, run_ours(case, tmp_path))


def test_recorded_commands_end_the_same_in_a_process_of_their_own(tmp_path: Path) -> None:
    for case, theirs in RECORDED[:: bounded(len(RECORDED) // 25, 1)]:
        check(case, theirs, run_tool(OURS, case, tmp_path))


def test_random_commands_end_as_with_the_rust_tool(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    rust = rust_binary(pytestconfig, "libazureinit-kvp")
    for case in islice(cases(SEED), bounded(2_000, 100_000)):
        check(case, run_tool([rust], case, tmp_path), run_ours(case, tmp_path))
