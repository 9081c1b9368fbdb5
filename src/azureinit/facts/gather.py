"""The facts that a plan needs, by part: a stage reads the parts that its planners name.

`READERS` is the table of parts. `admin` and `access` are not in it: they are read once the admin's name is known.
A reader imports its module when it runs: the local stage, before the network, loads three small ones.
"""

from __future__ import annotations

from azureinit.facts.host import read_host
from azureinit.facts.hostnames import read_host_names
from azureinit.machine import MOST_BYTES
from azureinit.record import Record, Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any, NoReturn

    from azureinit.config.model import Config
    from azureinit.facts.access import Access
    from azureinit.facts.accounts import Accounts
    from azureinit.facts.host import Host
    from azureinit.facts.hostnames import HostNames
    from azureinit.facts.ignition import Ignition
    from azureinit.facts.key_files import AdminFiles
    from azureinit.facts.labels import Labels
    from azureinit.facts.ssh import Ssh
    from azureinit.facts.waagent import Waagent
    from azureinit.machine import Machine
    from azureinit.machine.processes import Ran
    from azureinit.machine.threads import Flag

SELINUX = "/etc/selinux/config"
SUDOERS_DIR = "/etc/sudoers.d"
SUDOERS = "/etc/sudoers.d/azure-init-user"
OLD_SHADOW = "/etc/shadow-"


class Unread:
    """Stands for a part that was not read. A planner that uses it does not name that part: a programming error."""

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError(f"{name!r} of a part of the facts that was not read: the planner's row does not name it")

    def __bool__(self) -> NoReturn:
        raise RuntimeError("a part of the facts that was not read: the planner's row does not name it")

    def __repr__(self) -> str:
        return "UNREAD"


UNREAD: Any = Unread()


class Sudoers(Record):
    directory: bool
    # The content of SUDOERS.
    file: bytes | None
    # Without privileges it cannot be seen whether the file exists.
    hidden: bool = False


class Facts(Record):
    host: Host = UNREAD
    names: HostNames = UNREAD
    accounts: Accounts = UNREAD
    sudoers: Sudoers = UNREAD
    ssh: Ssh = UNREAD
    waagent: Waagent | None = UNREAD
    ignition: Ignition | None = UNREAD
    labels: Labels | None = UNREAD
    # Root's password before its last change; read only where root is to be locked.
    old_root: Secret | None = UNREAD
    admin: AdminFiles = UNREAD
    # None where sshd is not installed.
    access: Access | None = UNREAD


class Reading(Record):
    """What a reader of one part is given."""

    machine: Machine
    config: Config
    # The parts that were read so far, by name.
    found: dict[str, Any]
    # The facts as an earlier reading of this run found them.
    before: Facts | None


def _host(reading: Reading) -> Host:
    return read_host(reading.machine, reading.before.host if reading.before else None)


def _ssh(reading: Reading) -> Ssh:
    from azureinit.facts.ssh import read_files

    settings, init = reading.config.ssh, reading.found["host"].init
    return read_files(
        reading.machine, query=settings.query_sshd_config, regenerate=settings.regenerate_host_keys, init=init
    )


def _names(reading: Reading) -> HostNames:
    return read_host_names(reading.machine)


def _accounts(reading: Reading) -> Accounts:
    from azureinit.facts.accounts import read_accounts

    return read_accounts(reading.machine, reading.before.accounts if reading.before else None)


def _sudoers(reading: Reading) -> Sudoers:
    machine = reading.machine
    visible = machine.is_open(SUDOERS_DIR) and machine.is_open(SUDOERS)
    file = machine.read(SUDOERS) if visible else None
    return Sudoers(directory=machine.is_dir(SUDOERS_DIR), file=file, hidden=not visible)


def _waagent(reading: Reading) -> Waagent | None:
    from azureinit.facts.waagent import read_waagent

    return read_waagent(reading.machine, reading.config.waagent.lib_dir)


