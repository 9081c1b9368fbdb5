"""The rooms of fakeazure: what each may import, checked in its source; a planted violation of each rule is found."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src/fakeazure"
EVERYTHING = ("platform", "machines", "scenarios", "judge", "pool_judge", "show", "arguments", "serve", "serve_output",
              "cli", "version", "pytest_plugin")  # fmt: skip
MAY: dict[str, tuple[str, ...]] = {
    "platform": ("platform", "judge", "pool_judge"),
    "machines": ("platform", "machines", "judge", "show"),
    "scenarios": ("platform", "scenarios"),
    "judge": ("platform.events", "platform.report", "platform.vm", "pool_judge"),
    "pool_judge": ("platform.events",),
    "show": ("platform", "judge"),
    "arguments": ("machines", "version"),
    "serve_output": ("platform", "judge", "show"),
    "serve": EVERYTHING,
    "cli": EVERYTHING,
    "pytest_plugin": EVERYTHING,
    "version": (),
    "__init__": ("platform", "judge"),
    "__main__": ("cli",),
}


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(source: str) -> Iterator[str]:
    """Modules, wherever the import stands. `from fakeazure import x` may import the module x."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            if node.module in ("fakeazure", *(f"fakeazure.{one}" for one in ("platform", "machines", "scenarios"))):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            else:
                yield node.module or ""


def violations(where: str, source: str) -> list[str]:
    found = []
    for name in imported(source):
        top, _, inside = name.partition(".")
        if top == "azureinit" or (
            top == "fakeazure" and not any(inside == one or inside.startswith(f"{one}.") for one in MAY[where])
        ):
            found.append(name)
    return found


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_what_its_room_may(path: Path) -> None:
    assert violations(room(path), path.read_text()) == []


@pytest.mark.parametrize(
    ("where", "planted"),
    [
        ("platform", "from fakeazure.machines.network import ip"),
        ("platform", "from fakeazure.machines import network"),
        ("platform", "import fakeazure.machines.network as anything"),
        ("platform", "def late() -> None:\n    from fakeazure import cli"),
        ("platform", "from fakeazure.scenarios.spec import parse_scenario"),
        ("scenarios", "from fakeazure.machines.container import boot"),
        ("scenarios", "from fakeazure.judge import judge"),
        ("machines", "from fakeazure.scenarios.catalogue import find_scenario"),
        ("machines", "from fakeazure.cli import main"),
        ("judge", "from fakeazure.platform.ledger import Ledger"),
        ("judge", "from fakeazure.platform import imds"),
        ("show", "import fakeazure.machines"),
        ("cli", "from azureinit.version import VERSION"),
        ("machines", "import azureinit"),
    ],
)
def test_a_planted_violation_is_found(where: str, planted: str) -> None:
    assert len(violations(where, planted)) == 1


def test_every_room_has_a_rule_and_no_file_is_long() -> None:
    files = sorted(ROOT.rglob("*.py"))
    assert {room(path) for path in files} == MAY.keys()
    assert [path.name for path in files if len(path.read_text().splitlines()) > 400] == []


def test_the_agent_does_not_import_the_platform() -> None:
    agent = sorted((ROOT.parent / "azureinit").rglob("*.py"))
    assert agent and not [path for path in agent if any("fakeazure" in name for name in imported(path.read_text()))]
