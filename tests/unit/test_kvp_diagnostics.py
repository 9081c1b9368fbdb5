"""Diagnostics and cloud-init's records: encoded, split, joined, and refused with a reason."""

from __future__ import annotations

import base64
import gzip
import json
import random
import zlib
from typing import Any

import pytest
from hypothesis import given, strategies as st

from azureinit.kvp.diagnostics import Diagnostic, encode, split, timestamp
from azureinit.kvp.entries import Raw, entry_as_json, entry_as_text, parse_entries
from azureinit.kvp.records import KvpInvalid
from azureinit.kvp.report import Report

VM = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
EVENT = "8f3e9c4a-1b2c-4d5e-9f01-234567890abc"
AT = "2026-08-31T12:34:56.789Z"
BASE = f"DIAG|azure-init/0.1.1|{VM}|event|test|{EVENT}|{AT}|none||"
CLOUD_VM = "0e5e179d-5341-478b-8456-fbb90621bdf8"


def event(**changed: Any) -> Diagnostic:
    fields = {"kind": "event", "agent": "azure-init/0.1.1", "vm_id": VM, "name": "test", "event_id": EVENT}
    return Diagnostic(**{**fields, "timestamp": AT, "payload": "hello", **changed})


def only(pairs: list[tuple[str, str]]) -> Any:
    (entry,) = parse_entries(pairs)
    return entry


def errors(*pairs: tuple[str, str]) -> list[str | None]:
    found = parse_entries(pairs)
    assert [(raw.key, raw.value) for raw in found if isinstance(raw, Raw)] == list(pairs), found
    return [raw.error for raw in found if isinstance(raw, Raw)]


# ---- writing


def test_the_key_has_eleven_fields() -> None:
    start = event(kind="start", name="provision:run")
    assert encode(start) == [
        (f"DIAG|azure-init/0.1.1|{VM}|start|provision:run|{EVENT}|{AT}|none|||0", "hello"),
    ]
    finish = event(kind="finish", result="success", duration=0.312)
    assert encode(finish)[0][0].endswith(f"|{AT}|none|success|0.312000|0")


def test_times_are_told_to_the_millisecond() -> None:
    assert timestamp(1788179696.7899) == "2026-08-31T12:34:56.789Z"


@pytest.mark.parametrize("encoding", ["none", "zlib+b64", "gz+b64"])
@pytest.mark.parametrize("size", [0, 1, 1022, 1023, 50_000])
def test_payloads_of_any_size_survive(encoding: str, size: int) -> None:
    letters = random.Random(size).choices("abcdefghij€é;\n|", k=size)
    told = event(encoding=encoding, payload="".join(letters))
    pairs = encode(told)
    assert all(len(key.encode()) <= 254 and len(value.encode()) <= 1022 for key, value in pairs)
    assert [key for key, _ in pairs] == [f"{BASE.replace('none', encoding)}|{index}" for index in range(len(pairs))]
    random.Random(1).shuffle(pairs)
    back = only(pairs)
    payload = back.payload if encoding == "none" else back.payload.decode()
    assert payload == told.payload


