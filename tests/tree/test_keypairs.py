"""Key pairs: private keys as ssh-keygen reads them, and files of other owners."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from azureinit.machine import Machine
from azureinit.record import Secret
from azureinit.sources.certificates import Certificates, pair
from azureinit.sources.certified import certified
from azureinit.sources.envelope import public_half
from azureinit.sources.metadata import KeyPair, Metadata
from support.key_pairs import ID, actions, apply, given, plan
from support.need import need, need_root
from support.ssh_trees import tree


@pytest.mark.parametrize("kind", ["rsa:2048", "prime256v1", "secp384r1", "secp521r1"])
def test_ssh_keygen_reads_the_private_half_and_makes_the_public_one_of_it(tmp_path: Path, kind: str) -> None:
    openssl, keygen = need("openssl"), need("ssh-keygen")
    words = (kind,) if kind.startswith("rsa") else ("ec", "-pkeyopt", f"ec_paramgen_curve:{kind}")
    argv = [openssl, "req", "-x509", "-nodes", "-subj", "/CN=x", "-newkey", *words, "-keyout", "-"]
    both = subprocess.run(argv, capture_output=True, check=True).stdout
    (one,) = pair(Secret(both), lambda key: public_half(Machine(), key, deadline=float("inf"))).found
    machine = tree(tmp_path / "root", {})
    metadata = Metadata(username="ada", key_pairs=(KeyPair(thumbprint=one.thumbprint.lower(), path=ID),))
    (made,) = certified(metadata, Certificates(found=(one,))).key_pairs
    apply(machine, plan(machine, made))
    private = tmp_path / "root" / ID[1:]
    told = subprocess.run([keygen, "-y", "-P", "", "-f", private], capture_output=True, check=True, text=True).stdout
    public = private.with_name("id_rsa.pub")
    assert public.read_text().split()[:2] == told.split()[:2]
    assert subprocess.run([keygen, "-l", "-f", public], capture_output=True, check=False).returncode == 0


def test_one_of_another_owner_is_made_the_admins(tmp_path: Path) -> None:
    need_root()
    machine = tree(tmp_path, {})
    apply(machine, plan(machine, given()))
    os.chown(tmp_path / f"{ID}.pub"[1:], 0, 0)
    (write,) = actions(plan(machine, given()))
    assert write.path == f"{ID}.pub"
