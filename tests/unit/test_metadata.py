"""Merging the answers of the sources, and errors for missing values."""

from __future__ import annotations

import pytest

from azureinit.errors import (
    AzureInitError,
    HostnameMissing,
    ImdsRefused,
    ImdsUnavailable,
    ImdsUnparsable,
    MediaAbsent,
    MediaUnreadable,
    NoCredentials,
    OvfInvalid,
    ProxyAgentMissing,
    UsernameMissing,
)
from azureinit.record import Secret, replace
from azureinit.sources.imds import Imds, PublicKey
from azureinit.sources.merge import check_complete, from_imds, from_ovf, lacks_usable_key, merge
from azureinit.sources.metadata import Metadata, is_enough, is_specialised, named_keys
from azureinit.sources.ovf import Ovf, OvfKey
from support.metadata_cases import FAILURES, IMDS, KEY, OTHER_KEY
from support.ssh_trees import ed25519

OVF = Ovf(
    hostname="web-1",
    username="azureuser",
    password=Secret("pass-word"),
    disable_password=True,
    keys=(),
    custom_data_text=Secret("custom-data"),
    preprovisioned=False,
    pps_type=None,
    proxy_agent=True,
    provision_guest_agent=True,
)


def merged(imds: Imds | None, ovf: Ovf | None) -> Metadata:
    answers = {}
    if ovf is not None:
        answers["media"] = from_ovf(ovf)
    if imds is not None:
        answers["imds"] = from_imds(imds)
    return merge(answers)


GOOD, ANOTHER, THIRD = (PublicKey(data=ed25519(letter)) for letter in "kmn")
PEM = PublicKey(data="-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----")
BENT = PublicKey(data="ssh-rsa not-base64")


# ---- keys that cannot be used


@pytest.mark.parametrize(
    ("imds", "media", "chosen", "source"),
    [
        ((GOOD,), (ANOTHER,), (GOOD,), "imds"),
        ((PEM,), (ANOTHER,), (ANOTHER,), "media"),
        ((GOOD, PEM), (ANOTHER, THIRD), (ANOTHER, THIRD), "media"),
        ((GOOD, PEM), (ANOTHER, BENT), (GOOD, PEM), "imds"),
        ((GOOD, PEM), (), (GOOD, PEM), "imds"),
        ((PEM,), (BENT,), (PEM,), "imds"),
        ((PEM,), (BENT, GOOD), (BENT, GOOD), "media"),
        ((), (ANOTHER,), (ANOTHER,), "media"),
    ],
)
def test_keys_that_are_not_in_openssh_s_form_give_way_to_the_next_source(
    imds: tuple[PublicKey, ...], media: tuple[PublicKey, ...], chosen: tuple[PublicKey, ...], source: str
) -> None:
    keys = tuple(OvfKey(fingerprint=None, path=None, value=key.data) for key in media)
    metadata = merged(replace(IMDS, keys=imds), replace(OVF, keys=keys))
    assert metadata.keys == chosen
    assert metadata.provenance["keys"] == source
    told = [warning for warning in metadata.warnings if "is not used" in warning]
    assert bool(told) is (source == "media" and bool(imds))
    assert not any(key.data in warning for key in (*imds, *media) for warning in told)


def test_a_key_named_by_a_certificate_stands_in_for_one_that_cannot_be_used() -> None:
    named = OvfKey(fingerprint="AB12", path="/home/azureuser/.ssh/authorized_keys", value=None)
    metadata = merged(replace(IMDS, keys=(PEM,)), replace(OVF, keys=(named,)))
    assert (metadata.keys, named_keys(metadata)) == ((), (("AB12", "/home/azureuser/.ssh/authorized_keys"),))
    assert named_keys(merged(replace(IMDS, keys=(GOOD,)), replace(OVF, keys=(named,)))) == ()


def test_a_wrapped_key_is_the_same_key() -> None:
    wrapped = GOOD.data[:30] + "\r\n" + GOOD.data[30:] + " other comment\r\n"
    key = OvfKey(fingerprint=None, path=None, value=wrapped)
    assert merged(replace(IMDS, keys=(GOOD,)), replace(OVF, keys=(key,))).warnings == ()


def test_the_medium_is_waited_for_where_no_key_of_imds_can_be_used() -> None:
    only = replace(IMDS, keys=(PEM,))
    assert lacks_usable_key(merged(only, None))
    assert not lacks_usable_key(merged(replace(IMDS, keys=(PEM, GOOD)), None))
    assert not lacks_usable_key(merged(only, OVF)), "there is a password"
    assert not lacks_usable_key(Metadata())


# ---- password logins that no source mentions


@pytest.mark.parametrize("silent", [None, replace(IMDS, disable_password=None)])
def test_a_password_alone_switches_password_logins_on(silent: Imds | None) -> None:
    metadata = merged(silent, replace(OVF, disable_password=None))
    assert metadata.disable_password is False
    assert metadata.provenance["disable_password"] == "media"


