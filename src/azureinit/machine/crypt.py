"""Hashing a password, as soon as it is known, so that nothing else ever holds it."""

from __future__ import annotations

import os

from azureinit.errors import AzureInitError, LocalError, PasswordFailed, SubprocessFailed, ToolMissing
from azureinit.record import Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

LIBRARIES = ("libcrypt.so.1", "libcrypt.so.2")
METHOD = "$6$"
SALT_LETTERS = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
SALT_LENGTH = 16
HASH_LENGTH = 86
OPENSSL_LONGEST = 256  # it cuts what is longer, and says so only on stderr


def hash_password(machine: Machine, password: Secret) -> Secret:
    """Its SHA-512 crypt: by libcrypt in this process, else by openssl, which reads it from stdin."""
    if b"\0" in password.reveal() or not password:
        why = LocalError("the password is empty" if not password else "the password holds a NUL byte")
        raise PasswordFailed("password hash", {"crypt": why}, hint="give a password without NUL bytes")
    # 64 letters, so that no byte is likelier to give one than another.
    salt = "".join(SALT_LETTERS[byte % len(SALT_LETTERS)] for byte in os.urandom(SALT_LENGTH))
    failures: dict[str, AzureInitError] = {}
    for name, hashed in (("libcrypt", _libcrypt), ("openssl", _openssl)):
        try:
            return _checked(hashed(machine, password, f"{METHOD}{salt}"), name)
        except AzureInitError as error:
            failures[name] = error
    raise PasswordFailed("password hash", failures, hint="install libcrypt or openssl")


def _libcrypt(_machine: Machine, password: Secret, setting: str) -> bytes:
    try:
        import ctypes
    except ImportError as error:
        raise ToolMissing("this Python has no ctypes") from error
    library = None
    for name in LIBRARIES:
        try:
            library = ctypes.CDLL(name)
            break
        except OSError:
            continue
    if library is None:
        raise ToolMissing(f"none of {', '.join(LIBRARIES)} is installed")
    library.crypt.restype = ctypes.c_char_p
    library.crypt.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
    return library.crypt(password.reveal(), setting.encode()) or b""


def _openssl(machine: Machine, password: Secret, setting: str) -> bytes:
    if b"\n" in password.reveal() or len(password) > OPENSSL_LONGEST:
        raise LocalError(f"openssl takes one line of at most {OPENSSL_LONGEST} bytes")
    argv = ("openssl", "passwd", "-6", "-salt", setting[len(METHOD) :], "-stdin")
    return machine.run(argv, stdin=password.reveal() + b"\n", timeout=30.0).check().out.rstrip(b"\n")


def _checked(hashed: bytes, name: str) -> Secret:
    """A failed crypt returns a token, not an error."""
    parts = hashed.split(b"$")
    if not hashed.startswith(METHOD.encode()) or len(parts) != 4 or len(parts[3]) != HASH_LENGTH:
        raise SubprocessFailed(f"{name} gave no SHA-512 hash", command=name)
    return Secret(hashed)
