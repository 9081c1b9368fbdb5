"""YAML text -> Node: the values of PyYAML's safe loader, with places, bounds and stricter rules."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest
import yaml
from hypothesis import given, settings, strategies as st

from azureinit.userdata.node import MAPPING, Node, plain
from azureinit.userdata.values import ERROR, MOST_YAML_DEPTH, MOST_YAML_NODES, Finding, Place
from azureinit.userdata.yamltext import parse_yaml

LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader  # they differ in what a tab may follow


def read(text: str) -> tuple[Node | None, tuple[Finding, ...]]:
    return parse_yaml(text, place=Place())


def refused(text: str) -> Finding:
    node, findings = read(text)
    assert node is None and len(findings) == 1
    assert findings[0].level == ERROR
    return findings[0]


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb: [x, yes, 1.5, 0644, 0x1f, 1:30, 2026-01-01, ~, null, 'quoted', .inf]\n",
        "a: |\n  one\n  two\nb: >-\n  one\n  two\n",
        "base: &b {x: 1, y: 2}\nc:\n  <<: *b\n  y: 3\n",
        "a: &a {x: 1}\nb: &b {x: 2, z: 3}\nc: {<<: [*a, *b], w: 0}\n",
        "b: {<<: {x: 1}, <<: {x: 2, y: 3}}\n",
        "b: {'<<': {x: 1}}\n",
        "- !!str 1\n- !!int '7'\n- !!binary aGVsbG8=\n- ! 5\n- !!bool 'yes'\n- !!float 1\n",
        "- &x 1\n- *x\n- &y 2\n- *y\n",
        "1: a\nfalse: b\n~: c\n1.5: d\n",
        '{"json": [1, 2, {"a": null}]}',
        "text",
        "",
        "# only a comment\n",
        "---\na: 1\n...\n",
        "%YAML 1.1\n---\na: 1\n",
    ],
)
def test_values_are_those_of_the_safe_loader(text: str) -> None:
    node, findings = read(text)
    assert findings == ()
    assert (None if node is None else plain(node)) == yaml.safe_load(text)


def test_every_key_and_item_keeps_its_place() -> None:
    node, _ = parse_yaml("runcmd:\n  - one\n  - [two, three]\n", place=Place(part="p", line=10, column=2))
    assert node is not None
    ((key, value),) = node.pairs()
    assert (key.text, key.line, key.column, key.part) == ("runcmd", 11, 3, "p")
    assert [(item.line, item.column) for item in value.items()] == [(12, 7), (13, 7)]
    assert [(word.value, word.line, word.column) for word in value.items()[1].items()] == [
        ("two", 13, 8),
        ("three", 13, 13),
    ]
    assert repr(value) == "Node(list at 12:5)"


MISTAKES = [
    ("a:\n\t- x\n", 2, 1, "a tab where only spaces are allowed"),
    ("a:\n  b: 1\n \tc: 2\n", 3, 2, "a tab where only spaces are allowed"),
    ("a: b: c\n", 1, 5, "mapping values are not allowed"),
    ('a: 1\nb: "foo\nc: 1\n', 2, 4, "unexpected end of stream"),
    ("a: 1\njust text\nb: 2\n", 2, 1, "could not find expected ':'"),
    ("a: &a [*a]\n", 1, 8, "contains itself"),
    ("x: *no\n", 1, 4, "has no anchor"),
    ("- &x 1\n- &x 2\n", 2, 3, "(a word that begins with &) is given twice"),
    ("- &x [&x {}]\n", 1, 7, "(a word that begins with &) is given twice"),
    ("a: {{ foo }}\n", 1, 5, "a key must be text"),
    ("a: !foo x\n", 1, 4, "a YAML tag (a word that begins with !) is not supported"),
    ("a: !!python/object:os.system x\n", 1, 4, "is not supported"),
    ("a: !!set {x}\n", 1, 4, "is not supported"),
    ("a: 1\n---\nb: 1\n", 2, 1, "a second YAML document"),
    ("ok: 1\na: x\x01\n", 2, 5, "control character"),
    ("a: 2026-99-99\n", 1, 4, "not a valid date"),
    ("a: !!int zz\n", 1, 4, "not a valid integer"),
    ("a: " + "9" * 2000 + "\n", 1, 4, "more than 1024 digits"),
    ("a: {<<: 5}\n", 1, 9, "<< takes a mapping"),
    ("a: %x\n", 1, 4, "cannot start any token"),
    ("[" * 100_000, 1, MOST_YAML_DEPTH + 1, "levels deep"),
    ("- " * 100_000, 1, 2 * MOST_YAML_DEPTH + 1, "levels deep"),
    ("a: &a0 [x]\n" + "".join(f"b{n}: &a{n + 1} [*a{n}]\n" for n in range(100)), 63, 12, "levels deep"),
    ("[" + "x," * (MOST_YAML_NODES + 1) + "]", 1, 2 * MOST_YAML_NODES, "values, aliases expanded"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "column", "message"), MISTAKES, ids=[one[3] for one in MISTAKES])
def test_a_mistake_is_told_with_its_place(text: str, line: int, column: int, message: str) -> None:
    finding = refused(text)
    assert message in finding.message
    assert (finding.line, finding.column) == (line, column)


def test_an_alias_bomb_is_refused_before_it_is_expanded() -> None:
    names = "abcdefghijkl"
    text = "a: &a [" + ",".join(["x"] * 9) + "]\n"
    text += "".join(f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip(names, names[1:]))
    assert "aliases expanded" in refused(text).message


def test_a_key_that_is_given_twice_is_an_error_with_both_lines() -> None:
    node, (finding,) = read("write_files: [1]\nruncmd: []\nwrite_files: [2]\n")
    assert node is not None and plain(node)["write_files"] == [2]
    assert (finding.level, finding.line, finding.column) == (ERROR, 3, 1)
    assert "write_files is given twice: first in line 1" in finding.message


def test_messages_contain_no_value() -> None:
    for text in (
        "password: 'S3cret\n",
        "password: S3cret: x\n",
        "a:\n  password: S3cret\n b: 1\n",
        "password: !S3cret\n",
        "password: !S3cret x\n",
        "password: *S3cret\n",
        "password: &S3cret [*S3cret]\n",
        "password: &S3cret x\nb: &S3cret y\n",
        "password: !S3cret [x]\n",
        "password: %S3cret\n",
        "password: @S3cret\n",
        'password: "\\S3cret"\n',
        "password: S3cret\x01\n",
        "password: |S3cret\n",
        "password: {S3cret\n",
        "password: [S3cret}\n",
        "? S3cret: [\n",
    ):
        assert "S3cret" not in str(refused(text))


# ---- any input

KEYS = st.one_of(st.text(max_size=5), st.integers(-5, 5), st.booleans(), st.none())
DATA = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.dates(), st.binary()),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=20,
)
PIECES = st.lists(
    st.sampled_from(
        ["a", "b: ", ": ", "- ", "\n", "  ", "\t", "[", "]", "{", "}", ",", "&x ", "*x", "<<: ", "|\n", ">\n", "'",
         '"', "!!int ", "!x ", "1", "0o7", "1e5", "~", "yes", "---\n", "...\n", "#", "%", "@", "=", "\x00", "\u2028",
         "\ud7ff", "2026-13-01", "1:61:61", "? ", "\\"]
    ),
    max_size=40,
).map("".join)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(DATA)
def test_what_pyyaml_writes_is_read_back(value: Any) -> None:
    text = yaml.safe_dump(value, allow_unicode=True)
    node, findings = read(text)
    assert findings == () and (None if node is None else plain(node)) == yaml.safe_load(text)


@settings(max_examples=300, deadline=None)
@given(st.one_of(PIECES, st.text(max_size=100)))
def test_any_text_is_a_value_or_a_finding(text: str) -> None:
    node, findings = read(text)
    lines = text.count("\n") + text.count("\r") + text.count("\x85") + text.count("\u2028") + text.count("\u2029") + 1
    assert all(1 <= one.line <= lines + 1 and one.column >= 1 and one.message.isprintable() for one in findings)
    if node is None or findings:
        return
    try:
        expected = yaml.load(text, Loader=LOADER)
    except (yaml.YAMLError, ValueError, KeyError, AttributeError, TypeError):
        assert "=" in text or "<<" in text  # PyYAML fails on these as plain values
        return
    assert repr(plain(node)) == repr(expected) or node.kind == MAPPING


def test_items_of_many_lines_take_no_longer_with_hyphens_than_without() -> None:
    """The lines are looked at, for items that are indented too far. Looked for from the first line on each time, that
    took a hundred times as long."""
    taken = {}
    for word in ("+", "-"):
        text = f"- echo {word} a\n" + f"  x {word} y\n" * 20_000
        started = process_time()
        node, findings = read(text)
        taken[word] = process_time() - started
        assert node is not None and findings == ()
    assert taken["-"] < 20 * taken["+"]


def test_an_item_below_that_repeats_a_part_of_the_one_above_is_no_mistake() -> None:
    node, findings = read("- echo a - b\n  c\n\n- b\n")
    assert findings == () and node is not None and plain(node) == ["echo a - b c", "b"]
