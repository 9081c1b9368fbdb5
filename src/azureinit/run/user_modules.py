"""The rows of the modules for users, groups, passwords and ssh, and their facts.

The facts depend on the document: the accounts that it names, the files of their keys, the hashes of its passwords.
"""

from __future__ import annotations

from azureinit.run.modules import CONFIG, INSTANCE, NETWORK, Module, keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureinit.facts.accounts import Accounts
    from azureinit.facts.gather import Facts
    from azureinit.facts.key_files import AdminFiles
    from azureinit.facts.users import Users
    from azureinit.machine import Machine
    from azureinit.modules.request import Request
    from azureinit.modules.ssh_import_id import ImportFacts
    from azureinit.plan.actions import Plan
    from azureinit.pubkey import PublicKey

ACCOUNT_KEYS = ("users", "user", "groups", "system_info")
SSH_KEYS = (
    "ssh_authorized_keys", "ssh_keys", "ssh_deletekeys", "ssh_genkeytypes", "ssh_publish_hostkeys",
    "allow_public_ssh_keys", "disable_root",
)  # fmt: skip
PASSWORD_KEYS = ("password", "chpasswd", "ssh_pwauth")


def _read(machine: Machine, request: Request, *parts: str, ask: bool = True) -> Facts:
    """`ask`: also ask sshd itself, which takes longer than all the rest; its files alone tell whether it uses PAM."""
    from azureinit.facts.gather import read_facts
    from azureinit.facts.users import read_tools
    from azureinit.record import replace

    config = request.settings
    if not ask:
        config = replace(config, ssh=replace(config.ssh, query_sshd_config=False))
    facts = read_facts(machine, config, parts)
    return replace(facts, host=read_tools(machine, facts.host))


# ---- admin_check


def _admin_facts(machine: Machine, request: Request) -> Users:
    from azureinit.facts.ssh import Ssh
    from azureinit.facts.users import Users
    from azureinit.modules.admin_check import replaced_key_files

    if request.config.get("write_files") is None or not replaced_key_files(request):
        facts = _read(machine, request, "accounts")
        return Users(host=facts.host, accounts=facts.accounts, ssh=Ssh(installed=False))
    facts, admin = _read(machine, request, "ssh", "accounts", ask=False), request.metadata.username or ""
    home, keys = facts.accounts.home_of(admin), request.metadata.keys
    files = _read_files_of(machine, request, facts, admin, keys=keys, home=home).keys_files
    paths = tuple(file.path for file in files)
    return Users(host=facts.host, accounts=facts.accounts, ssh=facts.ssh, key_paths=paths)


def _plan_admin_check(request: Request, facts: Users) -> Plan:
    from azureinit.modules.admin_check import plan_admin_check

    return plan_admin_check(request, facts)


# ---- users_groups


def _users_facts(machine: Machine, request: Request) -> Users:
    from azureinit.facts.users import (
        Users,
        read_hashes,
        read_missing,
        read_rules,
        read_shells,
        read_unsafe,
        with_homes,
    )
    from azureinit.modules.user_keys import keys_of_user
    from azureinit.modules.user_passwords import plain_password
    from azureinit.modules.users_asked import asked_users

    asked = asked_users(request.config, request.metadata.username)
    given = {user.name: keys_of_user(user, request) for user in asked.everyone}
    facts = _read(machine, request, "ssh", "accounts", ask=any(given.values()))
    homes = {user.name: user.text("homedir") for user in asked.users if user.text("homedir").startswith("/")}
    accounts = with_homes(machine, facts.accounts, homes.values())
    plain = (plain_password(user) for user in asked.everyone)
    hashes, _ = read_hashes(machine, request.settings, accounts, (one for one in plain if one is not None))
    return Users(
        host=facts.host,
        accounts=accounts,
        ssh=facts.ssh,
        rules=read_rules(machine),
        key_files=_read_key_files(machine, request, facts, given, homes),
        missing=read_missing(machine, homes.values()),
        unsafe=read_unsafe(machine, homes.values()),
        shells=read_shells(machine, (user.text("shell") for user in asked.everyone)),
        hashes=hashes,
    )


def _read_key_files(
    machine: Machine,
    request: Request,
    facts: Facts,
    given: Mapping[str, tuple[PublicKey, ...]],
    homes: Mapping[str, str],
) -> dict[str, AdminFiles]:
    """`homes`: those that the document gives to accounts that do not exist yet."""
    return {
        name: _read_files_of(machine, request, facts, name, keys=given[name], home=_home(facts.accounts, name, homes))
        for name in given
        if given[name]
    }


def _home(accounts: Accounts, name: str, homes: Mapping[str, str]) -> str:
    return accounts.home_of(name) if accounts.user(name) is not None or name not in homes else homes[name]


