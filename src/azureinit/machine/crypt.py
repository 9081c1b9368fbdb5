"""Password hashing. The plain password is hashed as soon as it is read, so that no other code holds it."""

from __future__ import annotations

import os

from azureinit.errors import AzureInitError, LocalError, PasswordFailed, SubprocessFailed, ToolMissing
from azureinit.record import Record, Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from azureinit.machine import Machine

LIBRARIES = ("libcrypt.so.1", "libcrypt.so.2")
SALT_LETTERS = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
LONGEST_SETTING = 192  # libcrypt's CRYPT_GENSALT_OUTPUT_SIZE
OPENSSL_LONGEST = 256  # openssl truncates longer passwords with only a warning on stderr
# Without letters that look alike.
RANDOM_KINDS = ("abcdefghijkmnopqrstuvwxyz", "ABCDEFGHJKLMNPQRSTUVWXYZ", "23456789", "+-.=_@%")
RANDOM_LETTERS = "".join(RANDOM_KINDS)
RANDOM_LENGTH = 20
FIPS = "/proc/sys/crypto/fips_enabled"
AUTO = ("y", "6")


class Method(Record):
    """A crypt(3) method. `salt`: shortest, longest and default length. `added`: length of the hash proper."""

    name: str
    salt: tuple[int, int, int]
    added: int
    plain: bool = False  # any letters are a valid salt; other methods need libcrypt to encode it
    longest: int = 0  # bytes of the password that the method uses; 0: all


# By the method id between the first two dollar signs of a hash.
METHODS = {
    "y": Method(name="yescrypt", salt=(22, 86, 22), added=44),
    "gy": Method(name="gost-yescrypt", salt=(22, 86, 22), added=44),
    "6": Method(name="SHA-512", salt=(1, 16, 16), added=87, plain=True),
    "5": Method(name="SHA-256", salt=(1, 16, 16), added=44, plain=True),
    "2b": Method(name="bcrypt", salt=(22, 22, 22), added=31, longest=72),
    "2a": Method(name="bcrypt (2a)", salt=(22, 22, 22), added=31, longest=72),
    "1": Method(name="MD5", salt=(1, 8, 8), added=23, plain=True),
}


def hash_password(
    machine: Machine,
    password: Secret,
    *,
    crypt_id: str = "auto",
    salt_length: int = 0,
    warn: Callable[[str], object] | None = None,
) -> Secret:
    """Hash with libcrypt in this process, else with openssl, which reads the password from stdin.

    `salt_length`: 0 is the method's default. An unsupported length becomes the nearest supported one, with a call of
    `warn`: failing would leave the machine without a login.
    """
    if b"\0" in password.reveal() or not password:
        why = LocalError("the password is empty" if not password else "the password holds a NUL byte")
        raise PasswordFailed("password hash", {"crypt": why}, hint="give a password without NUL bytes")
    failures: dict[str, AzureInitError] = {}
    library = _library(failures)
    # If libcrypt refuses a method, it cannot verify such a hash at login either: openssl is no alternative then.
    name = "openssl" if library is None else "libcrypt"
    for mark in _marks(machine, crypt_id):
        length, told = _salt_length(mark, salt_length)
        try:
            if library is None:
                made = _openssl(machine, password, mark, length)
            else:
                made = _libcrypt(library, password, mark, length)
        except AzureInitError as error:
            failures[name] = error
            continue
        if told and warn is not None:
            warn(told)
        return made
    raise PasswordFailed("password hash", failures, hint=_hint(library))


def is_hash_of(password: Secret, hashed: Secret) -> bool:
    """False also where libcrypt is missing or does not know the method."""
    library = _library({})
    if library is None or not hashed.reveal().startswith(b"$") or b"\0" in password.reveal() + hashed.reveal():
        return False
    return bool(library.crypt(password.reveal(), hashed.reveal()) == hashed.reveal())


def random_password() -> Secret:
    """With a letter of each kind, as rules for passwords want it."""
    while True:
        # 64 divides 256, so that every letter is equally likely.
        letters = "".join(RANDOM_LETTERS[byte % len(RANDOM_LETTERS)] for byte in os.urandom(RANDOM_LENGTH))
        if all(set(letters) & set(kind) for kind in RANDOM_KINDS):
            return Secret(letters)


def _marks(machine: Machine, crypt_id: str) -> tuple[str, ...]:
    """Methods to try, in order. The libcrypt of a system under --root may lack yescrypt; all have SHA-512."""
    if crypt_id != "auto":
        return (crypt_id,)
    fips = (machine.read(FIPS) or b"").strip() == b"1"  # FIPS mode does not approve yescrypt
    return AUTO[1:] if machine.rooted or fips else AUTO


