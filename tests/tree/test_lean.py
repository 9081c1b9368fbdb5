"""Modules that a boot must not import. Every module is a random read on a cold disk."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from azureinit.machine import Machine
from azureinit.memory.instance import Instance
from azureinit.memory.userdata import SavedUserdata, write_userdata
from azureinit.record import Secret
from azureinit.sources.metadata import Metadata

SRC = Path(__file__).parents[2] / "src"
NEVER = {
    "argparse", "asyncio", "dataclasses", "email", "hashlib", "http", "inspect", "logging", "pathlib", "random", "ssl",
    "shutil", "subprocess", "tempfile", "traceback", "urllib", "uuid", "xml", "ast", "difflib", "ctypes", "calendar",
    "_queue", "collections", "enum", "functools", "json", "re", "selectors", "socket", "threading",
}  # fmt: skip
WITHOUT_CONFIG = {"typing", "datetime", "tomllib", "tomli", "string"}
TUNING = {f"azureinit.{name}" for name in ("facts.kernel", "facts.bootloader", "plan.kernel", "backends.bootloader")}
DISKS = {
    f"azureinit.{name}"
    for name in (
        "config.ephemeral_setup", "facts.disk_content", "facts.disk_services", "facts.temporary_disks", "plan.disks",
        "plan.disk_status", "memory.disk_sets", "run.disks", "machine.block",
    )
}  # fmt: skip
NETWORK = {f"azureinit.{name}" for name in ("run.network", "facts.nics", "plan.network", "memory.network")}
PROBE = """
import sys
sys.path.insert(0, {src!r})
from azureinit.cli import main
status = main({argv!r})
names = sorted(name for name in sys.modules)
print([status, names])
"""


def loaded(*argv: str) -> tuple[int, set[str]]:
    probe = PROBE.format(src=str(SRC), argv=list(argv))
    ran = subprocess.run([sys.executable, "-IS", "-c", probe], capture_output=True, text=True, env={}, check=True)
    status, names = ast.literal_eval(ran.stdout.splitlines()[-1])
    return status, set(names)


def config(tmp_path: Path, *, provisioned: bool) -> str:
    vm_id = "c0ffee00-1111-2222-3333-444444444444"
    root = tmp_path / "root"
    (root / "var/lib/azure-init").mkdir(parents=True)
    (root / "etc").mkdir()
    if provisioned:
        (root / f"var/lib/azure-init/{vm_id}.provisioned").touch()
    file = tmp_path / "config.toml"
    file.write_text(
        f'[platform]\nrequire_azure = false\nvm_id = "{vm_id}"\n'
        '[imds]\nendpoint = "http://127.0.0.1:9"\ntotal_retry_timeout_secs = 0.1\n'
        '[wireserver]\nhealth_endpoint = "http://127.0.0.1:9/"\ntotal_retry_timeout_secs = 0.1\n'
        "[provisioning_media]\nwait_secs = 0.1\n"
    )
    return str(file)


def test_a_machine_not_on_azure_loads_next_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    status, names = loaded("--root", str(tmp_path))
    assert status == 0
    assert not names & (NEVER | WITHOUT_CONFIG | {"re", "json", "socket", "threading"})


def test_a_provisioned_machine_loads_only_its_configuration(tmp_path: Path) -> None:
    file = config(tmp_path, provisioned=True)
    status, names = loaded("--root", str(tmp_path / "root"), "--config", file)
    assert status == 0
    assert not names & (NEVER | TUNING | DISKS | NETWORK | {"json", "socket", "threading"})


def test_a_whole_run_loads_nothing_heavy(tmp_path: Path) -> None:
    file = config(tmp_path, provisioned=False)
    status, names = loaded("--root", str(tmp_path / "root"), "--config", file)
    assert status == 1
    assert not names & (NEVER | TUNING | DISKS | NETWORK)
    assert "azureinit.library" not in names
    assert not [name for name in names if name.startswith(("azureinit.userdata", "yaml"))]
    operator = {f"azureinit.cli.{name}" for name in ("commands", "kvp_options", "help", "parser", "operate")}
    assert not names & operator


@pytest.mark.newer  # the interpreter below the virtual environment has PyYAML
def test_the_last_stage_of_custom_data_finds_the_document_parsed(tmp_path: Path) -> None:
    file, root = config(tmp_path, provisioned=True), tmp_path / "root"
    text = b"#cloud-config\nwrite_files:\n- {path: /early, content: a}\n- {path: /late, content: b, defer: true}\n"
    saved = SavedUserdata(source="customData", data=Secret(text), metadata=Metadata(username="ada"))
    place = Instance(data_dir="/var/lib/azure-init", vm_id="c0ffee00-1111-2222-3333-444444444444")
    write_userdata(Machine(root=str(root)), place, saved)
    status, names = loaded("--root", str(root), "--config", file, "--stage", "network")
    assert status == 0 and (root / "early").read_bytes() == b"a" and "yaml" in names
    status, names = loaded("--root", str(root), "--config", file, "--stage", "final")
    assert status == 0 and (root / "late").read_bytes() == b"b"
    assert not names & {"yaml", *(NEVER - {"ctypes"})}
    parsing = {f"azureinit.userdata.{name}" for name in ("yamltext", "parts", "validate", "check", "keys", "merge")}
    assert not names & (parsing | {"azureinit.run.readiness", "azureinit.run.channels", "azureinit.http"})
