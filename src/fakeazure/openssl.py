"""The openssl command: keys, certificates and envelopes for the parts of the platform that need cryptography."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

YEARS = "3650"
MAKING = threading.Lock()  # what is kept is made once, however many machines ask for it at the same time

Place = Callable[[], Path | None]  # where keys are kept for the next time; asked for only when one is needed


def no_place() -> None:
    return None


class CannotSign(Exception):
    """openssl is not here, or does not do what it is asked."""


def openssl(*arguments: str, stdin: bytes = b"") -> bytes:
    tool = shutil.which("openssl")
    if tool is None:
        raise CannotSign("fakeazure: openssl is not installed here, and certificates need it")
    ran = subprocess.run([tool, *arguments], input=stdin, capture_output=True, check=False, timeout=60)
    if ran.returncode != 0:
        lines = ran.stderr.decode("utf-8", "replace").strip().splitlines() or ["it says nothing"]
        raise CannotSign(f"fakeazure: openssl {arguments[0]} failed: {lines[-1]}")
    return ran.stdout


def key_pair(name: str, *, directory: Path) -> tuple[Path, Path]:
    """A self-signed certificate and its private key, made when they are first needed."""
    certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
    with MAKING:
        if not certificate.exists():
            made = ["-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(certificate)]
            openssl("req", "-x509", "-subj", f"/CN={name}", "-days", YEARS, "-sha256", *made)
    return certificate, key


def scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="fakeazure-")
