"""The findings of `systemd-analyze security` for the units are in the manual, each with a reason, and no others."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

import pytest

from support.need import need, unfit

ROOT = Path(__file__).parents[2]
UNITS = sorted(path.name for path in (ROOT / "systemd").glob("*.service"))
CONFINED = [unit for unit in UNITS if not unit.startswith("azure-init-userdata-")]  # commands of the user run in those
CAN_READ_FILES = 250  # systemd-analyze security --offline came with it


def manual() -> str:
    return (ROOT / "docs/operating.md").read_text().partition("## What the units may do\n")[2].partition("\n## ")[0]


def rows(heading: str) -> dict[str, str]:
    """The table below `heading`: its first cell to its second."""
    table = manual().partition(f"\n| {heading} |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [line.strip("|").split(" | ", 1) for line in table]
    return {first: second.strip() for first, second in cells}


@functools.cache
def analysis(unit: str) -> str:
    tool = need("systemd-analyze")
    told = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
    if version(told) < CAN_READ_FILES:
        unfit(f"systemd-analyze cannot look at files before systemd {CAN_READ_FILES}")
    command = [tool, "security", "--offline=true", "--no-pager", str(ROOT / "systemd" / unit)]
    environ = {"LC_ALL": "C.UTF-8", "SYSTEMD_COLORS": "0"}
    ran = subprocess.run(command, capture_output=True, text=True, env=environ)
    assert "Overall exposure level" in ran.stdout, ran.stderr
    return told + ran.stdout


def version(told: str) -> int:
    (found,) = re.findall(r"^systemd (\d+)", told)
    return int(found)


def left_open(unit: str) -> set[str]:
    """By the names that the manual has for them: a capability or an address family each by its own."""
    text = (ROOT / "systemd" / unit).read_text()
    words = set(re.findall(r"^[✗] (\S+)", analysis(unit), re.MULTILINE))
    names = {re.match(r"\w+", word)[0] for word in words}  # type: ignore[index]
    found = names - {"CapabilityBoundingSet", "RestrictAddressFamilies", "SystemCallFilter"}
    found |= {word.partition("~")[2] for word in words if word.startswith("SystemCallFilter")}
    for setting, prefix in (("CapabilityBoundingSet", "CAP_"), ("RestrictAddressFamilies", "AF_")):
        if setting in names:
            lines = re.findall(rf"^{setting}=(.*)$", text, re.MULTILINE)
            found |= {word for line in lines for word in line.split() if word.startswith(prefix)}
    return found


def test_every_unit_has_its_score_in_the_manual() -> None:
    scores = {
        f"{name}.service": score for names, score in rows("unit").items() for name in re.findall("`(.*?)`", names)
    }
    assert sorted(scores) == UNITS
    of = re.findall(r"of systemd (\d+)", manual())
    if version(analysis(UNITS[0])) != int(of[0]):
        pytest.skip(f"other versions of systemd than {of[0]} count otherwise")
    measured = {unit: re.findall(r"service: (\d+\.\d) ", analysis(unit))[0] for unit in UNITS}
    assert measured == scores


def test_everything_that_is_left_open_has_its_reason_and_nothing_else_has() -> None:
    reasons = rows("open")
    assert all(reasons.values())
    explained = [word for names in reasons for word in re.findall("`(.*?)`", names)]
    assert len(explained) == len(set(explained)), "one reason each"
    assert set(explained) == set().union(*map(left_open, CONFINED))
