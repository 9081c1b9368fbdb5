"""The public names of the library are exactly `__all__`, and are imported on first use."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import azureinit

SRC = Path(__file__).parents[2] / "src"


def test_every_public_name_is_there() -> None:
    for name in azureinit.__all__:
        assert getattr(azureinit, name) is not None
    with pytest.raises(AttributeError):
        getattr(azureinit, "nothing_of_the_kind")  # noqa: B009


def test_the_package_file_holds_nothing_but_its_names() -> None:
    tree = ast.parse((SRC / "azureinit/__init__.py").read_text())
    kinds = [type(node).__name__ for node in tree.body]
    assert kinds == ["Expr", "Assign", "FunctionDef"]


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse((SRC / "azureinit/__init__.pyi").read_text())
    shown = [alias.asname for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(filter(None, shown)) == azureinit.__all__
