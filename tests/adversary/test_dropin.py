"""The KVP tool and the agent do what Azure's own do, command for command.

Random commands run with both on copies of random pools and configurations, where a Rust binary is given (`pytest --rust
PATH`, as bench/peers takes it, or AZURE_INIT_RUST=PATH; a file or the directory it is in). What the Rust programs did
with some of them is recorded beside this file, and is compared everywhere.
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from support import dropin_agent as agent
from support.bounds import SEED, bounded
from support.dropin import Case, Did, cases, deliberate, load_vectors, run_ours, run_tool

OURS = [sys.executable, "-B", "-c", "from azureinit.cli.kvp import command; command()"]
RECORDED = load_vectors(Path(__file__).with_name("dropin.json"))
RECORDED_AGENT = agent.load_vectors(Path(__file__).with_name("dropin_agent.json"))


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


# ---- the agent


def check_agent(case: agent.Case, theirs: list[object], ours: list[object]) -> None:
    if theirs != ours and not agent.deliberate(case, theirs, ours):
        pytest.fail(f"seed {SEED}: {case}\nthe Rust agent: {theirs}\nours:           {ours}")


def test_recorded_lines_and_configurations_end_as_they_did_with_the_rust_agent(tmp_path: Path) -> None:
    assert len(RECORDED_AGENT) >= 500
    for case, theirs in RECORDED_AGENT:
        check_agent(case, theirs, agent.run_ours(case, tmp_path))


def test_random_lines_and_configurations_end_as_with_the_rust_agent(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    rust = rust_binary(pytestconfig, "azure-init")
    for case in islice(agent.cases(SEED), bounded(1_000, 20_000)):
        check_agent(case, agent.run_rust(rust, case, tmp_path), agent.run_ours(case, tmp_path))


# ---- the Rust agent's own tests of its command line


def azure_init(*words: str) -> str:
    environ = {**os.environ, "PYTHONPATH": agent.SOURCE}
    ran = subprocess.run([sys.executable, "-m", "azureinit", *words], capture_output=True, text=True, env=environ)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_help_names_the_groups() -> None:
    assert "-g, --groups <GROUPS>" in azure_init("--help")


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_is_the_one_that_it_answers_for(flag: str) -> None:
    assert "0.1.1" in azure_init(flag)


@pytest.mark.parametrize("logs", [False, True])
def test_clean_removes_markers_and_with_logs_the_log(tmp_path: Path, logs: bool) -> None:
    marker, log = tmp_path / "data/vm-id.provisioned", tmp_path / "azure-init.log"
    marker.parent.mkdir()
    marker.touch()
    log.write_text("fake log line\n")
    config = tmp_path / "azure-init-config.toml"
    config.write_text(f'[azure_init_data_dir]\npath = "{marker.parent}"\n\n[azure_init_log_path]\npath = "{log}"\n')
    azure_init("--config", str(config), "clean", *(["--logs"] if logs else []))
    assert not marker.exists()
    assert log.exists() is not logs
