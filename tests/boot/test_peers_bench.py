"""bench/peers in a whole run: its tables are consistent, and its picture is valid."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from support.container import PROJECT
from support.need import need, need_root

pytestmark = pytest.mark.newer

BENCH = PROJECT / "bench/peers"
NEEDED = ("systemd-nspawn", "mmdebstrap", "ip", "unshare", "setpriv", "ssh", "ssh-keygen")
SVG = "{http://www.w3.org/2000/svg}"
# In the place of the Rust azure-init's binary: what it does, by what is in the image.
STAND_IN = """\
#!/usr/bin/python3
import json, pathlib, subprocess, urllib.request as web
imds = "http://169.254.169.254/metadata/instance/compute?api-version=2021-08-01"
compute = json.load(web.urlopen(web.Request(imds, headers={"Metadata": "true"})))
user = compute["osProfile"]["adminUsername"]
subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", user], check=True)
keys = pathlib.Path("/home", user, ".ssh/authorized_keys")
keys.parent.mkdir(mode=0o700)
keys.write_text("".join(key["keyData"] + "\\n" for key in compute["publicKeys"]))
subprocess.run(["chown", "-R", f"{user}:{user}", str(keys.parent)], check=True)
health = web.Request("http://168.63.129.16/provisioning/health", headers={"Content-Type": "application/json"})
web.urlopen(health, json.dumps({"state": "Ready"}).encode())
"""
NAMES = ["no agent", "azure-init", "azure-init (Rust)", "shell and curl"]


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
    table, picture, rust = tmp_path / "table.md", tmp_path / "picture.svg", tmp_path / "rust"
    rust.write_text(STAND_IN)
    options = ("--only", "none,ours,rust,floor", "--rust", str(rust), "--table", str(table), "--picture", str(picture))
    ran = run("--rounds", "1", *options)
    text = table.read_text()
    assert ran.returncode == (1 if "- FAIL:" in text else 0), ran.stderr + ran.stdout
    boots, alone, customised = tables(text)
    assert [row["boot"] for row in boots] == NAMES
    assert [row["the agent alone"] for row in alone] == NAMES[1:]
    assert "azure-init" in [row["with customData"] for row in customised]
    ours = boots[1]
    assert float(ours["Ready"].split()[0]) < float(ours["first login"].split()[0])
    assert ours["login x ours"] == alone[0]["x ours"] == "1.00"
    assert all(int(row[kind].split()[0]) > 0 for row in alone for kind in ("programs", "files opened", "syncs"))
    assert all(float(row[kind].split()[0]) > 0 for row in alone for kind in ("CPU", "peak memory"))
    assert float(alone[0]["on disk"].split()[0]) > 0
    assert ["(x " in row["peak memory"] for row in alone] == [False, True, True]
    assert re.search(r"^- (pass|FAIL): start to Ready is [\d.]+ of the sum", text, re.MULTILINE)
    drawn = ElementTree.parse(picture).getroot()
    assert drawn.tag == f"{SVG}svg"
    names = [text.text for text in drawn.iter(f"{SVG}text") if text.get("class") == "name"]
    assert names == NAMES
    assert len(list(drawn.iter(f"{SVG}circle"))) == 1 + len(names), "one login each, and the legend's"