@given(st.text(), st.integers(4, 40))
def test_no_character_is_broken(text: str, size: int) -> None:
    try:
        pieces = split(text, size)
    except UnicodeEncodeError:
        return
    assert "".join(pieces) == text
    assert all(len(piece.encode()) <= size for piece in pieces)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"kind": "begin"}, "kind"),
        ({"agent": "a" * 33}, "agent length (33) exceeds maximum (32)"),
        ({"agent": ""}, "agent must not be empty"),
        ({"name": "n" * 65}, "name length (65) exceeds maximum (64)"),
        ({"name": "a|b"}, "name must not contain '|'"),
        ({"name": "a\0b"}, "name must not contain null bytes"),
        ({"name": "\udcff"}, "name must be valid UTF-8"),
        ({"vm_id": None}, "vm_id must be a UUID"),
        ({"vm_id": "vm-1"}, "vm_id must be a UUID"),
        ({"event_id": "1"}, "event_id must be a UUID"),
        ({"timestamp": ""}, "timestamp must not be empty"),
        ({"encoding": "rot13"}, "encoding"),
        ({"payload": b"bytes"}, "needs an encoding"),
        ({"payload": "a\0b"}, "KVP value must not contain null bytes"),
        ({"payload": "\udcff"}, "payload must be valid UTF-8"),
        ({"payload": "x" * 1022 * 1023 + "x"}, "needs 1024 records; at most 1023"),
        ({"kind": "start", "result": "success"}, "a start has neither"),
        ({"kind": "finish", "result": "success"}, "a finish has both"),
        ({"kind": "finish", "duration": 1.0}, "a finish has both"),
        ({"result": "SUCCESS"}, "result must be success or fail"),
        ({"duration": -1.0}, "duration"),
        ({"duration": float("nan")}, "duration"),
        ({"duration": float("inf")}, "duration"),
    ],
)
def test_what_cannot_be_written_is_refused_by_name(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(KvpInvalid) as refused:
        encode(event(**changed))
    assert why in str(refused.value)


def test_the_longest_key_fits() -> None:
    longest = event(agent="a" * 32, name="n" * 64, kind="finish", result="success", duration=1e9, encoding="zlib+b64")
    assert len(encode(longest)[0][0]) <= 254


# ---- reading


def test_the_published_examples_decode() -> None:
    agent = f"DIAG|azure-init/0.1.1|{VM}"
    first, second, third = parse_entries(
        [
            (f"{agent}|start|provision:run|{EVENT}|{AT}|none|||0", "starting"),
            (f"{agent}|finish|provision:run|{EVENT}|2026-08-31T12:34:57.101Z|none|success|0.312000|0", "done"),
            (f"{agent}|event|example|{EVENT}|{AT}|zlib+b64|||0", "eJwLSS0uUSguKcrMS1cwNDIGACxqBQ4="),
        ]
    )
    assert isinstance(first, Diagnostic) and isinstance(second, Diagnostic) and isinstance(third, Diagnostic)
    assert (first.kind, first.result, first.duration) == ("start", None, None)
    assert (second.result, second.duration, second.payload) == ("success", 0.312, "done")
    assert third.payload == b"Test string 123"
    assert entry_as_json(first) == {
        "type": "diagnostic", "kind": "start", "agent": "azure-init/0.1.1", "vm_id": VM, "name": "provision:run",
        "event_id": EVENT, "timestamp": AT, "encoding": "none", "payload": "starting",
    }  # fmt: skip
    assert entry_as_json(third)["payload"] == {"type": "bytes", "encoding": "base64", "data": "VGVzdCBzdHJpbmcgMTIz"}
    assert entry_as_text(second).endswith("encoding=none result=success duration=0.312000 payload=done")


def test_order_is_that_of_first_records_and_failed_groups_keep_their_places() -> None:
    long = encode(event(payload="x" * 2000))
    pairs = [("other", "1"), long[1], (f"{BASE.replace('test', 'torn')}|1", "y"), long[0], ("last", "2")]
    kinds = [entry.payload if isinstance(entry, Diagnostic) else entry.key for entry in parse_entries(pairs)]  # type: ignore[union-attr]
    assert kinds == ["other", "x" * 2000, f"{BASE.replace('test', 'torn')}|1", "last"]


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("DIAG_V2|future", "x", "unsupported_version"),
        ("DIAG", "x", "malformed"),
        ("DIAG|bad", "x", "malformed"),
        (f"{BASE}|x", "x", "malformed"),
        (f"{BASE}|", "x", "malformed"),
        (f"{BASE}|-1", "x", "malformed"),
        (f"{BASE}|²", "x", "malformed"),
        (f"{BASE}|1", "x", "incomplete_group"),
        (f"{BASE}|99999999999999999999999", "x", "malformed"),
        (f"{BASE.replace(VM, 'vm-1')}|0", "x", "malformed"),
        (f"{BASE.replace(EVENT, 'e')}|0", "x", "malformed"),
        (f"{BASE.replace(AT, '2026-08-31T12:34:56.7Z')}|0", "x", "malformed"),
        (f"{BASE.replace('azure-init/0.1.1', '')}|0", "x", "malformed"),
        (f"{BASE.replace('event', 'finish')}|0", "x", "malformed"),
        (f"{BASE}extra|0", "x", "malformed"),
        (f"{BASE[:-1]}maybe||0", "x", "malformed"),
        (f"{BASE}-1|0", "x", "malformed"),
        (f"{BASE}1e3|0", "x", "malformed"),
        (f"{BASE}1.|0", "x", "malformed"),
        (f"{BASE}1.0123456789|0", "x", "malformed"),
        (f"{BASE}18446744073709551616|0", "x", "malformed"),
        (f"{BASE.replace('none', 'zstd+b64')}|0", "x", "undecodable"),
        (f"{BASE}|0", "a\0b", "undecodable"),
        (f"{BASE.replace('none', 'zlib+b64')}|0", "not base64!", "undecodable"),
        (f"{BASE.replace('none', 'zlib+b64')}|0", "é", "undecodable"),
        (f"{BASE.replace('none', 'zlib+b64')}|0", "", "undecodable"),
        (f"{BASE.replace('none', 'zlib+b64')}|0", "H4sIAAAAAAAC/8tIzcnJBwCGphA2BQAAAA==", "undecodable"),
        (f"{BASE.replace('none', 'gz+b64')}|0", "eJwLSS0uUSguKcrMS1cwNDIGACxqBQ4=", "undecodable"),
        ("PROVISIONING_REPORT", "result=success", "malformed"),
        ("CLOUD_INIT|100|event|broken|" + EVENT, "not-json", "malformed"),
        ("CLOUD_INIT|100|event", "{}", "malformed"),
        ("unrelated", "x", None),
        (f"azure-init-0.1.1|{VM}|INFO|provision|{EVENT}", "x", None),
    ],
)
def test_what_cannot_be_decoded_stays_as_it_is_with_a_word_for_why(key: str, value: str, error: str | None) -> None:
    assert errors((key, value)) == [error]


