"""Every test can fail: it checks something, and no check of it is true whatever happens."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CHECKS = frozenset(
    ("raises", "warns", "fail", "fnmatch_lines", "assert_outcomes", "check", "check_call", "check_output")
)
OPPOSITE = {
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
}  # fmt: skip


def functions(tree: ast.AST) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def checks(function: ast.FunctionDef, helpers: frozenset[str]) -> bool:
    for node in ast.walk(function):
        if isinstance(node, (ast.Assert, ast.Raise)):
            return True
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in helpers or any(
                word.arg == "check" and ast.unparse(word.value) == "True" for word in node.keywords
            ):
                return True
    return False


def checking(tree: ast.AST, helpers: frozenset[str]) -> frozenset[str]:
    """The functions that check something, also by calling each other."""
    while True:
        more = helpers | {one.name for one in functions(tree) if checks(one, helpers)}
        if more == helpers:
            return helpers
        helpers = more


def negated(node: ast.expr) -> str:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return ast.unparse(ast.Compare(node.left, [OPPOSITE[type(node.ops[0])]()], node.comparators))
    return ast.unparse(ast.UnaryOp(ast.Not(), node))


def vain(tree: ast.AST, helpers: frozenset[str] = CHECKS) -> Iterator[tuple[int, str]]:
    """What cannot fail, with its line."""
    helpers = checking(tree, helpers)
    for one in functions(tree):
        if one.name.startswith("test_") and not checks(one, helpers):
            yield one.lineno, f"{one.name} checks nothing"
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and isinstance(node.test, (ast.Constant, ast.Tuple)):
            yield node.lineno, "asserts a constant"
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            said = {ast.unparse(value) for value in node.values}
            if any(negated(value) in said for value in node.values):
                yield node.lineno, "accepts a statement and its opposite"


def test_every_test_can_fail() -> None:
    helpers = CHECKS
    for path in sorted((TESTS / "support").glob("*.py")):
        helpers = checking(ast.parse(path.read_text()), helpers)
    found = [
        f"{path.relative_to(TESTS)}:{line}: {what}"
        for path in sorted(TESTS.rglob("test_*.py"))
        for line, what in vain(ast.parse(path.read_text()), helpers)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def test_x():\n    parse(b'')", "test_x checks nothing"),
        ("def help():\n    pass\ndef test_x():\n    help()", "test_x checks nothing"),
        ("def test_x():\n    assert True", "asserts a constant"),
        ("def test_x():\n    assert (x == 1, 'why')", "asserts a constant"),
        ("def test_x():\n    assert x is None or x is not None", "accepts a statement and its opposite"),
        ("def test_x():\n    assert f(x) or y or not f(x)", "accepts a statement and its opposite"),
        ("def test_x():\n    assert x < 1 or x >= 1", "accepts a statement and its opposite"),
    ],
)
def test_what_cannot_fail_is_found(text: str, said: str) -> None:
    assert said in [what for _, what in vain(ast.parse(text))]


def test_what_can_fail_is_not_found() -> None:
    text = """
def is_right(x):
    assert x == 1 or x > 5
def test_by_a_helper():
    is_right(2)
def test_by_an_error():
    with pytest.raises(ValueError):
        f()
def test_by_a_status():
    run(["true"], check=True)
"""
    assert list(vain(ast.parse(text))) == []
