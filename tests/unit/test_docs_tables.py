"""Every row of a table in the documentation belongs to a table: a blank line would end it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
RULE = re.compile(r"\|[ :|-]+\|")


def lone_rows(text: str) -> Iterator[str]:
    """Rows that begin a table and are not followed by the line under a head."""
    lines = ["", *re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL).splitlines(), ""]
    for before, line, after in zip(lines, lines[1:], lines[2:]):
        if line.startswith("|") and not before.startswith("|") and not RULE.fullmatch(after):
            yield line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_row_is_apart_from_its_table(page: Path) -> None:
    assert list(lone_rows(page.read_text())) == []


def test_a_row_after_a_blank_line_is_noticed() -> None:
    table = "| a | b |\n| --- | --: |\n| 1 | 2 |\n"
    assert list(lone_rows(table)) == []
    assert list(lone_rows(f"{table}\n| 3 | 4 |\n")) == ["| 3 | 4 |"]
