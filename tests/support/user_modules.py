"""A tree as the run leaves it, with the admin ada, for the tests of the modules for users, passwords and ssh."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from azureinit.machine import Machine
from azureinit.modules.request import Request
from azureinit.plan.actions import Caution, Step
from azureinit.run.modules import Module
from azureinit.sources.imds import PublicKey
from azureinit.sources.metadata import Metadata
from support.account_trees import GROUP, PASSWD, make_tree
from support.module_runs import apply_module, plan_module, request_of
from support.ssh_trees import DEBIAN, ed25519

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.plan.actions import Plan

KEY, OTHER, PLATFORM = ed25519("u"), ed25519("o"), ed25519("p")
HASH = "$6$saltsalt$" + "h" * 86
PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
WITH_KEY = Metadata(username="ada", hostname="vm1", keys=(PublicKey(data=PLATFORM),))
WITH_PASSWORD = Metadata(username="ada", hostname="vm1", has_password=True)
DAY = 20000


def make_vm(root: Path) -> Path:
    """The admin with a key, a password and sudo; sshd has its host keys."""
    make_tree(
        root,
        passwd=PASSWD
        + "ada:x:1000:1000:Azure admin user:/home/ada:/bin/bash\nlegacy:x:1001:1001::/home/legacy:/bin/sh\n",
        group=GROUP + "ada:x:1000:\nlegacy:x:1001:\n",
        subuid="ada:100000:65536\n",
        subgid="ada:100000:65536\n",
    )
    (root / "etc/ssh/sshd_config.d").mkdir(parents=True)
    (root / "etc/ssh/sshd_config").write_text(DEBIAN)
    for kind in ("rsa", "ecdsa", "ed25519"):
        for name, data in ((f"ssh_host_{kind}_key", PRIVATE), (f"ssh_host_{kind}_key.pub", f"ssh-{kind} own\n")):
            (root / "etc/ssh" / name).write_text(data)
            (root / "etc/ssh" / name).chmod(0o644 if name.endswith(".pub") else 0o600)
    (root / "etc/sudoers.d").mkdir(mode=0o750)
    (root / "bin").mkdir()
    for shell in ("bash", "sh", "zsh"):
        (root / "bin" / shell).write_text("")
        (root / "bin" / shell).chmod(0o755)
    (root / "root").mkdir(mode=0o700)
    ssh = root / "home/ada/.ssh"
    ssh.mkdir(parents=True, mode=0o700)
    (ssh / "authorized_keys").write_text(PLATFORM + "\n")
    for path in (root / "home/ada", ssh, ssh / "authorized_keys"):
        os.chown(path, 1000, 1000)
        path.chmod(0o600 if path.is_file() else 0o700)
    (root / "home/legacy").mkdir(mode=0o700)
    os.chown(root / "home/legacy", 1001, 1001)
    (root / "etc/pam.d").mkdir()
    (root / "etc/pam.d/sshd").write_text("auth required pam_unix.so\naccount required pam_unix.so\n")
    shadow = root / "etc/shadow"
    old = shadow.read_text()
    shadow.write_text(old.replace("ada:*:", f"ada:{HASH}:").replace("legacy:*:", f"legacy:{HASH}:"))
    return root


def applied(module: Module, root: Path, text: str, **fields: Any) -> Plan:
    return apply_module(module, root, text, **{"metadata": WITH_KEY, "today": DAY, **fields})


def planned(module: Module, root: Path, text: str, **fields: Any) -> Plan:
    return plan_module(module, Machine(root=str(root)), asked(text, **fields))


def asked(text: str, **fields: Any) -> Request:
    return request_of(text, **{"metadata": WITH_KEY, "today": DAY, **fields})


def steps(plan: Plan) -> list[str]:
    return [item.name for item in plan if isinstance(item, Step)]


def cautions(plan: Plan) -> dict[str, str]:
    return {item.name: item.why for item in plan if isinstance(item, Caution)}


def line_of(root: Path, file: str, name: str) -> str:
    lines = (root / "etc" / file).read_text().splitlines()
    return next((line for line in lines if line.startswith(f"{name}:")), "")
