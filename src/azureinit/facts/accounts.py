"""Accounts and groups by the machine's own files, and the rules by which a new account is made."""

from __future__ import annotations

import errno
import stat

from azureinit.errors import LocalError
from azureinit.facts.policy import LAST_ID, Policy, SubIds, parse_policy
from azureinit.record import Record, Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from azureinit.machine import Machine

    Named = TypeVar("Named", "Passwd", "Group")

LOGIN_DEFS = ("/etc/login.defs", "/usr/etc/login.defs")
USERADD_DEFAULTS = ("/etc/default/useradd", "/usr/etc/default/useradd")
NSSWITCH = ("/etc/nsswitch.conf", "/usr/etc/nsswitch.conf")
# Read by some versions of useradd too: more of login.defs (SUSE), and programs that run for every new account.
BESIDE = (
    ("/etc/login.defs.d", ".defs"),
    ("/usr/etc/login.defs.d", ".defs"),
    ("/etc/shadow-maint/useradd-pre.d", ""),
    ("/etc/shadow-maint/useradd-post.d", ""),
)
VENDOR_SKELETON = "/usr/etc/skel"
NSS_DATABASES = ("passwd", "group", "shadow", "gshadow")
# Services of nsswitch.conf that answer from the files below and the running system alone.
NSS_PLAIN = ("files", "compat", "systemd")
# Account files of vendors that leave /etc to the machine's owner, by the service that reads them.
VENDOR_FILES = {"altfiles": ("/usr/lib",), "usrfiles": ("/usr/share/baselayout", "/usr/etc")}
CACHES = (("nscd", "/run/nscd/socket"), ("sssd", "/run/sssd.pid"), ("auditd", "/run/auditd.pid"))
MOST_SKELETON_ENTRIES = 500
MOST_SKELETON_BYTES = 4 << 20
MOST_HOMES = 1000
MOST_BYTES = 16 << 20


class Passwd(Record):
    name: str
    password: Secret
    uid: int
    gid: int
    home: str
    shell: str
    comment: str = ""

    @classmethod
    def of_row(cls, row: list[str]) -> Passwd:
        """From the fields of a line whose numbers are numbers."""
        name, password, uid, gid, comment, home, shell = row[:7]
        return cls(
            name=name, password=Secret(password), uid=int(uid), gid=int(gid), comment=comment, home=home, shell=shell
        )


class Group(Record):
    name: str
    gid: int
    members: tuple[str, ...]


class Skeleton(Record):
    """One entry of the skeleton of new homes, by its relative path: a file, a link, or else a directory."""

    path: str
    mode: int
    data: bytes | None = None
    target: str | None = None


class Home(Record):
    """A directory that is or could become a home; `has`: the paths of the skeleton that are complete in it."""

    path: str
    uid: int
    empty: bool
    has: frozenset[str]


