"""A machine of its own under QEMU: a real kernel, a small Debian in its memory, and a wire to run Python in it.

Software emulation, so that nothing of the host is needed but QEMU and mmdebstrap. The kernel and the tree are made
once and kept below CACHE; what a test brings is laid over them at every start.
"""

from __future__ import annotations

import inspect
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from need import need, unfit

CACHE = Path("/var/cache/azure-init-tests/kernel-1")  # a new number when what is built changes
SUITE = "bookworm"
PACKAGES = ("python3", "kmod", "iproute2", "openssh-server", "sudo")
MODULES = ("sr_mod", "virtio_scsi", "virtio_pci", "virtio_net", "ata_piix", "udf", "isofs", "nls_utf8", "loop")
NEEDLESS = ("usr/share", "usr/lib/x86_64-linux-gnu/gconv", "usr/lib/x86_64-linux-gnu/perl-base", "var/cache", "var/lib")
DOWNLOAD_KERNEL = (
    'export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" && mkdir "$1/kernel" && cd "$1/kernel" && '
    "apt-get -qq download $(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: //p')"
)
BUILD_SECONDS = 600
BOOT_SECONDS = 180
CALL_SECONDS = 60

INIT = """\
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
ip link set lo up
exec python3 -I /guest.py
"""

# Runs functions that come down the wire as source, one a line, and answers with what they return.
GUEST = """\
import json, os, sys, termios, traceback, tty
sys.path.insert(0, "/src")
wire = os.open("/dev/ttyS1", os.O_RDWR | os.O_NOCTTY)
tty.setraw(wire)
lines = os.fdopen(wire, "r+b", buffering=0)
def send(answer):
    data = json.dumps(answer).encode() + b"\\n"
    while data:
        data = data[os.write(wire, data):]
send({"hello": os.uname().release})
request = b""
while True:
    request += os.read(wire, 65536)
    while b"\\n" in request:
        line, _, request = request.partition(b"\\n")
        asked = json.loads(line)
        try:
            names = {}
            exec(asked["source"], names)
            send({"returned": names[asked["name"]](**asked["values"])})
        except BaseException:
            send({"raised": traceback.format_exc()})
"""


@dataclass(frozen=True)
class Pieces:
    kernel: Path
    tree: Path


def pieces() -> Pieces:
    """The kernel and the Debian tree as an archive; made where they are not there."""
    found = Pieces(kernel=CACHE / "vmlinuz", tree=CACHE / "tree.cpio")
    CACHE.mkdir(parents=True, exist_ok=True)
    with locked(CACHE / "lock"):
        if not found.tree.exists():
            with tempfile.TemporaryDirectory(dir=CACHE) as work:
                build(Path(work), found)
    return found


@contextmanager
def locked(path: Path) -> Iterator[None]:
    import fcntl

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build(work: Path, into: Pieces) -> None:
    root = work / "root"
    command = [need("mmdebstrap"), "--quiet", "--variant=minbase", f"--include={','.join(PACKAGES)}"]
    command += ["--mode=root", '--aptopt=APT::Install-Recommends "false"', f"--customize-hook={DOWNLOAD_KERNEL}"]
    ran = subprocess.run([*command, SUITE, str(root)], capture_output=True, text=True, timeout=BUILD_SECONDS)
    if ran.returncode != 0:
        unfit(f"mmdebstrap failed: {ran.stderr.strip()[-500:]}")
    (package,) = (root / "kernel").iterdir()
    unpacked = work / "kernel"
    subprocess.run(["dpkg-deb", "-x", str(package), str(unpacked)], check=True, timeout=BUILD_SECONDS)
    shutil.rmtree(root / "kernel")
    add_modules(root, unpacked / "lib/modules")
    for name in NEEDLESS:
        shutil.rmtree(root / name, ignore_errors=True)
        (root / name).mkdir()
    (kernel,) = (unpacked / "boot").glob("vmlinuz-*")
    shutil.copy(kernel, into.kernel)
    whole = work / "tree.cpio"
    with whole.open("wb") as file:
        for path in sorted(root.rglob("*")):
            file.write(archived(str(path.relative_to(root)), path))
        file.write(trailer())
    whole.rename(into.tree)


def add_modules(root: Path, modules: Path) -> None:
    """Those that are needed, and those they need."""
    (version,) = (path.name for path in modules.iterdir())
    place = root / "usr/lib/modules"
    place.mkdir(exist_ok=True)
    shutil.copytree(modules / version, place / version)
    inside = ["chroot", str(root), "/sbin/depmod", version]
    subprocess.run(inside, check=True, timeout=BUILD_SECONDS)
    shown = subprocess.run(
        ["chroot", str(root), "/sbin/modprobe", "-S", version, "--show-depends", "-a", *MODULES],
        check=True, capture_output=True, text=True, timeout=BUILD_SECONDS,
    ).stdout  # fmt: skip
    wanted = {line.split()[1].split("/modules/", 1)[1] for line in shown.splitlines() if line.startswith("insmod")}
    for path in (place / version).rglob("*.ko"):
        if str(path.relative_to(place)) not in wanted:
            path.unlink()
    subprocess.run(inside, check=True, timeout=BUILD_SECONDS)


def archived(name: str, path: Path) -> bytes:
    status = path.lstat()
    if path.is_symlink():
        return entry(name, os.readlink(path).encode(), mode=status.st_mode, owner=(status.st_uid, status.st_gid))
    data = path.read_bytes() if path.is_file() else b""
    if path.is_file() or path.is_dir():
        return entry(name, data, mode=status.st_mode, owner=(status.st_uid, status.st_gid))
    return b""  # device nodes: the kernel makes its own


def entry(name: str, data: bytes, *, mode: int, owner: tuple[int, int] = (0, 0)) -> bytes:
    """One file in the archive format of an initramfs."""
    path = name.encode() + b"\0"
    fields = (entry.number, mode, *owner, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
    entry.number += 1
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + path
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)


entry.number = 1
