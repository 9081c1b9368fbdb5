"""Wherever the plain TOML parser answers, tomllib gives the same answer."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.config.plain import parse_plain

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PLAIN = """\
# a comment
top = 1

[imds]
endpoint = "http://169.254.169.254"  # another
retry_interval_secs = 2.5
total_retry_timeout_secs=-3
[ user_provisioners ]
backends = ["useradd", 'files', ]
empty = []
long = [
    "a",
    "b"
]
[telemetry]
kvp_diagnostics = false
"""
PIECES = st.sampled_from(
    ["[a]", "[a.b]", "[[a]]", "[a", "a", "b", "a.b", '"a"', "=", " ", "\t", "\n", "\r\n", '"', "'", '"""', "x y", "#",
     "\\",
     "1", "01", "-0", "+1.5", "1.", ".5", "1e3", "0x1f", "1_000", "inf", "nan", "true", "True", "[", "]", ",", "{", "}",
     "1979-05-27", "07:32:00", "é", "\u2028", "\x7f", '"é"', "9" * 17, "a = 1\n", "b = [1, 2]\n"]
)  # fmt: skip


def agree(text: str) -> bool:
    """True where the plain reader answered at all."""
    plain = parse_plain(text)
    if plain is not None:
        real: dict[str, Any] = tomllib.loads(text)
        assert repr(plain) == repr(real), text
    return plain is not None


def test_an_ordinary_file_is_plain() -> None:
    assert agree(PLAIN)


@pytest.mark.parametrize(
    "text",
    [
        'a = "with \\" escape"',
        "a = 1\na = 2",
        "[a]\n[a]",
        "a = 1\n[a]",
        "[a.b]",
        "[a",
        "a.b = 1",
        "a = {b = 1}",
        'a = """x"""',
        "a = [1, # why\n2]",
        "a = [1,\n",
        "a = [1\n2]",
        "a = 1 2",
        "a = ",
        "= 1",
        "a",
        "[a] b",
        "a = 1e3",
        "a = 01",
        "a = nan",
        "a = 1\r",
        "a = \x00",
        "a = 1979-05-27",
        "a = ٣",
        "a = [,]",
        "a = [1 2]",
    ],
)
def test_what_is_not_plain_is_left_to_the_real_parser(text: str) -> None:
    assert parse_plain(text) is None


@settings(max_examples=2000)
@given(st.lists(PIECES, max_size=12).map("".join))
def test_they_agree_on_anything(text: str) -> None:
    agree(text)


@given(st.text(max_size=60))
def test_they_agree_on_any_text(text: str) -> None:
    agree(text)


KEYS = st.text("abcd_-09", min_size=1, max_size=4)
STRINGS = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, blacklist_characters='"\\\x7f'), max_size=9)
VALUES = st.one_of(
    st.booleans().map(lambda value: str(value).lower()),
    st.integers(-(10**9), 10**9).map(str),
    st.floats(0, 1000).map(lambda value: f"{value:.3f}"),
    STRINGS.map(lambda value: f'"{value}"'),
    st.lists(STRINGS.map(lambda value: f'"{value}"'), max_size=3).map(lambda values: f"[{', '.join(values)}]"),
)


@given(st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=4), max_size=4))
def test_they_agree_on_ordinary_files(document: dict[str, dict[str, str]]) -> None:
    lines = []
    for section, values in document.items():
        lines += [f"[{section}]", *(f"{key} = {value}" for key, value in values.items())]
    agree("\n".join(lines))


def test_lists_without_end_inside_each_other_are_for_the_real_parser() -> None:
    assert parse_plain("a = " + "[" * 50_000) is None
    assert parse_plain("a = " + "[" * 50_000 + "]" * 50_000) is None
