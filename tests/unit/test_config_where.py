"""The line number of a key in a TOML text."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from azureinit.config.where import key_lines, syntax_line

TEXT = '''\
# [imds] = nothing
top = 1

[ssh]  # host_key_types = 3
"query_sshd_config" = true
authorized_keys_path = """
[imds]
endpoint = "no"
\\""" still inside """""
host_key_types = [
  "rsa",  # ] endpoint = 1
  "]", 'x = "',
  [1, [2.5]],
]
'literal' = \'\'\'
[user]
\'\'\'
[ imds . deeper ]
a = 1
[imds]
endpoint = "http://x" # no = 1
wait.secs = 1
[[things]]
a = 1
[[things]]
b = {c = 1, d = [{e = 2}, 3], f.g = 4}
[run]
deadline_secs = 1.5
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("top", 2),
        ("ssh", 4),
        ("ssh.query_sshd_config", 5),
        ("ssh.authorized_keys_path", 6),
        ("ssh.host_key_types", 10),
        ("ssh.literal", 15),
        ("imds", 18),
        ("imds.deeper", 18),
        ("imds.endpoint", 21),
        ("imds.wait", 22),
        ("things.a", 24),
        ("things.b", 26),
        ("run.deadline_secs", 28),
        ("user", None),
        ("ssh.endpoint", None),
        ("ssh.x", None),
        ("imds.no", None),
    ],
)
def test_the_line_of_a_key(path: str, line: int | None) -> None:
    assert key_lines(TEXT).get(tuple(path.split("."))) == line


def test_dotted_keys_and_inline_tables_at_the_top() -> None:
    lines = key_lines(
        'ssh.query_sshd_config = 1\nimds = {endpoint = "x", retry = [\n1,\n2], wait = {s = 1}, last = 1}\n'
    )
    assert lines["ssh", "query_sshd_config"] == 1
    assert lines["ssh",] == 1
    assert lines["imds",] == 2
    assert lines["imds", "endpoint"] == lines["imds", "retry"] == 2
    assert lines["imds", "wait"] == lines["imds", "last"] == 4
    assert ("imds", "s") not in lines


@given(st.text(alphabet="[]{}=,.\"'#\n\\ ab1"))
def test_any_text_gives_lines_that_exist(text: str) -> None:
    assert all(1 <= line <= text.count("\n") + 1 for line in key_lines(text).values())


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Bad thing (at line 3, column 7)", ("Bad thing", 3)),
        ("Bad thing (at end of document)", ("Bad thing", 2)),
        ("maximum recursion depth exceeded", ("maximum recursion depth exceeded", None)),
    ],
)
def test_the_line_of_a_syntax_error(message: str, expected: tuple[str, int | None]) -> None:
    assert syntax_line(ValueError(message), "a\nb\n") == expected
