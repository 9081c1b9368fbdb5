"""`azure-init userdata explain` and `run`, and `azure-init query`, on trees; with a module of the test's own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from azureinit.cli import main
from azureinit.errors import CustomDataFailed
from azureinit.machine import Machine
from azureinit.modules.request import Request
from azureinit.modules.steps import ON_TREE, named, refused
from azureinit.plan.actions import Satisfied, Step, Way, Write
from azureinit.record import Secret
from azureinit.run import config_modules, final_modules, network_modules
from azureinit.run.explain import cautions
from azureinit.run.instance_data import make_instance_data, write_instance_data
from azureinit.run.modules import INSTANCE, NETWORK, Module, keys
from azureinit.sources.metadata import Metadata
from azureinit.userdata.document import read_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.plan.actions import Plan

DOCUMENT = "#cloud-config\nhostname: {name}\nlocale: C\n"


def read_name(machine: Machine, _request: Request) -> bytes | None:
    return machine.read("/etc/name")


def plan_name(request: Request, was: bytes | None) -> Plan:
    node = request.config.get("hostname")
    assert node is not None
    data = f"{node.value}\n".encode()
    if was == data:
        return (Satisfied(name=named("name", node), why="it is so already"),)
    write = Write(path="/etc/name", data=data, mode=0o644)
    if node.value == "impossible":
        write = Write(path="/etc/passwd/x", data=data, mode=0o644)
    way = Way(backend="native", actions=(write,))
    return (Step(name=named("name", node), why="the name", ways=(way,), failure=CustomDataFailed),)


ROW = Module(name="name", stage=NETWORK, frequency=INSTANCE, asked=keys("hostname"), facts=read_name, planner=plan_name)
LATER = Module(
    name="later", stage="final", frequency=INSTANCE, asked=keys("locale"), facts=lambda *_: None,
    planner=lambda *_: (), on_tree=False,
)  # fmt: skip


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(network_modules, "MODULES", (ROW,))
    monkeypatch.setattr(config_modules, "MODULES", ())
    monkeypatch.setattr(final_modules, "MODULES", (LATER,))
    made = tmp_path / "root"
    (made / "etc").mkdir(parents=True)
    (made / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "web.yaml"
    made.write_text(DOCUMENT.format(name="ada"))
    return made


def test_explain_shows_stages_modules_and_steps(root: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["userdata", "explain", "--root", str(root), str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "network stage",
        "  name, once for each VM",
        "    + name (line 2): the name",
        "        native:",
        "          write /etc/name mode 0644",
        "            +ada",
        "final stage",
        "  later, once for each VM",
        f"    ! later: {ON_TREE}",
        "1 to do, 0 as asked, 1 not possible",
    ]
    assert not (root / "etc/name").exists()


def test_run_carries_out_what_explain_shows(root: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["userdata", "run", "--root", str(root), str(file)]) == 0
    told = capsys.readouterr()
    assert told.out.splitlines() == ["network name: done", f"final later: {ON_TREE}"]
    assert (root / "etc/name").read_text() == "ada\n"
    assert main(["userdata", "explain", "--root", str(root), str(file)]) == 0
    assert "= name (line 2): it is so already" in capsys.readouterr().out


def test_a_module_that_fails_is_told_and_the_next_one_runs(
    root: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(DOCUMENT.format(name="impossible"))
    assert main(["userdata", "run", "--root", str(root), str(file)]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("network name: name (line 2)") and second == f"final later: {ON_TREE}"


@pytest.mark.parametrize("command", ["explain", "run"])
def test_with_an_error_nothing_is_planned(
    root: Path, file: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(DOCUMENT.format(name="ada") + "runcm: [a]\n")
    assert main(["userdata", command, "--root", str(root), str(file)]) == 1
    told = capsys.readouterr()
    assert told.out == "" and ":4:1: error: unknown key runcm" in told.err
    assert not (root / "etc/name").exists()


def test_a_module_that_refuses_the_document_is_the_last_one(
    root: Path, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    why = "it would lock everybody out"
    refusal = refused("check", why, reason="the admin keeps a way in")
    check = Module(
        name="check", stage=NETWORK, frequency=INSTANCE, asked=lambda _: True, facts=lambda *_: None,
        planner=lambda *_: (refusal,), veto=True,
    )  # fmt: skip
    monkeypatch.setattr(network_modules, "MODULES", (check, ROW))
    assert main(["userdata", "run", "--root", str(root), str(file)]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("network check: ") and why in line
    assert not (root / "etc/name").exists()


def test_explain_in_json(root: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(f"#cloud-config-archive\n- |\n  #include\n  https://a.example/x\n- {{content: '{'#!/bin/sh'}'}}\n")
    assert main(["userdata", "explain", "--json", "--root", str(root), str(file)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in told["cautions"]] == ["include (line 3)"]
    assert [one["stage"] for one in told["stages"]] == ["network", "config", "final"]


def test_run_needs_a_root(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["userdata", "run", str(file)]) == 2
    assert "--root is required" in capsys.readouterr().err


def test_image_configuration_of_the_tree_counts(root: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "etc/azure-init/userdata.d").mkdir(parents=True)
    (root / "etc/azure-init/userdata.d/10.cfg").write_text("hostname: below\n")
    file.write_text("#cloud-config\nlocale: C\n")
    assert main(["userdata", "run", "--root", str(root), str(file)]) == 0
    assert (root / "etc/name").read_text() == "below\n"
    capsys.readouterr()


def test_a_template_without_instance_data_says_why_it_is_not_rendered() -> None:
    (told,) = cautions(read_document(b"## template: jinja\n#cloud-config\nlocale: C\n"))
    assert told.why == "it was not rendered: there is no instance data here; a boot on Azure makes it"


def test_templates_are_rendered_in_a_tree(root: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("## template: jinja\n" + DOCUMENT.format(name="on-{{ v1.platform }}"))
    assert main(["userdata", "explain", "--root", str(root), str(file)]) == 0
    shown = capsys.readouterr().out
    assert "it was not rendered" not in shown and "of template, rendered" in shown
    assert main(["userdata", "run", "--root", str(root), str(file)]) == 0
    assert (root / "etc/name").read_text() == "on-azure\n"


# ---- query


@pytest.fixture
def data(root: Path) -> Path:
    machine = Machine(root=str(root))
    metadata = Metadata(hostname="vm1", about={"location": "westeurope"})
    write_instance_data(machine, make_instance_data(machine, metadata, vm_id="0-1", userdata=Secret(b"S3cret")))
    return root


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["v1.local_hostname"], "vm1\n"),
        (["local_hostname"], "vm1\n"),
        (["region"], "westeurope\n"),
        (["ds.meta_data.local_hostname"], "vm1\n"),
        (["ds.meta_data.local-hostname"], "vm1\n"),
        (["ds.meta_data.imds.compute.location"], "westeurope\n"),
        (["v1.public_ssh_keys"], "[]\n"),
        (["--list-keys", "ds"], "_doc\nmeta_data\n"),
        (["--format", "{{ v1.region }}-{{ local_hostname }}"], "westeurope-vm1\n"),
    ],
)
def test_query(data: Path, words: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(data), "query", *words]) == 0
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ([], 2, "name a KEY"),
        (["nope"], 1, "there is no nope"),
        (["v1.nope"], 1, "v1 has no nope"),
        (["v1.region.x"], 1, "v1.region has a value, and no x below it"),
        (["--list-keys", "v1.region"], 1, "v1.region has a value"),
        (["--format", "{{ nope }}"], 1, "'nope' is undefined"),
    ],
)
def test_what_query_cannot_answer(
    data: Path, words: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--root", str(data), "query", *words]) == status
    assert message in capsys.readouterr().err


def test_secrets_are_for_root_only(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(data), "query", "userdata"]) == 0
    shown = capsys.readouterr().out
    assert shown == ("S3cret\n" if os.geteuid() == 0 else "redacted for non-root user\n")


def test_without_instance_data_that_is_said(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(root), "query", "--all"]) == 1
    assert "there is no instance data" in capsys.readouterr().err
