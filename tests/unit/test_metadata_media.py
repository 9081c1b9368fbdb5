"""Metadata that only the media have, saved media, and unusable keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.errors import (
    AzureInitError,
    CustomDataMissing,
    ImdsUnavailable,
    InvalidKey,
    MediaAbsent,
    MediaRefused,
    OvfInvalid,
)
from azureinit.machine import Machine
from azureinit.memory.instance import Instance
from azureinit.memory.saved import metadata_from_saved, read_saved, saved_values, write_saved
from azureinit.record import Secret, replace
from azureinit.sources.imds import PublicKey
from azureinit.sources.merge import (
    check_complete,
    contradiction,
    disagreements,
    from_imds,
    merge,
    needs_media,
    needs_no_network,
    with_usable_keys,
)
from azureinit.sources.metadata import KeyPair, Metadata
from support.metadata_cases import FAILURES, ID, IMDS, KEY, OTHER_KEY
from support.ssh_trees import ed25519

# ---- what is on the media alone


WITH_CUSTOM_DATA = Metadata(username="u", hostname="h", keys=(PublicKey(data=ed25519()),), has_custom_data=True)


@pytest.mark.parametrize(
    "failures",
    [
        {"media": MediaAbsent("none")},
        {"media": OvfInvalid("not XML")},
        {"media": MediaRefused("of another")},
        {},  # the medium answered, and has none
    ],
)
def test_custom_data_that_imds_names_and_no_medium_gives_is_a_failure(failures: dict[str, AzureInitError]) -> None:
    assert needs_media(WITH_CUSTOM_DATA)
    with pytest.raises(CustomDataMissing) as caught:
        check_complete(WITH_CUSTOM_DATA, failures)
    assert caught.value.reason == "failure to read customData while hasCustomData=true"
    for name, error in failures.items():
        assert caught.value.supporting()[name] == str(error)


def test_custom_data_that_came_or_that_imds_does_not_name_are_not_missed() -> None:
    came = replace(WITH_CUSTOM_DATA, custom_data=Secret("e30="))
    unnamed = replace(WITH_CUSTOM_DATA, has_custom_data=False)
    for metadata in (came, unnamed):
        assert not needs_media(metadata)
        check_complete(metadata, FAILURES)


def test_who_may_not_see_what_was_saved_does_not_miss_it() -> None:
    check_complete(WITH_CUSTOM_DATA, FAILURES, knows_saved=False)
    check_complete(replace(WITH_CUSTOM_DATA, disable_password=False), FAILURES, knows_saved=False)
    with pytest.raises(ImdsUnavailable):
        check_complete(Metadata(), FAILURES, knows_saved=False)


def test_where_media_are_off_by_configuration_custom_data_are_not_missed() -> None:
    off = MediaAbsent("provisioning_media.enable is false", setting="provisioning_media.enable")
    check_complete(WITH_CUSTOM_DATA, {"media": off})
    with pytest.raises(AzureInitError):
        check_complete(WITH_CUSTOM_DATA, {"media": MediaAbsent("no drive")})


# ---- a medium of another VM


OTHER_ID = "99999999-2222-4333-8444-555555555555"
SWAPPED = "00840e55-9be2-d441-a716-446655440000"  # ID as a generation 1 machine's firmware has it


@pytest.mark.parametrize(
    ("media", "imds", "vm_id", "refused"),
    [
        (Metadata(), Metadata(), None, ""),
        (Metadata(disable_password=False), Metadata(disable_password=True), None, "the medium switches password"),
        (Metadata(disable_password=True), Metadata(disable_password=False), None, "IMDS switches password"),
        (Metadata(disable_password=True), Metadata(disable_password=True), None, ""),
        (Metadata(disable_password=False), Metadata(), None, ""),
        (Metadata(disable_password=False), None, ID, ""),
        (Metadata(vm_id=ID), Metadata(vm_id=OTHER_ID), None, f"it is of VM {ID}, and this is VM {OTHER_ID}"),
        (Metadata(vm_id=ID), None, OTHER_ID, f"it is of VM {ID}, and this is VM {OTHER_ID}"),
        (Metadata(vm_id=ID), Metadata(vm_id=ID), None, ""),
        (Metadata(vm_id=SWAPPED), Metadata(vm_id=ID), ID, ""),
        (Metadata(vm_id=ID), None, None, ""),
        (Metadata(username="a", hostname="b"), Metadata(username="c", hostname="d"), None, ""),
    ],
)
def test_a_medium_that_contradicts_imds_or_the_firmware_is_another_s(
    media: Metadata, imds: Metadata | None, vm_id: str | None, refused: str
) -> None:
    found = contradiction(media, imds, vm_id=vm_id)
    assert found.startswith(refused) and bool(found) == bool(refused)


# ---- what an earlier run kept


def test_what_was_saved_comes_back_the_same(tmp_path: Path) -> None:
    machine = Machine(root=str(tmp_path), environ={})
    (tmp_path / "data").mkdir()
    instance = Instance(data_dir="/data", vm_id=ID)
    metadata = Metadata(
        username="azureuser",
        hostname="web-1",
        disable_password=False,
        has_password=True,
        custom_data=Secret(b"\x00\xff binary"),
        password_hash=Secret("$6$salt$hash"),
        keys=(KEY, replace(OTHER_KEY, path="/home/azureuser/.ssh/authorized_keys")),
        key_pairs=(KeyPair(thumbprint="AB", path="/x"),),
        thumbprints=(("EF", None),),
    )
    write_saved(machine, instance.path("saved"), metadata, with_secrets=True)
    saved = tmp_path / f"data/{ID}.saved"
    assert saved.stat().st_mode & 0o777 == 0o600
    assert isinstance(json.loads(saved.read_bytes())["keys"][0], list)
    assert read_saved(machine, instance.path("saved")) == metadata
    saved.write_bytes(saved.read_bytes().replace(b"web-1", b"web-2"))
    assert read_saved(machine, instance.path("saved")) is None, "the checksum no longer matches"


def test_the_hash_and_the_key_pairs_are_saved_only_while_they_are_needed() -> None:
    metadata = Metadata(username="u", password_hash=Secret("h"), key_pairs=(KeyPair(thumbprint="AB"),))
    assert {"password_hash", "key_pairs"} <= set(saved_values(metadata, with_secrets=True))
    assert not {"password_hash", "key_pairs"} & set(saved_values(metadata, with_secrets=False))


@pytest.mark.parametrize(
    "values",
    [
        {"username": 3},
        {"custom_data": "plain"},
        {"custom_data": {"other": "x"}},
        {"password_hash": {"base64": 1}},
        {"keys": "ab"},
        {"keys": [["a"]]},
        {"key_pairs": [[1, None]]},
    ],
)
def test_values_of_another_shape_are_not_used(values: dict[str, object]) -> None:
    assert metadata_from_saved(values) is None


def test_saved_values_nobody_knows_are_passed_over() -> None:
    assert metadata_from_saved({"username": "u", "of a later version": 3}) == Metadata(username="u")


def test_what_was_saved_is_asked_last() -> None:
    saved = Metadata(username="saved", hostname="saved", has_password=True, password_hash=Secret("h"))
    metadata = merge({"saved": saved, "imds": from_imds(IMDS)})
    assert (metadata.username, metadata.has_password) == ("azureuser", True)
    assert metadata.provenance["password_hash"] == "saved"


texts = st.none() | st.text(max_size=5)
metadatas = st.builds(
    Metadata,
    username=texts,
    hostname=texts,
    disable_password=st.none() | st.booleans(),
    keys=st.tuples() | st.tuples(st.builds(PublicKey, data=st.text(max_size=9), path=texts)),
    password=st.none() | st.builds(Secret, st.text(max_size=5)),
    has_password=st.booleans(),
    pps_type=texts,
)


@given(st.dictionaries(st.sampled_from(("imds", "media", "saved")), metadatas))
def test_every_merged_value_is_the_word_of_the_source_it_names(answers: dict[str, Metadata]) -> None:
    metadata = merge(answers)
    silent = all(answer.disable_password is None for answer in answers.values())
    for field, name in metadata.provenance.items():
        if field == "disable_password" and silent:
            assert metadata.disable_password is False and answers[name].has_password
            continue
        assert getattr(metadata, field) == getattr(answers[name], field)


# ---- keys that sshd would not take


ADAS = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINoCsQdIS32POjvm9byMTtRl8q7kOXdIRRV0i0g0OP4O ada@laptop"


def usable(*keys: str, source: str = "imds") -> tuple[list[str], list[str]]:
    told: list[str] = []
    asked = Metadata(keys=tuple(PublicKey(data=key) for key in keys), provenance={"keys": source})
    return [key.data for key in with_usable_keys(asked, told.append).keys], told


def test_a_bad_key_among_good_ones_is_named_and_left_out() -> None:
    assert usable(ADAS) == ([ADAS], [])
    keys, told = usable(ADAS, "ssh-rsa AAAA bob@desk top", "not a key", source="media")
    assert keys == [ADAS]
    (second, third) = told
    kind = "the ssh-rsa key has another key type inside"
    assert second == f"key 2 (bob@desk top) from the provisioning media: {kind}; it is not used"
    assert third.startswith("key 3 from the provisioning media: the key has no type that OpenSSH knows")


def test_where_no_key_is_good_every_one_is_named() -> None:
    with pytest.raises(InvalidKey) as alone:
        usable("ssh-rsa AAAA ada@laptop")
    assert str(alone.value).startswith("key 1 (ada@laptop) from IMDS: the ssh-rsa key has another key type inside")
    with pytest.raises(InvalidKey) as both:
        usable("ssh-rsa AAAA", "-----BEGIN OPENSSH PRIVATE KEY-----\nsecret")
    assert str(both.value).startswith("no key can be used: key 1 from IMDS: ")
    assert "; key 2 from IMDS: the key is in a PEM" in str(both.value)


@pytest.mark.parametrize("text", ["hunter2 is my password", "ssh-rsa hunter2", "\x1b[31m ssh-rsa hunter2 x", ""])
def test_what_may_be_a_secret_in_the_place_of_a_key_is_not_told(text: str) -> None:
    _, told = usable(ADAS, text)
    assert len(told) == 1 and "hunter2" not in told[0]


def test_a_comment_has_no_power_over_lines_and_is_short() -> None:
    _, (told,) = usable(ADAS, "ssh-rsa AAAA \x1b[31m" + "x" * 500)
    assert told.isprintable() and len(told) < 200


# ---- media that were applied before IMDS could be asked


APPLIED = Metadata(username="azureuser", hostname="web-1", disable_password=True, keys=(PublicKey(data=ed25519()),))


def test_sources_that_say_the_same_or_nothing_do_not_disagree() -> None:
    assert disagreements(APPLIED, APPLIED) == ()
    assert disagreements(Metadata(vm_id=ID, has_profile=True), APPLIED) == ()
    commented = PublicKey(data=f"{APPLIED.keys[0].data} another comment")
    assert disagreements(replace(APPLIED, keys=(commented,)), APPLIED) == ()


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("username", "somebody", "username: IMDS says 'somebody', the media say 'azureuser'"),
        ("hostname", "web-2", "hostname: IMDS says 'web-2', the media say 'web-1'"),
        ("disable_password", False, "disable_password: IMDS says false, the media say true"),
    ],
)
def test_a_disagreement_names_both(field: str, value: object, told: str) -> None:
    assert disagreements(replace(APPLIED, **{field: value}), APPLIED) == (told,)


def test_other_keys_are_a_disagreement() -> None:
    other = PublicKey(data=ADAS)
    (told,) = disagreements(replace(APPLIED, keys=(other,)), APPLIED)
    assert told.startswith("keys: IMDS says ssh-ed25519") and "the media say ssh-ed25519" in told
    (told,) = disagreements(replace(APPLIED, keys=(*APPLIED.keys, other)), APPLIED)
    assert told.startswith("keys: ")


def test_a_key_that_cannot_be_used_is_no_disagreement() -> None:
    bad = PublicKey(data="ssh-rsa AAAA bob@desk")
    assert disagreements(replace(APPLIED, keys=(bad, *APPLIED.keys)), APPLIED) == ()
    assert disagreements(APPLIED, replace(APPLIED, keys=(*APPLIED.keys, bad))) == ()


@pytest.mark.parametrize(
    ("change", "applied"),
    [
        ({}, True),
        ({"keys": (), "has_password": True, "disable_password": False}, True),
        ({"keys": ()}, False),
        ({"username": None}, False),
        ({"pps_type": "Running"}, False),
        ({"thumbprints": (("AB12", None),)}, False),
        ({"disable_password": False}, False),
    ],
)
def test_media_are_applied_alone_where_nothing_of_theirs_needs_the_network(
    change: dict[str, object], applied: bool
) -> None:
    assert needs_no_network(replace(APPLIED, **change)) is applied
