"""Package sources: the same files as cloud-init of Debian 13 writes. Keys: the same bytes as gpg."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from azureinit.modules.apt_keys import dearmoured
from support.apt_repository import Repository
from support.container import PROJECT, debian_root
from support.need import need, need_root

ENTER = """
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root" || exit 125
root=$2/root
mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" || exit 125
mkdir -p "$root/mnt/src" "$root/mnt/support"
mount --bind "$3/src" "$root/mnt/src" && mount --bind "$3/tests/support" "$root/mnt/support" || exit 125
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin PYTHONPATH=/mnt/src:/mnt PYTHONDONTWRITEBYTECODE=1 \
    chroot "$root" python3 /carry_out.py
"""
# The functions of its modules, with a stub for what they ask of the platform and of gpg.
BY_CLOUD_INIT = """
import json, os, sys
from pathlib import Path
from cloudinit import util
from cloudinit.config import cc_apt_configure, cc_yum_add_repo, cc_zypper_add_repo

class Distro:
    name = "debian"
    def update_package_sources(self, **_options): pass

class Source:
    def get_package_mirror_info(self):
        return {"primary": "http://deb.example.com/debian", "security": "http://deb.example.com/debian-security"}

class Cloud:
    distro, datasource = Distro(), Source()
    def get_template_filename(self, name): return f"/etc/cloud/templates/{name}.tmpl"

class Gpg:
    def dearmor(self, _key): return Path("/key.gpg").read_bytes()

util.lsb_release = lambda: {"codename": "trixie"}
cc_apt_configure._ensure_dependencies = lambda *_: None
config = json.load(sys.stdin)
os.makedirs("/etc/yum.repos.d"); os.makedirs("/etc/zypp/repos.d"); Path("/etc/zypp/zypp.conf").touch()
if "apt" in config: cc_apt_configure.apply_apt(config["apt"], Cloud(), Gpg())
if "yum_repos" in config: cc_yum_add_repo.handle("", config, None, [])
if "zypper" in config: cc_zypper_add_repo.handle("", config, None, [])
"""
BY_AZURE_INIT = """
import os, sys
from pathlib import Path
from azureinit.machine import Machine
from azureinit.run.enact import enact
from azureinit.run.module_tables import modules_of
from azureinit.telemetry.events import Events
from support.module_runs import plan_module, request_of

text, machine = "#cloud-config\\n" + sys.stdin.read(), Machine()
os.makedirs("/etc/yum.repos.d"); os.makedirs("/etc/zypp/repos.d"); Path("/etc/zypp/zypp.conf").touch()
for module in modules_of("config"):
    if module.name in ("apt_configure", "yum_add_repo", "zypper_add_repo"):
        plan = plan_module(module, machine, request_of(text, rooted=True))
        enact(machine, plan, events=Events(clock=machine.clock), deadline=machine.clock.monotonic() + 50)
"""
SOURCES = """deb http://deb.example.com/debian trixie main
deb http://deb.example.com/debian-security trixie-security main
"""


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    """A public key, and what gpg makes of it."""
    place = tmp_path_factory.mktemp("key")
    (place / "repository").mkdir()
    repository = Repository(place / "repository", architecture="amd64")
    repository.publish()
    armoured = repository.sign(place / "home")
    home = ("--homedir", str(place / "home"))
    command = (need("gpg"), *home, "--dearmor")
    plain = subprocess.run(command, input=armoured.encode(), check=True, capture_output=True).stdout
    return armoured, plain


def test_a_key_becomes_the_bytes_that_gpg_makes(key: tuple[str, bytes]) -> None:
    armoured, plain = key
    assert len(plain) > 100
    assert dearmoured(armoured) == plain


DOCUMENTS = {
    "sources": """
apt:
  preserve_sources_list: true
  sources:
    one.list: {source: "deb $MIRROR $RELEASE-one main"}
    two: {source: "deb ${SECURITY} $RELEASE two", filename: both}
    three: {source: "deb $PRIMARY $RELEASE three", filename: both}
    four: {source: "deb http://x y z", filename: /etc/apt/sources.list.d/four, append: false}
    five.list: {source: "deb [signed-by=$KEY_FILE] http://x y z", key: KEY}
    six.x.list: {source: "deb http://x y z", key: KEY}
    seven: {key: KEY}
""",
    "settings": """
apt:
  preserve_sources_list: true
  proxy: http://a:1
  http_proxy: http://b:2
  https_proxy: http://c:3
  ftp_proxy: ftp://d:4
  conf: |
    APT::Get::Assume-Yes "true";
""",
    "a list in the document": """
apt:
  sources_list: |
    # of $RELEASE
    deb $MIRROR $RELEASE main
    deb-src $SECURITY $RELEASE-security main
""",
    "a list in the newer format": """
apt:
  sources_list: |
    Types: deb
    URIs: $PRIMARY
    Suites: $RELEASE $RELEASE-updates
    Components: main
""",
    "a mirror": """
apt:
  preserve_sources_list: true
  primary:
    - {arches: [s390x], uri: http://no}
    - {arches: [default], uri: http://yes/debian}
  sources: {a: {source: "deb $MIRROR $SECURITY $RELEASE"}}
""",
    "lists of mirrors": """
apt:
  generate_mirrorlists: true
  primary: [{arches: [default], uri: http://yes/debian}]
""",
    "yum": """
yum_repos:
  a b: {name: A, baseurl: "http://x/$basearch", enabled: false, gpgcheck: true, Priority: 5, x-y: [p, q], z: 1.5}
  c: {mirrorlist: "http://m", enabled: "1"}
""",
    "zypper": """
zypper:
  repos:
    - {id: o s, baseurl: "http://x", name: OSS, enabled: true, Auto-Refresh: 0}
    - {id: p, baseurl: "http://y"}
""",
}


def files_of(place: Path, script: str, document: str, key: bytes) -> dict[str, str]:
    for name in ("upper/etc/apt", "work", "root"):
        (place / name).mkdir(parents=True)
    (place / "upper/carry_out.py").write_text(script)
    (place / "upper/key.gpg").write_bytes(key)
    (place / "upper/etc/apt/sources.list").write_text(SOURCES)
    given = (debian_root("trixie", "cloud-init"), place, PROJECT)
    command = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", *map(str, given))
    ran = subprocess.run(command, input=document, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    found = {}
    for directory in ("etc/apt", "etc/yum.repos.d", "etc/zypp"):
        for path in sorted((place / "upper" / directory).rglob("*")):
            if path.is_file():
                mode = f"{path.stat().st_mode & 0o7777:o}"
                lines = path.read_bytes().decode("latin-1").splitlines(keepends=True)
                # The first line of yum's files is a comment with the program's name.
                found[str(path.relative_to(place / "upper"))] = mode + "".join(lines[directory.endswith("repos.d") :])
            elif path.is_char_device():
                found[str(path.relative_to(place / "upper"))] = "removed"
    return found


@pytest.mark.parametrize("name", DOCUMENTS)
def test_files_are_those_of_cloud_init(name: str, tmp_path: Path, key: tuple[str, bytes]) -> None:
    need_root()
    document = json.dumps(yaml.safe_load(DOCUMENTS[name])).replace('"KEY"', json.dumps(key[0]))
    theirs = files_of(tmp_path / "theirs", BY_CLOUD_INIT, document, key[1])
    ours = files_of(tmp_path / "ours", BY_AZURE_INIT, document, key[1])
    assert len(theirs) > 1
    assert ours == theirs
