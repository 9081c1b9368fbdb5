"""The kernel's announcements about links, as bytes."""

from __future__ import annotations

import struct

from hypothesis import given, strategies as st

from azureinit.machine.link_events import CHANGED, DELETED_LINK, GONE, NEW_LINK, NEW_ROUTE, ROUTE, parse_changes

MAC = bytes.fromhex("000d3a123456")
DOWN, UP = 2, 6


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def message(kind: int, *, index: int = 2, name: str = "eth0", state: int = UP, mac: bytes = MAC) -> bytes:
    parts = attribute(3, name.encode() + b"\0") + attribute(1, mac) + attribute(16, bytes([state]))
    body = struct.pack("=BxHiII", 0, 1, index, 1, 0) + parts
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body


def route() -> bytes:
    body = bytes(12)
    return struct.pack("=IHHII", 16 + len(body), NEW_ROUTE, 0, 0, 0) + body


def test_several_messages_in_one_read() -> None:
    found = parse_changes(message(NEW_LINK, state=DOWN) + message(DELETED_LINK, index=3) + route() + message(NEW_LINK))
    assert [change.kind for change in found] == [CHANGED, GONE, ROUTE, CHANGED]
    links = [change.link for change in found if change.link is not None]
    assert [(link.index, link.state, link.mac) for link in links] == [
        (2, "down", "00:0d:3a:12:34:56"),
        (3, "up", "00:0d:3a:12:34:56"),
        (2, "up", "00:0d:3a:12:34:56"),
    ]


def test_the_rest_after_an_incomplete_message_is_skipped() -> None:
    whole = message(NEW_LINK)
    for length in range(len(whole)):
        assert len(parse_changes(message(NEW_LINK) + whole[:length])) == 1


def test_other_messages_are_skipped() -> None:
    assert parse_changes(message(20) + message(NEW_LINK))[0].kind == CHANGED
    assert parse_changes(struct.pack("=IHHII", 3, NEW_LINK, 0, 0, 0)) == ()


@given(st.binary(max_size=400))
def test_any_bytes_are_some_changes(data: bytes) -> None:
    assert all(change.kind in (CHANGED, GONE, ROUTE) for change in parse_changes(data))
