"""docs/map.md names the modules and packages that exist, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src/azureinit"
MAP = (ROOT / "docs/map.md").read_text()


def section(text: str, title: str) -> str:
    """The text from a heading that starts with `title` to the next heading."""
    parts = re.split(r"^#+ ", text, flags=re.MULTILINE)
    (found,) = [part for part in parts if part.startswith(title)]
    return found


def rows(text: str) -> set[str]:
    """The names in the first column of its tables."""
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`(.*?)`", cell)}


@pytest.mark.parametrize("package", ["run", "memory", "facts"])
def test_every_module_has_a_row(package: str) -> None:
    modules = {path.stem for path in (SRC / package).glob("*.py")} - {"__init__"}
    named = rows(section(MAP, f"`{package}/`"))
    assert named - {"gather"} == modules - {"gather"}
    assert "gather" not in modules or "`gather`" in section(MAP, f"`{package}/`")


def test_every_package_and_top_level_module_has_a_row() -> None:
    packages = {f"{path.parent.name}/" for path in SRC.glob("*/__init__.py")}
    modules = {path.name for path in SRC.glob("*.py")} - {"__main__.py"}
    assert rows(section(MAP, "Packages of")) == packages | modules


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`((?:tests|packaging|src|docs)/[\w./-]+)`", MAP))))
def test_every_path_exists(name: str) -> None:
    assert (ROOT / name).exists()


def test_a_module_without_a_row_is_noticed() -> None:
    text = (
        "# map\n\n## `run/`: x\n\n| module | |\n| --- | --- |\n| `a`, `b` | what `c` does |\n\n## next\n\n| `d` | |\n"
    )
    assert rows(section(text, "`run/`")) == {"a", "b"}
