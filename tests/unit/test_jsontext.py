"""JSON as a boot reads and writes it: the same as the `json` package does."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

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


# This process has imported `json`, and then the private scanner finds what it raises: these look from a fresh one.
SRC = Path(__file__).parents[2] / "src"
WHOLE = json.dumps({"a": [1, 2.5e3, "\u00e9\ud83d\ude00", None, True, {"b\\": "\n\t"}], "c": {}})
FRESH = """
import sys
sys.path.insert(0, sys.argv[1])
{before}
from azureinit import jsontext
assert "json" not in sys.modules
{then}
whole = {whole!r}
broken = [whole[:at] for at in range(len(whole))]
broken += [whole[:at] + other + whole[at + 1:] for at in range(len(whole)) for other in '"{{[,\\\\\\x00\\n\\ud800'[:9]]
broken += ["[" * 100000, '{{"a":' * 100000, "1" * 5000, "\\ud800", '"\\\\ud800', "NaN", "-Infinity"]
refused = 0
for text in broken:
    try:
        jsontext.loads(text)
    except ValueError:
        refused += 1
assert refused > len(whole), refused
assert jsontext.loads(whole) == jsontext.plain_loads(whole)
assert jsontext.dumps(jsontext.loads(whole)) == {written!r}
"""
MISSING = "sys.modules['_json'] = None"
OTHER = "import types\nsys.modules['_json'] = types.ModuleType('_json')"
UNUSED = "assert jsontext._scan is None"
AGAIN = f"{UNUSED}\nsys.modules['_json'] = _json"  # `json` is made of the same module
UNFIT = "jsontext._scan = lambda text, at: 1 / 0\njsontext._encode = lambda value, depth: 1 / 0"
WRONG = """
import _json, types
other = types.ModuleType("_json")
other.__dict__.update(vars(_json), **{changed})
sys.modules["_json"] = other
"""
SCANNER = WRONG.format(changed="{'make_scanner': lambda kinds: lambda text, at: ({'a': 1}, len(text))}")
ENCODER = WRONG.format(changed="{'make_encoder': lambda *given: lambda value, depth: ('{}',)}")
ARGUMENTS = WRONG.format(changed="{'make_encoder': lambda one: None}")
EXITING = WRONG.format(changed="{'make_scanner': lambda kinds: 1 / 0}")


@pytest.mark.parametrize(
    ("before", "then"),
    [
        ("", "assert jsontext._scan is not None"),
        (MISSING, UNUSED),
        (OTHER, UNUSED),
        (SCANNER, AGAIN),
        (ENCODER, AGAIN),
        (ARGUMENTS, AGAIN),
        (EXITING, AGAIN),
        ("", UNFIT),
    ],
    ids=[
        "as it is",
        "no private module",
        "an empty one",
        "a wrong scanner",
        "a wrong encoder",
        "other arguments",
        "one that fails at once",
        "one that fails later",
    ],
)
def test_in_a_process_that_has_not_imported_json(before: str, then: str) -> None:
    written = json.dumps(json.loads(WHOLE), separators=(",", ":"))
    program = FRESH.format(before=before, then=then, whole=WHOLE, written=written)
    command = (sys.executable, "-I", "-S", "-c", program, str(SRC))
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
