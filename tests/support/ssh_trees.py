"""Small file trees with an sshd, for the tests of keys, sshd and host keys."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from azureinit.config.model import Config
from azureinit.facts.gather import Facts, read_facts
from azureinit.facts.key_files import read_keys_files
from azureinit.facts.ssh import Ssh, read_files
from azureinit.facts.sshd_answer import ask_sshd, with_answer
from azureinit.machine import Machine
from azureinit.plan.actions import Step, Way
from azureinit.plan.keys import key_paths, plan_keys
from azureinit.record import replace
from azureinit.sources.imds import PublicKey
from support.facts import altered, parts

PASSWD = "root:x:0:0:root:/root:/bin/bash\nada:x:1000:1000::/home/ada:/bin/bash\n"
GROUP = "root:x:0:\nada:x:1000:\n"
DEBIAN = "# The packaged file\nInclude /etc/ssh/sshd_config.d/*.conf\nKbdInteractiveAuthentication no\nUsePAM yes\n"
DROPIN = "/etc/ssh/sshd_config.d/00-azure-init.conf"
KEYS = "/home/ada/.ssh/authorized_keys"


# The base points of P-256, P-384 and P-521 (FIPS 186), uncompressed.
POINTS = {
    256: bytes.fromhex(
        "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
        "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"
    ),
    384: bytes.fromhex(
        "04aa87ca22be8b05378eb1c71ef320ad746e1d3b628ba79b9859f741e082542a385502f25dbf55296c3a545e3872760ab7"
        "3617de4a96262c6f5d9e98bf9292dc29f8f41dbd289a147ce9da3113b5f0b8c00a60b1ce1d7e819d7a431d7c90ea0e5f"
    ),
    521: bytes.fromhex(
        "0400c6858e06b70404e9cd9e3ecb662395b4429c648139053fb521f828af606b4d3dbaa14b5e77efe75928fe1dc127a2ffa8de3348b3c1856a429bf97e7e31c2e5bd66"
        "011839296a789a3bc0045c8a5fb42c7d1bd998f54449579b446817afbd17273e662c97ee72995ef42640c550b9013fad0761353c7086a272c24088be94769fd16650"
    ),
}


def blob(*parts: bytes | str) -> str:
    """The blob of a public key, in base64."""
    raw = [part.encode() if isinstance(part, str) else part for part in parts]
    return base64.b64encode(b"".join(len(part).to_bytes(4, "big") + part for part in raw)).decode()


def ed25519_point(letter: str = "k") -> bytes:
    """The first 32 bytes that begin with the letters and are a point on the curve (RFC 8032, section 5.1.3)."""
    prime = 2**255 - 19
    d = -121665 * pow(121666, -1, prime)
    for last in range(128):
        key = letter.encode() * 31 + bytes((last,))
        square = int.from_bytes(key, "little") ** 2
        quotient = (square - 1) * pow(d * square + 1, -1, prime) % prime
        if pow(quotient, (prime - 1) // 2, prime) == 1:
            return key
    raise AssertionError("unreachable: half of all numbers are points")


def ed25519(letter: str = "k", comment: str = "") -> str:
    return f"ssh-ed25519 {blob('ssh-ed25519', ed25519_point(letter))}" + (f" {comment}" if comment else "")


def tree(root: Path, files: Mapping[str, str | bytes], *, home: bool = True) -> Machine:
    contents: dict[str, str | bytes] = {"/etc/passwd": PASSWD, "/etc/group": GROUP, **files}
    for path, data in contents.items():
        real = root / path[1:]
        real.parent.mkdir(parents=True, exist_ok=True)
        real.write_bytes(data.encode() if isinstance(data, str) else data)
        real.chmod(0o600 if path.endswith("_key") else 0o644)
    if home:
        (root / "home/ada").mkdir(parents=True, exist_ok=True)
        own(root / "home/ada")
    return Machine(root=str(root))


def own(path: Path) -> None:
    """Gives the file to the account. Only root can, and only as root owners are checked."""
    if os.geteuid() == 0:
        os.chown(path, 1000, 1000, follow_symlinks=False)


def facts_of(machine: Machine, **changes: Any) -> Facts:
    return altered(read_facts(machine, Config()), **changes)


def running(facts: Facts, **ssh: Any) -> Facts:
    """The same machine, treated as the running system."""
    return altered(
        facts,
        root="",
        rooted=False,
        init="systemd",
        tools=frozenset(("sshd", "ssh-keygen", "systemctl")),
        ssh=replace(facts.ssh, **ssh),
    )


def plan_ada(
    machine: Machine, *keys: str | PublicKey, config: Config | None = None, home: str = "/home/ada", **changes: Any
) -> tuple[Any, ...]:
    config = config or Config()
    facts = facts_of(machine)
    facts = replace(facts, ssh=replace(facts.ssh, **changes))
    wanted = tuple(PublicKey(data=key) if isinstance(key, str) else key for key in keys)
    about: dict[str, Any] = {"username": "ada", "home": home, "keys": wanted, "config": config}
    paths = key_paths(**parts(facts, "accounts", "ssh"), **about)
    seen = read_keys_files(machine, home=home, paths=paths)
    return plan_keys(**parts(altered(facts, keys_files=seen), "host", "accounts", "ssh", "admin"), **about)


def actions_of(plan: tuple[Any, ...]) -> tuple[Any, ...]:
    """The actions of the plan's only step."""
    (step,) = (item for item in plan if isinstance(item, Step))
    (way,) = step.ways
    assert isinstance(way, Way), way
    return way.actions


def snapshot(root: Path) -> dict[str, tuple[int, bytes | str]]:
    """Every file's mode and content, by path."""
    found: dict[str, tuple[int, bytes | str]] = {}
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode & 0o7777
        data: bytes | str = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else "dir"
        found["/" + str(path.relative_to(root))] = (mode, data)
    return found


def changes(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {path for path in {**before, **after} if before.get(path) != after.get(path)}


def read_ssh(machine: Machine, *, tools: frozenset[str], query: bool) -> Ssh:
    asking = ask_sshd(machine, tools=tools, query=query)
    ssh = read_files(machine, query=query)
    return ssh if asking is None else with_answer(machine, ssh, asking())
