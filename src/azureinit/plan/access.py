"""Whether the admin can log in, which Ready promises: sshd, the account and PAM accept the given key or password.

`plan_access` is quick for an ordinary image, whose configuration does not restrict logins; login_rules.py has the rules
for all others.
"""

from __future__ import annotations

from azureinit.errors import LoginImpossible
from azureinit.plan.actions import Caution, Declined, MakeDir, Step, Way
from azureinit.plan.keys import groups_of_account, key_paths
from azureinit.pubkey import key_identity, one_line
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.facts.access import Access, Node, Pam
    from azureinit.facts.accounts import Accounts
    from azureinit.facts.host import Host
    from azureinit.facts.key_files import AdminFiles
    from azureinit.facts.ssh import Ssh
    from azureinit.facts.sshd_config import Directive
    from azureinit.plan.actions import Plan
    from azureinit.sources.metadata import Metadata

OTHERS_WRITE, WORLD_WRITES = 0o022, 0o002
ENTER, READ = 0o1, 0o4
NEVER = -1
PRIVSEP = "/run/sshd"
# Keywords that decide about a login with a key, and the values that restrict nothing.
DECIDING: dict[str, tuple[str, ...]] = {
    "addressfamily": ("any", "inet"),
    "allowusers": (),
    "denyusers": (),
    "allowgroups": (),
    "denygroups": (),
    "authenticationmethods": ("any",),
    "chrootdirectory": ("none",),
    "dsaauthentication": ("yes",),
    "forcecommand": ("none",),
    "listenaddress": ("0.0.0.0", "::"),
    "maxsessions": (),
    "pubkeyacceptedalgorithms": (),
    "pubkeyacceptedkeytypes": (),
    "pubkeyauthentication": ("yes",),
    "refuseconnection": ("no",),
    "requiredrsasize": (),
    "revokedkeys": ("none",),
    "usepam": ("yes",),
    "maxauthtries": tuple("123456789"),
}
# Algorithms that current clients offer. A list without any of these refuses them.
MODERN = {
    "ciphers": ("chacha20-poly1305@openssh.com", "aes*-ctr", "aes*-gcm@openssh.com"),
    "kexalgorithms": ("*25519*", "ecdh-sha2-nistp*", "diffie-hellman-group*-sha256", "diffie-hellman-group1?-sha512"),
    "hostkeyalgorithms": ("*ssh-ed25519*", "*ecdsa-sha2-*", "rsa-sha2-*"),
}


class Account(Record):
    """The admin's account, as it is or will be. Days count as in /etc/shadow; NEVER where there is no limit."""

    name: str
    uid: int | None  # None: the account does not exist yet
    gid: int | None
    groups: frozenset[str]
    gids: frozenset[int]
    home: str
    shell: str
    private_group: bool = False  # its primary group has no other member
    locked: bool = False
    malformed: bool = False  # the C library finds no entry in its line of /etc/shadow
    usable: bool = False  # some password is set
    expires: int = NEVER
    changed: int = NEVER
    longest: int = NEVER
    inactive: int = NEVER


class Verdict(Record):
    """Level 0: the admin can log in; 1: that is doubtful; 2: certainly not."""

    level: int
    why: str
    notes: tuple[str, ...] = ()  # credentials that do not work where another one does


def plan_access(
    *,
    metadata: Metadata,
    host: Host,
    accounts: Accounts,
    ssh: Ssh,
    admin: AdminFiles,
    access: Access | None,
    config: Config,
    today: int,
    pending: bool,
) -> Plan:
    """`pending`: other steps of the plan are still to be taken."""
    if access is None or not ssh.installed or not (metadata.keys or metadata.has_password):
        return ()
    account = account_of(metadata.username or "", accounts, config)
    ordinary = is_plain(ssh) and not concerns(
        account, ssh=ssh, admin=admin, access=access, today=today, pending=pending
    )
    if metadata.keys and ordinary and (pending or account.uid is None or holds_key(metadata, admin)):
        return ()
    from azureinit.plan.login_rules import judge

    verdict = judge(
        account,
        metadata=metadata,
        host=host,
        accounts=accounts,
        ssh=ssh,
        admin=admin,
        access=access,
        today=today,
        pending=pending,
    )
    name = f"login {account.name}"
    notes = tuple(Caution(name=name, why=why) for why in verdict.notes)
    if not verdict.level:
        return notes
    if not pending and must_ask(account, host=host, ssh=ssh, access=access, config=config) and not ssh.privsep_dir:
        # An sshd without -G reports its configuration only if this directory exists; its unit makes it later.
        way = Way(backend="native", actions=(MakeDir(path=PRIVSEP, mode=0o755),))
        why, did = f"sshd needs {PRIVSEP} to report its configuration", f"made {PRIVSEP}, which sshd needs"
        return (Step(name=name, why=why, did=did, ways=(way,)),)
    if config.access.required == "false" or (config.access.required == "auto" and verdict.level == 1):
        return (*notes, Caution(name=name, why=verdict.why))
    why = f"{verdict.why}. Correct the image or customData, or set access.required = false"
    return (*notes, Step(name=name, why=why, ways=(Declined(backend="sshd", why=why),), failure=LoginImpossible))


