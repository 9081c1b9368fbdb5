"""bench/peers: the race is run, its tables add up, and its picture is one."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from container import PROJECT

from need import need, need_root

pytestmark = pytest.mark.newer

BENCH = PROJECT / "bench/peers"
NEEDED = ("systemd-nspawn", "mmdebstrap", "ip", "unshare", "setpriv", "ssh", "ssh-keygen")
SVG = "{http://www.w3.org/2000/svg}"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run((sys.executable, str(BENCH), *arguments), capture_output=True, text=True, timeout=600)


def tables(text: str) -> list[list[dict[str, str]]]:
    """Each table as rows by their column's name."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        head, _rule, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
        assert all(len(row) == len(head) for row in rows)
        found.append([dict(zip(head, row, strict=True)) for row in rows])
    return found


def test_a_race_is_run_and_told_in_tables_and_in_a_picture(tmp_path: Path) -> None:
    need_root()
    for tool in NEEDED:
        need(tool)
    table, picture = tmp_path / "table.md", tmp_path / "picture.svg"
    ran = run("--rounds", "1", "--only", "none,ours,floor", "--table", str(table), "--picture", str(picture))
    assert ran.returncode == 0, ran.stderr + ran.stdout
    boots, alone = tables(table.read_text())
    assert [row["boot"] for row in boots] == ["no agent", "azure-init", "shell and curl"]
    assert [row["the agent alone"] for row in alone] == ["azure-init", "shell and curl"]
    ours = boots[1]
    assert float(ours["Ready"].split()[0]) < float(ours["first login"].split()[0])
    assert ours["login x ours"] == alone[0]["x ours"] == "1.00"
    assert all(int(row[kind]) > 0 for row in alone for kind in ("programs", "files opened", "syncs"))
    assert all(float(row[kind].split()[0]) > 0 for row in alone for kind in ("CPU", "peak memory", "on disk"))
    assert re.search(r"^- (pass|FAIL): start to Ready is [\d.]+ of the sum", table.read_text(), re.MULTILINE)
    drawn = ElementTree.parse(picture).getroot()
    assert drawn.tag == f"{SVG}svg"
    names = [text.text for text in drawn.iter(f"{SVG}text") if text.get("class") == "name"]
    assert names == ["no agent", "azure-init", "shell and curl"]
    assert len(list(drawn.iter(f"{SVG}circle"))) == 1 + len(names), "one login each, and the legend's"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--only", "ours,snail"), "--only: snail: not one of"),
        (("--only", "rust"), "rust races with --rust PATH only"),
        (("--rounds", "0"), "--rounds: at least 1"),
    ],
)
def test_a_race_that_cannot_be_is_refused_in_one_sentence(arguments: tuple[str, ...], complaint: str) -> None:
    ran = run(*arguments)
    assert ran.returncode == 2
    assert complaint in ran.stderr
    assert "Traceback" not in ran.stderr
