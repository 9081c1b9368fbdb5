"""The root file systems: one Debian 13, and for each agent a layer with what it needs, built once."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
CACHE = Path(os.environ.get("AZURE_INIT_TEST_CACHE", "/var/cache/azure-init-tests"))
SUITE = "trixie"
# time and strace are for the measurements.
PACKAGES = "systemd,systemd-sysv,dbus,openssh-server,sudo,python3,python3-yaml,passwd,iproute2,time,strace"
# Generalised like a gallery image, with DHCP. The bench tries to log in from the start of the boot, and sshd must not
# penalise that. Timers are removed because they would run at random times.
GENERAL = """
rm -f "$1"/etc/ssh/ssh_host_* "$1"/var/lib/dbus/machine-id "$1"/var/lib/systemd/random-seed
: > "$1"/etc/machine-id
echo localhost > "$1"/etc/hostname
ln -sf /dev/null "$1"/etc/systemd/system/systemd-firstboot.service
rm -f "$1"/etc/systemd/system/timers.target.wants/*
network="$1"/etc/systemd/network/20-dhcp.network
printf '[Match]\\nName=eth0\\n\\n[Network]\\nDHCP=ipv4\\nLinkLocalAddressing=no\\n' > "$network"
chroot "$1" systemctl --quiet enable systemd-networkd.service systemd-networkd-wait-online.service
echo 'PerSourcePenaltyExemptList 10.0.0.0/24' > "$1"/etc/ssh/sshd_config.d/90-platform.conf
mkdir -p "$1"/var/lib/hyperv
"""
# This computer's kernel may not support UDF, the format of Azure's discs: the disc's files are bind-mounted instead.
MOUNT = """\
#!/bin/sh
case "$*" in
'') /usr/bin/mount | grep -v /dev/sr0; exit ;;
*' /dev/sr0 '*) for last; do :; done; exec /usr/bin/mount --bind -o ro /srv/disc "$last" ;;
esac
exec /usr/bin/mount "$@"
"""
# A container has no firmware, and cloud-init does not look for it there. Only these two expressions are changed.
CLOUD_INIT = """
printf 'datasource_list: [Azure]\\n' > /etc/cloud/cloud.cfg.d/95-azure.cfg
dmi=/usr/lib/python3/dist-packages/cloudinit/dmi.py
sed -i 's|if is_container():|if False:|; s|"/sys/class/dmi/id"|"/srv/dmi"|' $dmi
python3 -m compileall -q $dmi
"""
# Debian's waagent leaves provisioning to cloud-init by default, requires Hyper-V, and supports ifupdown only. It starts
# after sshd, which needs host keys to start: the image has some, and waagent replaces them.
WAAGENT = """
ssh-keygen -q -A
sed -i 's/^Provisioning.Agent=.*/Provisioning.Agent=waagent/' /etc/waagent.conf
mkdir -p /etc/systemd/system/walinuxagent.service.d
printf '[Unit]\\nConditionVirtualization=\\n' > /etc/systemd/system/walinuxagent.service.d/anywhere.conf
printf 'auto lo\\niface lo inet loopback\\nauto eth0\\niface eth0 inet dhcp\\n' > /etc/network/interfaces
systemctl --quiet disable systemd-networkd.service systemd-networkd.socket systemd-networkd-wait-online.service
"""
READY_MADE = "ssh-keygen -q -A\n"
OURS = "dpkg --install /mnt/*.deb\n"
# The minimum that provisions a machine. It checks no answer, keeps no state, and would provision a machine twice.
FLOOR = (
    r"""
cat > /usr/bin/floor <<'END'
#!/bin/sh -e
say='curl -sf --retry 50 --retry-delay 1 --retry-all-errors'
imds=$($say -H Metadata:true 'http://169.254.169.254/metadata/instance/compute?api-version=2021-08-01')
value() { printf %s "$imds" | sed "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/"; }
name=$(value computerName) user=$(value adminUsername) key=$(value keyData)
echo "$name" > /etc/hostname
hostname "$name"
useradd --create-home --shell /bin/bash --groups sudo "$user"
passwd -q -l "$user"
install -d -m 700 -o "$user" -g "$user" "/home/$user/.ssh"
echo "$key" > "/home/$user/.ssh/authorized_keys"
chown "$user:$user" "/home/$user/.ssh/authorized_keys"
echo "$user ALL=(ALL) NOPASSWD:ALL" > /etc/sudoers.d/floor
$say -H Content-Type:application/json -d '{"state":"Ready"}' http://168.63.129.16/provisioning/health
END
chmod 755 /usr/bin/floor
cat > /usr/lib/systemd/system/floor.service <<'END'
[Unit]
Wants=network-online.target
After=network-online.target
Before=ssh.service systemd-user-sessions.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/floor
[Install]
WantedBy=multi-user.target
END
systemctl --quiet enable floor.service
"""
    + READY_MADE
)
RUST = (
    r"""
