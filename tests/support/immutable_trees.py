"""Trees whose /usr is the vendor's: few accounts in /etc, links into /usr, keys in pieces."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from support.trees import LOGIN_DEFS

OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl other"
VENDOR_PASSWD = (
    "root:x:0:0:root:/root:/bin/bash\ndocker:x:233:233::/dev/null:/sbin/nologin\n"
    "core:x:500:500:Admin:/home/core:/bin/bash\nnobody:x:65534:65534:nobody:/var/empty:/sbin/nologin\n"
)
VENDOR_GROUP = "root:x:0:root\nadm:x:4:root\nwheel:x:10:root,core\nsudo:x:150:\ndocker:x:233:core\ncore:x:500:\n"
SUBSYSTEM = "Subsystem sftp internal-sftp\nUsePAM yes\n"
INCLUDE = "Include /etc/ssh/sshd_config.d/*.conf\n"
EMPTY = ("etc/sudoers.d", "var/lib", "var/log", "run", "tmp")


def reshape(root: Path, files: Mapping[str, str], links: Mapping[str, str]) -> None:
    """Replaces the whole tree with these files and links."""
    shutil.rmtree(root)
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in EMPTY:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, target in links.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(target)
    for name in ("etc/shadow", "etc/gshadow"):
        (root / name).chmod(0o640)


def flatcar(root: Path, *, includes: bool = True) -> None:
    """`includes`: as it is since its /etc is an overlay; before, sshd_config was a link to a file without drop-ins."""
    files = {
        "usr/lib/os-release": "ID=flatcar\nID_LIKE=coreos\n",
        "usr/bin/update-ssh-keys": "",
        "usr/share/baselayout/passwd": VENDOR_PASSWD,
        "usr/share/baselayout/group": VENDOR_GROUP,
        "usr/share/baselayout/nsswitch.conf": "passwd: files usrfiles sss systemd\ngroup: files usrfiles sss systemd\n",
        "usr/share/shadow/login.defs": LOGIN_DEFS,
        "usr/share/skel/.bashrc": "# bashrc\n",
        "usr/share/ssh/sshd_config": SUBSYSTEM,
        "usr/share/oem/waagent.conf": "Provisioning.Agent=waagent\nProvisioning.MonitorHostName=y\n",
        "etc/passwd": "root:x:0:0:root:/root:/bin/bash\ncore:x:500:500:Admin:/home/core:/bin/bash\n",
        "etc/group": "root:x:0:root\nwheel:x:10:root,core\nsudo:x:150:\ndocker:x:233:core\ncore:x:500:\n",
        "etc/shadow": "root:*:15887:0:::::\ncore:*:15887:0:::::\n",
        "etc/gshadow": "root:*::root\nsudo:!::\n",
        "etc/default/useradd": "GROUP=100\nHOME=/home\nSHELL=/bin/bash\nSKEL=/etc/skel\n",
        "home/core/.bash_logout": "",
    }
    links = {
        "etc/os-release": "../usr/lib/os-release",
        "etc/nsswitch.conf": "../usr/share/baselayout/nsswitch.conf",
        "etc/login.defs": "../usr/share/shadow/login.defs",
        "etc/skel/.bashrc": "../../usr/share/skel/.bashrc",
    }
    if includes:
        files |= {"etc/ssh/sshd_config": INCLUDE, "etc/ssh/sshd_config.d/50-vendor.conf": SUBSYSTEM}
    else:
        links |= {"etc/ssh/sshd_config": "../../usr/share/ssh/sshd_config"}
    reshape(root, files, links)
    (root / "usr/bin/update-ssh-keys").chmod(0o755)


def coreos(root: Path) -> None:
    """An ostree: its homes lie in /var, sshd asks a program for the pieces of its keys, passwords are off."""
    files = {
        "usr/lib/os-release": "ID=fedora\nVARIANT_ID=coreos\n",
        "usr/lib/passwd": VENDOR_PASSWD,
        "usr/lib/group": VENDOR_GROUP,
        "usr/libexec/ssh-key-dir": "",
        "usr/etc/passwd": "root:x:0:0:root:/root:/bin/bash\n",
        "etc/nsswitch.conf": "passwd: files altfiles systemd\ngroup: files altfiles systemd\n",
        "etc/login.defs": LOGIN_DEFS,
        "etc/passwd": "root:x:0:0:root:/root:/bin/bash\ncore:x:1000:1000:CoreOS Admin:/var/home/core:/bin/bash\n",
        "etc/group": "root:x:0:\nwheel:x:10:core\nsudo:x:16:core\ncore:x:1000:\n",
        "etc/shadow": "root:*:19700:0:99999:7:::\ncore:!!:19700:0:99999:7:::\n",
        "etc/gshadow": "root:::\nwheel:::core\ncore:!::\n",
        "etc/default/useradd": "GROUP=100\nHOME=/home\nSHELL=/bin/bash\nSKEL=/etc/skel\n",
        "etc/skel/.bashrc": "# bashrc\n",
        "etc/ssh/sshd_config": INCLUDE + SUBSYSTEM,
        "etc/ssh/sshd_config.d/40-disable-passwords.conf": "PasswordAuthentication no\n",
        "etc/ssh/sshd_config.d/40-ssh-key-dir.conf": "AuthorizedKeysCommand /usr/libexec/ssh-key-dir %u\n",
        "var/home/core/.bashrc": "# bashrc\n",
    }
    reshape(root, files, {"etc/os-release": "../usr/lib/os-release", "home": "var/home"})


def azure_linux(root: Path) -> None:
    files = {
        "usr/lib/os-release": "ID=azurelinux\n",
        "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\n",
        "etc/login.defs": LOGIN_DEFS,
        "etc/passwd": "root:x:0:0:root:/root:/bin/bash\n",
        "etc/group": "root:x:0:\nwheel:x:28:\n",
        "etc/shadow": "root:*:19700:0:99999:7:::\n",
        "etc/gshadow": "root:::\nwheel:::\n",
        "etc/skel/.bashrc": "# bashrc\n",
        "etc/ssh/sshd_config": INCLUDE + SUBSYSTEM,
        "home/.keep": "",
    }
    reshape(root, files, {"etc/os-release": "../usr/lib/os-release", "bin": "usr/bin", "lib": "usr/lib"})


def ignition_ran(root: Path, *, boot_id: str | None = None, user_config: bool = True) -> None:
    """Writes the result of an Ignition run; default: in this boot."""
    this = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    result = {"provisioningBootID": boot_id or this, "userConfigProvided": user_config}
    (root / "etc/.ignition-result.json").write_text(json.dumps(result))
