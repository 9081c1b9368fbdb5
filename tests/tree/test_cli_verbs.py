"""The operator's verbs on a file tree: facts, plan, config, clean."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from azureinit.cli import main
from azureinit.cli.show import NO_PLAN, TRY, plan as show_plan
from azureinit.config.model import Config
from azureinit.machine import Machine
from support.cli_trees import ALONE, ID, SRC
from support.need import need_root
from support.trees import changed, listing, make_tree


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "root")


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "azure-init.toml"
    file.write_text(ALONE)
    return str(file)


# ---- verbs


def test_not_on_azure_nothing_is_to_be_done(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = listing(tree)
    no_plan = f"{NO_PLAN}{TRY}\n"
    for words, out in ((["plan"], no_plan), (["plan", "--json", "--check"], "[]\n"), ([], "")):
        assert main(["--root", str(tree), *words]) == 0
        told = capsys.readouterr()
        assert told.out == out
        assert "not an Azure VM" in told.err
    assert changed(before, listing(tree)) <= {"var/log/azure-init.log"}


def test_where_the_kernel_s_command_line_forbids_it_no_setting_is_offered(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kernel/proc").mkdir(parents=True)
    (tmp_path / "kernel/proc/cmdline").write_text("quiet azure-init=off\n")
    machine = Machine(root=str(tree), kernel=str(tmp_path / "kernel"), environ={})
    assert show_plan([], machine=machine, configured=Config) == 0
    told = capsys.readouterr()
    assert told.out == f"{NO_PLAN}\n" and "azure-init=off" in told.err


def test_a_plan_that_cannot_be_made_says_why(tree: Path, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = listing(tree)
    assert main(["--config", config, "--root", str(tree), "plan", "--check"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "no source names the admin user" in told.err and "imds" in told.err and "media" in told.err
    assert changed(before, listing(tree)) == set()


def test_a_wrong_configuration_stops_every_verb_that_needs_one(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "etc/azure-init.toml").write_text("[imds]\nretry_interval_secs = -1\n")
    for verb in ("plan", "facts", "clean", "provision"):
        assert main(["--root", str(tree), verb]) == 78, verb
        told = capsys.readouterr().err
        assert f"{tree}/etc/azure-init.toml:2: imds.retry_interval_secs" in told, verb


def test_an_unknown_key_is_a_warning_to_every_verb(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "etc/azure-init.toml").write_text("[imds]\nretry_interval_sec = 1\n")
    for verb in ("plan", "facts", "provision"):
        assert main(["--root", str(tree), verb]) == 0, verb
        assert "imds.retry_interval_secs" in capsys.readouterr().err, verb


def test_facts_are_json_without_a_secret(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "etc/shadow").write_text("root:$6$salt$verysecret:19700:0:99999:7:::\n")
    (tree / "etc/gshadow").write_text("root:$6$salt$verysecret::\n")
    (tree / "etc/hosts").write_bytes(b"127.0.0.1 caf\xe9\n")
    assert main(["--root", str(tree), "facts"]) == 0
    told = capsys.readouterr().out
    assert "verysecret" not in told and "$6$" not in told
    facts = json.loads(told)
    assert facts["host"]["rooted"] is True
    assert facts["names"]["hostname_file"] == "localhost\n"


# ---- clean


def cleanable(tree: Path) -> Path:
    data = tree / "var/lib/azure-init"
    data.mkdir(parents=True)
    for kind in ("provisioned", "pending", "saved", "journal"):
        (data / f"{ID}.{kind}").touch()
    (data / "vm-id.provisioned").touch()
    (data / "lock").touch()
    (data / "note.txt").touch()
    (tree / "var/log/azure-init.log").write_text("old\n")
    return data


def test_clean_forgets_every_vm_and_keeps_the_log(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = cleanable(tree)
    assert main(["--root", str(tree), "clean"]) == 0
    assert sorted(path.name for path in data.iterdir()) == ["lock", "note.txt"]
    assert "vm-id.provisioned" in capsys.readouterr().out
    assert (tree / "var/log/azure-init.log").exists()
    assert main(["--root", str(tree), "clean"]) == 0
    assert capsys.readouterr().out == "nothing to remove\n"


def test_clean_with_logs_removes_the_log_too(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cleanable(tree)
    assert main(["--root", str(tree), "clean", "--logs"]) == 0
    assert not (tree / "var/log/azure-init.log").exists()
    assert main(["--root", str(tree), "clean", "--logs"]) == 0, "a log that is not there is no failure"


def test_clean_heeds_the_configured_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/vm-id.provisioned").touch()
    (tmp_path / "log").touch()
    file = tmp_path / "c.toml"
    file.write_text(
        f'[azure_init_data_dir]\npath = "{tmp_path}/data"\n[azure_init_log_path]\npath = "{tmp_path}/log"\n'
    )
    assert main(["--config", str(file), "clean"]) == 0
    assert (tmp_path / "log").exists() and not list((tmp_path / "data").iterdir())
    assert main(["--config", str(file), "clean", "--logs"]) == 0
    assert not (tmp_path / "log").exists()


def test_clean_without_a_data_directory_fails_by_name(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "var/log/azure-init.log").touch()
    assert main(["--root", str(tree), "clean", "--logs"]) == 1
    told = capsys.readouterr().err
    assert told == f"azure-init: cannot clean {tree}/var/lib/azure-init/: it does not exist\n"
    assert (tree / "var/log/azure-init.log").exists(), "the log is not touched where the rest failed"


def test_clean_leaves_what_only_looks_like_ours(tree: Path) -> None:
    data = cleanable(tree)
    for name in ("journal", "provisioned", "a.provisioned.bak", "journal.old"):
        (data / name).touch()
    assert main(["--root", str(tree), "clean"]) == 0
    left = {path.name for path in data.iterdir()}
    assert left == {"lock", "note.txt", "journal", "provisioned", "a.provisioned.bak", "journal.old"}


def test_clean_that_may_not_fails_by_name(tree: Path) -> None:
    need_root()
    data = cleanable(tree)
    inside = f"mount --bind {data} {data} && mount -o remount,ro,bind {data} && exec {sys.executable} -m azureinit"
    ran = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"{inside} --root {tree} clean --logs"],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SRC)},
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith(f"azure-init: cannot remove {tree}/var/lib/azure-init/")
    assert ran.stderr.endswith("Read-only file system\n")
    assert (tree / "var/log/azure-init.log").exists()
