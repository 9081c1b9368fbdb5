"""The provisioning report, written and read back."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from azureinit.kvp.moments import is_canonical, utc
from azureinit.kvp.report import (
    Report,
    ReportMalformed,
    encode_fields,
    encoded,
    parse_fields,
    parse_report,
    parse_supporting,
)

AT = "2026-06-17T00:00:00+00:00"
GOOD = Report(result="success", agent="Azure-Init/0.0.0", vm_id="vm-1", timestamp=AT)
BAD = Report(result="error", reason="boom", agent="Azure-Init/0.0.0", vm_id="vm-1", timestamp=AT)
FIELDS = "agent=a|vm_id=v|pps_type=None|timestamp=2026-06-17T00:00:00Z"


def test_success_tells_its_own_first_and_the_rest_last() -> None:
    told = encoded(Report(**{**GOOD.as_dict(), "supporting": (("build", "1"), ("x", "y"))}))
    assert told == f"result=success|agent=Azure-Init/0.0.0|pps_type=None|vm_id=vm-1|timestamp={AT}|build=1|x=y"


def test_failure_tells_the_reason_first_and_where_to_read_last() -> None:
    told = encoded(Report(**{**BAD.as_dict(), "supporting": (("k", "v"),), "documentation_url": "https://x"}))
    assert told == (
        "result=error|reason=boom|agent=Azure-Init/0.0.0|k=v|pps_type=None|vm_id=vm-1"
        f"|timestamp={AT}|documentation_url=https://x"
    )
    assert "documentation_url" not in encoded(BAD)


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ("plain", "k=plain"),
        ("a|b", '"k=a|b"'),
        ('say "hi"', '"k=say ""hi"""'),
        ("a\rb", '"k=a\rb"'),
        ("a\nb", '"k=a\nb"'),
        ("it's, so", "k=it's, so"),
        ("a\0b", "k=a?b"),
    ],
)
def test_a_field_is_quoted_only_where_it_must_be(value: str, field: str) -> None:
    assert encode_fields([("k", value)]) == field


@given(st.lists(st.tuples(st.text(min_size=1), st.text()), min_size=1))
def test_fields_survive_the_way_there_and_back(pairs: list[tuple[str, str]]) -> None:
    pairs = [(key.replace("=", "").replace("\0", ""), value.replace("\0", "")) for key, value in pairs]
    assert parse_fields(encode_fields(pairs)) == pairs


@pytest.mark.parametrize("report", [GOOD, BAD, Report(**{**BAD.as_dict(), "supporting": (("a|b", 'c"'), ("k", ""))})])
def test_reports_survive_the_way_there_and_back(report: Report) -> None:
    assert parse_report(encoded(report)) == report


def test_supporting_data_may_repeat_a_key_and_be_in_any_place() -> None:
    told = parse_report(f"x=1|result=success|x=2|{FIELDS}|reason=kept")
    assert told.supporting == (("x", "1"), ("x", "2"), ("reason", "kept"))


@pytest.mark.parametrize(
    "value",
    [
        "",
        "result=success",
        f"result=maybe|{FIELDS}",
        f"result=error|{FIELDS}",
        f"result=success|{FIELDS}|agent=b",
        f"result=error|reason=a|reason=b|{FIELDS}",
        f"result=success|{FIELDS}|no equals",
        f"result=success|{FIELDS}".replace("None", "Never"),
        f"result=success|{FIELDS}".replace("2026-06-17", "2026-06-31"),
        f'result=success|{FIELDS}|"k=open',
        f'result=success|{FIELDS}|"k=v"after',
        f"result=success|{FIELDS}\nresult=success",
    ],
)
def test_what_is_no_report_is_refused(value: str) -> None:
    with pytest.raises(ReportMalformed):
        parse_report(value)


@given(st.text("resultagnvmidp_y=|\"'\n\r :0-Z", max_size=80))
def test_any_text_is_a_report_or_refused(value: str) -> None:
    for quote in "\"'":
        try:
            assert all(key in value for key, _ in parse_fields(value, quote=quote))
            assert parse_report(value).result in value
        except ReportMalformed as error:
            assert str(error)


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("", []),
        ("k=v", [("k", "v")]),
        ("k1=v1,k2=v2", [("k1", "v1"), ("k2", "v2")]),
        ("k='a,b',l=c", [("k", "a,b"), ("l", "c")]),
        ('k="a,b"', [("k", "a,b")]),
        ("k=a'b", [("k", "a'b")]),
        ("k='a\"b'", [("k", 'a"b')]),
        ("k=v,,l=w,", [("k", "v"), ("l", "w")]),
        ("k=a=b", [("k", "a=b")]),
        (" k = v ", [(" k ", " v ")]),
        ("k=", [("k", "")]),
        ("k=''", [("k", "")]),
    ],
)
def test_supporting_data_on_the_command_line(text: str, pairs: list[tuple[str, str]]) -> None:
    assert parse_supporting(text) == pairs


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("novalue", "supporting data 'novalue' must be in key=value format"),
        ("a=1,novalue", "supporting data 'novalue' must be in key=value format"),
        ("=v", "supporting data '=v' has an empty key"),
        ("a=1,k='x", "supporting data 'a=1,k='x' has an unterminated quote"),
        ("k='x'y", "supporting data 'k='x'y' has unexpected characters after a quoted value"),
    ],
)
def test_wrong_supporting_data_is_told_by_name(text: str, why: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_supporting(text)
    assert str(refused.value) == why


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-07-27T23:33:24.339006+02:00", "2026-07-27T21:33:24.339006Z"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00.3Z", "2026-01-01T00:00:00.300Z"),
        ("2026-01-01t00:00:00.000z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00.1234567891-00:30", "2026-01-01T00:30:00.123456789Z"),
        ("2026-01-01 00:00:00Z", None),
        ("2026-01-01T00:00:00", None),
        ("2026-01-01T00:00:00.Z", None),
        ("2026-13-01T00:00:00Z", None),
        ("2026-01-01T00:00:00+24:00", None),
        ("2026-01-01T00:00:00+0100", None),
        ("0001-01-01T00:00:00+01:00", None),
        ("", None),
        ("٢٠٢٦-01-01T00:00:00Z", None),
    ],
)
def test_times_are_turned_into_utc(text: str, moment: str | None) -> None:
    assert utc(text) == moment


def test_native_times_have_one_spelling() -> None:
    good = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000000001Z")
    bad = ("2026-01-01T00:00:00.3Z", "2026-01-01T00:00:00+00:00", "2026-01-01t00:00:00Z", "2026-02-30T00:00:00Z", "Z")
    assert [is_canonical(text) for text in (*good, *bad)] == [True] * 3 + [False] * 5
