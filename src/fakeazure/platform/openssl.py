"""The openssl command: key pairs, certificates and CMS envelopes."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

YEARS = "3650"
MAKING = threading.Lock()  # a kept key pair is generated once, even when several machines need it at once

KeyDirectory = Callable[[], Path | None]  # where key pairs are kept; called only when one is needed


def no_directory() -> None:
    return None


class OpensslFailed(Exception):
    """openssl is not installed, or it failed; the text says which."""


def openssl(*arguments: str, stdin: bytes = b"") -> bytes:
    tool = shutil.which("openssl")
    if tool is None:
        raise OpensslFailed("fakeazure: openssl is not installed; certificates need it")
    ran = subprocess.run([tool, *arguments], input=stdin, capture_output=True, check=False, timeout=60)
    if ran.returncode != 0:
        lines = ran.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        raise OpensslFailed(f"fakeazure: openssl {arguments[0]} failed: {lines[-1]}")
    return ran.stdout


def key_pair(name: str, *, directory: Path) -> tuple[Path, Path]:
    """A self-signed certificate and its private key, generated on first use."""
    certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
    with MAKING:
        if not certificate.exists():
            made = ["-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(certificate)]
            openssl("req", "-x509", "-subj", f"/CN={name}", "-days", YEARS, "-sha256", *made)
    return certificate, key


def scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="fakeazure-")
