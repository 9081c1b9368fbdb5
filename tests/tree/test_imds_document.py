"""What is read from an IMDS document."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from azureinit.errors import (
    ImdsInvalid,
)
from azureinit.sources.imds import Imds, PublicKey, parse_imds
from support.imds_answers import DOCUMENT, ID, KEY, WHOLE, changed, profile


def test_a_whole_document_is_read() -> None:
    assert parse_imds(json.dumps(DOCUMENT).encode()) == WHOLE


def test_a_byte_order_mark_is_passed_over() -> None:
    assert parse_imds(b"\xef\xbb\xbf" + json.dumps(DOCUMENT).encode()) == WHOLE


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (True, True),
        (False, False),
        ("true", True),
        ("false", False),
        ("True", True),
        ("FALSE", False),
        ("", None),
        (None, None),
    ],
)
def test_the_password_switch_is_understood_in_every_spelling(said: object, meant: object) -> None:
    assert parse_imds(profile(disablePasswordAuthentication=said)).disable_password is meant


@pytest.mark.parametrize("said", ["nonsense", "yes", "0", 42, 0, [], {}, 1.5])
def test_any_other_password_switch_is_an_error(said: object) -> None:
    with pytest.raises(ImdsInvalid, match="disablePasswordAuthentication is neither true nor false"):
        parse_imds(profile(disablePasswordAuthentication=said))


def test_an_empty_document_says_nothing() -> None:
    found = parse_imds(b'{"compute": {}}')
    assert found == Imds(
        vm_id=None,
        username=None,
        hostname=None,
        disable_password=None,
        keys=(),
        pps_type=None,
        has_custom_data=None,
        has_profile=False,
    )


def test_a_specialised_machine_has_a_profile_that_says_nothing() -> None:
    empty = {"adminUsername": "", "computerName": "", "disablePasswordAuthentication": ""}
    found = parse_imds(changed(osProfile=empty, publicKeys=[]))
    assert found.has_profile
    assert (found.username, found.hostname, found.disable_password, found.keys) == (None, None, None, ())


@pytest.mark.parametrize("none", [None, "", []])
def test_absent_keys_are_no_keys(none: object) -> None:
    assert parse_imds(changed(publicKeys=none)).keys == ()


def test_keys_without_data_are_passed_over_and_the_others_kept_as_they_are() -> None:
    keys = [{"keyData": ""}, {"path": "/x"}, {"keyData": "\r\n"}, {"keyData": KEY + "\r\n", "path": ""}]
    assert parse_imds(changed(publicKeys=keys)).keys == (PublicKey(data=KEY + "\r\n", path=None),)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (b"null", "no object compute"),
        (b'"text"', "no object compute"),
        (b"{}", "no object compute"),
        (b'{"compute": []}', "no object compute"),
        (b'{"compute": {"osProfile": []}}', "no object osProfile"),
        (b'{"compute": {"osProfile": "x"}}', "no object osProfile"),
        (b'{"compute": {}, "extended": 3}', "no object extended"),
        (b'{"compute": {}, "extended": {"compute": true}}', "no object compute"),
        (profile(adminUsername=3), "adminUsername is not a string"),
        (profile(adminUsername=["x"]), "adminUsername is not a string"),
        (profile(computerName={}), "computerName is not a string"),
        (profile(computerName="\ud800"), "computerName is not text"),
        (changed(publicKeys={}), "publicKeys is not a list of objects"),
        (changed(publicKeys=["ssh-rsa AAAA"]), "publicKeys is not a list of objects"),
        (changed(publicKeys=[{"keyData": 3}]), "keyData is not a string"),
        (changed(vmId=7), "vmId is not a string"),
        (changed(vmId="not-a-uuid"), "vmId is not a UUID"),
        (changed(vmId="../../../etc/passwd"), "vmId is not a UUID"),
    ],
)
def test_a_document_of_the_wrong_shape_is_an_error_that_names_the_key(document: bytes, why: str) -> None:
    with pytest.raises(ImdsInvalid, match=why):
        parse_imds(document)


def test_the_id_is_written_one_way() -> None:
    assert parse_imds(changed(vmId=ID.upper())).vm_id == ID


def test_the_id_of_nobody_is_none() -> None:
    assert parse_imds(changed(vmId="00000000-0000-0000-0000-000000000000")).vm_id is None
    assert parse_imds(changed(vmId="")).vm_id is None


NAMES = ("compute", "osProfile", "adminUsername", "disablePasswordAuthentication", "publicKeys", "keyData", "vmId")
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(ID),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES) | st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(anything)
def test_no_document_is_worse_than_invalid(document: object) -> None:
    for body in (document, {"compute": document}, {"compute": {"osProfile": document, "publicKeys": [document]}}):
        try:
            assert isinstance(parse_imds(json.dumps(body).encode()), Imds)
        except ImdsInvalid as error:
            assert str(error)


@given(st.binary())
def test_no_bytes_are_worse_than_invalid(body: bytes) -> None:
    try:
        assert isinstance(parse_imds(body), Imds)
    except ImdsInvalid as error:
        assert str(error)


@given(st.integers(0, len(json.dumps(DOCUMENT)) - 1))
def test_a_document_cut_anywhere_is_invalid(length: int) -> None:
    with pytest.raises(ImdsInvalid, match="not JSON"):
        parse_imds(json.dumps(DOCUMENT).encode()[:length])
