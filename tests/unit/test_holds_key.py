"""Whether a file of the admin's keys has one of the platform's: a certain refusal of the login depends on it."""

from __future__ import annotations

import pytest

from azureinit.facts.key_files import AdminFiles, KeysFile
from azureinit.plan.access import holds_key
from azureinit.pubkey import PublicKey
from azureinit.record import replace
from azureinit.sources.metadata import Metadata

BLOB = "AAAAC3NzaC1lZDI1NTE5AAAAINoCsQdIS32POjvm9byMTtRl8q7kOXdIRRV0i0g0OP4O"
OTHER = "AAAAC3NzaC1lZDI1NTE5AAAAIKaZ9DGVb6Y0eLd9UhqVL0fDpO2nPTmnTW7Ml5Fn2nVR"
KEY = f"ssh-ed25519 {BLOB} me"
FILE = KeysFile.absent("/home/ada/.ssh/authorized_keys", "/home/ada")


def given(text: str) -> Metadata:
    return Metadata(keys=(PublicKey(data=text),))


@pytest.mark.parametrize(
    "text",
    [KEY, KEY + "\r\n", KEY.replace("CsQ", "CsQ\r\n"), KEY.replace(" me", "\r\n me another comment\r\n"), f"  {KEY}\n"],
)
@pytest.mark.parametrize(
    "data",
    [
        KEY + "\n",
        f"# a comment\n\nssh-ed25519 {OTHER} x\nssh-ed25519 {BLOB}",
        f'from="10.0.0.0/8" {KEY}\n',
        KEY + "\r\n",
    ],
)
def test_the_key_is_found_however_either_is_written(text: str, data: str) -> None:
    assert holds_key(given(text), AdminFiles(keys_files=(FILE, replace(FILE, data=data.encode()))))


@pytest.mark.parametrize("data", [None, b"", f"ssh-ed25519 {OTHER} me\n".encode(), b"\xff\xfe", KEY[:-8].encode()])
def test_another_key_is_not_it(data: bytes | None) -> None:
    assert not holds_key(given(KEY), AdminFiles(keys_files=(replace(FILE, data=data),)))


@pytest.mark.parametrize("file", [replace(FILE, hidden=True), replace(FILE, problem="it has other names (hard links)")])
def test_nothing_is_said_of_a_file_that_cannot_be_read(file: KeysFile) -> None:
    assert holds_key(given(KEY), AdminFiles(keys_files=(file,)))


def test_nothing_is_said_where_no_given_key_can_be_used() -> None:
    assert holds_key(given("no key"), AdminFiles(keys_files=(FILE,)))