def questions(*, metadata: Metadata, host: Host, accounts: Accounts, ssh: Ssh, config: Config) -> tuple[str, ...]:
    """The connections to ask sshd about; none for an ordinary image, or before the account exists."""
    username = metadata.username or ""
    if is_plain(ssh) or accounts.user(username) is None or not _can_ask(host, config):
        return ()
    if _needs_privsep(ssh) and not (ssh.privsep_dir and any(key.whole for key in ssh.host_keys)):
        return ()
    from azureinit.plan.login_rules import connections

    return connections(account_of(username, accounts, config), ssh)


def must_ask(account: Account, *, host: Host, ssh: Ssh, access: Access, config: Config) -> bool:
    """Whether sshd would have to be asked, and only lacks its directory."""
    asked = bool(access.answers or access.unanswered)
    keys = any(key.whole for key in ssh.host_keys)
    plain = is_plain(ssh) or account.uid is None
    return not plain and not asked and keys and _can_ask(host, config) and _needs_privsep(ssh)


def _can_ask(host: Host, config: Config) -> bool:
    return config.ssh.query_sshd_config and not host.rooted and host.privileged and "sshd" in host.tools


def _needs_privsep(ssh: Ssh) -> bool:
    return ssh.version is not None and ssh.version < (9, 3)


def is_plain(ssh: Ssh) -> bool:
    """Whether sshd's configuration does not restrict logins with a key."""
    return not ssh.query_failure.startswith("sshd -G: /") and all(map(_is_harmless, ssh.directives))


def _is_harmless(said: Directive) -> bool:
    if said.block is not None:
        return False
    if said.keyword == "authorizedkeysfile":
        return all(word.lower() != "none" and (word[0] != "/" or "%" in word) for word in said.arguments if word)
    if said.keyword in MODERN:
        return is_modern(said.keyword, said.arguments[0])
    return said.keyword not in DECIDING or said.arguments[0].lower() in DECIDING[said.keyword]


def is_modern(keyword: str, listed: str) -> bool:
    """Whether the list has an algorithm that clients offer. `+`, `-` and `^` change sshd's default list, which has."""
    if listed[:1] in ("+", "-", "^"):
        return True
    from azureinit.plan.sshd_match import match_pattern

    names = listed.split(",")
    # A name that is itself a pattern matches more names.
    return any(
        match_pattern(name, pattern) or "*" in name or "?" in name for name in names for pattern in MODERN[keyword]
    )


def concerns(account: Account, *, ssh: Ssh, admin: AdminFiles, access: Access, today: int, pending: bool) -> bool:
    """Whether anything about the account, its files or the machine is out of the ordinary."""
    if access.pam is None or pam_problem(access.pam):
        return True
    if access.nologin or access.denied or access.shell or access.start is not None or account.uid == 0:
        return True
    aged = account.changed == 0 or NEVER < account.longest <= today - account.changed
    if account.uid is None or pending:
        return False
    return (
        account.expires != NEVER
        or account.malformed
        or bool(closed(access.shell_way, account, ENTER))
        or aged
        or not any(key.whole for key in ssh.host_keys)
        or ssh.authorized_keys_files == ()
        or not access.ways
        or any(strict_problem(way, account) or closed(way, account) for way in access.ways)
        or any(b'"' in file.data or b"cert-authority" in file.data for file in admin.keys_files if file.data)
    )


def holds_key(metadata: Metadata, admin: AdminFiles) -> bool:
    """Whether a file of the admin's keys has one of the given ones. True where a file cannot be read here: sshd may."""
    given = {key_identity(one_line(key.data)) for key in metadata.keys} - {None}
    if not given or any(file.hidden or file.problem for file in admin.keys_files):
        return True
    texts = [file.data.decode("utf-8", "replace") for file in admin.keys_files if file.data]
    return any(key_identity(line) in given for text in texts for line in text.split("\n"))


# PAM modules whose rules are known here, or that refuse no account of this machine. Others decide by unknown rules.
KNOWN_MODULES = frozenset(
    f"pam_{name}"
    for name in (
        "unix", "nologin", "permit", "deny", "localuser", "faillock", "tally2", "sss", "sepermit", "systemd_home",
        "usertype", "extrausers", "ldap", "krb5", "winbind", "env", "cap", "loginuid", "selinux", "warn",
    )
)  # fmt: skip
DENYING = "pam_deny"


