"""JSON in a process that has not imported json."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

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
