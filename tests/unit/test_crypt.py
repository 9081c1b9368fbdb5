"""Hashing, checked against openssl, which is also what stands in for libcrypt."""

from __future__ import annotations

import subprocess

import pytest

from azureinit.errors import PasswordFailed
from azureinit.machine import Machine, crypt
from azureinit.machine.crypt import hash_password
from azureinit.record import Secret
from need import need

PASSWORD = "p\u00e4ss w\u00f6rd'\""


def theirs(password: bytes, salt: str) -> bytes:
    argv = [need("openssl"), "passwd", "-6", "-salt", salt, "-stdin"]
    return subprocess.run(argv, input=password + b"\n", stdout=subprocess.PIPE, check=True).stdout.strip()


def test_libcrypt_hashes_as_openssl_does() -> None:
    made = hash_password(Machine(search=()), Secret(PASSWORD))
    assert made.reveal() == theirs(PASSWORD.encode(), made.text().split("$")[2])


def test_every_hash_has_its_own_salt() -> None:
    one, two = (hash_password(Machine(), Secret("same")).text().split("$") for _ in range(2))
    assert len(one[2]) == 16
    assert one[2] != two[2]


def test_openssl_stands_in_where_there_is_no_libcrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    need("openssl")
    monkeypatch.setattr(crypt, "LIBRARIES", ("libnone.so.1",))
    made = hash_password(Machine(), Secret(PASSWORD))
    assert made.reveal() == theirs(PASSWORD.encode(), made.text().split("$")[2])


@pytest.mark.parametrize("password", ["two\nlines", "x" * 300])
def test_what_openssl_would_cut_only_libcrypt_hashes(password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hash_password(Machine(search=()), Secret(password)).text().startswith("$6$")
    monkeypatch.setattr(crypt, "LIBRARIES", ("libnone.so.1",))
    with pytest.raises(PasswordFailed) as failed:
        hash_password(Machine(), Secret(password))
    assert set(failed.value.failures) == {"libcrypt", "openssl"}
    assert password not in str(failed.value)


def test_both_causes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crypt, "LIBRARIES", ("libnone.so.1",))
    with pytest.raises(PasswordFailed, match=r"libnone\.so\.1 is installed; openssl: openssl is not installed"):
        hash_password(Machine(search=()), Secret("secret"))


@pytest.mark.parametrize("password", ["", "nul\0byte"])
def test_a_password_no_hash_can_hold_is_refused(password: str) -> None:
    with pytest.raises(PasswordFailed):
        hash_password(Machine(), Secret(password))