def _salt_length(mark: str, asked: int) -> tuple[int, str]:
    """A salt length that the method supports, and a warning if it differs from the requested one."""
    method = METHODS[mark]
    shortest, longest, usual = method.salt
    length = min(max(asked, shortest), longest) if asked else usual
    if length == (asked or usual):
        return length, ""
    takes = f"{shortest}" if shortest == longest else f"{shortest} to {longest}"
    return length, (f"user.password_salt_length is {asked}, but {method.name} takes {takes} characters: using {length}")


def _hash_with(library: Any, password: bytes, setting: bytes, method: Method) -> bytes | None:
    """None if libcrypt does not support the method: it then returns an error token or NULL."""
    hashed = library.crypt(password, setting) or b""
    return hashed if hashed.startswith(setting) and len(hashed) == len(setting) + method.added else None


def _libcrypt(library: Any, password: Secret, mark: str, length: int) -> Secret:
    method = METHODS[mark]
    if method.longest and len(password) > method.longest:
        raise LocalError(
            f"{method.name} uses only the first {method.longest} bytes of a password, and this one is longer"
        )
    setting = _setting(library, mark, length)
    hashed = _hash_with(library, password.reveal(), setting, method) if setting else None
    if hashed is None:
        raise SubprocessFailed(f"libcrypt returned no {method.name} hash", command="libcrypt")
    return Secret(hashed)


def _setting(library: Any, mark: str, length: int) -> bytes | None:
    """The setting (method and salt) that a hash begins with; None if libcrypt cannot generate such salts."""
    import ctypes

    if METHODS[mark].plain:
        return _plain_setting(mark, length).encode()
    try:
        make = library.crypt_gensalt_rn
    except AttributeError:
        return None  # glibc's own libcrypt: SHA-512 at most
    make.restype = ctypes.c_char_p
    make.argtypes = (ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_int)
    count = (length * 6 + 7) // 8 if length > 22 else 16  # 22 letters hold 132 bits, 16 bytes need 128
    room = ctypes.create_string_buffer(LONGEST_SETTING)
    setting: bytes | None = make(f"${mark}$".encode(), 0, os.urandom(count), count, room, LONGEST_SETTING)
    return setting


def _plain_setting(mark: str, length: int) -> str:
    # 64 divides 256, so that every letter is equally likely.
    return f"${mark}$" + "".join(SALT_LETTERS[byte % len(SALT_LETTERS)] for byte in os.urandom(length))


def _library(failures: dict[str, AzureInitError]) -> Any:
    try:
        import ctypes
    except ImportError:
        failures["libcrypt"] = ToolMissing("this Python has no ctypes")
        return None
    for name in LIBRARIES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.crypt.restype = ctypes.c_char_p
        library.crypt.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
        return library
    failures["libcrypt"] = ToolMissing(f"none of {', '.join(LIBRARIES)} is installed")
    return None


def _hint(library: Any) -> str:
    """Names the methods that this machine supports."""
    if library is None:
        return "install libcrypt, or openssl (SHA-512, SHA-256 and MD5 only)"
    able = []
    for mark, method in METHODS.items():
        setting = _setting(library, mark, method.salt[2])
        if setting and _hash_with(library, b"anything", setting, method):
            able.append(f'"{mark}" ({method.name})')
    return f"set user.password_crypt_id to a method that this libcrypt supports: {', '.join(able)}" if able else ""


def _openssl(machine: Machine, password: Secret, mark: str, length: int) -> Secret:
    method = METHODS[mark]
    if not method.plain:
        raise LocalError(f"openssl cannot make {method.name} hashes")
    if b"\n" in password.reveal() or len(password) > OPENSSL_LONGEST:
        raise LocalError(f"openssl accepts only one line of at most {OPENSSL_LONGEST} bytes as a password")
    setting = _plain_setting(mark, length)
    argv = ("openssl", "passwd", f"-{mark}", "-salt", setting[len(mark) + 2 :], "-stdin")
    hashed = machine.run(argv, stdin=password.reveal() + b"\n", timeout=30.0).check().out.rstrip(b"\n")
    if not hashed.startswith(setting.encode()) or len(hashed) != len(setting) + method.added:
        raise SubprocessFailed(f"openssl returned no {method.name} hash", command="openssl")
    return Secret(hashed)
