"""Distributions' disks on which packages are installed, each with only its changes kept."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from support.container import PROJECT

# Another layer of the same disk each time, mounted where nobody else sees it; $root is where.
ENTER = """
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root" || exit 1
mount -t proc proc "$2/root/proc"
mount --bind "$3" "$2/root/mnt"
root=$2/root
"""
INSIDE = 'shift 3; exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 chroot "$root" sh -ec "$1"'
OUTSIDE = 'export root; shift 3; exec sh -ec "$1"'
# What dpkg and rpm remember of everything they ever did.
NOT_OURS = (
    "/var/lib/dpkg",
    "/var/log/dpkg.log",
    "/var/log/alternatives.log",
    "/var/cache/ldconfig",
    "/var/lib/rpm",
    "/proc",
    "/mnt",
)


class Disk:
    """A machine that is not running: a root file system of which only the changes are kept."""

    def __init__(self, place: Path, packages: Path, *lower: Path) -> None:
        self.place, self.packages, self.lower = place, packages, lower
        for name in ("upper", "work", "root"):
            (place / name).mkdir(parents=True)

    def try_run(self, script: str, *, outside: bool = False) -> subprocess.CompletedProcess[str]:
        command = ("unshare", "--mount", "--pid", "--fork", "sh", "-c", ENTER + (OUTSIDE if outside else INSIDE), "sh")
        lower = ":".join(map(str, self.lower))
        given = (lower, str(self.place), str(self.packages), script)
        return subprocess.run((*command, *given), stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def run(self, script: str, *, outside: bool = False) -> str:
        ran = self.try_run(script, outside=outside)
        assert ran.returncode == 0, f"{script}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout

    def files(self) -> dict[str, str]:
        """Every file with its mode, its owner, and where it leads."""
        leave_out = " -o ".join(f"-path {path}" for path in NOT_OURS)
        found = self.run(f"find / \\( {leave_out} \\) -prune -o -printf '%p\\t%y %m %u:%g %l\\n'")
        return dict(line.split("\t", 1) for line in found.splitlines())

    def read(self, path: str) -> str:
        return self.run(f"cat {path}")


def install(disk: Disk, name: str = "azure-init_*.deb") -> str:
    return disk.run(f"dpkg --force-unsafe-io --force-confold -i /mnt/{name} 2>&1")


def python_minor(disk: Disk) -> int:
    return int(disk.run("python3 -c 'import sys; print(sys.version_info[1])'"))


def older(built: Path, place: Path) -> Path:
    """The same package with a lower number, and with a file that the newer one no longer has."""
    tree = place / "older"
    (package,) = built.glob("azure-init_*.deb")
    subprocess.run(["dpkg-deb", "-R", str(package), str(tree)], check=True)
    control = tree / "DEBIAN/control"
    lines = ["Version: 0.0.1" if line.startswith("Version:") else line for line in control.read_text().splitlines()]
    control.write_text("\n".join([*lines, ""]))
    (tree / "usr/lib/azure-init/azureinit/bygone.py").write_text("OLD = True\n")
    made = place / "dist"
    shutil.copytree(built, made)
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-b", str(tree), str(made / "older.deb")], check=True, capture_output=True
    )
    return made


def build_debs(place: Path) -> Path:
    """The packages, built from a copy of the sources, so that edits during the test run have no effect."""
    sources, out = place / "sources", place / "dist"
    ignore = shutil.ignore_patterns(".*", "__pycache__", "dist", "build", "tests", "bench")
    shutil.copytree(PROJECT, sources, ignore=ignore, ignore_dangling_symlinks=True)
    command = (sys.executable, str(sources / "scripts/package"), "--out", str(out), "deb")
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    shutil.rmtree(sources)
    return out