class Accounts(Record):
    policy: Policy
    users: tuple[Passwd, ...]
    groups: tuple[Group, ...]
    # None where the file does not exist or cannot be read; then `unreadable` names it.
    shadow: Secret | None
    gshadow: Secret | None
    unreadable: tuple[str, ...]
    subuid: tuple[SubIds, ...] | None
    subgid: tuple[SubIds, ...] | None
    skeleton: tuple[Skeleton, ...]
    # Why azure-init cannot copy the skeleton.
    skeleton_problem: str
    home_base: bool
    homes: tuple[Home, ...]
    shell: str
    # Names in the mail spool, where a new account gets a mailbox.
    mailboxes: frozenset[str] | None
    nss_plain: bool
    nss_why: str
    caches: tuple[str, ...]
    # A file that only useradd can apply.
    beside: str = ""
    # Accounts outside /etc, which neither azure-init nor the system's tools can change.
    vendor_users: tuple[Passwd, ...] = ()
    vendor_groups: tuple[Group, ...] = ()

    def user(self, name: str) -> Passwd | None:
        return next((user for user in self.users if user.name == name), None)

    def group(self, name: str) -> Group | None:
        return next((group for group in self.groups if group.name == name), None)

    def vendor_user(self, name: str) -> Passwd | None:
        return next((user for user in self.vendor_users if user.name == name), None)

    def groups_of(self, name: str) -> frozenset[str]:
        """All groups of the user, with the primary one."""
        user = self.user(name)
        primary = user.gid if user else None
        return frozenset(group.name for group in self.groups if name in group.members or group.gid == primary)

    def home_of(self, name: str) -> str:
        """The user's home, or the one that a new account would get."""
        user = self.user(name)
        return user.home if user else f"{self.policy.home}/{name}"

    def home(self, path: str) -> Home | None:
        return next((home for home in self.homes if home.path == path), None)

    def shadow_fields(self, name: str) -> tuple[Secret, ...] | None:
        return fields_of(self.shadow, name)

    def has_gshadow(self, name: str) -> bool:
        return fields_of(self.gshadow, name) is not None

    def password_state(self, name: str) -> str:
        """`set`, `locked` (a hash that is made unusable), `none` (no hash) or `unknown`."""
        user = self.user(name)
        if user is None:
            return "unknown"
        fields = self.shadow_fields(name)
        field = fields[1] if fields and len(fields) > 1 else user.password
        if field == Secret("x"):
            return "unknown"
        if field.reveal().startswith(b"!"):
            return "locked"
        return "none" if field.reveal().startswith(b"*") else "set"

    def password_is(self, name: str, value: Secret) -> bool:
        fields = self.shadow_fields(name)
        return fields is not None and fields[1:2] == (value,)


def read_accounts(machine: Machine, before: Accounts | None = None) -> Accounts:
    """`before`: an earlier reading of this run. The image's policy, skeleton and shell are taken from it."""
    unreadable: list[str] = []
    passwd_bytes = machine.read("/etc/passwd", limit=MOST_BYTES) or b""
    group_bytes = machine.read("/etc/group", limit=MOST_BYTES) or b""
    users = parse_passwd(passwd_bytes)
    groups = parse_group(group_bytes)
    if before is not None:
        policy, skeleton, problem, nss_why = before.policy, before.skeleton, before.skeleton_problem, before.nss_why
        vendor_users, vendor_groups, beside = before.vendor_users, before.vendor_groups, before.beside
    else:
        policy = parse_policy(_first(machine, LOGIN_DEFS), _first(machine, USERADD_DEFAULTS))
        beside = policy.program or _read_beside(machine)
        nsswitch = _first(machine, NSSWITCH)
        nss_why = nss_problem(nsswitch, passwd_bytes + b"\n" + group_bytes)
        vendor_users = parse_passwd(_read_vendor(machine, nsswitch, "passwd")) if nss_why else ()
        vendor_groups = parse_group(_read_vendor(machine, nsswitch, "group")) if nss_why else ()
        try:
            skeleton, problem = _read_skeleton(machine, policy.skeleton)
        except LocalError as error:
            skeleton, problem = (), str(error)
    return Accounts(
        policy=policy,
        users=users,
        groups=groups,
        shadow=_read_secret(machine, "/etc/shadow", unreadable),
        gshadow=_read_secret(machine, "/etc/gshadow", unreadable),
        unreadable=tuple(unreadable),
        subuid=_read_subids(machine, "/etc/subuid"),
        subgid=_read_subids(machine, "/etc/subgid"),
        skeleton=skeleton,
        skeleton_problem=problem,
        home_base=machine.is_dir(policy.home),
        homes=_read_homes(machine, policy, users, skeleton),
        shell=_choose_shell(machine, policy.shell),
        mailboxes=_read_mailboxes(machine, policy),
        nss_plain=not nss_why,
        nss_why=nss_why,
        caches=() if machine.rooted else tuple(name for name, path in CACHES if machine.stat(path)),
        beside=beside,
        vendor_users=_others(vendor_users, users),
        vendor_groups=_others(vendor_groups, groups),
    )


# ---- parsers