def _ignition(reading: Reading) -> Ignition | None:
    from azureinit.facts.ignition import read_ignition

    return reading.before.ignition if reading.before else read_ignition(reading.machine)


def _labels(reading: Reading) -> Labels | None:
    if reading.before is not None:
        return reading.before.labels
    machine = reading.machine
    if not machine.rooted or machine.stat(SELINUX) is None:
        return None
    from azureinit.facts.labels import read_labels

    return read_labels(machine, SELINUX, home_base=reading.found["accounts"].policy.home)


def _old_root(reading: Reading) -> Secret | None:
    if not reading.config.user.lock_root:
        return None
    from azureinit.facts.accounts import fields_of

    machine = reading.machine
    data = machine.read(OLD_SHADOW, limit=MOST_BYTES) if machine.is_open(OLD_SHADOW) else None
    fields = fields_of(Secret(data), "root") if data else None
    return fields[1] if fields and len(fields) > 1 else None


# In the order of reading: a reader finds the parts above it, where they were asked for.
READERS: dict[str, Callable[[Reading], object]] = {
    "host": _host,
    "ssh": _ssh,
    "names": _names,
    "accounts": _accounts,
    "sudoers": _sudoers,
    "waagent": _waagent,
    "ignition": _ignition,
    "labels": _labels,
    "old_root": _old_root,
}
EVERY_PART = tuple(READERS)
LATER = ("admin", "access")
NEEDED_BY = {"labels": "accounts"}


def read_early(machine: Machine, config: Config) -> Facts:
    """The parts host and ssh, for keys that are made while the rest is read. sshd is not asked: see `read_facts`."""
    found: dict[str, Any] = {}
    reading = Reading(machine=machine, config=config, found=found, before=None)
    for part in ("host", "ssh"):
        found[part] = READERS[part](reading)
    return Facts(**found)


def read_facts(
    machine: Machine,
    config: Config,
    parts: Collection[str] = EVERY_PART,
    *,
    before: Facts | None = None,
    early: Facts | None = None,
    sshd: Callable[[float], Ran] | None = None,
    keys: tuple[Flag, ...] = (),
) -> Facts:
    """Read these parts, and `host` always.

    `before`: the same parts, read earlier in this run; what provisioning cannot change is taken from there.
    Work that was begun earlier: `early` has the parts host and ssh (files only), `sshd` was asked what is in force,
    `keys` are being made.
    """
    wanted = {"host", *parts, *(needed for part, needed in NEEDED_BY.items() if part in parts)}
    unknown = wanted.difference(READERS, LATER)
    if unknown:
        raise ValueError(f"no such part of the facts: {', '.join(sorted(unknown))}")
    found: dict[str, Any] = {} if early is None else {"host": early.host, "ssh": early.ssh}
    reading = Reading(machine=machine, config=config, found=found, before=before)
    if "host" not in found:
        found["host"] = _host(reading)
    if "ssh" not in wanted:
        _read_parts(reading, wanted)
        return Facts(**found)
    from azureinit.facts.ssh import with_host_keys_again
    from azureinit.facts.sshd_answer import ask_sshd, remembered, with_answer

    tools, query = found["host"].tools, config.ssh.query_sshd_config
    asking = None
    if before is None or before.ssh.reported is None:
        asking = ask_sshd(machine, tools=tools, query=query, asked=sshd)
    _read_parts(reading, wanted)
    for made in keys:
        made.wait()
    if keys:
        found["ssh"] = with_host_keys_again(machine, found["ssh"])
    if asking is None and before is not None:
        again = remembered(machine, found["ssh"], before.ssh)
        if again is not None:
            return Facts(**{**found, "ssh": again})
        asking = ask_sshd(machine, tools=tools, query=query)
    if asking is not None:
        found["ssh"] = with_answer(machine, found["ssh"], asking())
    return Facts(**found)


def _read_parts(reading: Reading, wanted: Collection[str]) -> None:
    for part, read in READERS.items():
        if part in wanted and part not in reading.found:
            reading.found[part] = read(reading)
