"""Password hashing, compared with openssl, mkpasswd and libcrypt."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.config.model import CHOICE
from azureinit.errors import PasswordFailed
from azureinit.machine import Machine, crypt
from azureinit.machine.crypt import METHODS, hash_password
from azureinit.record import Secret
from support.need import need, unfit

PASSWORD = "p\u00e4ss w\u00f6rd'\":"
NO_LIBRARY = ("libnone.so.1",)


def theirs(password: bytes, salt: str) -> bytes:
    argv = [need("openssl"), "passwd", "-6", "-salt", salt, "-stdin"]
    return subprocess.run(argv, input=password + b"\n", stdout=subprocess.PIPE, check=True).stdout.strip()


def is_right(password: bytes, field: bytes) -> bool:
    """As a login decides it."""
    library = ctypes.CDLL("libcrypt.so.1")
    library.crypt.restype = ctypes.c_char_p
    return bool(library.crypt(password, field) == field)


def salt_of(made: Secret) -> str:
    return made.text().split("$")[-1][:22] if made.text().startswith("$2") else made.text().split("$")[-2]


def told(password: str = PASSWORD, *, crypt_id: str, salt_length: int) -> tuple[Secret, list[str]]:
    warnings: list[str] = []
    made = hash_password(Machine(), Secret(password), crypt_id=crypt_id, salt_length=salt_length, warn=warnings.append)
    return made, warnings


def test_every_method_of_the_configuration_has_a_row() -> None:
    assert set(CHOICE["CryptId"]) == {"auto", *METHODS}


@pytest.mark.parametrize("crypt_id", METHODS)
def test_a_login_knows_every_kind_of_hash_again(crypt_id: str) -> None:
    made, warnings = told(crypt_id=crypt_id, salt_length=0)
    assert made.text().startswith(f"${crypt_id}$")
    assert warnings == []
    assert is_right(PASSWORD.encode(), made.reveal())
    assert not is_right(PASSWORD.encode() + b"x", made.reveal())


@pytest.mark.parametrize("crypt_id", [name for name in METHODS if not name.startswith("2")])
def test_mkpasswd_makes_the_same_of_the_same_salt(crypt_id: str) -> None:
    made, _ = told(crypt_id=crypt_id, salt_length=0)
    setting = made.text().rpartition("$")[0]
    argv = [need("mkpasswd"), "--stdin", "--salt", setting]
    ran = subprocess.run(argv, input=PASSWORD.encode() + b"\n", stdout=subprocess.PIPE, check=True)
    assert ran.stdout.strip() == made.reveal()


def test_sha512_is_as_openssl_has_it() -> None:
    made, _ = told(crypt_id="6", salt_length=0)
    assert made.reveal() == theirs(PASSWORD.encode(), salt_of(made))


@pytest.mark.parametrize(
    ("crypt_id", "asked", "length"),
    [("6", 10, 10), ("6", 1, 1), ("6", 16, 16), ("5", 8, 8), ("1", 8, 8), ("2b", 22, 22), ("y", 22, 22), ("y", 86, 86)],
)
def test_a_salt_is_as_long_as_it_is_asked_to_be(crypt_id: str, asked: int, length: int) -> None:
    made, warnings = told(crypt_id=crypt_id, salt_length=asked)
    assert (len(salt_of(made)), warnings) == (length, [])


@pytest.mark.parametrize("asked", range(23, 87))
def test_yescrypt_never_has_less_salt_than_was_asked_for(asked: int) -> None:
    made, warnings = told(crypt_id="y", salt_length=asked)
    assert asked <= len(salt_of(made)) <= asked + 1
    assert warnings == []


@pytest.mark.parametrize(
    ("crypt_id", "asked", "length", "warning"),
    [
        ("6", 17, 16, "user.password_salt_length is 17, but SHA-512 takes 1 to 16 characters: using 16"),
        ("1", 10, 8, "user.password_salt_length is 10, but MD5 takes 1 to 8 characters: using 8"),
        ("2b", 10, 22, "user.password_salt_length is 10, but bcrypt takes 22 characters: using 22"),
        ("y", 10, 22, "user.password_salt_length is 10, but yescrypt takes 22 to 86 characters: using 22"),
        ("gy", 1 << 39, 86, "but gost-yescrypt takes 22 to 86 characters: using 86"),
    ],
)
def test_a_length_that_a_method_cannot_take_is_the_nearest_and_told(
    crypt_id: str, asked: int, length: int, warning: str
) -> None:
    made, warnings = told(crypt_id=crypt_id, salt_length=asked)
    assert len(salt_of(made)) == length
    assert len(warnings) == 1 and warning in warnings[0]
    assert is_right(PASSWORD.encode(), made.reveal())


def test_every_hash_has_its_own_salt() -> None:
    for crypt_id in METHODS:
        one, two = (told(crypt_id=crypt_id, salt_length=0)[0] for _ in range(2))
        assert salt_of(one) != salt_of(two)


@settings(max_examples=50, deadline=None)
@given(st.binary(min_size=1, max_size=500).filter(lambda data: b"\0" not in data))
def test_any_bytes_without_a_nul_are_a_password(data: bytes) -> None:
    assert is_right(data, hash_password(Machine(), Secret(data), crypt_id="5").reveal())


# ---- which method


def kernel(directory: Path, *, fips: str) -> str:
    place = directory / "proc/sys/crypto"
    place.mkdir(parents=True)
    (place / "fips_enabled").write_text(fips)
    return str(directory)


def test_left_to_us_it_is_the_best_that_libcrypt_has(tmp_path: Path) -> None:
    machine = Machine(kernel=kernel(tmp_path, fips="0\n"))
    assert hash_password(machine, Secret(PASSWORD)).text().startswith("$y$")


def test_in_fips_mode_it_is_sha512(tmp_path: Path) -> None:
    machine = Machine(kernel=kernel(tmp_path, fips="1\n"))
    assert hash_password(machine, Secret(PASSWORD)).text().startswith("$6$")


def test_for_another_system_it_is_what_every_libcrypt_reads(tmp_path: Path) -> None:
    assert hash_password(Machine(root=str(tmp_path)), Secret(PASSWORD)).text().startswith("$6$")


SOURCE = r"""
#include <stddef.h>
#include <string.h>
#include <dlfcn.h>
/* A libcrypt of another age: SHA-512 and SHA-256 alone, and no salts of its own making. */
char *crypt(const char *key, const char *setting) {
    static char *(*real)(const char *, const char *);
    if (!real) real = dlsym(dlopen("libcrypt.so.1", RTLD_NOW | RTLD_LOCAL), "crypt");
    if (strncmp(setting, "$6$", 3) && strncmp(setting, "$5$", 3)) return "*0";
    return real(key, setting);
}
"""


@pytest.fixture
def old_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "libold.so"
    argv = [need("cc"), "-shared", "-fPIC", "-x", "c", "-", "-o", str(made), "-ldl"]
    ran = subprocess.run(argv, input=SOURCE.encode(), capture_output=True, check=False)
    if ran.returncode:
        unfit(f"cc makes no library: {ran.stderr.decode()}")
    monkeypatch.setattr(crypt, "LIBRARIES", (str(made),))


@pytest.mark.usefixtures("old_library")
def test_where_libcrypt_has_no_yescrypt_it_is_sha512() -> None:
    made = hash_password(Machine(), Secret(PASSWORD))
    assert made.text().startswith("$6$")
    assert is_right(PASSWORD.encode(), made.reveal())


@pytest.mark.usefixtures("old_library")
@pytest.mark.parametrize(("crypt_id", "name"), [("y", "yescrypt"), ("2b", "bcrypt"), ("1", "MD5")])
def test_a_method_that_libcrypt_lacks_is_a_failure_that_names_those_it_has(crypt_id: str, name: str) -> None:
    """Even where openssl could make such a hash: nobody here would know it again."""
    with pytest.raises(PasswordFailed, match=f"libcrypt: libcrypt returned no {name} hash") as failed:
        hash_password(Machine(), Secret(PASSWORD), crypt_id=crypt_id)
    able = '"6" (SHA-512), "5" (SHA-256)'
    assert failed.value.hint == f"set user.password_crypt_id to a method that this libcrypt supports: {able}"


def test_bcrypt_is_no_method_for_a_password_that_it_would_cut() -> None:
    assert is_right(b"x" * 72, hash_password(Machine(), Secret("x" * 72), crypt_id="2b").reveal())
    with pytest.raises(PasswordFailed, match="bcrypt uses only the first 72 bytes") as failed:
        hash_password(Machine(), Secret("x" * 73), crypt_id="2b")
    assert "xxx" not in str(failed.value) + failed.value.hint


# ---- openssl, where there is no libcrypt


@pytest.mark.parametrize("crypt_id", ["auto", "6", "5", "1"])
def test_openssl_stands_in_where_there_is_no_libcrypt(crypt_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    need("openssl")
    monkeypatch.setattr(crypt, "LIBRARIES", NO_LIBRARY)
    made = hash_password(Machine(), Secret(PASSWORD), crypt_id=crypt_id)
    assert made.text().startswith("$6$" if crypt_id == "auto" else f"${crypt_id}$")
    assert is_right(PASSWORD.encode(), made.reveal())


def test_openssl_makes_no_yescrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crypt, "LIBRARIES", NO_LIBRARY)
    with pytest.raises(PasswordFailed, match="openssl cannot make yescrypt hashes") as failed:
        hash_password(Machine(), Secret(PASSWORD), crypt_id="y")
    assert failed.value.hint == "install libcrypt, or openssl (SHA-512, SHA-256 and MD5 only)"


@pytest.mark.parametrize("password", ["two\nlines", "x" * 300])
def test_what_openssl_would_cut_only_libcrypt_hashes(password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_right(password.encode(), hash_password(Machine(search=()), Secret(password)).reveal())
    monkeypatch.setattr(crypt, "LIBRARIES", NO_LIBRARY)
    with pytest.raises(PasswordFailed) as failed:
        hash_password(Machine(), Secret(password))
    assert set(failed.value.failures) == {"libcrypt", "openssl"}
    assert password not in str(failed.value)


def test_both_causes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crypt, "LIBRARIES", NO_LIBRARY)
    with pytest.raises(PasswordFailed, match=r"libnone\.so\.1 is installed; openssl: openssl is not installed"):
        hash_password(Machine(search=()), Secret("secret"))


@pytest.mark.parametrize("password", ["", "nul\0byte"])
def test_a_password_no_hash_can_hold_is_refused(password: str) -> None:
    with pytest.raises(PasswordFailed):
        hash_password(Machine(), Secret(password))
