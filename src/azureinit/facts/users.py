"""What the modules for users, groups and passwords look at, beside the facts that a run reads."""

from __future__ import annotations

from azureinit.facts.accounts import Home
from azureinit.facts.gather import SUDOERS_DIR
from azureinit.facts.ssh import KEY_PREFIX, KEY_SUFFIX, KEYS_DIR
from azureinit.record import Record, Secret, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from azureinit.config.model import Config
    from azureinit.facts.accounts import Accounts
    from azureinit.facts.host import Host
    from azureinit.facts.key_files import AdminFiles
    from azureinit.facts.ssh import Ssh
    from azureinit.machine import Machine

USERS_SUDOERS = f"{SUDOERS_DIR}/azure-init-users"
DOAS = "/etc/doas.conf"
# Tools that a run does not need.
TOOLS = ("doas", "groupadd", "passwd", "ssh-import-id", "sudo")
MOST_KEY = 1 << 16
ROUTES = "/proc/net/route"


class Rules(Record):
    """Files of rules for sudo and doas; None: there is no such file."""

    sudo_directory: bool = False
    sudo: bytes | None = None
    doas: bytes | None = None


class Users(Record):
    host: Host
    accounts: Accounts
    ssh: Ssh
    rules: Rules = Rules()
    # The files of each account's keys, by the account's name.
    key_files: Mapping[str, AdminFiles] = {}
    # The files of the admin's keys; read only where the document replaces such files.
    key_paths: tuple[str, ...] = ()
    # Directories above a home that do not exist, by the home.
    missing: Mapping[str, tuple[str, ...]] = {}
    # Why a home must not be made or used, by the home.
    unsafe: Mapping[str, str] = {}
    # Paths of shells that exist.
    shells: frozenset[str] = frozenset()
    # Hashes of the passwords that are given as text, by the key that the planner gives them.
    hashes: Mapping[str, Secret] = {}
    # The files of host keys in /etc/ssh, by path. Read only where host keys are asked for.
    host_files: Mapping[str, Secret] = {}
    # It is recorded that the document decides which host keys there are.
    keys_chosen: bool = False
    # Passwords that were made up, by the same key as `hashes`.
    random: Mapping[str, Secret] = {}


class Plain(Record):
    """A password in the document. `text` None: one is to be made up."""

    key: str
    account: str
    text: Secret | None


def read_tools(machine: Machine, host: Host) -> Host:
    return replace(host, tools=host.tools | {tool for tool in TOOLS if machine.find(tool)})


def read_rules(machine: Machine) -> Rules:
    visible = machine.is_open(SUDOERS_DIR) and machine.is_open(USERS_SUDOERS)
    return Rules(
        sudo_directory=machine.is_dir(SUDOERS_DIR),
        sudo=machine.read(USERS_SUDOERS) if visible else None,
        doas=machine.read(DOAS) if machine.is_open(DOAS) else None,
    )


def read_missing(machine: Machine, homes: Iterable[str]) -> dict[str, tuple[str, ...]]:
    from azureinit.facts.path_safety import directories_above

    return {
        home: tuple(path for path in directories_above(home) if machine.stat(path) is None) for home in homes if home
    }


def read_unsafe(machine: Machine, homes: Iterable[str]) -> dict[str, str]:
    from azureinit.facts.path_safety import why_unsafe

    return {home: why for home in homes if (why := why_unsafe(machine, home))}


def with_homes(machine: Machine, accounts: Accounts, homes: Iterable[str]) -> Accounts:
    """Directories that exist and are to become homes. The content of such a directory is never changed."""
    known = {home.path for home in accounts.homes}
    statuses = ((path, machine.stat(path)) for path in homes if path and path not in known)
    found = tuple(
        Home(path=path, uid=status.st_uid, empty=False, has=frozenset()) for path, status in statuses if status
    )
    return replace(accounts, homes=(*accounts.homes, *found))


def read_shells(machine: Machine, shells: Iterable[str]) -> frozenset[str]:
    return frozenset(shell for shell in shells if shell.startswith("/") and machine.is_file(shell))


def read_hashes(
    machine: Machine, config: Config, accounts: Accounts, passwords: Iterable[Plain]
) -> tuple[dict[str, Secret], dict[str, Secret]]:
    """The hashes, and the passwords that were made up. The hash that an account has is kept if it is the password's."""
    from azureinit.machine.crypt import hash_password, is_hash_of, random_password

    hashes: dict[str, Secret] = {}
    random: dict[str, Secret] = {}
    for password in passwords:
        text = password.text
        if text is None:
            text = random[password.key] = random_password()
        fields = accounts.shadow_fields(password.account)
        bare = Secret(fields[1].reveal().lstrip(b"!")) if fields is not None and len(fields) > 1 else None
        if bare and password.text is not None and is_hash_of(text, bare):
            hashes[password.key] = bare
            continue
        user = config.user
        hashes[password.key] = hash_password(
            machine, text, crypt_id=user.password_crypt_id, salt_length=user.password_salt_length
        )
    return hashes, random


def read_host_files(machine: Machine) -> dict[str, Secret]:
    names = machine.names(KEYS_DIR) or ()
    paths = [f"{KEYS_DIR}/{name}" for name in names if name.startswith(KEY_PREFIX) and KEY_SUFFIX in name]
    return {path: Secret(machine.read(path, limit=MOST_KEY) or b"") for path in paths if machine.is_open(path)}


def has_default_route(machine: Machine) -> bool:
    """Whether any address outside can be reached, as far as the kernel's IPv4 routes tell."""
    rows = (line.split() for line in (machine.read(ROUTES) or b"").split(b"\n")[1:])
    return any(len(row) > 7 and row[1] == b"00000000" and row[7] == b"00000000" for row in rows)
