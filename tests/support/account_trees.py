"""What the tests of the account files share."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

from azureinit.apply.executor import apply_step
from azureinit.config.model import Config, PasswordProvisioners, UserProvisioners
from azureinit.facts.gather import read_facts
from azureinit.machine import Machine
from azureinit.memory.journal import Journal
from azureinit.plan.account import plan_account
from azureinit.plan.actions import Step
from azureinit.record import Secret, replace
from support.facts import altered, parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.plan.actions import Plan


PASSWD = """\
root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""


GROUP = "root:x:0:\ndaemon:x:1:\nadm:x:4:daemon\nmail:x:8:\nsudo:x:27:\nusers:x:100:\nnogroup:x:65534:\n"


DEBIAN_DEFS = """\
# Debian
MAIL_DIR        /var/mail
UMASK\t\t022
PASS_MAX_DAYS\t99999
PASS_MIN_DAYS\t0
PASS_WARN_AGE\t7
UID_MIN\t\t\t 1000
UID_MAX\t\t\t60000
SUB_UID_MIN\t\t   100000
SUB_UID_MAX\t\t600100000
SUB_UID_COUNT\t\t    65536
GID_MIN\t\t\t 1000
GID_MAX\t\t\t60000
USERGROUPS_ENAB yes
ENCRYPT_METHOD SHA512
"""


DEBIAN_USERADD = "# defaults\nSHELL=/bin/sh\n# GROUP=100\nSKEL=/etc/skel\n"


RHEL_DEFS = DEBIAN_DEFS.replace("/var/mail", "/var/spool/mail") + "HOME_MODE\t0700\n"


RHEL_USERADD = "GROUP=100\nHOME=/home\nINACTIVE=-1\nEXPIRE=\nSHELL=/bin/bash\nSKEL=/etc/skel\nCREATE_MAIL_SPOOL=yes\n"


def shadow_of(passwd: str) -> str:
    return "".join(f"{line.split(':')[0]}:*:19000:0:99999:7:::\n" for line in passwd.splitlines() if line[:1] != "+")


def gshadow_of(group: str) -> str:
    rows = (line.split(":") for line in group.splitlines())
    return "".join(f"{row[0]}:*::{''.join(row[3:])}\n" for row in rows)


def make_tree(
    root: Path,
    *,
    passwd: str = PASSWD,
    group: str = GROUP,
    defs: str = DEBIAN_DEFS,
    useradd: str = DEBIAN_USERADD,
    gshadow: bool = True,
    subuid: str | None = "",
    subgid: str | None = "",
) -> None:
    etc = root / "etc"
    for directory in (etc / "default", etc / "skel" / ".config" / "deep", root / "home", root / "var/mail"):
        directory.mkdir(parents=True)
    (root / "var/spool/mail").mkdir(parents=True)
    contents = {"passwd": passwd, "group": group, "shadow": shadow_of(passwd), "login.defs": defs}
    contents.update({"default/useradd": useradd, "nsswitch.conf": "passwd: files systemd\n"})
    contents.update({"gshadow": gshadow_of(group)} if gshadow else {})
    contents.update({name: text for name, text in (("subuid", subuid), ("subgid", subgid)) if text is not None})
    for name, text in contents.items():
        (etc / name).write_text(text)
        (etc / name).chmod(0o640 if "shadow" in name else 0o644)
    (etc / "skel" / ".bashrc").write_bytes(b"# bash\n\xff\n")
    (etc / "skel" / ".config" / "deep" / "run").write_text("#!/bin/sh\n")
    (etc / "skel" / ".config" / "deep" / "run").chmod(0o750)
    (etc / "skel" / ".config").chmod(0o700)
    (etc / "skel" / ".rc").symlink_to(".bashrc")
    for path in (etc / "skel").rglob("*"):
        os.chown(path, 0, 0, follow_symlinks=False)
    for name in ("shadow", "gshadow"):
        if (etc / name).exists():
            os.chown(etc / name, 0, 42)


def snapshot(root: Path) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        kind = stat.S_IFMT(status.st_mode)
        inside = os.readlink(path) if kind == stat.S_IFLNK else path.read_bytes() if kind == stat.S_IFREG else None
        found[str(path.relative_to(root))] = (oct(status.st_mode), status.st_uid, status.st_gid, inside)
    return found


FILES_ONLY = Config(
    user_provisioners=UserProvisioners(backends=("files",)),
    password_provisioners=PasswordProvisioners(backends=("files",)),
)


TOOLS_ONLY = Config(
    user_provisioners=UserProvisioners(backends=("useradd",)),
    password_provisioners=PasswordProvisioners(backends=("chpasswd",)),
)


def plan_for(
    machine: Machine, groups: tuple[str, ...] = (), password: Secret | None = None, *, tools: bool = False
) -> Plan:
    """With `tools`: as if the tree were the running system."""
    facts = read_facts(machine, FILES_ONLY)
    if tools:
        facts = altered(facts, rooted=False, tools=frozenset(("useradd", "usermod", "chpasswd")))
    return plan_account(
        username="bob",
        groups=groups,
        password_hash=password,
        password_done=False,
        **parts(facts, "host", "accounts"),
        config=TOOLS_ONLY if tools else FILES_ONLY,
        today=today(),
    )


def today() -> int:
    return int(time.time()) // 86400


def apply(machine: Machine, plan: Plan) -> list[str]:
    """The names of the steps it took. Nothing is journalled: these trees are compared whole."""
    journal = Journal("/journal", [])
    journal.locks = {f"/etc/{name}.lock" for name in ("passwd", "shadow", "group", "gshadow", "subuid", "subgid")}
    steps = [replace(item, once=False) for item in plan if isinstance(item, Step)]
    for step in steps:
        apply_step(machine, step, journal=journal, deadline=float("inf"))
    return [step.name for step in steps]
