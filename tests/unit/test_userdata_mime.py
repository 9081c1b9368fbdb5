"""The MIME parser, compared with the `email` package of the standard library."""

from __future__ import annotations

import email
from email.message import Message

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.userdata.mime import MOST_BODIES, MOST_HEADERS, parse_bodies, parse_body, parse_parameters

TYPES = ("text/cloud-config", "TEXT/Plain; charset=utf-8", 'text/plain; name="a; b"', "nonsense", "")
NAMES = ("a.sh", "b c.yaml", 'with "quotes"', "semi;colon", "")
LINES = ["#cloud-config", "", "--", "--X", "--Xtra", "text --X--", " --X", "Header: x", "=3D"]
CONTENT = st.lists(st.sampled_from(LINES), max_size=5).map("\n".join)
PIECES = [b"--X", b"--", b"\n", b"\r\n", b"a:", b" b", b"X", b"\0"]


def header(content_type: str, filename: str, more: str) -> str:
    quoted = filename.replace("\\", "\\\\").replace('"', '\\"')
    lines = [f"Content-Type: {content_type}" if content_type else "", more]
    lines.append(f'Content-Disposition: attachment;\n filename="{quoted}"' if filename else "")
    return "\n".join(line for line in lines if line)


MORE = ("", "X-Merge-Type: x", "A:")
HEADERS = st.builds(header, st.sampled_from(TYPES), st.sampled_from(NAMES), st.sampled_from(MORE))
PARTS = st.tuples(HEADERS, CONTENT)


def whole(parts: list[tuple[str, str]], *, newline: str = "\n", preamble: str = "", envelope: str = "") -> str:
    body = "".join(f"--X\n{head}\n\n{content}\n" if head else f"--X\n\n{content}\n" for head, content in parts)
    text = f'{envelope}MIME-Version: 1.0\nContent-Type: multipart/mixed;\n boundary="X"\n\n{preamble}{body}--X--\n'
    return text.replace("\n", newline)


def by_email(text: str) -> list[tuple[str, str, str, bytes]]:
    found = []
    for part in email.message_from_string(text).get_payload():
        assert isinstance(part, Message)
        payload = part.get_payload(decode=True)
        assert isinstance(payload, bytes)
        declared = part.get_content_type() if "/" in part.get("Content-Type", "") else ""
        found.append((declared, part.get_filename() or "", part.get("X-Merge-Type", ""), payload))
    return found


@settings(max_examples=300, deadline=None)
@given(
    st.lists(PARTS, min_size=1, max_size=4),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "Hello\n\n"]),
    st.sampled_from(["", "From nobody Thu Jan  1 00:00:00 1970\n"]),
)
def test_bodies_are_those_of_the_email_package(
    parts: list[tuple[str, str]], newline: str, preamble: str, envelope: str
) -> None:
    text = whole(parts, newline=newline, preamble=preamble, envelope=envelope)
    bodies, _closed = parse_bodies(parse_body(text.encode()))
    # What is empty between two boundary lines is a part to one of the two parsers only.
    found = [(one.content_type, one.filename, one.merge_type, one.content) for one in bodies if one.content]
    assert found == [one for one in by_email(text) if one[3]]
    lines = text.encode().split(b"\n")
    for one in bodies:
        assert not one.content or lines[one.line].startswith(one.content.split(b"\n")[0].rstrip(b"\r"))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | st.lists(st.sampled_from(PIECES)).map(b"".join))
def test_any_bytes_are_a_message(data: bytes) -> None:
    head = b"Content-Type: multipart/mixed; boundary=X\n\n"
    bodies, _closed = parse_bodies(parse_body(head + data))
    assert sum(len(one.content) for one in bodies) <= len(data)
    assert len(parse_body(data).content) <= len(data)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", ("", {})),
        ("Text/Plain", ("text/plain", {})),
        ('a/b; boundary="x;y"; Name = z', ("a/b", {"boundary": "x;y", "name": "z"})),
        (r'a/b; n="q\"\\"', ("a/b", {"n": 'q"\\'})),
        ("a/b; n=1; n=2; empty", ("a/b", {"n": "1"})),
        ('a/b; n="open', ("a/b", {"n": '"open'})),
    ],
)
def test_parameters(value: str, expected: tuple[str, dict[str, str]]) -> None:
    assert parse_parameters(value) == expected


def test_headers_that_end_without_an_empty_line_begin_the_content() -> None:
    body = parse_body(b"Content-Type: a/b\n#!/bin/sh\n")
    assert (body.content_type, body.content, body.line) == ("a/b", b"#!/bin/sh\n", 1)


def test_numbers_are_bounded() -> None:
    bodies, closed = parse_bodies(parse_body(b"Content-Type: multipart/mixed; boundary=X\n\n" + b"--X\n\na\n" * 5000))
    assert len(bodies) == MOST_BODIES and not closed
    many = b"".join(b"h%d: x\n" % number for number in range(10 * MOST_HEADERS))
    assert parse_body(many + b"\ntext").content.endswith(b"text")
    folded = parse_body(b"a: b\n" + b" c\n" * 1_000_000)
    assert len(folded.content) > 1_000_000