def test_a_piece_twice_spoils_its_group() -> None:
    assert errors((f"{BASE}|0", "a"), (f"{BASE}|0", "a")) == ["duplicate_chunk", "duplicate_chunk"]


@pytest.mark.parametrize("spoil", [lambda data: data[:-1], lambda data: data + b"x", lambda data: data + data])
def test_a_compressed_payload_is_one_whole_stream(spoil: Any) -> None:
    for token, packed in (("zlib+b64", zlib.compress(b"hello")), ("gz+b64", gzip.compress(b"hello", mtime=0))):
        key = f"{BASE.replace('none', token)}|0"
        assert only([(key, base64.b64encode(packed).decode())]).payload == b"hello"
        assert errors((key, base64.b64encode(spoil(packed)).decode())) == ["undecodable"]


def test_a_stream_that_never_ends_is_not_followed() -> None:
    bomb = base64.b64encode(zlib.compress(bytes(70 << 20), 9)).decode()
    base = BASE.replace("none", "zlib+b64")
    pieces = [(f"{base}|{i}", bomb[at : at + 1022]) for i, at in enumerate(range(0, len(bomb), 1022))]
    assert set(errors(*pieces)) == {"undecodable"}


def test_a_report_is_decoded() -> None:
    report = only([("PROVISIONING_REPORT", f"result=error|reason=r|agent=a|k=v|pps_type=None|vm_id=v|timestamp={AT}")])
    assert isinstance(report, Report)
    assert entry_as_json(report) == {
        "type": "PROVISIONING_REPORT", "result": "error", "reason": "r", "agent": "a", "vm_id": "v", "pps_type": "None",
        "timestamp": AT, "supporting": [["k", "v"]],
    }  # fmt: skip
    assert entry_as_text(report).startswith("PROVISIONING_REPORT=result=error|reason=r|agent=a|k=v|")


# ---- cloud-init


def cloud_value(kind: str = "event", msg: str = "hello", **more: object) -> str:
    told = {"name": "test", "type": kind, "ts": "2026-07-27T23:33:24.339006+02:00", **more, "msg": msg}
    return json.dumps(told, separators=(",", ":"))


def cloud_key(kind: str = "event", *, vm: bool = True, index: int | None = None) -> str:
    return f"CLOUD_INIT|100|{kind}|test|{CLOUD_VM + '|' if vm else ''}{EVENT}{'' if index is None else f'|{index}'}"


@pytest.mark.parametrize("vm", [True, False])
def test_cloud_inits_records_are_diagnostics(vm: bool) -> None:
    told = only([(cloud_key("finish", vm=vm), cloud_value("finish", result="FAIL", duration=0.1234))])
    assert (told.agent, told.kind, told.name, told.result, told.duration) == (
        "CLOUD_INIT", "finish", "test", "fail", 0.1234,
    )  # fmt: skip
    assert told.vm_id == (CLOUD_VM if vm else None)
    assert told.timestamp == "2026-07-27T21:33:24.339006Z"
    assert entry_as_json(told)["vm_id"] == told.vm_id


@pytest.mark.parametrize("result", ["SUCCESS", "WARN", "FAIL"])
def test_each_of_its_results_is_known(result: str) -> None:
    told = only([(cloud_key("finish"), cloud_value("finish", result=result, duration=1))])
    assert (told.kind, told.result) == ("finish", result.lower())
    assert entry_as_json(told)["result"] == result.lower()