def _read_files_of(
    machine: Machine, request: Request, facts: Facts, name: str, *, keys: tuple[PublicKey, ...], home: str
) -> AdminFiles:
    from azureinit.facts.key_files import AdminFiles, read_keys_files, read_pieces
    from azureinit.facts.ssh import MERGER
    from azureinit.plan.keys import key_paths
    from azureinit.record import replace

    files = AdminFiles(key_pieces=read_pieces(machine, home) if facts.ssh.pieces == MERGER else ())
    paths = key_paths(
        username=name,
        home=home,
        keys=keys,
        accounts=facts.accounts,
        ssh=facts.ssh,
        admin=files,
        config=request.settings,
    )
    return replace(files, keys_files=read_keys_files(machine, home=home, paths=paths))


def _plan_users(request: Request, facts: Users) -> Plan:
    from azureinit.modules.users import plan_users

    return plan_users(request, facts)


# ---- ssh


def _ssh_facts(machine: Machine, request: Request) -> Users:
    from azureinit.facts.ssh import are_keys_chosen
    from azureinit.facts.users import Users, read_host_files
    from azureinit.modules.ssh import ROOT, admin_keys, root_keys

    facts = _read(machine, request, "ssh", "accounts")
    admin = request.metadata.username
    given = {**({admin: admin_keys(request)} if admin else {}), ROOT: root_keys(request)}
    if admin == ROOT:
        given = {ROOT: admin_keys(request)}
    return Users(
        host=facts.host,
        accounts=facts.accounts,
        ssh=facts.ssh,
        key_files=_read_key_files(machine, request, facts, given, {}),
        host_files=read_host_files(machine) if keys("ssh_keys", "ssh_genkeytypes")(request) else {},
        keys_chosen=are_keys_chosen(machine, request.directory),
    )


def _plan_ssh(request: Request, facts: Users) -> Plan:
    from azureinit.modules.ssh import plan_ssh

    return plan_ssh(request, facts)


# ---- set_passwords


def _password_facts(machine: Machine, request: Request) -> Users:
    from azureinit.facts.users import Users, read_hashes
    from azureinit.modules.passwords import to_hash
    from azureinit.modules.ssh import keys_of_admin

    facts = _read(machine, request, "ssh", "accounts", ask=bool(keys("ssh_pwauth")(request)))
    hashes, random = read_hashes(machine, request.settings, facts.accounts, to_hash(request))
    admin = request.metadata.username
    # The files that the modules before may have written keys to.
    given = {admin: keys_of_admin(request)} if admin and keys("ssh_pwauth")(request) else {}
    return Users(
        host=facts.host,
        accounts=facts.accounts,
        ssh=facts.ssh,
        key_files=_read_key_files(machine, request, facts, given, {}),
        hashes=hashes,
        random=random,
    )


def _plan_passwords(request: Request, facts: Users) -> Plan:
    from azureinit.modules.passwords import plan_passwords

    return plan_passwords(request, facts)


# ---- ssh_import_id


def _asks_import(request: Request) -> bool:
    if not keys("ssh_import_id", *ACCOUNT_KEYS)(request):
        return False
    from azureinit.modules.ssh_import_id import imports_of

    return bool(imports_of(request))


def _import_facts(machine: Machine, request: Request) -> ImportFacts:
    from azureinit.facts.users import has_default_route
    from azureinit.modules.ssh_import_id import ImportFacts

    facts = _read(machine, request, "accounts")
    return ImportFacts(host=facts.host, accounts=facts.accounts, online=has_default_route(machine))


def _plan_import(request: Request, facts: ImportFacts) -> Plan:
    from azureinit.modules.ssh_import_id import plan_ssh_import_id

    return plan_ssh_import_id(request, facts)


def _concerns_admin(request: Request) -> bool:
    if keys(*ACCOUNT_KEYS, *SSH_KEYS, *PASSWORD_KEYS)(request):
        return True
    if request.config.get("write_files") is None:
        return False
    from azureinit.modules.admin_check import replaced_account_files, replaced_key_files

    return bool(replaced_account_files(request) or replaced_key_files(request))


ADMIN_CHECK = Module(
    name="admin_check",
    stage=NETWORK,
    frequency=INSTANCE,
    asked=_concerns_admin,
    facts=_admin_facts,
    planner=_plan_admin_check,
    veto=True,
)
USERS_GROUPS = Module(
    name="users_groups",
    stage=NETWORK,
    frequency=INSTANCE,
    asked=keys(*ACCOUNT_KEYS),
    facts=_users_facts,
    planner=_plan_users,
)
SSH = Module(name="ssh", stage=NETWORK, frequency=INSTANCE, asked=keys(*SSH_KEYS), facts=_ssh_facts, planner=_plan_ssh)
SET_PASSWORDS = Module(
    name="set_passwords",
    stage=NETWORK,
    frequency=INSTANCE,
    asked=keys(*PASSWORD_KEYS),
    facts=_password_facts,
    planner=_plan_passwords,
    apart=True,
)
SSH_IMPORT_ID = Module(
    name="ssh_import_id",
    stage=CONFIG,
    frequency=INSTANCE,
    asked=_asks_import,
    facts=_import_facts,
    planner=_plan_import,
    apart=True,
)
