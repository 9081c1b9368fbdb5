"""Passwords, root, sshd and key pairs after a whole run against the platform."""

from __future__ import annotations

import ctypes
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fakeazure import Expect, KeyPair, Vm
from support.bench import Bench, Benches
from support.need import need
from support.trees import listing

PASSWORD = "Correct:Horse 1"
HASH = "$6$salt$" + "h" * 86
ID = "home/azureuser/.ssh/id_rsa"
PAIR = (KeyPair(path=f"/{ID}"),)


def field(one: Bench, name: str) -> str:
    return next(line.split(":")[1] for line in one.read("etc/shadow").splitlines() if line.startswith(f"{name}:"))


def is_right(password: str, hashed: str) -> bool:
    library = ctypes.CDLL("libcrypt.so.1")
    library.crypt.restype = ctypes.c_char_p
    return bool(library.crypt(password.encode(), hashed.encode()) == hashed.encode())


def again_is_empty(one: Bench) -> None:
    """As at a boot that knows nothing of the first, without its media."""
    one.state("provisioned").unlink()
    before = listing(one.tree / "etc")
    shown = one.agent("plan", "--json")
    assert shown.status == 0, shown.err
    assert [item["name"] for item in json.loads(shown.out) if item["kind"] == "step"] == []
    one.fabric.reboot()
    assert one.agent().status == 0
    assert one.fabric.judge().ok
    assert listing(one.tree / "etc") == before


def with_root_hash(one: Bench) -> None:
    shadow = one.tree / "etc/shadow"
    shadow.write_text(shadow.read_text().replace("root:*:", f"root:{HASH}:"))


# ---- passwords


@pytest.mark.parametrize(
    ("user", "begins", "salt", "warned"),
    [
        ({}, "$6$", 16, ""),
        ({"password_crypt_id": "6", "password_salt_length": 10}, "$6$", 10, ""),
        ({"password_crypt_id": "5"}, "$5$", 16, ""),
        ({"password_crypt_id": "y"}, "$y$j9T$", 22, ""),
        ({"password_salt_length": 99}, "$6$", 16, "SHA-512 takes 1 to 16 characters: using 16"),
    ],
)
def test_the_password_is_hashed_as_the_configuration_says(
    bench: Benches, user: dict[str, Any], begins: str, salt: int, warned: str
) -> None:
    one = bench(vm=Vm(password=PASSWORD))
    one.configure(user=user)
    ran = one.agent()
    assert ran.status == 0, ran.err
    hashed = field(one, "azureuser")
    assert hashed.startswith(begins) and len(hashed.split("$")[-2]) == salt
    assert is_right(PASSWORD, hashed)
    assert (warned in ran.err) if warned else ("password_salt_length" not in ran.err)
    assert one.read("etc/sudoers.d/azure-init-user") == "azureuser ALL=(ALL) ALL\n"
    assert one.fabric.judge().ok
    again_is_empty(one)


def test_a_password_may_have_every_letter_that_the_media_can_carry(bench: Benches) -> None:
    two = "".join(bytes((0xC2 + at % 30, 0x80 + at)).decode() for at in range(64))
    password = "".join(map(chr, range(0x20, 0x7F))) + two + "\u0800\u3042\ud7ff\uff01\U0001f511\U0010fffd:"
    one = bench(vm=Vm(password=password))
    assert one.agent().status == 0
    assert is_right(password, field(one, "azureuser"))
    assert one.fabric.judge().ok


def test_a_method_that_cuts_is_a_failure_that_says_so_and_not_what(bench: Benches) -> None:
    long = "Zq1!" * 20
    one = bench(vm=Vm(password=long), expect=Expect(verdict="failure", reason="failed to provision password"))
    one.configure(user={"password_crypt_id": "2b"})
    ran = one.agent()
    assert ran.status == 1
    assert "bcrypt uses only the first 72 bytes" in ran.err and "Zq1!" not in ran.err
    assert one.fabric.judge().ok


def test_without_a_password_none_is_asked_for(bench: Benches) -> None:
    one = bench()
    assert one.agent().status == 0
    assert one.read("etc/sudoers.d/azure-init-user") == "azureuser ALL=(ALL) NOPASSWD: ALL\n"
    assert field(one, "azureuser") == "*"


# ---- root


def test_root_is_locked_when_asked_and_its_hash_is_nowhere(bench: Benches) -> None:
    one = bench(vm=Vm(password=PASSWORD))
    with_root_hash(one)
    one.configure(user={"lock_root": True})
    shown = one.agent("plan")
    assert "+ password root: is to be locked" in shown.out and "hhhh" not in shown.out
    assert field(one, "root") == HASH, "a plan changes nothing"
    assert one.agent().status == 0
    assert field(one, "root") == "*"
    assert not [name for name, (_, _, content) in listing(one.tree).items() if b"$6$salt$" in content]
    assert one.fabric.judge().ok
    again_is_empty(one)


def test_root_stays_as_it_is_where_nobody_asks(bench: Benches) -> None:
    one = bench()
    with_root_hash(one)
    assert one.agent().status == 0
    assert field(one, "root") == HASH