def _rows(data: bytes, *, fields: int) -> list[list[str]]:
    """Lines with that many fields or more. Comments, empty lines, NIS lines and lines with a NUL are left out."""
    rows = []
    for line in data.decode("utf-8", "surrogateescape").split("\n"):
        row = line.split(":")
        if len(row) >= fields and row[0] and row[0][0] not in "#+-" and "\0" not in line:
            rows.append(row)
    return rows


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= LAST_ID


def parse_passwd(data: bytes) -> tuple[Passwd, ...]:
    return tuple(Passwd.of_row(row) for row in _rows(data, fields=7) if _is_number(row[2]) and _is_number(row[3]))


def parse_group(data: bytes) -> tuple[Group, ...]:
    """The last field, the members, may be missing: shadow-utils allow that."""
    return tuple(
        Group(name=row[0], gid=int(row[2]), members=tuple(filter(None, "".join(row[3:4]).split(","))))
        for row in _rows(data, fields=3)
        if _is_number(row[2])
    )


def parse_subids(data: bytes) -> tuple[SubIds, ...]:
    return tuple(
        SubIds(name=row[0], start=int(row[1]), count=int(row[2]))
        for row in _rows(data, fields=3)
        if _is_number(row[1]) and _is_number(row[2])
    )


def nss_problem(nsswitch: bytes, account_files: bytes) -> str:
    """Why accounts may exist outside the files; empty where none can."""
    for line in nsswitch.decode("utf-8", "replace").split("\n"):
        database, colon, services = line.partition("#")[0].partition(":")
        if not colon or database.strip() not in NSS_DATABASES:
            continue
        first, *others = services.split("[")
        named = [first, *(part.partition("]")[2] for part in others)]  # words in brackets are actions, not services
        for service in " ".join(named).split():
            if service not in NSS_PLAIN:
                return f"nsswitch.conf asks {service} for {database.strip()}"
            if service == "compat" and any(entry[:1] in (b"+", b"-") for entry in account_files.split(b"\n")):
                return f"nsswitch.conf includes NIS for {database.strip()}"
    return ""


def fields_of(data: Secret | None, name: str) -> tuple[Secret, ...] | None:
    prefix = name.encode("utf-8", "surrogateescape") + b":"
    for line in data.reveal().split(b"\n") if data else ():
        if line.startswith(prefix):
            return tuple(Secret(field) for field in line.split(b":"))
    return None


# ---- readers


def _first(machine: Machine, paths: tuple[str, ...]) -> bytes:
    return next((data for data in map(machine.read, paths) if data is not None), b"")


def _read_beside(machine: Machine) -> str:
    try:
        found = (
            f"{place}/{name}"
            for place, ending in BESIDE
            for name in machine.names(place) or ()
            if name.endswith(ending)
        )
        return next(found, "")
    except LocalError as error:
        return str(error)


def _read_vendor(machine: Machine, nsswitch: bytes, name: str) -> bytes:
    places = [place for service, places in VENDOR_FILES.items() if service.encode() in nsswitch for place in places]
    return b"\n".join(machine.read(f"{place}/{name}", limit=MOST_BYTES) or b"" for place in places)


def _others(vendor: tuple[Named, ...], local: tuple[Named, ...]) -> tuple[Named, ...]:
    """Without the names that /etc has too: /etc takes precedence."""
    known = {one.name for one in local}
    return tuple(one for one in vendor if one.name not in known)


def _read_secret(machine: Machine, path: str, unreadable: list[str]) -> Secret | None:
    try:
        data = machine.read(path, limit=MOST_BYTES)
    except LocalError as error:
        if error.errno not in (errno.EACCES, errno.EPERM):
            raise
        unreadable.append(path)
        return None
    return None if data is None else Secret(data)


def _read_subids(machine: Machine, path: str) -> tuple[SubIds, ...] | None:
    data = machine.read(path, limit=MOST_BYTES)
    return None if data is None else parse_subids(data)


