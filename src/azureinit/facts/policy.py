"""The rules for a new account: login.defs and useradd's defaults."""

from __future__ import annotations

from azureinit.record import Record

LAST_ID = (1 << 32) - 2  # to the kernel the next number means "no id"


class SubIds(Record):
    """A range of subordinate ids and its owner's name."""

    name: str
    start: int
    count: int


class Policy(Record):
    """Days are None where no limit is stated."""

    uid_min: int
    uid_max: int
    gid_min: int
    gid_max: int
    sub_uids: SubIds
    sub_gids: SubIds
    sub_uid_max: int
    sub_gid_max: int
    user_group: bool
    home_mode: int
    min_days: int | None
    max_days: int | None
    warn_days: int | None
    inactive_days: int | None
    expires: str
    group: str
    home: str
    shell: str | None
    skeleton: str
    mail_dir: str | None
    program: str  # run for every new account (SUSE)
    # First and last number of the system's own accounts and groups.
    system_uids: tuple[int, int] = (101, 999)
    system_gids: tuple[int, int] = (101, 999)


def parse_login_defs(data: bytes) -> dict[str, str]:
    values = {}
    for line in data.decode("utf-8", "surrogateescape").split("\n"):
        words = line.split(None, 1)
        if len(words) == 2 and not words[0].startswith("#") and "\0" not in line:
            values[words[0]] = words[1].lstrip(' \t"').partition('"')[0].rstrip()
    return values


def parse_useradd_defaults(data: bytes) -> dict[str, str]:
    pairs = (line.partition("=") for line in data.decode("utf-8", "surrogateescape").split("\n"))
    return {key: value for key, equals, value in pairs if equals and "\0" not in value}


def parse_policy(login_defs: bytes, useradd_defaults: bytes) -> Policy:
    defs, useradd = parse_login_defs(login_defs), parse_useradd_defaults(useradd_defaults)

    def number(key: str, default: int) -> int:
        return _c_number(defs.get(key, ""), default)

    def id_number(key: str, default: int) -> int:
        found = number(key, default)
        return found if 0 <= found <= LAST_ID else default

    def subids(kind: str) -> SubIds:
        return SubIds(name="", start=id_number(f"SUB_{kind}_MIN", 100000), count=number(f"SUB_{kind}_COUNT", 65536))

    def system_ids(kind: str, *, below: int) -> tuple[int, int]:
        return id_number(f"SYS_{kind}_MIN", 101), id_number(f"SYS_{kind}_MAX", max(below - 1, 101))

    spool = useradd.get("CREATE_MAIL_SPOOL", "").lower() == "yes"
    return Policy(
        uid_min=id_number("UID_MIN", 1000),
        uid_max=id_number("UID_MAX", 60000),
        gid_min=id_number("GID_MIN", 1000),
        gid_max=id_number("GID_MAX", 60000),
        sub_uids=subids("UID"),
        sub_gids=subids("GID"),
        sub_uid_max=id_number("SUB_UID_MAX", 600100000),
        sub_gid_max=id_number("SUB_GID_MAX", 600100000),
        # Without login.defs there is no useradd; other tools make a group for each user.
        user_group=defs.get("USERGROUPS_ENAB", "no" if defs else "yes").lower() == "yes",
        home_mode=number("HOME_MODE", 0o777 & ~number("UMASK", 0o022)) & 0o7777,
        min_days=_days(number("PASS_MIN_DAYS", -1)),
        max_days=_days(number("PASS_MAX_DAYS", -1)),
        warn_days=_days(number("PASS_WARN_AGE", -1)),
        inactive_days=_days(_c_number(useradd.get("INACTIVE", ""), -1)),
        expires=useradd.get("EXPIRE", ""),
        group=useradd.get("GROUP", "100"),
        home=useradd.get("HOME", "").rstrip("/") or "/home",
        shell=useradd.get("SHELL"),
        skeleton=useradd.get("SKEL") or "/etc/skel",
        mail_dir=defs.get("MAIL_DIR", "/var/mail" if "MAIL_FILE" not in defs else None) if spool else None,
        program=defs.get("USERADD_CMD", ""),
        system_uids=system_ids("UID", below=id_number("UID_MIN", 1000)),
        system_gids=system_ids("GID", below=id_number("GID_MIN", 1000)),
    )


def _c_number(text: str, default: int) -> int:
    """As strtol with base 0 reads it: 022 is octal."""
    digits = text.strip().lower()
    try:
        if digits.lstrip("+-").startswith("0") and not digits.lstrip("+-").startswith("0x"):
            return int(digits, 8)
        return int(digits, 0)
    except ValueError:
        return default


def _days(number: int) -> int | None:
    return number if number >= 0 else None
