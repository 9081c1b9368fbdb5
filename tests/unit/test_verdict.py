"""The report's grammar, its order, and its size on the wire."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from azureinit.errors import AzureInitError, HostnameFailed, ImdsUnavailable, LocalError, SubprocessFailed
from azureinit.record import replace
from azureinit.report.health import size_on_the_wire
from azureinit.report.verdict import MAX_DESCRIPTION, Subject, failure_report
from azureinit.version import VERSION

ID = "550e8400-e29b-41d4-a716-446655440000"
SUBJECT = Subject(vm_id=ID, pps_type=None, timestamp="2026-01-02T03:04:05.678901+00:00")
TAIL = f"|pps_type=None|vm_id={ID}|timestamp=2026-01-02T03:04:05.678901+00:00"
URL = "|documentation_url=https://aka.ms/linuxprovisioningerror"


def report(error: AzureInitError, subject: Subject = SUBJECT, *, limit: int = MAX_DESCRIPTION, **extra: str) -> str:
    return failure_report(error, subject, extra, limit=limit, size=size_on_the_wire)


def parsed(text: str) -> list[tuple[str, str]]:
    """A reader of its own: fields between pipes, quoted ones with doubled quotes."""
    fields, at = [], 0
    while at <= len(text):
        if text[at : at + 1] == '"':
            end = at + 1
            field = ""
            while not (text[end] == '"' and text[end + 1 : end + 2] != '"'):
                field += text[end]
                end += 2 if text[end] == '"' else 1
            end += 1
        else:
            end = text.find("|", at) if "|" in text[at:] else len(text)
            field = text[at:end]
            assert not set(field) & set('"\r\n')
        assert text[end : end + 1] in ("", "|")
        fields.append(field)
        at = end + 1
    return [(field.partition("=")[0], field.partition("=")[2]) for field in fields]


# ---- words and order


def test_a_failure_is_told_in_this_order() -> None:
    assert report(SubprocessFailed("it failed", command="useradd", exit_status="exit status: 1")) == (
        f"result=error|reason=subprocess failed|agent=Azure-Init/{VERSION}"
        f"|command=useradd|exit_status=exit status: 1|error=it failed{TAIL}{URL}"
    )


def test_every_backend_s_failure_is_told() -> None:
    error = HostnameFailed("hostname", {"native": LocalError("read-only"), "hostnamectl": LocalError("no bus")})
    told = dict(parsed(report(error)))
    assert (told["step"], told["native"], told["hostnamectl"]) == ("hostname", "read-only", "no bus")
    assert told["reason"] == "failed to provision hostname"


def test_the_previous_verdict_is_carried() -> None:
    assert f"|error=x|previous=no usable credential{TAIL}" in report(LocalError("x"), previous="no usable credential")


def test_an_unknown_id_is_told_as_such() -> None:
    assert "|vm_id=unknown|" in report(LocalError("x"), replace(SUBJECT, vm_id=None))


@pytest.mark.parametrize(
    ("told", "reported"),
    [
        (None, "None"),
        ("None", "None"),
        ("Running", "Running"),
        ("savable", "Savable"),
        ("PreprovisionedOSDisk", "PreprovisionedOSDisk"),
        ("something|new", "Unknown"),
        ("x" * 10_000, "Unknown"),
    ],
)
def test_the_kind_of_pre_provisioning_is_one_of_the_known_words(told: str | None, reported: str) -> None:
    assert dict(parsed(report(LocalError("x"), replace(SUBJECT, pps_type=told))))["pps_type"] == reported


# ---- quoting


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ("plain text, with a comma; and = and 'quotes'", "error=plain text, with a comma; and = and 'quotes'"),
        ("a|b", '"error=a|b"'),
        ('say "no"', '"error=say ""no"""'),
        ("two\nlines", '"error=two\nlines"'),
        ("a lone\rreturn", '"error=a lone\rreturn"'),
        ("", "error="),
        ("tab\there", "error=tab\there"),
    ],
)
def test_a_field_is_quoted_exactly_when_it_must_be(value: str, field: str) -> None:
    assert f"|{field}|pps_type=" in report(LocalError(value))


def test_a_report_has_no_line_of_its_own_at_the_end() -> None:
    assert not report(LocalError("x")).endswith("\n")


# ---- keys


