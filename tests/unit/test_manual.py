"""The pages of docs/: links, tables and figures."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_page_of_the_manual_can_be_found_and_exists() -> None:
    readme = (ROOT / "README.md").read_text()
    linked = set(re.findall(r"\((docs/[a-z-]+\.md)\)", readme))
    assert linked == {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}


def test_links_between_pages_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_no_page_is_empty_and_no_table_is_broken() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        text = page.read_text()
        assert len(text) > 200, page.name
        for before, line in zip(text.splitlines(), text.splitlines()[1:]):
            if before.startswith("|") and line and not line.startswith("|"):
                raise AssertionError(f"{page.name}: a table goes on with {line!r}")


def test_figures_come_with_the_command_that_makes_them() -> None:
    text = (ROOT / "docs/performance.md").read_text()
    assert re.search(r"`bench/boot-path (\d+)` printed last:\n\n\1 rounds, Python .*\n\n\| run \|", text)
    assert re.search(r"\nlisteners add \d\.\d\dx bare \(median of pairs\)\n", text)
