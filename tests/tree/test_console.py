"""Fingerprints for the console compared with ssh-keygen's, and what they import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from azureinit.telemetry.console import fingerprint
from support.need import need

SRC = Path(__file__).parents[2] / "src"
ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"


@pytest.mark.parametrize(
    ("kind", "bits"),
    [("ed25519", ""), ("ecdsa", "256"), ("ecdsa", "384"), ("ecdsa", "521"), ("rsa", "2048"), ("rsa", "3072")],
)
def test_a_fingerprint_is_what_ssh_keygen_says(tmp_path: Path, kind: str, bits: str) -> None:
    keygen, file = need("ssh-keygen"), tmp_path / "key"
    for comment in ("", "root@web-1", "two words"):
        file.unlink(missing_ok=True)
        argv = (keygen, "-q", "-t", kind, *(("-b", bits) if bits else ()), "-N", "", "-C", comment, "-f", str(file))
        subprocess.run(argv, check=True)
        told = subprocess.run((keygen, "-lf", f"{file}.pub"), check=True, capture_output=True, text=True).stdout
        assert fingerprint(Path(f"{file}.pub").read_text()) == told.strip()


def test_a_fingerprint_costs_no_import_of_hashlib() -> None:
    code = f"import sys; from azureinit.telemetry.console import fingerprint; fingerprint({ED25519!r}); "
    code += "sys.exit('hashlib' in sys.modules or '_hashlib' in sys.modules)"
    subprocess.run((sys.executable, "-S", "-c", code), env={"PYTHONPATH": str(SRC)}, check=True)
