"""customData that is written to break the agent, carried out in a file tree: no defect of the program shows, account
files keep their form, nothing outside the tree changes, and no secret is printed."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from azureinit.cli import main
from support.need import need_root
from support.user_modules import make_vm

SECRET = "CANARY-s3cret"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIDc0C9RWBC3tGBYz9AVjzZk1y8YbZtEbXhmyyW2B3a7"
OUTSIDE = "/dev/shm/azure-init-hostile"
DEFECT = re.compile(r"Traceback|[A-Z]\w+(Error|Exception): .* at \w+\.py:\d+")
ODD = ("a\nb", "a:b", "-x", "..", "../x", "/", "a b", "$(id)", "\x85\u2028", "\x1b[31m", "x" * 300, "a\0b")
HOSTILE: dict[str, dict[str, Any]] = {
    "mount points": {"mounts": [["/dev/nosuch1", OUTSIDE], ["/dev/nosuch2", f"/x/..{OUTSIDE}"], ["tmpfs", "a\tb\nc"]]},
    "rows of fstab": {"mounts": [["/dev/x\n/dev/y / z", "/mnt/a\tb c\nd", "ext4\nx", "defaults\n\tx", "0\n", "2\nq"]]},
    "a share": {"mounts": [["//h/s", "/mnt/s", "cifs", f"user=u,password={SECRET}"]]},
    "homes": {"users": [{"name": "bob", "homedir": OUTSIDE}]},
    "locale": {"locale": "C; rm -rf /"},
    "locale file": {"locale": "C.UTF-8", "locale_configfile": OUTSIDE},
    "time zone": {"timezone": "../../../etc/shadow"},
    "seed": {"random_seed": {"file": OUTSIDE, "data": SECRET}},
    "log rules": {"rsyslog": {"config_dir": "/dev/shm", "configs": [{"content": "x", "filename": OUTSIDE[9:]}]}},
    "log rules above": {"rsyslog": {"configs": [{"content": "x", "filename": f"../../..{OUTSIDE}"}]}},
    "time servers": {"ntp": {"servers": ["a\nb"], "config": {"confpath": OUTSIDE, "check_exe": "/bin/sh"}}},
    "package sources": {"apt": {"sources": {OUTSIDE: {"source": "deb http://h x y"}, "a\nb": {"source": "x"}}}},
    "repositories": {"yum_repo_dir": "/dev/shm", "yum_repos": {OUTSIDE[9:]: {"baseurl": "http://h\n[other]"}}},
    "files": {"write_files": [{"path": f"{top}{OUTSIDE}", "content": SECRET} for top in ("", "/", "/etc/..", "/lnk")]},
    "settings of the kernel": {"write_files": [{"path": "/proc/sys/kernel/hostname", "content": SECRET}]},
    "owners": {"write_files": [{"path": "/etc/x", "content": SECRET, "owner": one} for one in ("a\nb", "-1:9", ":::")]},
    "encodings": {"write_files": [{"path": "/etc/x", "content": SECRET, "encoding": one} for one in ("b64", "gz+b64")]},
    "users": {"users": [{"name": one, "plain_text_passwd": SECRET} for one in ODD]},
    "gecos": {"users": [{"name": "bob", "gecos": "x\nroot2::0:0::/:/bin/sh"}]},
    "shell": {"users": [{"name": "bob", "shell": "/bin/sh\nroot2::0:0::/:/bin/sh"}]},
    "uid": {"users": [{"name": "bob", "uid": "99999999999999999999999"}]},
    "inactive": {"users": [{"name": "bob", "inactive": "9" * 5000}]},
    "password": {"users": [{"name": "bob", "plain_text_passwd": f"{SECRET}\nroot:x", "lock_passwd": False}]},
    "hash": {"users": [{"name": "bob", "hashed_passwd": f"{SECRET}:0\nroot2::0"}]},
    "keys": {"users": [{"name": "bob", "ssh_authorized_keys": [f"{KEY} x\rother"]}]},
    "rules": {"users": [{"name": "bob", "doas": ["permit bob\npermit all"]}]},
    "groups": {"groups": ["a:b", {"x": ["a\nb", "nobody"]}, "-x"]},
    "passwords": {"chpasswd": {"users": [{"name": "root", "password": f"{SECRET}\nbin:x"}]}},
    "password lines": {"chpasswd": {"list": f"root:{SECRET}\n:y\nnone\ndaemon:R"}},
    "host keys": {"ssh_keys": {"rsa_private": f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END X-----"}},
    "host name": {"hostname": "a\nb", "fqdn": "a\n1.2.3.4 other", "manage_etc_hosts": True},
    "packages": {"packages": ["-o", "$(id)", "x\ny", ["-x", "1"]]},
    "phone": {"phone_home": {"url": f"http://u:{SECRET}@169.254.169.254/?sig={SECRET}"}},
    "disks": {"disk_setup": {"/etc/passwd": {"layout": True, "overwrite": True}}},
    "file systems": {"fs_setup": [{"device": "/etc/passwd", "filesystem": "ext4; x", "overwrite": True}]},
    "swap": {"swap": {"filename": "/etc/passwd", "size": "1M"}},
    "keyboard": {"keyboard": {"layout": 'us"\nX="$(id)'}},
    "certificates": {"ca_certs": {"trusted": ["none", "a\0b"]}},
    "commands": {"runcmd": [f"echo {SECRET}", ["a\0b"]], "bootcmd": ["a\0b"]},
    "power": {"power_state": {"mode": "reboot", "message": "\0\n", "condition": "x\ny"}},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_document_breaks_nothing(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    need_root()
    root = make_vm(tmp_path / "root")
    (root / "lnk").symlink_to("/")
    before = {file: (root / "etc" / file).read_text() for file in ("passwd", "shadow", "group")}
    hostname = Path("/proc/sys/kernel/hostname").read_text()
    document = tmp_path / "document"
    document.write_text("#cloud-config\n" + json.dumps(HOSTILE[name], indent=1))
    mask = os.umask(0o022)
    try:
        statuses = [main(["userdata", "validate", str(document)])]
        statuses += [main(["userdata", verb, "--root", str(root), str(document)]) for verb in ("explain", "run")]
    finally:
        os.umask(mask)
    told = "".join(capfd.readouterr())
    assert set(statuses) <= {0, 1}, told
    assert not DEFECT.search(told) and SECRET not in told, told
    assert not os.path.lexists(OUTSIDE) and Path("/proc/sys/kernel/hostname").read_text() == hostname
    for file, fields in (("passwd", 7), ("shadow", 9), ("group", 4)):
        lines = (root / "etc" / file).read_text().split("\n")
        assert all(line.count(":") == fields - 1 for line in lines if line)
        kept = {line.partition(":")[0] for line in before[file].split("\n")}
        names = {line.partition(":")[0] for line in lines}
        assert kept <= names and "root2" not in names
