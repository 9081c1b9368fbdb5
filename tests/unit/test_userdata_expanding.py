"""Includes and templates in parsing, the record of what they became, and instance data; all without a socket."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.addresses import is_of_platform, join_url, parse_url
from azureinit.errors import HttpFailed
from azureinit.memory.expanded import decode_expansion, encode_expansion
from azureinit.pubkey import PublicKey
from azureinit.record import Secret
from azureinit.sources.metadata import Metadata
from azureinit.userdata.document import read_document
from azureinit.userdata.expanding import Expansion, Failed, file_sources
from azureinit.userdata.instance_data import REDACTED, System, instance_data, redacted
from azureinit.userdata.jinja import alias, body_of, variables
from azureinit.userdata.parts import parse_userdata
from azureinit.userdata.values import MOST_FINDINGS, MOST_PARTS

URLS = [f"https://a.example/{name}" for name in "abcd"]

# ---- addresses


@pytest.mark.parametrize(
    ("address", "refused"),
    [
        ("169.254.169.254", True),
        ("169.254.0.1", True),
        ("168.63.129.16", True),
        ("168.63.129.17", False),
        ("127.0.0.1", False),
        ("10.0.0.4", False),
        ("::ffff:169.254.169.254", True),
        ("::ffff:168.63.129.16", True),
        ("::169.254.169.254", True),
        ("64:ff9b::a9fe:a9fe", True),
        ("2002:a9fe:a9fe::1", True),
        ("2002:a83f:8110::", True),
        ("fe80::1", True),
        ("febf::1", True),
        ("fec0::1", False),
        ("2001:db8::1", False),
        ("::1", False),
    ],
)
def test_addresses_of_the_platform(address: str, refused: bool) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    assert is_of_platform(socket.inet_pton(family, address)) is refused


@pytest.mark.parametrize(
    ("base", "location", "expected"),
    [
        ("https://h/a/b?x=/y", "c", "https://h/a/c"),
        ("https://h/a/b", "/c?d=e", "https://h/c?d=e"),
        ("https://h:8443", "c", "https://h:8443/c"),
        ("https://h/a", "//i/c", "https://i/c"),
        ("https://h/a", "http://i/c#f", "http://i/c"),
        ("https://h/a", "?u=https://i/", "https://h/a?u=https://i/"),
        ("https://h/a", "", "https://h/a"),
    ],
)
def test_where_a_redirect_leads_to(base: str, location: str, expected: str) -> None:
    assert join_url(base, location) == expected


def test_a_secure_url_has_another_scheme_and_port() -> None:
    assert parse_url("https://h/a", secure=True) == ("h", 443, "/a")
    assert parse_url("https://[::1]:8443/a", secure=True) == ("::1", 8443, "/a")
    with pytest.raises(HttpFailed, match="not a plain https:// URL"):
        parse_url("http://h/a", secure=True)


# ---- parsing


def test_an_include_is_replaced_by_its_content() -> None:
    text = f"#include\n{URLS[0]}\n{URLS[1]}\n".encode()
    fetched: dict[str, bytes | Failed] = {
        URLS[0]: b"#cloud-config\nlocale: C\n",
        URLS[1]: Failed(why="status 404"),
    }
    found = parse_userdata(text, expansion=Expansion(fetched=fetched))
    assert [(part.kind, part.place.part, part.inside) for part in found.parts] == [
        ("cloud-config", "include, line 2", ("include",))
    ]
    assert [(one.level, one.line, one.message) for one in found.findings] == [
        ("error", 3, "the include cannot be fetched: status 404")
    ]


def test_a_part_keeps_the_urls_that_are_left() -> None:
    text = f"#include\n{URLS[0]}\n{URLS[1]}\n".encode()
    found = parse_userdata(text, expansion=Expansion(fetched={URLS[0]: b"#!/bin/sh\n"}))
    assert [part.kind for part in found.parts] == ["script", "include"]
    assert [one.url for one in found.parts[1].includes] == [URLS[1]]


def test_a_template_is_replaced_by_what_it_became() -> None:
    template = b"## template: jinja\n#!/bin/sh\necho {{ a }}\n"
    found = parse_userdata(template, expansion=Expansion(rendered={template: b"#!/bin/sh\necho 1\n"}))
    assert [(part.kind, part.content) for part in found.parts] == [("script", b"#!/bin/sh\necho 1\n")]
    assert found.findings == ()


PIECES = st.sampled_from(
    [b"#include\n", b"#include-once ", *(f"{url}\n".encode() for url in URLS), b"#cloud-config\n", b"runcmd: [a]\n",
     b"## template: jinja\n", b"#!/bin/sh\n", b"\x1f\x8b", b"MIME-Version: 1.0\n", b"\n", b"\xff",
     b"#cloud-config-archive\n", b"- content: |\n   #include\n   https://a.example/a\n"]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=6).map(b"".join)


@settings(max_examples=150, deadline=None)
@given(
    data=TEXTS,
    fetched=st.dictionaries(st.sampled_from(URLS), st.one_of(TEXTS, st.just(Failed(why="no")))),
    rendered=st.dictionaries(TEXTS, TEXTS, max_size=3),
)
def test_no_expansion_breaks_parsing(
    data: bytes, fetched: dict[str, bytes | Failed], rendered: dict[bytes, bytes | Failed]
) -> None:
    document = read_document(data, expansion=Expansion(fetched=fetched, rendered=rendered))
    assert len(document.parts) <= MOST_PARTS and len(document.findings) <= MOST_FINDINGS + 2
    if document.errors:
        assert document.config.pairs() == () and document.scripts == ()


# ---- the record


@given(
    fetched=st.dictionaries(st.text(max_size=9).filter(str.isprintable), st.binary(max_size=20), max_size=3),
    rendered=st.dictionaries(st.binary(max_size=20), st.binary(max_size=20), max_size=3),
)
def test_the_record_is_read_as_it_was_written(fetched: dict[str, bytes], rendered: dict[bytes, bytes]) -> None:
    expansion = Expansion(fetched=fetched, rendered=rendered)
    assert decode_expansion(encode_expansion(expansion)) == expansion


@given(data=st.binary(max_size=60))
def test_anything_else_is_no_record(data: bytes) -> None:
    assert decode_expansion(data) is None


@pytest.mark.parametrize(
    "text", ["{}", '{"fetched": 1, "rendered": []}', '{"fetched": {"a": 1}, "rendered": []}', "[]"]
)
def test_another_form_is_no_record(text: str) -> None:
    assert decode_expansion(text.encode()) is None


def test_failures_are_not_recorded() -> None:
    made = decode_expansion(encode_expansion(Expansion(fetched={"a": Failed(why="x"), "b": b"y"})))
    assert made == Expansion(fetched={"b": b"y"})


# ---- sources of files


def test_sources_of_files_have_their_place() -> None:
    text = (
        "#cloud-config\nwrite_files:\n- path: /a\n  source:\n    uri: https://h/a\n    headers: {B: c}\n  content: x\n"
    )
    document = read_document(f"{text}- path: /b\n".encode())
    assert not document.errors
    (found,) = file_sources(document.config)
    assert (found.uri, found.headers, found.line, found.optional) == ("https://h/a", (("B", "c"),), 5, True)


# ---- instance data and templates

METADATA = Metadata(
    hostname="vm1",
    username="ada",
    keys=(PublicKey(data="ssh-ed25519 AAAA", path=None),),
    about={"location": "chinaeast"},
)
SYSTEM = System(release={"ID": "x", "VERSION_ID": "9", "VERSION_CODENAME": "y"}, kernel="6.1", architecture="x86_64")


def test_the_standard_names() -> None:
    made = instance_data(METADATA, SYSTEM, vm_id="0-1", userdata=Secret(b"\xffS3cret"))
    v1 = made["v1"]
    assert (v1["region"], v1["cloud_id"], v1["cloud_name"], v1["platform"]) == (
        "chinaeast", "azure-china", "azure", "azure",
    )  # fmt: skip
    assert (v1["instance_id"], v1["local_hostname"], v1["distro"], v1["distro_release"]) == ("0-1", "vm1", "x", "y")
    assert v1["public_ssh_keys"] == ["ssh-ed25519 AAAA"]
    assert made["ds"]["meta_data"]["imds"]["compute"]["osProfile"]["adminUsername"] == "ada"
    assert made["sensitive_keys"] == ["merged_cfg", "merged_system_cfg", "userdata"]


def test_what_is_sensitive_is_left_out_at_every_depth() -> None:
    imds = {"compute": {"userData": "S3cret", "customData": "S3cret", "location": "westeurope"}}
    config = {"users": [{"passwd": "S3cret"}]}
    made = instance_data(METADATA, SYSTEM, vm_id="0-1", imds=imds, image_config=config, userdata=Secret(b"S3cret"))
    shown = redacted(made)
    assert "S3cret" in str(made) and "S3cret" not in str(shown)
    assert shown["ds"]["meta_data"]["imds"]["compute"] == {
        "userData": REDACTED,
        "customData": REDACTED,
        "location": "westeurope",
    }
    assert shown["v1"] == made["v1"]


def test_variables_and_their_aliases() -> None:
    data = {"v1": {"a-b": 1}, "v1.0": {"c.d": 2}, "version": {"x": 3}, "vx": {"y": 4}}
    assert variables(data) == {
        "v1": {"a-b": 1, "a_b": 1}, "a-b": 1, "a_b": 1, "v1.0": {"c.d": 2, "c_d": 2}, "v1_0": {"c.d": 2, "c_d": 2},
        "version": {"x": 3}, "vx": {"y": 4},
    }  # fmt: skip
    assert variables(data, aliases=False)["a-b"] == 1 and "a_b" not in variables(data, aliases=False)
    assert alias("a//b.c-d") == "a_b_c_d"


def test_the_first_line_of_a_template_is_not_rendered() -> None:
    assert body_of(b"\n\n## template: jinja\n#!/bin/sh\n") == ("#!/bin/sh\n", 3)
    assert body_of(b"## template: jinja") == ("", 1)
