"""JSON as a boot reads and writes it: the same as the `json` package does."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, strategies as st

from azureinit.jsontext import _Kinds, dumps, loads, plain_dumps, plain_loads

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_written_is_what_json_writes(value: object) -> None:
    assert dumps(value) == json.dumps(value, separators=(",", ":"))
    assert dumps(value, ascii_only=False) == json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@given(VALUES, st.sampled_from([None, 2]), st.booleans())
def test_what_json_writes_is_read(value: object, indent: int | None, ascii_only: bool) -> None:
    assert loads(f" \t\r\n{json.dumps(value, indent=indent, ensure_ascii=ascii_only)}\n ") == value


@given(st.text(alphabet='[]{}",:0123456789.eE+-truefalsn\\u \n') | st.text())
def test_what_json_refuses_is_refused(text: str) -> None:
    try:
        wanted = json.loads(text, parse_constant=refuse)
    except ValueError:
        with pytest.raises(ValueError):
            loads(text)
    else:
        assert loads(text) == wanted


def refuse(name: str) -> None:
    raise ValueError(name)


@pytest.mark.parametrize("text", ["", " ", "{", "[1,]", "{} {}", "nul", "NaN", "-Infinity", '"\n"', "01", "'a'"])
def test_not_json(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        loads(text)


@pytest.mark.parametrize("value", [math.nan, math.inf, b"bytes", {1, 2}, [object()]])
def test_not_written(value: object) -> None:
    with pytest.raises(ValueError, match="JSON"):
        dumps(value)


def test_the_scanner_finds_everything_that_it_asks_for() -> None:
    """Python 3.15's asks for one more than those before it: there, nothing at all could be read without."""
    made_by_itself = {"parse_object", "parse_array", "parse_string", "memo", "scan_once"}
    assert {*vars(json.JSONDecoder()), "array_hook"} - made_by_itself <= set(dir(_Kinds))


def test_a_tuple_is_a_list() -> None:
    assert dumps(("a", (1, 2.5))) == '["a",[1,2.5]]'


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000])
def test_nesting_without_end_is_a_value_error(text: str) -> None:
    for read in (loads, plain_loads):
        with pytest.raises(ValueError, match="nested too deeply"):
            read(text)


# ---- the seam: CPython's private module, or the `json` package


@given(VALUES, st.booleans())
def test_both_ways_write_the_same(value: object, ascii_only: bool) -> None:
    assert dumps(value, ascii_only=ascii_only) == plain_dumps(value, ascii_only=ascii_only)


@given(st.text(alphabet='[]{}",:0123456789.eE+-truefalsn\\u \n') | st.text())
def test_both_ways_read_the_same(text: str) -> None:
    assert outcome(loads, text) == outcome(plain_loads, text)


def outcome(read: object, text: str) -> object:
    try:
        return read(text)  # type: ignore[operator]
    except ValueError:
        return ValueError
