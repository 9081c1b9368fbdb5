"""The walls between the rooms, as the map draws them. A wall that does not bite is a drawing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
ROOT = SRC / "azureinit"

VALUES = {"record", "errors", "version", "jsontext", "pubkey"}
MAY: dict[str, set[str]] = {
    "record": set(),
    "errors": {"record"},
    "version": set(),
    "jsontext": set(),
    "pubkey": {"errors"},
    "machine": {*VALUES},
    "http": {*VALUES},
    "config": {*VALUES, "machine"},
    "facts": {*VALUES, "machine"},
    "kvp": {*VALUES, "machine"},
    "sources": {*VALUES, "machine", "http", "config.model"},
    "plan": {*VALUES, "backends", "config.model", "sources.metadata", "facts"},
    "backends": {*VALUES, "plan", "config.model", "sources.metadata", "facts"},
    "memory": {*VALUES, "machine", "plan.actions", "plan.waagent", "sources.metadata"},
    "apply": {*VALUES, "plan", "machine", "memory", "telemetry.events"},
    "telemetry": {*VALUES, "machine", "http", "kvp", "config.model", "config.filters"},
    "report": {*VALUES, "machine", "http", "kvp", "config.model"},
}
EVERYTHING = {
    "run", "library", "cli", "__init__", "__main__",
}  # fmt: skip
# Only the doors touch the world.
DOORS = {"machine", "http"}
WORLD = {
    "subprocess", "socket", "_socket", "posix", "ctypes", "fcntl", "time", "select", "signal", "shutil", "tempfile",
    "pathlib", "io", "grp", "pwd", "glob", "mmap", "termios",
}  # fmt: skip
# Needed everywhere, at run time, by none but the operator's verbs.
HEAVY = {"typing", "dataclasses", "logging", "argparse", "asyncio", "http.client", "urllib", "xml", "email", "ssl"}
DISTROS = ("debian", "ubuntu", "fedora", "rhel", "centos", "azurelinux", "mariner", "suse", "sles", "arch", "alpine",
           "gentoo", "flatcar", "rocky", "almalinux", "opensuse", "photon")  # fmt: skip


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py") if path.parent != ROOT else path.stem


def is_typing_only(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def statements(tree: ast.AST, *, typing_too: bool) -> list[ast.AST]:
    found: list[ast.AST] = []
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        found.append(node)
        for child in ast.iter_child_nodes(node):
            if typing_too or not (isinstance(child, ast.stmt) and is_typing_only(child)):
                pending.append(child)
    return found


def imports(path: Path, *, typing_too: bool) -> list[tuple[str, tuple[str, ...]]]:
    found: list[tuple[str, tuple[str, ...]]] = []
    for node in statements(ast.parse(path.read_text()), typing_too=typing_too):
        if isinstance(node, ast.Import):
            found += [(alias.name, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            found.append((node.module or "", tuple(alias.name for alias in node.names)))
    return found


def breaches(path: Path) -> list[str]:
    own = room(path)
    found = []
    for name, names in imports(path, typing_too=False):
        if name == "fakeazure" or name.startswith("fakeazure."):
            found.append(f"{path.name} imports {name}")
        if not name.startswith("azureinit"):
            if name.split(".")[0] in WORLD and own not in DOORS:
                found.append(f"{path.name} touches the world through {name}")
            continue
        if own in EVERYTHING:
            continue
        target = name.removeprefix("azureinit").lstrip(".")
        targets = [target] if target else list(names)
        for one in targets:
            if one.split(".")[0] == own or any(one == may or one.startswith(may + ".") for may in MAY[own]):
                if own in ("plan", "backends") and one.startswith("facts"):
                    found += [f"{path.name} takes {n} of {one}" for n in names if not n[:1].isupper()]
            else:
                found.append(f"{path.name} ({own}) imports {one}")
    return found


def touches(path: Path, own: str) -> list[str]:
    """Calls that reach the world without an import: open, os functions on files, the environment."""
    if own in DOORS:
        return []
    forbidden = {"open", "input", "exec", "eval"} | (set() if own == "cli" else {"print"})
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in forbidden:
            found.append(f"{path.name}:{node.lineno} calls {node.func.id}")
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            found.append(f"{path.name}:{node.lineno} uses os.{node.attr}")
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_imports_only_what_the_map_allows(path: Path) -> None:
    assert breaches(path) == []


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_doors_touch_the_world(path: Path) -> None:
    if path.name != "docs.py":  # prints the manual's reference when run by hand
        assert touches(path, room(path)) == []


def test_a_distribution_is_named_in_one_table_only() -> None:
    found = []
    for path in modules():
        if path == ROOT / "facts" / "distros.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.lower() in DISTROS:
                found.append(f"{path.name}:{node.lineno} {node.value}")
    assert found == []


@pytest.mark.newer
def test_fakeazure_imports_nothing_of_the_agent() -> None:
    for path in sorted((SRC / "fakeazure").rglob("*.py")):
        for name, _names in imports(path, typing_too=True):
            assert not name.startswith("azureinit"), path


def test_rooms_have_no_rooms_inside() -> None:
    assert [path for path in modules() if len(path.relative_to(ROOT).parts) > 2] == []


def test_no_module_is_a_drawer_for_everything() -> None:
    assert [path for path in modules() if path.stem in ("util", "utils", "common", "base", "helpers", "manager")] == []


def test_the_wall_bites(tmp_path: Path) -> None:
    """A breach planted in a plan module is found, in each of the ways one could be made."""
    planted = ROOT / "plan" / "sudoers.py"
    for line, complaint in (
        ("import subprocess", "touches the world"),
        ("from azureinit.machine import Machine", "imports machine"),
        ("from azureinit.facts.gather import read_facts", "takes read_facts"),
        ("from azureinit import http", "imports http"),
        ("from azureinit.config.load import load", "imports config.load"),
    ):
        copy = tmp_path / "sudoers.py"
        copy.write_text(planted.read_text() + "\n" + line + "\n")
        tree = Breach(copy)
        assert any(complaint in found for found in tree.found), line
    for line in ("open('x')", "import os\nos.remove('x')", "os.environ['x']", "print('x')"):
        copy = tmp_path / "gather.py"
        copy.write_text(line + "\n")
        assert touches(copy, "run"), line


class Breach:
    """What `breaches` says of a file that pretends to lie in plan/."""

    def __init__(self, path: Path) -> None:
        self.found = []
        pretended = ROOT / "plan" / path.name
        text = pretended.read_text()
        # Not written into the tree: parsed under the other file's name.
        original = Path.read_text
        try:
            Path.read_text = lambda self, *a, **k: original(path) if self == pretended else original(self, *a, **k)  # type: ignore[method-assign]
            self.found = breaches(pretended)
        finally:
            Path.read_text = original  # type: ignore[method-assign]
        assert pretended.read_text() == text
