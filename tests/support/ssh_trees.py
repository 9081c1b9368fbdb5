"""Small machines with an sshd in them, for the tests of keys, sshd and host keys."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from azureinit.config.model import Config
from azureinit.facts.gather import Facts, read_facts
from azureinit.facts.ssh import read_keys_files
from azureinit.machine import Machine
from azureinit.plan.actions import Step, Way
from azureinit.plan.keys import key_paths, plan_keys
from azureinit.record import replace
from azureinit.sources.imds import PublicKey

PASSWD = "root:x:0:0:root:/root:/bin/bash\nada:x:1000:1000::/home/ada:/bin/bash\n"
GROUP = "root:x:0:\nada:x:1000:\n"
DEBIAN = "# The packaged file\nInclude /etc/ssh/sshd_config.d/*.conf\nKbdInteractiveAuthentication no\nUsePAM yes\n"
DROPIN = "/etc/ssh/sshd_config.d/00-azure-init.conf"
KEYS = "/home/ada/.ssh/authorized_keys"


def blob(*parts: bytes | str) -> str:
    """The inside of a public key, in base64."""
    raw = [part.encode() if isinstance(part, str) else part for part in parts]
    return base64.b64encode(b"".join(len(part).to_bytes(4, "big") + part for part in raw)).decode()


def ed25519(letter: str = "k", comment: str = "") -> str:
    return f"ssh-ed25519 {blob('ssh-ed25519', letter.encode() * 32)}" + (f" {comment}" if comment else "")


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
    """As the account would: only root can, and only then do owners count."""
    if os.geteuid() == 0:
        os.chown(path, 1000, 1000, follow_symlinks=False)


def facts_of(machine: Machine, **changes: Any) -> Facts:
    return replace(read_facts(machine, Config()), **changes)


def running(facts: Facts, **ssh: Any) -> Facts:
    """The same machine, as if it were the running one."""
    return replace(
        facts,
        root="",
        rooted=False,
        systemd=True,
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
    paths = key_paths(facts=facts, **about)
    seen = read_keys_files(machine, home=home, paths=paths)
    return plan_keys(facts=replace(facts, keys_files=seen), **about)


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