install -m 755 /mnt/azure-init /usr/bin/azure-init
cat > /usr/lib/systemd/system/azure-init.service <<'END'
[Unit]
Wants=network-online.target
After=network-online.target
Before=ssh.service systemd-user-sessions.service
[Service]
Type=oneshot
ExecStart=/usr/bin/azure-init
StandardOutput=journal+console
[Install]
WantedBy=multi-user.target
END
systemctl --quiet enable azure-init.service
"""
    + READY_MADE
)


@dataclass(frozen=True, kw_only=True)
class Entrant:
    name: str
    title: str
    packages: str = ""
    prepare: str = READY_MADE
    units: tuple[str, ...] = ()
    words: tuple[str, ...] = ()  # on the kernel command line
    stages: tuple[str, ...] = ()  # the units that carry out customData


ENTRANTS = {
    one.name: one
    for one in (
        Entrant(name="none", title="no agent"),
        Entrant(name="ours", title="azure-init", prepare=OURS, words=("azure-init=force",),
                units=("azure-init-local.service", "azure-init.service"),
                stages=tuple(f"azure-init-userdata-{name}.service" for name in ("network", "config", "final"))),
        Entrant(name="cloud-init", title="cloud-init", packages="cloud-init", prepare=CLOUD_INIT,
                units=("cloud-init-main.service", "cloud-init-local.service", "cloud-init-network.service",
                       "cloud-config.service", "cloud-final.service"),
                stages=("cloud-init-network.service", "cloud-config.service", "cloud-final.service")),
        Entrant(name="waagent", title="waagent", packages="waagent eject fdisk parted ifupdown isc-dhcp-client",
                prepare=WAAGENT, units=("walinuxagent.service",)),
        Entrant(name="rust", title="azure-init (Rust)", prepare=RUST, units=("azure-init.service",)),
        Entrant(name="floor", title="shell and curl", packages="curl", prepare=FLOOR, units=("floor.service",)),
    )
}  # fmt: skip

# A further overlay layer, in a private mount namespace; the content of /mnt does not become part of it.
INSIDE = """
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root" || exit 1
mount -t proc proc "$2/root/proc"
mount --bind "$3" "$2/root/mnt"
touch "$2/root/etc/resolv.conf"
mount --bind /etc/resolv.conf "$2/root/etc/resolv.conf"
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
exec chroot "$2/root" sh -ec "$4"
"""

# Files that every installation leaves behind.
NOT_COUNTED = ("var/lib/dpkg", "var/lib/apt", "var/cache", "var/log", "etc/ssh/ssh_host", "tmp", "run")


class NoRoot(Exception):
    """A root file system cannot be made; the text says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Root:
    entrant: Entrant
    base: Path
    layer: Path

    @property
    def size(self) -> int:
        """Bytes in files that this machine has in addition to the base, compiled files included."""
        files = (path for path in self.layer.rglob("*") if path.is_file() and not path.is_symlink())
        return sum(
            path.stat().st_size for path in files if not str(path.relative_to(self.layer)).startswith(NOT_COUNTED)
        )


def run(*command: str, text: str = "") -> None:
    ran = subprocess.run(command, input=text, capture_output=True, text=True)
    if ran.returncode:
        raise NoRoot(f"{Path(command[0]).name} failed: {(ran.stderr or ran.stdout).strip()[-800:]}")


@contextmanager
def locked(name: str) -> Iterator[None]:
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def base_root() -> Path:
    if not shutil.which("mmdebstrap"):
        raise NoRoot("mmdebstrap is not installed: it is needed to make a Debian root")
    recipe = hashlib.sha256(f"{PACKAGES}{GENERAL}".encode()).hexdigest()[:12]
    root = CACHE / f"peers-base-{recipe}"
    with locked("peers"):
        if not root.exists():
            unfinished = CACHE / "peers-base.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            options = ("--quiet", "--variant=minbase", f"--include={PACKAGES}", f"--customize-hook={GENERAL}")
            run("unshare", "--mount", "mmdebstrap", *options, SUITE, str(unfinished))
            unfinished.rename(root)
    return root


def build(entrant: Entrant, *, base: Path, place: Path, given: Path) -> Root:
    """`given` is mounted on /mnt while the machine is prepared."""
    for name in ("upper", "work", "root"):
        (place / name).mkdir(parents=True)
    install = "apt-get -qq update; apt-get -qq --no-install-recommends install"
    clean = "apt-get clean; rm -rf /var/lib/apt/lists/* /usr/sbin/policy-rc.d"
    script = f"{install} {entrant.packages}; {clean}\n" if entrant.packages else ""
    run("unshare", "--mount", "sh", "-c", INSIDE, "sh", str(base), str(place), str(given), script + entrant.prepare)
    return Root(entrant=entrant, base=base, layer=place / "upper")


def peer_root(entrant: Entrant, base: Path) -> Root:
    """A layer that is independent of this source tree, and therefore cached."""
    made_from = (base.name, entrant.packages, entrant.prepare, INSIDE)
    recipe = hashlib.sha256(repr(made_from).encode()).hexdigest()[:12]
    place = CACHE / f"peers-{entrant.name}-{recipe}"
    with locked("peers"):
        if not place.exists():
            with tempfile.TemporaryDirectory(dir=CACHE, prefix="unfinished-") as work:
                made = build(entrant, base=base, place=Path(work) / "made", given=Path(work))
                made.layer.parent.rename(place)
    return Root(entrant=entrant, base=base, layer=place / "upper")


def our_root(base: Path, place: Path) -> Root:
    """A layer with the package built from this source tree."""
    given = place / "given"
    given.mkdir(parents=True)
    run(sys.executable, str(PROJECT / "scripts/package"), "--out", str(place / "dist"), "deb")
    for package in (place / "dist").glob("azure-init_*.deb"):
        shutil.copy(package, given)
    return build(ENTRANTS["ours"], base=base, place=place / "made", given=given)


def rust_root(base: Path, place: Path, binary: Path) -> Root:
    given = place / "given"
    given.mkdir(parents=True)
    shutil.copy(binary, given / "azure-init")
    return build(ENTRANTS["rust"], base=base, place=place / "made", given=given)


def make_root(name: str, *, place: Path, rust: Path | None) -> Root:
    base = base_root()
    if name == "ours":
        return our_root(base, place / name)
    if name == "rust":
        assert rust is not None
        return rust_root(base, place / name, rust)
    return peer_root(ENTRANTS[name], base)
