"""The host's side of the key-value pool: Hyper-V's limits, and each record as a sentence."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from fakeazure import show
from fakeazure.platform.events import Kvp, PoolRead, parse_line, to_line
from fakeazure.platform.kvp import GUEST_POOL, RECORD, Host, Record, events_of, parse_pool, read_pool

VM_ID = "52d3a29b-c2e6-43db-9bff-bb2ff1bfd7e2"
EVENT = "0c0ffee0-0000-4000-8000-000000000001"
SUCCESS = f"result=success|agent=azure-init/1|pps_type=None|vm_id={VM_ID}|timestamp=2026-01-01T00:00:00Z"
FAILURE = f"result=error|reason=no luck|agent=azure-init/1|vm_id={VM_ID}"


def record(key: str, value: str) -> bytes:
    return key.encode().ljust(512, b"\0") + value.encode().ljust(2048, b"\0")


def diagnostic(kind: str, *, result: str = "", duration: str = "", chunk: int = 0, encoding: str = "none") -> str:
    when = "2026-01-01T00:00:00.000Z"
    return f"DIAG|azure-init/1|{VM_ID}|{kind}|user|{EVENT}|{when}|{encoding}|{result}|{duration}|{chunk}"


def only(*pairs: tuple[str, str]) -> Kvp:
    (event,) = events_of([Record(key, value) for key, value in pairs], t=1)
    return event


def said(*pairs: tuple[str, str]) -> str:
    return only(*pairs).text


def test_the_host_takes_whole_records_and_of_each_key_the_last() -> None:
    data = record("a", "1") + record("b", "2") + record("a", "3") + record("c", "4")[:-1]
    assert parse_pool(data) == (Record("b", "2"), Record("a", "3"))
    assert parse_pool(b"") == ()


def test_the_host_sees_254_bytes_of_a_key_and_1022_of_a_value() -> None:
    assert parse_pool(record("k" * 254, "v" * 1022)) == (Record("k" * 254, "v" * 1022, cut=False),)
    assert parse_pool(record("k" * 255, "v")) == (Record("k" * 254, "v", cut=True),)
    assert parse_pool(record("k", "v" * 1023)) == (Record("k", "v" * 1022, cut=True),)
    assert parse_pool(record("k", "é" * 512)) == (Record("k", "é" * 511, cut=True),)


def test_a_field_ends_at_its_first_zero_and_need_not_be_text() -> None:
    assert parse_pool(b"k\0hidden".ljust(512, b"\0") + b"\xff\0x".ljust(2048, b"\0")) == (Record("k", "\ufffd"),)
    assert parse_pool(b"\0" * RECORD) == ()


@given(data=st.binary(max_size=3 * RECORD))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    records = parse_pool(data)
    assert len(events_of(records, t=0)) <= len(records) <= len(data) // RECORD + 1


KEYS = st.one_of(
    st.text(max_size=300),
    st.lists(st.text("DIAGstart0159|é", max_size=6), max_size=12).map(lambda parts: "|".join(["DIAG", *parts])),
    st.lists(st.text("compressed019|é", max_size=6), max_size=8).map(lambda parts: "|".join(["CLOUD_INIT", *parts])),
    st.sampled_from(["PROVISIONING_REPORT", "azure-init-0.1.1|a|b|c|d", diagnostic("start", encoding="gz+b64")]),
)
VALUES = st.one_of(st.text(max_size=300), st.text('{}":msg_i\\,result0', max_size=60))


@given(pairs=st.lists(st.tuples(KEYS, VALUES), max_size=6))
def test_no_record_breaks_a_sentence_and_each_is_a_line_of_the_ledger(pairs: list[tuple[str, str]]) -> None:
    for event in events_of([Record(key, value) for key, value in pairs], t=0):
        assert parse_line(to_line(event), where="x") == event


def test_a_report_is_a_sentence() -> None:
    assert said(("PROVISIONING_REPORT", SUCCESS)) == "the report says success (by azure-init/1)"
    assert said(("PROVISIONING_REPORT", FAILURE)) == "the report says error: no luck (by azure-init/1)"
    assert said(("PROVISIONING_REPORT", "hello")) == "not a valid report: hello"
    assert only(("PROVISIONING_REPORT", SUCCESS)).kind == "report"


def test_cloud_inits_report_has_its_own_quotes() -> None:
    text = "result=error|'reason=a|b ''c'''|agent=Cloud-Init/25.1|vm_id=7"
    assert said(("PROVISIONING_REPORT", text)) == "the report says error: a|b 'c' (by Cloud-Init/25.1)"


def test_diagnostics_begin_end_and_happen() -> None:
    assert said((diagnostic("start"), "does not exist")) == "azure-init/1: user begins: does not exist"
    done = diagnostic("finish", result="success", duration="0.004000")
    assert said((done, "by useradd")) == "azure-init/1: user succeeded after 0.004000 s: by useradd"
    broken = diagnostic("finish", result="fail", duration="1.5")
    assert said((broken, "")) == "azure-init/1: user failed after 1.5 s"
    assert said((diagnostic("event"), "hm")) == "azure-init/1: user: hm"
    assert only((done, "")).kind == "diagnostic"


def test_chunks_are_joined_in_their_order() -> None:
    pairs = [(diagnostic("event", chunk=chunk), text) for chunk, text in ((2, "c"), (0, "a"), (1, "b"))]
    assert only(*pairs).value == "abc"
    assert said(pairs[0], pairs[1]) == "azure-init/1: user (incomplete: its part 1 is missing)"


@pytest.mark.parametrize(("encoding", "pack"), [("zlib+b64", zlib.compress), ("gz+b64", gzip.compress)])
def test_packed_payloads_are_unpacked(encoding: str, pack: type) -> None:
    packed = base64.b64encode(pack(b"long ago")).decode()
    half = len(packed) // 2
    pairs = [
        (diagnostic("event", chunk=n, encoding=encoding), part) for n, part in enumerate((packed[:half], packed[half:]))
    ]
    assert only(*pairs).value == "long ago"
    assert said((diagnostic("event", encoding=encoding), "!!")) == f"azure-init/1: user (unreadable: no {encoding})"


def test_a_bomb_is_not_unpacked_whole() -> None:
    bomb = base64.b64encode(zlib.compress(b"a" * 50_000_000)).decode()
    parts = [bomb[start : start + 1022] for start in range(0, len(bomb), 1022)]
    pairs = [(diagnostic("event", chunk=n, encoding="zlib+b64"), part) for n, part in enumerate(parts)]
    assert len(only(*pairs).value) == 1024 * 1024


def test_an_unknown_encoding_is_said() -> None:
    event = only((diagnostic("event", encoding="rot13"), "uryyb"))
    assert event.text == "azure-init/1: user (unreadable: unknown encoding rot13)"


def rust(level: str, value: str) -> tuple[str, str]:
    """As the released Rust agent writes it."""
    return f"azure-init-0.1.1|{VM_ID}|{level}|provision:set_hostname|{EVENT}", value


SPAN = "Start: 2026-01-01T00:00:00.000Z | End: 2026-01-01T00:00:01.000Z"
AT = "Time: 2026-01-01T00:00:00.000Z"


def test_records_of_the_released_rust_agent_are_diagnostics() -> None:
    event = only(rust("INFO", f"{AT} | Event: message=done"))
    assert (event.kind, event.text) == ("diagnostic", "azure-init-0.1.1: INFO provision:set_hostname: message=done")
    assert said(rust("INFO", SPAN)) == f"azure-init-0.1.1: provision:set_hostname ends ({SPAN})"


def test_the_timeline_shows_of_the_rust_agent_what_failed_and_no_more() -> None:
    hidden = [rust("INFO", f"{AT} | Event: message=done"), rust("INFO", SPAN), rust("DEBUG", f"{AT} | Event: x=1")]
    assert [shown(one) for one in hidden] == [[], [], []]
    assert shown(rust("ERROR", f"{AT} | Event: message=no hostnamectl")) == [
        "azure-init-0.1.1: ERROR provision:set_hostname: message=no hostnamectl"
    ]
    assert shown(rust("WARN", "the end of a long event")) == [
        "azure-init-0.1.1: WARN provision:set_hostname: ...the end of a long event"
    ]


def shown(pair: tuple[str, str]) -> list[str]:
    return [line.strip() for line in show.timeline([only(pair)], show.Palette(colour=False))[1:-1]]


def cloud_init(kind: str, **about: object) -> tuple[str, str]:
    key = f"CLOUD_INIT|1700000000|{kind}|azure-ds/x|{VM_ID}|{EVENT}"
    value = {"name": "azure-ds/x", "type": kind, "ts": "2026-01-01T00:00:00Z", **about}
    return key, json.dumps(value, separators=(",", ":"))


def test_cloud_inits_records_are_sentences() -> None:
    assert said(cloud_init("start", msg="looking")) == "cloud-init: azure-ds/x begins: looking"
    finish = cloud_init("finish", result="FAIL", duration=0.25, msg='a "quoted" é')
    assert said(finish) == 'cloud-init: azure-ds/x failed after 0.25 s: a "quoted" é'
    assert said((finish[0], finish[1][:-1])) == "cloud-init: azure-ds/x ended (unreadable)"
    packed = {"encoding": "gz+b64", "data": base64.encodebytes(zlib.compress(b"kernel says")).decode()}
    assert only(cloud_init("compressed", msg=json.dumps(packed))).value == "kernel says"


def test_cloud_inits_long_messages_are_cut_after_they_were_escaped() -> None:
    key, _ = cloud_init("diagnostic")
    escaped = json.dumps('say "é\n"')[1:-1]
    whole = '{{"name":"n","type":"diagnostic","ts":"x","msg_i":{},"msg":"{}"}}'
    pairs = [(f"{key}|{n}", whole.format(n, letter)) for n, letter in enumerate(escaped)]
    assert only(*reversed(pairs)).value == 'say "é\n"'
    assert only(*pairs).key == key


def test_a_sentence_has_an_end() -> None:
    event = only((diagnostic("event"), "x" * 1000))
    assert len(event.text) < 600 and event.text.endswith("xxx...") and len(event.value) == 1000


def test_anything_else_is_shown_as_it_is() -> None:
    assert said(("colour", "blue")) == "colour = blue" and only(("colour", "blue")).kind == "other"


def test_the_host_reads_again_and_takes_what_is_new(tmp_path: Path) -> None:
    host, pool = Host(tmp_path), tmp_path / GUEST_POOL
    assert host.read(t=0) == ()
    pool.write_bytes(record("a", "1"))
    assert [type(event) for event in host.read(t=1)] == [PoolRead, Kvp]
    pool.write_bytes(record("a", "1") + record("a", "2"))
    found = host.read(t=2, late=True)
    assert found == (
        PoolRead(t=2, path=str(pool), count=1, late=True),
        Kvp(t=2, key="a", value="2", kind="other", text="a = 2", late=True),
    )
    assert host.read(t=3, late=True) == ()


def test_a_pool_that_cannot_be_read_is_a_fact_of_its_own(tmp_path: Path) -> None:
    (tmp_path / GUEST_POOL).mkdir()
    (event,) = Host(tmp_path).read(t=0)
    assert isinstance(event, PoolRead) and event.problem == "Is a directory"
    with pytest.raises(IsADirectoryError):
        read_pool(tmp_path / GUEST_POOL)
