"""One customData document under Debian 13's cloud-init and under azure-init, each in a layer over the same root.

cloud-init gets it as a NoCloud seed, and its four stages are called one after the other. azure-init gets it as the run
saves it, and its three stages are called. No service runs in there: both see a systemd that is not running.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

from azureinit.machine import Machine
from azureinit.memory.instance import Instance
from azureinit.memory.userdata import CUSTOM_DATA, SavedUserdata, write_userdata
from azureinit.record import Record, Secret
from azureinit.sources.metadata import Metadata
from support.bench import SRC
from support.container import made_once
from support.need import need_root

VM_ID = "5c1f3c8c-6a2e-4d0a-9d5e-0a4b0c9d1e2f"
ADMIN, HOSTNAME = "azureuser", "vm1"
PACKAGES = (
    "cloud-init", "openssh-server", "sudo", "locales", "gpg", "ca-certificates", "rsyslog", "chrony",
    "keyboard-configuration", "fdisk", "python3-yaml", "python3-jinja2", "systemd-sysv", "iproute2",
)  # fmt: skip
SECS = 120.0
ENTER = """
mount --make-rprivate / &&
mount -t overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" overlay "$1/root" || exit 125
mount -t proc proc "$1/root/proc" && mount -t tmpfs tmpfs "$1/root/dev" || exit 125
mount --bind "$1/run" "$1/root/run" || exit 125
for device in null zero full random urandom tty; do
    touch "$1/root/dev/$device" && mount --bind "/dev/$device" "$1/root/dev/$device" || exit 125
done
ln -s /proc/self/fd "$1/root/dev/fd" && : > "$1/root/dev/console" && ip link set lo up || exit 125
mkdir -p "$1/root/mnt/src" && mount --bind "$3" "$1/root/mnt/src" && hostname "$4" || exit 125
root="$1/root"; shift 4
exec chroot "$root" "$@"
"""
NAMESPACES = ("unshare", "--mount", "--uts", "--net", "--pid", "--fork", "--kill-child")
PEER_STAGES = """
cloud-init init --local
cloud-init init
cloud-init modules --mode=config
cloud-init modules --mode=final
"""
OUR_STAGES = """
export PYTHONPATH=/mnt/src
for stage in network config final; do
    /usr/bin/python3 -B -m azureinit --stage $stage || echo "stage $stage: status $?" >&2
done
"""
MAKE_ADMIN = f"useradd --create-home --shell /bin/bash {ADMIN}"
CONFIG = f"""
[platform]
require_azure = false
vm_id = "{VM_ID}"
"""


class Entry(Record):
    """One path of a layer."""

    kind: str  # file, directory, link, gone
    mode: int = 0
    owner: str = ""
    content: bytes = b""


class Layer:
    """A layer over the root. The account of the admin exists in it, as the platform's request makes it."""

    def __init__(self, place: Path) -> None:
        self.place, self.upper = place, place / "upper"
        for name in ("upper", "work", "root", "run"):
            (place / name).mkdir(parents=True)
        self.said = ""

    def run(self, script: str) -> None:
        need_root()
        words = (str(self.place), str(lower()), str(SRC), HOSTNAME)
        environ = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
        command = [*NAMESPACES, "sh", "-c", ENTER, "sh", *words, "/bin/sh", "-c", script]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=SECS, env=environ, errors="replace")
        self.said += ran.stdout + ran.stderr
        assert ran.returncode != 125, self.said

    def entries(self) -> dict[str, Entry]:
        """What the layer changes, below the root."""
        return {str(path.relative_to(self.upper)): _entry(path) for path in sorted(self.upper.rglob("*"))}

    def remove(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)


def lower() -> Path:
    words = ("--variant=important", f"--include={','.join(PACKAGES)}", "trixie")
    return made_once("userdata-trixie", "1", *words)


def by_cloud_init(place: Path, data: bytes, *, configuration: str = "") -> Layer:
    layer = Layer(place)
    seed = layer.upper / "var/lib/cloud/seed/nocloud"
    seed.mkdir(parents=True)
    (seed / "user-data").write_bytes(data)
    (seed / "meta-data").write_text(f"instance-id: {VM_ID}\nlocal-hostname: {HOSTNAME}\n")
    settings = layer.upper / "etc/cloud/cloud.cfg.d"
    settings.mkdir(parents=True)
    # The admin is the default user, as DataSourceAzure makes it.
    admin = f"system_info: {{default_user: {{name: {ADMIN}, lock_passwd: true, gecos: '', groups: [], sudo: null}}}}\n"
    (settings / "95-test.cfg").write_text(f"datasource_list: [NoCloud]\n{admin}{configuration}")
    layer.run(f"{MAKE_ADMIN}\n{PEER_STAGES}")
    return layer


def by_azure_init(place: Path, data: bytes, *, settings: str = "") -> Layer:
    layer = Layer(place)
    (layer.upper / "etc/azure-init").mkdir(parents=True)
    (layer.upper / "etc/azure-init/azure-init.toml").write_text(CONFIG + settings)
    data_dir = "/var/lib/azure-init"
    (layer.upper / data_dir[1:]).mkdir(parents=True, mode=0o700)
    machine = Machine(root=str(layer.upper))
    metadata = Metadata(username=ADMIN, hostname=HOSTNAME, vm_id=VM_ID)
    saved = SavedUserdata(source=CUSTOM_DATA, data=Secret(data), metadata=metadata)
    write_userdata(machine, Instance(data_dir=data_dir, vm_id=VM_ID), saved)
    layer.run(f"{MAKE_ADMIN}\n{OUR_STAGES}")
    return layer


def _entry(path: Path) -> Entry:
    status = path.lstat()
    owner, mode = f"{status.st_uid}:{status.st_gid}", stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return Entry(kind="link", owner=owner, content=os.fsencode(os.readlink(path)))
    if stat.S_ISDIR(status.st_mode):
        return Entry(kind="directory", owner=owner, mode=mode)
    if stat.S_ISCHR(status.st_mode):
        return Entry(kind="gone")
    return Entry(kind="file", owner=owner, mode=mode, content=path.read_bytes())
