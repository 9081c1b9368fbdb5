"""What provisioning leaves in a root directory: what a machine must not have in a pool, nor keep of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fakeazure.platform.events import Found
from fakeazure.platform.fabric import Fabric
from fakeazure.platform.vm import Vm


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What provisioning leaves in a root directory."""

    homes: frozenset[str]
    users: frozenset[str]
    host_keys: frozenset[str]
    hostname: str
    keys: str  # of all users


def read_traces(root: Path) -> Traces:
    homes = [*(root / "home").glob("*")]
    return Traces(
        homes=frozenset(one.name for one in homes),
        users=frozenset(line.partition(":")[0] for line in read(root / "etc/passwd").splitlines()),
        host_keys=frozenset(one.name for one in (root / "etc/ssh").glob("ssh_host_*")),
        hostname=read(root / "etc/hostname").strip(),
        keys="\n".join(read(home / ".ssh/authorized_keys") for home in (*homes, root / "root")),
    )


def read(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def provisioned(before: Traces, now: Traces) -> list[str]:
    """What has been provisioned since."""
    found = [f"the home directory {name}" for name in sorted(now.homes - before.homes)]
    found += [f"the account {name}" for name in sorted(now.users - before.users)]
    found += [f"the host key {name}" for name in sorted(now.host_keys - before.host_keys)]
    if now.hostname != before.hostname:
        found.append(f"the host name {now.hostname!r}")
    return found + (["authorized keys"] if now.keys != before.keys else [])


def kept(now: Traces, vm: Vm) -> list[str]:
    """What is there of the pool's VM."""
    found = [f"the home directory of {vm.username}"] if vm.username in now.homes else []
    found += [f"the account {vm.username}"] if vm.username in now.users else []
    found += [f"the host name {vm.name!r}"] if now.hostname == vm.name else []
    return found + [f"the key of {vm.username}" for key in vm.public_keys if key.data and key.data in now.keys]


def record(fabric: Fabric, found: list[str], *, in_pool: bool) -> None:
    for what in found:
        fabric.ledger.add(Found(t=fabric.ledger.now(), what=what, in_pool=in_pool))