@pytest.mark.parametrize("kind", ["diagnostic", "boot-telemetry", "system-info", "warning"])
def test_its_other_types_are_events(kind: str) -> None:
    assert only([(cloud_key(kind), cloud_value(kind))]).kind == "event"


@pytest.mark.parametrize("vm", [True, False])
def test_its_messages_are_joined_before_they_are_unescaped(vm: bool) -> None:
    message = 'say "hi"\n' * 30
    escaped = json.dumps(message)[1:-1]
    head = cloud_value(msg="")[: -len(',"msg":""}')]
    pairs = []
    for index, at in enumerate(range(0, len(escaped), 7)):
        value = f'{head},"msg_i":{index},"msg":"{escaped[at : at + 7]}"}}'
        pairs.append((cloud_key(vm=vm, index=index), value))
    assert only(pairs[::-1]).payload == message
    assert set(errors(*pairs[1:])) == {"incomplete_group"}
    wrong = [*pairs[:-1], (pairs[-1][0], pairs[0][1])]
    assert set(errors(*wrong)) == {"malformed"}


def test_its_envelope_is_zlib_by_whatever_name() -> None:
    for packed in (zlib.compress(b"log" * 99), gzip.compress(b"log" * 99, mtime=0)):
        wrapped = base64.encodebytes(packed).decode()
        envelope = json.dumps({"encoding": "gz+b64", "data": wrapped})
        told = only([(cloud_key("compressed"), cloud_value("compressed", envelope))])
        assert (told.payload, told.encoding, told.kind) == (b"log" * 99, "gz+b64", "event")


@pytest.mark.parametrize(
    ("kind", "value", "error"),
    [
        ("finish", cloud_value("finish", result="MAYBE", duration=1), "malformed"),
        ("finish", cloud_value("finish", result="SUCCESS"), "malformed"),
        ("finish", cloud_value("finish", result="SUCCESS", duration=-1), "malformed"),
        ("finish", cloud_value("finish", result="SUCCESS", duration=True), "malformed"),
        ("finish", cloud_value("finish", result=[], duration=1), "malformed"),
        ("finish", cloud_value("finish", result="SUCCESS", duration=float("nan")), "malformed"),
        ("start", cloud_value("start", result="SUCCESS"), "malformed"),
        ("start", cloud_value("event"), "malformed"),
        ("event", cloud_value(msg_i=0), "malformed"),
        ("event", cloud_value(ts="yesterday"), "malformed"),
        ("event", cloud_value(ts=0), "malformed"),
        ("event", "[]", "malformed"),
        ("event", cloud_value(msg="\ud800"), "malformed"),
        ("event", "[" * 2000, "malformed"),
        ("compressed", cloud_value("compressed", "plain"), "malformed"),
        ("compressed", cloud_value("compressed", '{"encoding":"xz","data":""}'), "undecodable"),
        ("compressed", cloud_value("compressed", '{"encoding":"gz+b64","data":"x"}'), "undecodable"),
        ("compressed", cloud_value("compressed", '{"encoding":1,"data":2}'), "malformed"),
    ],
)
def test_what_cloud_init_would_not_write_stays_raw(kind: str, value: str, error: str) -> None:
    assert errors((cloud_key(kind), value)) == [error]


KEYS = st.sampled_from(["DIAG", "CLOUD_INIT", "DIAG_V1", "PROVISIONING_REPORT", "x"])
PARTS = st.sampled_from(
    ["", "0", "1", "start", "finish", "event", "compressed", "test", VM, EVENT, AT, "none", "gz+b64", "é"]
)
VALUES = st.one_of(
    st.text(max_size=30),
    st.sampled_from([cloud_value(), cloud_value("finish", result="SUCCESS", duration=1), "result=error|reason=x"]),
    st.recursive(st.text(max_size=5), lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=4), inner)).map(
        json.dumps
    ),
)


@given(
    st.lists(st.tuples(st.tuples(KEYS, st.lists(PARTS, max_size=11)).map(lambda k: "|".join([k[0], *k[1]])), VALUES))
)
def test_any_records_become_entries(pairs: list[tuple[str, str]]) -> None:
    for entry in parse_entries(pairs):
        assert isinstance(json.loads(json.dumps(entry_as_json(entry))), dict)
        assert entry_as_text(entry)
