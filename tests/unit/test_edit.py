"""Account files before and after."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from azureinit.apply.edit import edited
from azureinit.errors import LocalError, PlanStale
from azureinit.plan.actions import EditLine
from azureinit.record import Secret

PASSWD = b"root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n"
FILE = "/tree/etc/file"  # as errors name it
BOB = "bob:x:1001:1001::/home/bob:/bin/sh"


def test_a_line_is_appended() -> None:
    edit = EditLine(path="/etc/passwd", key="bob", line=BOB, unique=2)
    assert edited(PASSWD, [edit], path=FILE) == PASSWD + BOB.encode() + b"\n"
    assert edited(b"", [edit], path=FILE) == BOB.encode() + b"\n"


def test_a_missing_last_newline_is_supplied() -> None:
    edit = EditLine(path="/etc/passwd", key="bob", line=BOB)
    assert edited(PASSWD.rstrip(b"\n"), [edit], path=FILE) == PASSWD + BOB.encode() + b"\n"


def test_a_line_is_put_before_the_nis_lines() -> None:
    edit = EditLine(path="/etc/passwd", key="bob", line=BOB)
    assert (
        edited(PASSWD + b"+@team::::::\n+::::::\n", [edit], path=FILE)
        == PASSWD + BOB.encode() + b"\n+@team::::::\n+::::::\n"
    )


def test_a_key_that_is_there_already_makes_the_plan_stale() -> None:
    with pytest.raises(PlanStale, match="^/tree/etc/file has 'ann' already"):
        edited(PASSWD, [EditLine(path="/etc/passwd", key="ann", line="ann:x:1001:1001::/:/bin/sh")], path=FILE)


def test_a_number_that_was_taken_makes_the_plan_stale() -> None:
    with pytest.raises(PlanStale, match="^/tree/etc/file: 1000, meant for 'bob', was taken"):
        edited(PASSWD, [EditLine(path="/etc/passwd", key="bob", line=BOB.replace("1001", "1000"), unique=2)], path=FILE)


def test_comments_and_broken_lines_take_no_number() -> None:
    old = b"#old:x:1001:1001::/:/bin/sh\nbroken:x:1001:\n"
    assert edited(old, [EditLine(path="/etc/passwd", key="bob", line=BOB, unique=2)], path=FILE).startswith(old)


def test_fields_are_set_and_the_rest_stays() -> None:
    old = b"root:*:1:0:99999:7:::\nbob:!:2:0:99999:7:::\nbobby:*:3::::::\n"
    edit = EditLine(path="/etc/shadow", key="bob", fields=((1, Secret("$6$a$b")), (2, "20000")))
    assert edited(old, [edit], path=FILE) == b"root:*:1:0:99999:7:::\nbob:$6$a$b:20000:0:99999:7:::\nbobby:*:3::::::\n"


def test_a_short_line_gets_the_fields_it_lacks() -> None:
    assert (
        edited(b"bob\nbob:x\n", [EditLine(path="/f", key="bob", fields=((3, "z"),))], path=FILE) == b"bob\nbob:x::z\n"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"adm:x:4:\n", b"adm:x:4:bob\n"),
        (b"adm:x:4:ann\n", b"adm:x:4:ann,bob\n"),
        (b"adm:x:4:bob,ann\n", b"adm:x:4:bob,ann\n"),
        (b"adm:x:4:bobby\n", b"adm:x:4:bobby,bob\n"),
        (b"adm:x:4\n", b"adm:x:4:bob\n"),
    ],
)
def test_a_member_is_added_once(old: bytes, new: bytes) -> None:
    edit = EditLine(path="/etc/group", key="adm", member="bob")
    assert edited(old, [edit], path=FILE) == new
    assert edited(new, [edit], path=FILE) == new


@pytest.mark.parametrize("edit", [{"member": "bob"}, {"fields": ((1, "x"),)}])
def test_a_line_that_is_gone_makes_the_plan_stale(edit: dict[str, object]) -> None:
    with pytest.raises(PlanStale, match="^/tree/etc/file has no 'adm' any more"):
        edited(b"administrators:x:4:\n", [EditLine(path="/etc/group", key="adm", **edit)], path=FILE)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "edit",
    [
        {"key": "bob", "line": "bob:x:1\nroot2:x:0"},
        {"key": "bob", "line": Secret("bob:\0")},
        {"key": "bob", "line": "eve:x:1"},
        {"key": "+", "line": "+:x:1"},
        {"key": "", "line": ":x:1"},
        {"key": "adm", "fields": ((1, "a:b"),)},
        {"key": "adm", "fields": ((1, Secret("a\nroot::0")),)},
        {"key": "adm", "member": "a,b"},
        {"key": "adm", "member": "a\n"},
    ],
)
def test_a_value_that_would_write_somebody_elses_line_is_refused(edit: dict[str, object]) -> None:
    with pytest.raises(LocalError, match="refused to write /tree/etc/file:") as refused:
        edited(b"adm:x:4:\n", [EditLine(path="/etc/group", **edit)], path=FILE)  # type: ignore[arg-type]
    assert not isinstance(refused.value, PlanStale)
    assert "root" not in str(refused.value)


@given(st.binary(max_size=300), st.sampled_from(["bob", "adm", "x"]))
def test_no_other_line_is_ever_touched(old: bytes, key: str) -> None:
    for edit in (
        EditLine(path="/f", key=key, line=f"{key}:x:5:", unique=2),
        EditLine(path="/f", key=key, fields=((1, "v"),)),
        EditLine(path="/f", key=key, member="m"),
    ):
        try:
            new = edited(old, [edit], path=FILE)
        except PlanStale:
            continue
        prefix = key.encode() + b":"
        lines = old.split(b"\n")[: -1 if old.endswith(b"\n") or not old else None]
        others = [line for line in lines if not line.startswith(prefix)]
        assert [line for line in new.split(b"\n")[:-1] if not line.startswith(prefix)] == others