def test_what_any_source_says_of_password_logins_counts() -> None:
    assert merged(IMDS, replace(OVF, disable_password=None)).disable_password is True
    assert merged(None, replace(OVF, disable_password=True)).disable_password is True
    assert merged(None, replace(OVF, disable_password=None, password=None)).disable_password is None


# ---- who says what


def test_each_value_is_told_with_its_source() -> None:
    metadata = merged(IMDS, OVF)
    assert metadata.provenance == {
        "vm_id": "imds",
        "username": "imds",
        "hostname": "imds",
        "disable_password": "imds",
        "keys": "imds",
        "has_profile": "imds",
        "password": "media",
        "has_password": "media",
        "custom_data": "media",
        "proxy_agent": "media",
    }
    assert metadata.password == Secret("pass-word")
    assert metadata.custom_data == Secret("custom-data")
    assert metadata.proxy_agent
    assert metadata.warnings == ()


def test_what_imds_does_not_say_the_media_does() -> None:
    silent = replace(IMDS, username=None, hostname=None, disable_password=None, keys=())
    key = OvfKey(fingerprint="AB", path="/home/u/.ssh/authorized_keys", value=KEY.data)
    metadata = merged(silent, replace(OVF, username="other", keys=(key,)))
    assert (metadata.username, metadata.hostname, metadata.disable_password) == ("other", "web-1", True)
    assert metadata.keys == (PublicKey(data=KEY.data, path="/home/u/.ssh/authorized_keys"),)
    assert metadata.provenance["username"] == metadata.provenance["keys"] == "media"
    assert metadata.warnings == ()


def test_one_source_alone_is_whole() -> None:
    assert merged(IMDS, None) == replace(
        from_imds(IMDS),
        pps_type=None,
        provenance=dict.fromkeys(("vm_id", "username", "hostname", "disable_password", "keys", "has_profile"), "imds"),
    )
    assert merged(None, OVF).username == "azureuser"


def test_nothing_merges_to_nothing() -> None:
    assert merge({}) == Metadata()


def test_the_order_of_answers_does_not_matter() -> None:
    one, two = from_imds(IMDS), from_ovf(replace(OVF, username="other"))
    assert merge({"imds": one, "media": two}) == merge({"media": two, "imds": one})


def test_a_password_switch_that_is_off_is_a_word_too() -> None:
    metadata = merged(replace(IMDS, disable_password=False), OVF)
    assert metadata.disable_password is False
    assert metadata.warnings == ("disable_password: imds says false, media says true; using the first",)
    assert merged(replace(IMDS, disable_password=None), replace(OVF, disable_password=False)).disable_password is False


def test_keys_of_the_media_without_a_value_are_not_keys() -> None:
    pointer = OvfKey(fingerprint="AB12", path="/home/u/.ssh/authorized_keys", value=None)
    assert from_ovf(replace(OVF, keys=(pointer,))).keys == ()


# ---- disagreement


def test_a_disagreement_is_a_warning_with_both_values() -> None:
    metadata = merged(IMDS, replace(OVF, username="other", hostname="web-2"))
    assert (metadata.username, metadata.hostname) == ("azureuser", "web-1")
    assert metadata.warnings == (
        "username: imds says 'azureuser', media says 'other'; using the first",
        "hostname: imds says 'web-1', media says 'web-2'; using the first",
    )


def test_other_keys_are_a_disagreement_and_other_comments_are_not() -> None:
    same = OvfKey(fingerprint=None, path=None, value="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAfirst\r\n")
    other = replace(same, value=OTHER_KEY.data)
    assert merged(IMDS, replace(OVF, keys=(same, same))).warnings == ()
    metadata = merged(IMDS, replace(OVF, keys=(other,)))
    assert metadata.keys == (KEY,)
    assert metadata.warnings == (
        "keys: imds says ssh-ed25519 ...5AAAAIAfirst, media says ssh-ed25519 ...5AAAAIAother; using the first",
    )


def test_a_warning_is_short_and_on_one_line_whatever_was_said() -> None:
    long = "x" * (1 << 20)
    metadata = merged(replace(IMDS, hostname=long), replace(OVF, hostname=long + "y", username="a\nb\x1b"))
    assert len(metadata.warnings) == 2
    assert all(len(warning) < 300 and warning.isprintable() for warning in metadata.warnings)


def test_no_secret_is_in_a_warning_or_in_what_is_printed() -> None:
    saved = Metadata(password_hash=Secret("$6$hash"), has_password=True, username="third")
    metadata = merge({"imds": from_imds(IMDS), "media": from_ovf(OVF), "saved": saved})
    printed = repr(metadata) + str(metadata.warnings) + f"{metadata}"
    assert "third" in str(metadata.warnings)
    assert not any(secret in printed for secret in ("pass-word", "custom-data", "$6$hash"))


# ---- pre-provisioning


@pytest.mark.parametrize("told", ["Running", "Savable", "PreprovisionedOSDisk"])
def test_either_source_may_ask_for_pre_provisioning(told: str) -> None:
    silent, media = replace(IMDS, pps_type=None), replace(OVF, pps_type=told)
    assert [merged(*one).pps_type for one in ((replace(IMDS, pps_type=told), OVF), (silent, media))] == [told] * 2
    assert merged(replace(IMDS, pps_type="None"), media).pps_type is None


