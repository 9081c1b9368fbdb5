"""The host keys of a booted machine: on its disk, as its sshd shows them, and as reported to the platform."""

from __future__ import annotations

import subprocess
from pathlib import Path
from xml.etree import ElementTree

from support.installed import Boot, Disk

TYPES = ("ed25519", "ecdsa", "rsa")


def carried(disk: Disk) -> dict[str, str]:
    """The fingerprints of the image's keys, by type."""
    return {kind: fingerprint(disk.layer / f"etc/ssh/ssh_host_{kind}_key.pub") for kind in TYPES}


def fingerprint(path: Path) -> str:
    return subprocess.run(["ssh-keygen", "-lf", str(path)], capture_output=True, text=True, check=True).stdout.split()[
        1
    ]


def shown(boot: Boot) -> dict[str, str]:
    """The keys that sshd shows, by type; none while it reloads."""
    script = "ssh-keyscan -t ed25519,ecdsa,rsa 127.0.0.1 2>/dev/null | ssh-keygen -lf - || true"
    lines = [line.split() for line in boot.out("sh", "-c", script).splitlines()]
    return {words[-1].strip("()").lower(): words[1] for words in lines}


def told(boot: Boot) -> list[str | None]:
    bodies = [one.body for one in boot.requests() if "comp=roleProperties" in one.target]
    return [node.get("value") for body in bodies for node in ElementTree.fromstring(body).iter("Property")]
