"""Key-value records: the limits of keys and values, and the parser."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from azureinit.kvp.records import (
    RECORD_SIZE,
    SAFE,
    UNSAFE,
    KvpInvalid,
    KvpUnreadable,
    Limits,
    key_field,
    parse_leniently,
    parse_records,
    plain_text,
    record,
)


def test_a_record_is_padded_with_nuls() -> None:
    assert record("k", "vé", SAFE) == b"k" + bytes(511) + "vé".encode() + bytes(2045)


@pytest.mark.parametrize(
    ("key", "value", "limits", "why"),
    [
        ("", "v", SAFE, "KVP key must not be empty"),
        ("a\0b", "v", SAFE, "KVP key must not contain null bytes"),
        ("k" * 255, "v", SAFE, "KVP key length (255) exceeds maximum (254)"),
        ("é" * 128, "v", SAFE, "KVP key length (256) exceeds maximum (254)"),
        ("k" * 513, "v", UNSAFE, "KVP key length (513) exceeds maximum (512)"),
        ("k", "a\0b", SAFE, "KVP value must not contain null bytes"),
        ("k", "v" * 1023, SAFE, "KVP value length (1023) exceeds maximum (1022)"),
        ("k", "v" * 2049, UNSAFE, "KVP value length (2049) exceeds maximum (2048)"),
        ("", "\0", SAFE, "KVP key must not be empty"),
        ("k" * 255, "\0", SAFE, "KVP key length (255) exceeds maximum (254)"),
        ("k", "\0" * 1023, SAFE, "KVP value must not contain null bytes"),
        ("\udcff", "v", SAFE, "KVP key must be valid UTF-8"),
        ("k", "\udcff", SAFE, "KVP value must be valid UTF-8"),
    ],
)
def test_what_must_not_be_written_is_refused_by_name(key: str, value: str, limits: Limits, why: str) -> None:
    with pytest.raises(KvpInvalid) as refused:
        record(key, value, limits)
    assert str(refused.value) == why


@pytest.mark.parametrize("limits", [SAFE, UNSAFE])
def test_the_limits_themselves_are_allowed(limits: Limits) -> None:
    pair = ("k" * limits.key, "v" * limits.value)
    assert parse_records(record(*pair, limits)) == [pair]


def test_a_key_that_is_only_looked_for_may_be_of_any_length() -> None:
    assert len(key_field("k" * 600)) == 600


def test_nuls_inside_a_field_belong_to_it() -> None:
    data = b"a\0b".ljust(512, b"\0") + b"c\0d".ljust(2048, b"\0")
    assert parse_records(data) == [("a\0b", "c\0d")]
    assert parse_leniently(data) == [("a", "c")]


@pytest.mark.parametrize("size", [1, RECORD_SIZE - 1, RECORD_SIZE + 1])
def test_a_size_that_is_no_multiple_is_refused(size: int) -> None:
    with pytest.raises(KvpUnreadable, match=rf"file size \({size}\) is not a multiple of record size \(2560\)"):
        parse_records(bytes(size))


@pytest.mark.parametrize("offset", [0, 512])
def test_what_is_not_utf8_is_refused_but_can_be_looked_at(offset: int) -> None:
    data = bytearray(record("key", "value", SAFE))
    data[offset] = 0xFF
    with pytest.raises(KvpUnreadable, match="record 0 is not valid UTF-8"):
        parse_records(bytes(data))
    assert len(parse_leniently(bytes(data))) == 1


@given(st.binary(max_size=4 * RECORD_SIZE))
def test_any_bytes_are_records_or_refused(data: bytes) -> None:
    whole = len(data) // RECORD_SIZE
    assert len(parse_leniently(data)) == whole
    try:
        assert len(parse_records(data)) == whole
    except KvpUnreadable as error:
        assert str(error)


@given(st.text(), st.text(max_size=200))
def test_what_goes_in_comes_out(key: str, value: str) -> None:
    try:
        data = record(key, value, UNSAFE)
    except KvpInvalid:
        return
    assert parse_records(data) == [(key, value)]


@given(st.text(st.characters(), max_size=100))
def test_plain_text_can_always_be_written(text: str) -> None:
    ((_, value),) = parse_records(record("k", plain_text(text)[:255], SAFE))
    assert value == plain_text(text)[:255]


def test_plain_text_keeps_what_it_can() -> None:
    assert plain_text("a|é\r\n\0\udcff") == "a|é\r\n??"
