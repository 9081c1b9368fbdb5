"""Key-value records as sentences."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import given, strategies as st

from azureinit.kvp.diagnostics import Diagnostic, encode
from azureinit.kvp.explain import explain

VM = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
EVENT = "8f3e9c4a-1b2c-4d5e-9f01-234567890abc"
AT = "2026-08-31T12:34:56.789Z"
OLD = f"azure-init-0.1.1|{VM}"
DIAG = f"DIAG|azure-init/0.1.1|{VM}"
CLOUD = f"CLOUD_INIT|100|finish|init-local|{VM}|{EVENT}"


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        (f"{DIAG}|start|hostname|{EVENT}|{AT}|none|||0", "", f"{AT} azure-init/0.1.1: hostname started"),
        (
            f"{DIAG}|finish|hostname|{EVENT}|{AT}|none|fail|1.5|0",
            "read-only file system",
            f"{AT} azure-init/0.1.1: hostname failed after 1.500 s: read-only file system",
        ),
        (f"{DIAG}|event|imds|{EVENT}|{AT}|none|||0", "503, again", f"{AT} azure-init/0.1.1: imds said: 503, again"),
        (
            CLOUD,
            '{"name":"init-local","type":"finish","ts":"2026-07-27T21:33:24+00:00","result":"SUCCESS","duration":2,"msg":"ok"}',
            "2026-07-27T21:33:24Z cloud-init: init-local succeeded after 2.000 s: ok",
        ),
        (
            "PROVISIONING_REPORT",
            f"result=error|reason=no answer|agent=A/1|status=500|pps_type=None|vm_id=v|timestamp={AT}|documentation_url=https://x",
            f"{AT} A/1 reported failure: no answer, for VM v; status: 500; see: https://x",
        ),
        (
            "PROVISIONING_REPORT",
            f"result=success|agent=A/1|pps_type=Savable|vm_id=v|timestamp={AT}",
            f"{AT} A/1 reported success, for VM v (pre-provisioned: Savable)",
        ),
        (
            "PROVISIONING_REPORT",
            "result=error|reason=DHCP|agent=Cloud-Init/2|'error=it''s a|b'|vm_id=v|timestamp=2026-01-01T00:00:00+00:00",
            "2026-01-01T00:00:00Z Cloud-Init/2 reported failure: DHCP, for VM v; error: it's a|b",
        ),
        (
            f"{OLD}|ERROR|http:request|{EVENT}",
            'Time: 2026-01-01T00:00:00.500Z | Event: message=refused, url="x | y"',
            '2026-01-01T00:00:00.500Z azure-init 0.1.1: error: http:request said: message=refused, url="x | y"',
        ),
        (
            f"{OLD}|INFO|azure_init:provision|{EVENT}",
            "Start: 2026-01-01T00:00:00.500Z | End: 2026-01-01T00:00:02.750Z",
            "2026-01-01T00:00:02.750Z azure-init 0.1.1: azure_init:provision ended after 2.250 s",
        ),
        (
            f"{OLD}|INFO|x|{EVENT}",
            "Start: 2026-01-01T00:00:02Z | End: 2026-01-01T00:00:01Z",
            "2026-01-01T00:00:01Z azure-init 0.1.1: x ended",
        ),
        (
            f"CLOUD_INIT|1|finish|modules|{EVENT}",
            f'{{"name":"modules","type":"finish","ts":"{AT}","result":"WARN","duration":0.5,"msg":"two failed"}}',
            f"{AT} cloud-init: modules ended with warnings after 0.500 s: two failed",
        ),
        ("HostName", "web-1", "HostName is web-1"),
        ("HostName", "", "HostName is empty"),
        ("DIAG|x|1", "y", "a record that cannot be read, because it is not what its key says: DIAG|x|1 = y"),
        ("k", "\x1b[2J\nboo", "k is ?[2J; boo"),
    ],
)
def test_a_record_becomes_a_sentence(key: str, value: str, sentence: str) -> None:
    assert explain([(key, value)]) == [sentence]


def test_old_values_in_pieces_are_put_together() -> None:
    key = f"{OLD}|INFO|x|{EVENT}"
    told = explain([(key, "Time: t | Event: mess"), ("k", "v"), (key, "age=long")])
    assert told == ["t azure-init 0.1.1: x said: message=long", "k is v"]


def test_a_pool_full_of_one_key_takes_linear_time() -> None:
    """Four times the records take about four times as long; quadratic would be sixteen times."""
    key, value = f"{OLD}|INFO|x|{EVENT}", "y" * 1000
    taken: dict[int, list[float]] = {2_000: [], 8_000: []}
    for count in (2_000, 8_000) * 5:
        started = process_time()
        explain([(key, value)] * count)
        taken[count].append(process_time() - started)
    assert min(taken[8_000]) < 10 * min(taken[2_000])


def diagnostic(name: str, payload: str | bytes) -> Diagnostic:
    encoding = "none" if isinstance(payload, str) else "zlib+b64"
    return Diagnostic(
        kind="event", agent="a", vm_id=VM, name=name, event_id=EVENT, timestamp=AT, encoding=encoding, payload=payload
    )


def test_kernel_messages_are_shown_from_their_end() -> None:
    lines = "".join(f"[{number}] usb {number}\n" for number in range(1000))
    (sentence,) = explain(encode(diagnostic("dmesg", b"\xff" + lines.encode())))
    assert sentence.startswith(f"{AT} a: dmesg said: (") and sentence.endswith("; [998] usb 998; [999] usb 999")
    assert len(sentence) < 1200
    assert explain(encode(diagnostic("dmesg", b"one\ntwo \xff\n"))) == [f"{AT} a: dmesg said: one; two \ufffd"]


def test_what_an_agent_says_is_shown_whole_unless_it_is_endless() -> None:
    (sentence,) = explain(encode(diagnostic("network", "link eth0: up\n" * 200 + "dns: no server")))
    assert sentence.endswith("dns: no server")
    (sentence,) = explain(encode(diagnostic("network", "x" * 9999)))
    assert len(sentence) < 4100 and sentence.endswith("... (9999 characters)")


@given(st.lists(st.tuples(st.text(max_size=40) | st.just(f"{OLD}|INFO|x|{EVENT}"), st.text(max_size=80))))
def test_any_records_can_be_told_on_a_terminal(pairs: list[tuple[str, str]]) -> None:
    assert all(sentence.isprintable() for sentence in explain(pairs))