def _read_skeleton(machine: Machine, path: str) -> tuple[tuple[Skeleton, ...], str]:
    """The entries, parents first, and why they cannot be copied. Entries in /etc replace the vendor's."""
    found: dict[str, Skeleton] = {}
    left = MOST_SKELETON_BYTES
    pending = [(base, name) for base in (path, VENDOR_SKELETON) for name in reversed(machine.names(base) or ())]
    while pending:
        base, below = pending.pop()
        here = f"{base}/{below}"
        status = machine.stat(here, follow=False)
        if status is None:
            continue
        if len(found) >= MOST_SKELETON_ENTRIES or left < 0:
            return (), f"{path} is larger than a skeleton should be"
        mode, kind = stat.S_IMODE(status.st_mode), stat.S_IFMT(status.st_mode)
        if kind == stat.S_IFDIR:
            found[below] = Skeleton(path=below, mode=mode)
            pending += [(base, f"{below}/{name}") for name in reversed(machine.names(here) or ())]
        elif kind == stat.S_IFLNK:
            found[below] = Skeleton(path=below, mode=mode, target=machine.read_link(here))
        elif kind == stat.S_IFREG:
            data = machine.read(here, limit=MOST_SKELETON_BYTES) or b""
            left -= len(data)
            found[below] = Skeleton(path=below, mode=mode, data=data)
        else:
            return (), f"{here} is neither a file, a directory nor a link"
    return tuple(found.values()), ""


def _choose_shell(machine: Machine, configured: str | None) -> str:
    """The shell that the image configures. /bin/sh does not count: it is useradd's fallback, not a choice."""
    if configured and configured != "/bin/sh":
        return configured
    return "/bin/bash" if machine.is_file("/bin/bash") else "/bin/sh"


def _read_homes(
    machine: Machine, policy: Policy, users: tuple[Passwd, ...], skeleton: tuple[Skeleton, ...]
) -> tuple[Home, ...]:
    paths = [user.home for user in users if policy.uid_min <= user.uid <= policy.uid_max and user.home[:1] == "/"]
    try:
        paths += [f"{policy.home}/{name}" for name in (machine.names(policy.home) or ())[:MOST_HOMES]]
    except LocalError:
        pass  # the step that makes homes fails there too, and names the cause
    lived_in = {user.home for user in users}
    homes = (_read_home(machine, path, skeleton, lived_in=path in lived_in) for path in dict.fromkeys(paths))
    return tuple(home for home in homes if home is not None)


def _read_home(machine: Machine, path: str, skeleton: tuple[Skeleton, ...], *, lived_in: bool) -> Home | None:
    uid = -1
    try:
        status = machine.stat(path)
        if status is None or not stat.S_ISDIR(status.st_mode):
            return None
        uid = status.st_uid
        entries = (entry for entry in skeleton if _is_there(machine, path, entry, uid=uid, lived_in=lived_in))
        has = frozenset(entry.path for entry in entries)
        return Home(path=path, uid=uid, empty=not machine.names(path), has=has)
    except LocalError:
        # A directory that cannot be read belongs to another account: nothing in it counts as missing.
        return Home(path=path, uid=uid, empty=False, has=frozenset(entry.path for entry in skeleton))


def _is_there(machine: Machine, home: str, entry: Skeleton, *, uid: int, lived_in: bool) -> bool:
    """Files are written atomically. A directory or link is not: after an interrupted run it may lack owner or mode.

    In a home without an account the copy was made for a uid that another account may have by now: it is made again.
    """
    path = f"{home}/{entry.path}"
    status = machine.stat(path, follow=False)
    if status is None:
        return False
    if not lived_in and entry.data is not None and stat.S_ISREG(status.st_mode):
        return machine.read(path, limit=MOST_SKELETON_BYTES, beneath=home) != entry.data
    if not lived_in and entry.target is None and stat.S_ISDIR(status.st_mode):
        return False
    if entry.target is not None and stat.S_ISLNK(status.st_mode):
        return status.st_uid == uid
    if entry.target is None and entry.data is None and stat.S_ISDIR(status.st_mode):
        return status.st_uid == uid and stat.S_IMODE(status.st_mode) == entry.mode
    return True


def _read_mailboxes(machine: Machine, policy: Policy) -> frozenset[str] | None:
    names = machine.names(policy.mail_dir) if policy.mail_dir else None
    return None if names is None else frozenset(names)
