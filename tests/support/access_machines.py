"""What the tests of the login check share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from azureinit.config.model import Access as AccessConfig, Config
from azureinit.facts.access import Access, read_access
from azureinit.facts.gather import Facts
from azureinit.facts.key_files import read_keys_files
from azureinit.plan.access import (
    paths_of,
    plan_access,
)
from azureinit.record import replace
from azureinit.sources.imds import PublicKey
from azureinit.sources.metadata import Metadata
from support.facts import altered, parts
from support.ssh_trees import DEBIAN, ed25519, facts_of, own, running, tree

MAIN = "/etc/ssh/sshd_config"


WHOLE = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"


SHADOW = "ada:*:20000:0:99999:7:::\n"


ADA = Metadata(username="ada", hostname="h", keys=(PublicKey(data=ed25519()),), disable_password=True)


TODAY = 20100


PAM = "account required pam_nologin.so\n@include common-account\n"


FILES = {
    MAIN: DEBIAN,
    "/etc/shadow": SHADOW,
    "/etc/ssh/ssh_host_ed25519_key": WHOLE,
    "/etc/pam.d/sshd": PAM,
    "/etc/pam.d/common-account": "account [success=1 new_authtok_reqd=done default=ignore] pam_unix.so\n",
    "/home/ada/.ssh/authorized_keys": ed25519() + "\n",
}


def access_of(facts: Facts) -> Access:
    assert facts.access is not None
    return facts.access


def machine_facts(tmp_path: Path, files: dict[str, str], **access: Any) -> Facts:
    """A machine on which everything else is done."""
    machine = tree(tmp_path, {**FILES, **files})
    tmp_path.chmod(0o755)  # the machine's /
    shell = tmp_path / "bin/bash"
    shell.parent.mkdir()
    shell.touch(mode=0o755)
    for path in (tmp_path / "home/ada/.ssh", tmp_path / "home/ada/.ssh/authorized_keys"):
        own(path)
        path.chmod(0o700 if path.is_dir() else 0o600)
    facts = facts_of(machine)
    paths = paths_of(metadata=ADA, **parts(facts, "accounts", "ssh", "admin"), config=Config())
    found = read_access(machine, facts.ssh, systemd=False, shell="/bin/bash", paths=paths)
    facts = running(facts, version=(9, 3))
    facts = altered(facts, keys_files=read_keys_files(machine, home="/home/ada", paths=paths), privileged=True)
    return replace(facts, access=replace(found, **access))


def plan(facts: Facts, *, metadata: Metadata = ADA, required: str = "auto", pending: bool = False) -> tuple[Any, ...]:
    config = Config(access=AccessConfig(required=required))
    return plan_access(
        metadata=metadata,
        **parts(facts, "host", "accounts", "ssh", "admin", "access"),
        config=config,
        today=TODAY,
        pending=pending,
    )
