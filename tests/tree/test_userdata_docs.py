"""docs/userdata.md: its examples print what the page shows, and its table of modules is that of the stages."""

from __future__ import annotations

import os
import re
from pathlib import Path
from textwrap import dedent

import pytest

from azureinit.cli import main
from azureinit.run.module_tables import modules_of

PAGE = (Path(__file__).parents[2] / "docs/userdata.md").read_text()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    zone = made / "usr/share/zoneinfo/Europe/Berlin"
    zone.parent.mkdir(parents=True)
    zone.touch()
    for name in ("etc", "srv"):
        (made / name).mkdir()
    return made


def example(first: str) -> str:
    """The indented block that begins with this line."""
    found = re.findall(rf"\n\n    {re.escape(first)}\n(?:    .*\n)+", PAGE)[0]
    return dedent(found.lstrip("\n"))


def shown(command: str) -> str:
    return PAGE.partition(f"```text\n$ azure-init --root DIR userdata {command} app.yaml\n")[2].partition("```")[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="the page shows what root sees: owners are set")
def test_the_page_shows_what_explain_and_run_print(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = tmp_path / "app.yaml"
    document.write_text(example("#cloud-config"))
    for command in ("explain", "run"):
        assert main(["--root", str(tree), "userdata", command, str(document)]) == 0
        assert capsys.readouterr().out == shown(command) != ""
    assert (tree / "srv/app/index.html").read_text() == "hello"


def test_the_page_has_a_row_for_each_module() -> None:
    rows = [
        f"| {module.name} | {stage} | {module.frequency} |"
        for stage in ("network", "config", "final")
        for module in modules_of(stage)
    ]
    assert "| module | stage | runs |\n| --- | --- | --- |\n" + "\n".join(rows) + "\n\n" in PAGE


def test_the_template_of_the_page_becomes_a_file(tree: Path, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    place = tree / "run/azure-init"
    place.mkdir(parents=True)
    for name in ("instance-data.json", "instance-data-sensitive.json"):
        (place / name).write_text('{"v1": {"region": "westeurope"}, "sensitive_keys": []}')
    document = tmp_path / "region.yaml"
    document.write_text(example("## template: jinja"))
    assert main(["--root", str(tree), "userdata", "run", str(document)]) == 0
    assert (tree / "etc/region").read_text() == "westeurope"