def test_a_preprovisioned_vm_without_a_type_is_one() -> None:
    assert merged(replace(IMDS, pps_type=None), replace(OVF, preprovisioned=True)).pps_type == "Running"


@pytest.mark.parametrize("told", ["None", "none", "", None])
def test_none_in_any_spelling_is_no_pre_provisioning(told: str | None) -> None:
    metadata = merged(replace(IMDS, pps_type=told or None), OVF)
    assert metadata.pps_type is None
    check_complete(metadata, {})


# ---- enough, nothing, too little


@pytest.mark.parametrize(
    ("metadata", "enough"),
    [
        (Metadata(username="u", hostname="h", keys=(KEY,)), True),
        (Metadata(username="u", hostname="h", has_password=True), True),
        (Metadata(username="u", hostname="h"), False),
        (Metadata(username="u", keys=(KEY,)), False),
        (Metadata(hostname="h", keys=(KEY,)), False),
        (Metadata(), False),
    ],
)
def test_enough_is_a_user_a_host_name_and_a_way_in(metadata: Metadata, enough: bool) -> None:
    assert is_enough(metadata) is enough


EMPTY = replace(IMDS, username=None, hostname=None, disable_password=None, keys=())


def test_an_empty_profile_is_a_specialised_machine() -> None:
    assert is_specialised(merged(EMPTY, None))


@pytest.mark.parametrize(
    "imds",
    [
        replace(EMPTY, has_profile=False),
        replace(EMPTY, username="u"),
        replace(EMPTY, hostname="h"),
        replace(EMPTY, keys=(KEY,)),
        replace(EMPTY, disable_password=False),
        replace(EMPTY, pps_type="PreprovisionedOSDisk"),
    ],
)
def test_a_machine_of_which_anything_is_asked_is_not_specialised(imds: Imds) -> None:
    assert not is_specialised(merged(imds, None))


def test_without_imds_nothing_is_known_to_be_specialised() -> None:
    assert not is_specialised(Metadata())
    assert not is_specialised(merged(EMPTY, OVF))


MISSING = [
    (Metadata(), UsernameMissing),
    (Metadata(hostname="h", keys=(KEY,)), UsernameMissing),
    (Metadata(username="u", keys=(KEY,)), HostnameMissing),
    (Metadata(username="u", hostname="h"), NoCredentials),
    (Metadata(username="u", hostname="h", disable_password=False), NoCredentials),
]


@pytest.mark.parametrize(("metadata", "_kind"), MISSING)
def test_what_is_missing_is_told_with_every_source_s_failure(metadata: Metadata, _kind: type[Exception]) -> None:
    with pytest.raises(ImdsUnavailable, match="imds: nobody answered; media: no drive") as caught:
        check_complete(metadata, FAILURES)
    assert caught.value.data == {"imds": "nobody answered", "media": "no drive"}


@pytest.mark.parametrize(("metadata", "kind"), MISSING)
def test_what_no_source_gives_though_all_answered_is_named(metadata: Metadata, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        check_complete(metadata, {})
    off = MediaAbsent("provisioning_media.enable is false", setting="provisioning_media.enable")
    with pytest.raises(kind, match="enable is false"):
        check_complete(metadata, {"media": off})


REFUSED = ImdsRefused("status 404", reason="http error 404 querying IMDS", status=404)


@pytest.mark.parametrize(
    ("failures", "reason"),
    [
        ({"imds": REFUSED, "media": MediaAbsent("none")}, "http error 404 querying IMDS"),
        ({"media": MediaAbsent("none")}, "provisioning media not found"),
        ({"imds": REFUSED}, "http error 404 querying IMDS"),
        ({"imds": REFUSED, "media": OvfInvalid("not XML")}, "error parsing ovf-env.xml"),
        ({"imds": REFUSED, "media": MediaUnreadable("torn")}, "failed to read provisioning media"),
        ({"imds": ProxyAgentMissing("none"), "media": MediaAbsent("none")}, "azure-proxy-agent not found"),
        ({"imds": ImdsUnparsable("not JSON"), "media": MediaAbsent("none")}, "error parsing IMDS metadata"),
    ],
)
def test_the_reason_is_the_cause_and_every_failure_is_kept(failures: dict[str, AzureInitError], reason: str) -> None:
    with pytest.raises(AzureInitError) as caught:
        check_complete(Metadata(), failures)
    assert caught.value.reason == reason
    assert "no source names the admin user" in str(caught.value)
    for name, error in failures.items():
        assert caught.value.supporting()[name] == str(error)


def test_what_is_complete_passes_whatever_failed() -> None:
    complete = Metadata(username="u", hostname="h", keys=(KEY,))
    check_complete(complete, FAILURES)
    with pytest.raises(AzureInitError, match="no source names the admin user"):
        check_complete(replace(complete, username=None), FAILURES)
