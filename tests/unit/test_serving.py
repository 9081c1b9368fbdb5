"""Which document the stages of customData get: customData or userData, and the kinds that are left alone."""

from __future__ import annotations

import gzip
from base64 import b64encode
from pathlib import Path

import pytest

from azureinit.config.model import Config, CustomData, Userdata
from azureinit.machine import Machine
from azureinit.record import Secret
from azureinit.run.serving import given, has_scripts, is_on
from azureinit.sources.imds import parse_imds
from azureinit.sources.merge import from_imds, merge
from azureinit.sources.metadata import Metadata
from azureinit.userdata.document import read_document

CONFIG = b"#cloud-config\nruncmd: [one]\n"
OTHER = b"#cloud-config\nruncmd: [two]\ntimezone: UTC\n"
BOTH = Config(userdata=Userdata(use="both"))


def asked(custom: bytes | None = None, user: bytes | None = None) -> Metadata:
    def encoded(data: bytes | None) -> Secret | None:
        return None if data is None else Secret(b64encode(data))

    return Metadata(custom_data=encoded(custom), user_data=encoded(user))


@pytest.mark.parametrize(
    ("custom", "user", "source", "data"),
    [
        (CONFIG, None, "customData", CONFIG),
        (None, OTHER, "userData", OTHER),
        (CONFIG, OTHER, "customData", CONFIG),
        (b"", OTHER, "userData", OTHER),
        (None, None, "", b""),
    ],
)
def test_custom_data_wins_and_user_data_is_used_where_there_is_none(
    custom: bytes | None, user: bytes | None, source: str, data: bytes
) -> None:
    found = given(Config(), asked(custom, user))
    assert (found.source, found.data.reveal(), found.left) == (source, data, "")


def test_both_are_one_document_in_which_custom_data_wins() -> None:
    found = given(BOTH, asked(CONFIG, OTHER))
    document = read_document(found.data.reveal())
    assert not document.errors
    runcmd, zone = document.config.get("runcmd"), document.config.get("timezone")
    assert runcmd is not None and [item.value for item in runcmd.items()] == ["one"]
    assert zone is not None and zone.value == "UTC"
    assert given(BOTH, asked(CONFIG)).data.reveal() == CONFIG


def test_data_that_are_not_base64_are_taken_as_they_are() -> None:
    assert given(Config(), Metadata(custom_data=Secret(CONFIG))).data.reveal() == CONFIG


@pytest.mark.parametrize(
    "data",
    [
        b"#!/bin/sh\ntrue\n",
        b"\xef\xbb\xbf" + CONFIG,
        gzip.compress(CONFIG, mtime=0),
        b64encode(CONFIG),
        b"MIME-Version: 1.0\nContent-Type: text/cloud-config\n\n" + CONFIG,
        b"runcmd:\n- one\n",
        b"## template: jinja\n" + CONFIG,
        b"#include\nhttps://example.org/x\n",
    ],
)
def test_known_kinds_and_mistaken_ones_go_to_the_stages(data: bytes) -> None:
    assert given(Config(), asked(data)).data.reveal() == data


@pytest.mark.parametrize("data", [b"hello\n", b"\0\1\2", b"<xml/>", b"{}"])
def test_other_data_are_left_alone_and_that_is_said(data: bytes) -> None:
    found = given(Config(), asked(data))
    assert not found.data and "none of the formats" in found.left


def test_ignition_is_left_to_ignition() -> None:
    found = given(Config(), asked(b'{"ignition": {"version": "3.0.0"}}'))
    assert not found.data and "Ignition" in found.left


def test_a_program_excludes_the_stages() -> None:
    assert is_on(Config())
    assert not is_on(Config(userdata=Userdata(enabled=False)))
    assert not is_on(Config(custom_data=CustomData(execute=True)))


def test_user_data_come_from_imds_and_are_secret() -> None:
    text = b64encode(OTHER).decode()
    imds = parse_imds(b'{"compute": {"vmId": "", "userData": "%s"}}' % text.encode())
    found = merge({"imds": from_imds(imds)})
    assert found.user_data == Secret(text.encode()) and text not in repr(found)
    assert parse_imds(b'{"compute": {"userData": ""}}').user_data is None


def test_script_directories_count_where_they_have_anything(tmp_path: Path) -> None:
    machine, compatible = Machine(root=str(tmp_path)), Config(userdata=Userdata(cloud_init_compat=True))
    (tmp_path / "etc/azure-init/scripts/per-boot").mkdir(parents=True)
    (tmp_path / "var/lib/cloud/scripts/per-once").mkdir(parents=True)
    (tmp_path / "var/lib/cloud/scripts/per-once/x").touch()
    assert not has_scripts(machine, Config()) and has_scripts(machine, compatible)
    (tmp_path / "etc/azure-init/scripts/per-boot/x").touch()
    assert has_scripts(machine, Config())
