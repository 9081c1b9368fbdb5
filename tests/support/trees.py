"""File trees to provision: the files of a generalised Debian image that an agent reads."""

from __future__ import annotations

import os
import stat
from pathlib import Path

PASSWD = "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
GROUP = "root:x:0:\ndaemon:x:1:\nadm:x:4:\nsudo:x:27:\n"
SHADOW = "root:*:19700:0:99999:7:::\ndaemon:*:19700:0:99999:7:::\n"
GSHADOW = "root:*::\ndaemon:*::\nadm:*::\nsudo:*::\n"
LOGIN_DEFS = """\
UID_MIN 1000
UID_MAX 60000
GID_MIN 1000
GID_MAX 60000
SUB_UID_MIN 100000
SUB_UID_MAX 600100000
SUB_UID_COUNT 65536
SUB_GID_MIN 100000
SUB_GID_MAX 600100000
SUB_GID_COUNT 65536
PASS_MAX_DAYS 99999
PASS_MIN_DAYS 0
PASS_WARN_AGE 7
USERGROUPS_ENAB yes
UMASK 022
HOME_MODE 0750
ENCRYPT_METHOD SHA512
"""


def make_tree(root: Path) -> Path:
    files = {
        "etc/os-release": 'ID=debian\nVERSION_ID="12"\n',
        "etc/hosts": "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n",
        "etc/hostname": "localhost\n",
        "etc/passwd": PASSWD,
        "etc/group": GROUP,
        "etc/shadow": SHADOW,
        "etc/gshadow": GSHADOW,
        "etc/subuid": "",
        "etc/subgid": "",
        "etc/login.defs": LOGIN_DEFS,
        "etc/default/useradd": "SHELL=/bin/sh\n",
        "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\ngshadow: files\n",
        "etc/skel/.profile": "# profile\n",
        "etc/skel/.bashrc": "# bashrc\n",
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in ("etc/shadow", "etc/gshadow"):
        (root / name).chmod(0o640)
    for name in ("etc/sudoers.d", "home", "var/lib", "var/log", "run", "tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)
    return root


def listing(root: Path) -> dict[str, tuple[str, str, bytes]]:
    """Mode, owner and content of every file, link and directory."""
    found = {}
    for directory, names, files in os.walk(root):
        for name in (*names, *files):
            path = Path(directory, name)
            status = path.lstat()
            owner = f"{status.st_uid}:{status.st_gid}"
            if stat.S_ISLNK(status.st_mode):
                content = os.readlink(path).encode()
            else:
                content = path.read_bytes() if path.is_file() else b""
            found[str(path.relative_to(root))] = (stat.filemode(status.st_mode), owner, content)
    return found


def changed(before: dict[str, tuple[str, str, bytes]], after: dict[str, tuple[str, str, bytes]]) -> set[str]:
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}