def test_no_supporting_key_can_be_taken_for_the_report_s_own() -> None:
    names = ("result", "reason", "agent", "vm_id", "pps_type", "timestamp", "documentation_url")
    error = AzureInitError("x", **dict.fromkeys(names, "forged"))
    told = parsed(report(error))
    assert len({key for key, _ in told}) == len(told)
    assert dict(told)["result"] == "error"
    assert dict(told)["vm_id"] == ID
    assert dict(told)["vm_id_"] == "forged"


def test_no_key_holds_a_separator() -> None:
    failures = {"a|b": LocalError("1"), "c=d": LocalError("2"), 'e"\n': LocalError("3"), "": LocalError("4")}
    told = dict(parsed(report(HostnameFailed("hostname", failures))))
    assert (told["a_b"], told["c_d"], told["e__"], told["_"]) == ("1", "2", "3", "4")


# ---- size


def test_a_report_that_fits_is_not_cut() -> None:
    long = "x" * 3700
    assert f"|error={long}|" in report(LocalError(long))


def test_the_longest_value_is_cut_first_and_the_others_stay() -> None:
    error = AzureInitError("the cause", output="o" * 100_000, command="useradd")
    text = report(error)
    told = dict(parsed(text))
    assert (told["command"], told["error"]) == ("useradd", "the cause")
    assert told["output"].endswith("ooo...")
    assert MAX_DESCRIPTION - 8 <= size_on_the_wire(text) <= MAX_DESCRIPTION


def test_two_long_values_are_cut_to_the_same_length() -> None:
    told = dict(parsed(report(AzureInitError("e" * 9000, output="o" * 5000))))
    assert len(told["error"]) == len(told["output"]) > 1500


@pytest.mark.parametrize("over", range(14))
def test_a_report_a_few_bytes_too_long_is_cut_in_the_end(over: int) -> None:
    error = AzureInitError("x" * 17, a="y" * 18, b="z" * 15 + "...")
    limit = size_on_the_wire(report(error)) - over
    assert size_on_the_wire(report(error, limit=limit)) <= limit


def test_what_cannot_even_be_cut_is_left_out_and_the_cause_last() -> None:
    error = AzureInitError("the cause", **{f"key{number}": "v" * 20 for number in range(300)})
    text = report(error)
    told = dict(parsed(text))
    assert size_on_the_wire(text) <= MAX_DESCRIPTION
    assert told["error"] == "the cause"
    assert 10 < len(told) < 300


def test_a_mebibyte_of_anything_fits() -> None:
    for letter in ("x", '"', "&", "\0", "\r", "|", "\U0001f600", "\udcff", "\\"):
        text = report(ImdsUnavailable(letter * (1 << 20), endpoint=letter * (1 << 20)))
        assert size_on_the_wire(text) <= MAX_DESCRIPTION
        assert text.endswith(TAIL + URL)


hard = st.text(max_size=6000) | st.text('ab|"\r\n&<>\\\0\x1b\ud800é\U0001f600', max_size=3000)


@given(hard, st.dictionaries(st.text(max_size=80), hard, max_size=8), st.sampled_from([700, 1022, MAX_DESCRIPTION]))
def test_no_error_makes_a_report_that_is_too_long_or_loses_what_matters(
    message: str, data: dict[str, str], limit: int
) -> None:
    error = HostnameFailed("hostname", {key: LocalError(value) for key, value in data.items()})
    error.step = message
    text = report(error, limit=limit)
    assert size_on_the_wire(text) <= limit
    told = parsed(text)
    assert told[:2] == [("result", "error"), ("reason", "failed to provision hostname")]
    assert told[-4:-1] == [("pps_type", "None"), ("vm_id", ID), ("timestamp", SUBJECT.timestamp)]
    assert told[-1] == ("documentation_url", "https://aka.ms/linuxprovisioningerror")
    assert len({key for key, _ in told}) == len(told)


@given(st.dictionaries(st.text("abc", min_size=1, max_size=5), st.text('xy|"\r\n=', max_size=50), max_size=5))
def test_what_fits_is_read_back_as_it_was(data: dict[str, str]) -> None:
    told = parsed(report(AzureInitError("x", **data)))
    assert [pair for pair in told if pair[0] in data] == list(data.items())


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_the_size_on_the_wire_is_at_least_json_s(text: str) -> None:
    assert size_on_the_wire(text) >= len(json.dumps(text, ensure_ascii=False).encode()) - 2