def pam_problem(pam: Pam) -> tuple[str, bool] | None:
    """Why sshd's PAM stack may refuse every account, and whether that is certain."""
    if not pam.account:
        return "no account lines for sshd in /etc/pam.d: PAM refuses every account", False
    for kind, modules in (("account", pam.account), ("session", pam.session)):
        for module in modules:
            if _skips(module.control):
                break  # as in Debian's common-account
            if module.name == DENYING and _decides(module.control):
                return f"{DENYING} in sshd's PAM stack (/etc/pam.d/sshd, {kind} lines) refuses every account", True
    for module in pam.account:
        if module.name not in KNOWN_MODULES and _decides(module.control):
            return f"{module.name} in sshd's PAM stack decides by rules that azure-init does not read", False
    return None


def _decides(control: str) -> bool:
    """Whether a refusal of the module counts."""
    return control in ("required", "requisite") or (control[:1] == "[" and "default=ignore" not in control)


def _skips(control: str) -> bool:
    """Whether the module may skip those after it."""
    ends = [word.strip("[]").partition("=")[2] for word in control.split()]
    return control == "sufficient" or any(end == "done" or end.isdecimal() for end in ends)


def account_of(username: str, accounts: Accounts, config: Config) -> Account:
    groups = groups_of_account(username, accounts, config)
    user = accounts.user(username)
    if user is None:
        return Account(
            name=username,
            uid=None,
            gid=None,
            groups=groups,
            gids=frozenset(),
            home=accounts.home_of(username),
            shell=accounts.shell,
        )
    fields = [field.reveal() for field in accounts.shadow_fields(username) or ()]
    password = fields[1] if len(fields) > 1 else user.password.reveal()

    def days(at: int) -> int:
        text = fields[at] if len(fields) > at else b""
        return int(text) if text.isdigit() and len(text) < 10 else NEVER

    return Account(
        name=username,
        uid=user.uid,
        gid=user.gid,
        groups=groups,
        gids=frozenset((user.gid, *(group.gid for group in accounts.groups if group.name in groups))),
        home=user.home,
        shell=user.shell,
        private_group=not any(
            other.gid == user.gid and other.uid != user.uid for other in (*accounts.users, *accounts.vendor_users)
        )
        and not any(group.gid == user.gid and set(group.members) - {username} for group in accounts.groups),
        locked=password.startswith(b"!"),
        malformed=is_malformed(fields),
        usable=bool(password) and password[:1] not in (b"!", b"*", b"x"),
        expires=days(7),
        changed=days(2),
        longest=days(4),
        inactive=days(6),
    )


def _is_number(text: bytes) -> bool:
    """A number of 32 bits. The count of digits is checked first: Python refuses to convert thousands of them."""
    digits = text.lstrip(b"0") or b"0"
    return text.isdigit() and len(digits) <= 10 and int(digits) < 1 << 32


def is_malformed(fields: list[bytes]) -> bool:
    """By glibc's rules for /etc/shadow: fields are numbers or empty; six or seven of them, or only three."""
    numbers = fields[2:]
    wrong = any(field and not _is_number(field.lstrip()) for field in numbers)
    three = len(numbers) == 3 or (len(numbers) == 4 and not numbers[3])
    whole = three or len(numbers) == 7 or (len(numbers) == 6 and numbers[5])
    return bool(fields) and (wrong or not whole)


def strict_problem(way: tuple[Node, ...], account: Account) -> tuple[str, bool] | None:
    """Why StrictModes refuses a key file, and whether every sshd does. It checks from the file up to the home, or to /.

    Some distributions' sshd allows the user's own group to write.
    """
    if account.uid is None or not way:
        return None
    home = "/" + "/".join(part for part in account.home.split("/") if part)
    doubt: tuple[str, bool] | None = None
    for node in reversed(way):
        if node.uid not in (0, account.uid):
            return f"{node.path} belongs to uid {node.uid}", True
        if node.mode & OTHERS_WRITE:
            own = not node.mode & WORLD_WRITES and node.gid == account.gid and account.private_group
            doubt = f"others may write to {node.path} (mode {node.mode:04o})", not own
            if not own:
                return doubt
        if node.path == home:
            break
    return doubt


def closed(way: tuple[Node, ...], account: Account, wanted: int = READ) -> str:
    """Why the user may not read it, or run it: sshd does both as that user."""
    if not account.uid or not way:
        return ""
    for node in way[:-1]:
        if not _may(node, ENTER, account):
            return f"{account.name} may not enter {node.path}"
    verb = "read" if wanted == READ else "run"
    return "" if _may(way[-1], wanted, account) else f"{account.name} may not {verb} {way[-1].path}"


def _may(node: Node, wanted: int, account: Account) -> bool:
    shift = 6 if node.uid == account.uid else 3 if node.gid in account.gids else 0
    return bool(node.mode >> shift & wanted)


def paths_of(*, metadata: Metadata, accounts: Accounts, ssh: Ssh, admin: AdminFiles, config: Config) -> tuple[str, ...]:
    """The key files whose path has to be checked."""
    username = metadata.username or ""
    home = accounts.home_of(username)
    if not metadata.keys or accounts.user(username) is None:
        return ()
    return key_paths(
        username=username, home=home, keys=metadata.keys, accounts=accounts, ssh=ssh, admin=admin, config=config
    )
