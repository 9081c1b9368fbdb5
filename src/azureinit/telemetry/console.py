"""The listener on the console, which boot diagnostics show: start, waits, verdict with its cause, host keys."""

from __future__ import annotations

import sys
from binascii import a2b_base64, b2a_base64

from azureinit.errors import AzureInitError
from azureinit.machine.outlets import Console
from azureinit.telemetry.events import ERROR, OUTPUT
from azureinit.telemetry.log import one_line
from azureinit.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine
    from azureinit.telemetry.events import Event

CONSOLE = "/dev/console"
WAITING = "waiting"
READY, FAILURE = "report Ready", "report failure"
HOST_KEYS = "/etc/ssh"
CUSTOM_DATA = "customData"  # its failures
MODULE = "customData "  # begins the names of the modules of its stages
LONGEST_KEY = 1 << 14
NAMES = {
    "ssh-ed25519": "ED25519",
    "ssh-rsa": "RSA",
    "ecdsa-sha2-nistp256": "ECDSA",
    "ecdsa-sha2-nistp384": "ECDSA",
    "ecdsa-sha2-nistp521": "ECDSA",
}


class ConsoleListener:
    """A provisioned machine writes nothing."""

    def __init__(self, machine: Machine, *, path: str = CONSOLE) -> None:
        self.machine = machine
        self.console = Console(machine, path)
        self.begun = self.ready = False
        self.told: set[str] = set()  # the host keys' files

    def __call__(self, event: Event) -> None:
        if event.name == CUSTOM_DATA or event.name.startswith(MODULE):
            self._tell_custom_data(event)
        cause = event.kind == "event" and event.name == "provision" and event.level >= ERROR
        if not self.begun and (cause or event.kind == "start"):
            self.begun = True
            self._say(f"version {VERSION} started")
        if event.kind == "event" and event.name == WAITING:
            self._say(one_line(event.text))
        if event.name == OUTPUT:
            self._say(f"| {one_line(event.text)}")
        if cause:
            self._say(f"provisioning failed: {one_line(event.text)}")
        if event.kind != "finish":
            return
        if event.name in (READY, FAILURE):
            self._say(verdict(event))
        self.ready = self.ready or event.name == READY
        if self.ready:  # also later: the run does not wait for every key
            self._tell_host_keys()

    def _tell_custom_data(self, event: Event) -> None:
        """A stage of customData: each module as it begins, and its failure."""
        if event.kind == "start" and event.name.startswith(MODULE) and ":" in event.name:
            self.begun = True  # the run has said that it started
            self._say(one_line(event.name))
        elif event.kind == "event" and event.level >= ERROR:
            self._say(f"{CUSTOM_DATA} failed: {one_line(event.text)}")

    def _tell_host_keys(self) -> None:
        for name in self.machine.names(HOST_KEYS) or ():
            if name.startswith("ssh_host_") and name.endswith("_key.pub") and name not in self.told:
                self.told.add(name)
                told = self._fingerprint(f"{HOST_KEYS}/{name}")
                if told is not None:
                    self._say(f"host key {told}")

    def _fingerprint(self, path: str) -> str | None:
        try:
            return fingerprint((self.machine.read(path, limit=LONGEST_KEY) or b"").decode("utf-8", "replace"))
        except AzureInitError:
            return None

    def _say(self, text: str) -> None:
        self.console.write(f"azure-init: {text}\n".encode("utf-8", "replace"))


def verdict(event: Event) -> str:
    told = one_line(event.text)
    if event.name == READY:
        return f"provisioned, but Ready was not delivered: {told}" if event.failed else f"provisioned; {told}"
    return f"the failure was not reported: {told}" if event.failed else told


def fingerprint(line: str) -> str | None:
    """`256 SHA256:... root@web-1 (ED25519)`, the form of `ssh-keygen -l`; None for anything but a host's public key."""
    kind, encoded, comment = (*line.strip().split(None, 2), "", "", "")[:3]
    if kind not in NAMES:
        return None
    try:
        blob = a2b_base64(encoded)
    except ValueError:
        return None
    parts = _parts(blob)
    if not parts or parts[0] != kind.encode() or len(parts) < (3 if kind == "ssh-rsa" else 2):
        return None
    digest = b2a_base64(_sha256(blob), newline=False).rstrip(b"=").decode()
    return f"{_bits(kind, parts)} SHA256:{digest} {one_line(comment) or 'no comment'} ({NAMES[kind]})"


def _bits(kind: str, parts: list[bytes]) -> int:
    if kind == "ssh-rsa":
        return int.from_bytes(parts[2], "big").bit_length()
    return 256 if kind == "ssh-ed25519" else int(kind[-3:])


def _parts(blob: bytes) -> list[bytes]:
    """The blob's length-prefixed strings; empty if they do not fill it."""
    parts = []
    while blob:
        end = 4 + int.from_bytes(blob[:4], "big")
        if end > len(blob):
            return []
        parts.append(blob[4:end])
        blob = blob[end:]
    return parts


def _sha256(data: bytes) -> bytes:
    """SHA-256 from CPython's private module: hashlib loads OpenSSL, 4 ms, and is the fallback."""
    try:
        if sys.version_info >= (3, 12):
            from _sha2 import sha256
        else:
            from _sha256 import sha256  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        from hashlib import sha256
    digest: bytes = sha256(data).digest()
    return digest