def test_root_is_the_admin_only_where_that_is_allowed(bench: Benches) -> None:
    refused = bench(vm=Vm(username="root", password=PASSWORD), expect=Expect(verdict="failure"))
    assert refused.agent().status == 1
    assert refused.fabric.judge().ok
    one = bench(vm=Vm(username="root", password=PASSWORD))
    (one.tree / "root").mkdir(mode=0o700)
    one.configure(user={"allow_system_user": True, "lock_root": True})
    ran = one.agent()
    assert ran.status == 0, ran.err
    assert is_right(PASSWORD, field(one, "root"))
    assert "root is the admin with a password: left alone" in ran.err
    assert one.read("root/.ssh/authorized_keys").startswith("ssh-ed25519 ")
    assert "root" not in {path.name for path in (one.tree / "home").iterdir()}
    assert one.fabric.judge().ok
    again_is_empty(one)


def test_nobody_becomes_the_admin_nowhere(bench: Benches) -> None:
    one = bench(vm=Vm(username="nobody"), expect=Expect(verdict="failure"))
    one.configure(user={"allow_system_user": True})
    before = one.read("etc/passwd"), one.read("etc/hostname")
    assert one.agent().status == 1
    assert (one.read("etc/passwd"), one.read("etc/hostname")) == before
    assert one.fabric.judge().ok


# ---- sshd


def test_silent_clients_are_asked_as_configured(bench: Benches) -> None:
    one = bench(vm=Vm(password=PASSWORD))
    one.install_sshd()
    one.configure(ssh={"client_alive_interval": 180})
    assert one.agent().status == 0
    lines = one.read("etc/ssh/sshd_config.d/00-azure-init.conf").splitlines()
    assert lines[1:] == ["ClientAliveInterval 180"], "passwords are taken already"
    assert one.fabric.judge().ok
    again_is_empty(one)


# ---- key pairs


def sums(one: Bench) -> list[str]:
    """The private key's inside, from where it is no longer the public half's number too."""
    return (one.tree / ID).read_text().splitlines()[8:-1]


def test_a_key_pair_is_installed_and_its_key_lies_nowhere_else(bench: Benches) -> None:
    need("openssl")
    one = bench(vm=Vm(key_pairs=PAIR), kvp=True)
    ran = one.agent()
    assert ran.status == 0, ran.err
    private, public = one.tree / ID, one.tree / f"{ID}.pub"
    owner = (one.tree / "home/azureuser").stat().st_uid
    modes = [(path.stat().st_mode & 0o7777, path.stat().st_uid) for path in (private.parent, private, public)]
    assert modes == [(0o700, owner), (0o600, owner), (0o644, owner)]
    told = subprocess.run([need("ssh-keygen"), "-y", "-P", "", "-f", private], capture_output=True, check=True).stdout
    assert told.split()[:2] == public.read_bytes().split()[:2]
    secrets = [line.encode() for line in sums(one)]
    holds = [name for name, (_, _, content) in listing(one.tree).items() if any(line in content for line in secrets)]
    assert holds == [ID]
    assert not any(line in (ran.out + ran.err).encode() for line in secrets)
    assert one.fabric.judge().ok
    again_is_empty(one)


def test_a_pair_that_the_platform_could_not_give_is_given_to_a_later_run_without_media(bench: Benches) -> None:
    need("openssl")
    failing = [{"path": "/machine?comp=certificates", "answers": [*[503] * 40, "ok*"]}]
    late = Expect(verdict="failure", reason="failed to retrieve certificates")
    one = bench(vm=Vm(key_pairs=PAIR), faults=failing, expect=late, eject=True)
    one.configure(wireserver={"total_retry_timeout_secs": 0.5})
    assert one.agent().status == 1
    assert one.fabric.judge().ok
    medium = one.fabric.media_path
    assert medium is not None and not medium.exists(), "the platform took it away with the failure"
    saved = json.loads(one.state("saved").read_bytes())
    assert [path for _, path in saved["key_pairs"]] == [f"/{ID}"]
    one.fabric.scripts.clear()
    one.fabric.reboot(expect=Expect(verdict="ready"))
    ran = one.agent()
    assert ran.status == 0, ran.err
    assert sums(one)
    assert "key_pairs" not in json.loads(one.state("saved").read_bytes()), "its work is done"
    assert one.fabric.judge().ok


def test_a_pair_of_a_certificate_that_nobody_has_is_a_failure_that_names_it(bench: Benches) -> None:
    need("openssl")
    thumbprint = "0123456789abcdef0123456789ABCDEF01234567"
    expect = Expect(verdict="failure", reason="failed to retrieve certificates", says=(thumbprint,))
    one = bench(vm=Vm(key_pairs=(KeyPair(path=f"/{ID}", fingerprint=thumbprint),)), expect=expect)
    assert one.agent().status == 1
    assert one.fabric.judge().ok
    assert not (one.tree / "home/azureuser").exists()


def test_a_home_that_is_made_to_lead_elsewhere_gets_no_key(bench: Benches, tmp_path: Path) -> None:
    need("openssl")
    expect = Expect(verdict="failure", reason="failed to install SSH keys")
    one = bench(vm=Vm(key_pairs=(KeyPair(path="/home/azureuser/keys/id"),)), expect=expect)
    (one.tree / "etc/skel/keys").symlink_to("/etc")
    assert one.agent().status == 1
    assert one.fabric.judge().ok
    assert not (one.tree / "etc/id").exists()
