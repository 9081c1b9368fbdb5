"""A machine under QEMU: a real kernel, a small Debian in its memory, and a serial line to run Python in it.

Software emulation: the host needs only QEMU and mmdebstrap. The kernel and the Debian tree are made once and kept in
CACHE; the files of a test are added at every start.
"""

from __future__ import annotations

import fcntl
import inspect
import json
import os
import shutil
import socket
import subprocess
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.need import need, unfit

CACHE = Path("/var/cache/azure-init-tests/kernel-2")  # a new number when what is built changes
SUITE = "bookworm"
PACKAGES = ("python3", "kmod", "iproute2", "openssh-server", "sudo")
DEVICES = ("sr_mod", "sd_mod", "virtio_scsi", "virtio_pci", "virtio_net", "ata_piix", "loop")
MODULES = (*DEVICES, "udf", "isofs", "nls_utf8")
NEEDLESS = ("usr/share", "usr/lib/x86_64-linux-gnu/gconv", "usr/lib/x86_64-linux-gnu/perl-base", "var/cache", "var/lib")
DOWNLOAD_KERNEL = (
    'export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" && mkdir "$1/kernel" && cd "$1/kernel" && '
    "apt-get -qq download $(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: //p')"
)
# On a busy host an emulated timer looks broken to the kernel.
KERNEL_OPTIONS = "console=ttyS0 rdinit=/init panic=-1 quiet no_timer_check"
BUILD_SECONDS = 600.0
BOOT_SECONDS = 180.0
CALL_SECONDS = 90.0

INIT = """\
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
exec python3 -I /guest.py
"""

# Receives functions as source over the serial line, one per line, runs them, and sends back their results.
GUEST = """\
import json, os, sys, traceback, tty
sys.path.insert(0, "/usr/lib/azure-init")
wire = os.open("/dev/ttyS1", os.O_RDWR | os.O_NOCTTY)
tty.setraw(wire)
def send(**answer):
    data = json.dumps(answer).encode() + b"\\n"
    while data:
        data = data[os.write(wire, data):]
send(returned=os.uname().release)
waiting = b""
while True:
    waiting += os.read(wire, 65536)
    while b"\\n" in waiting:
        line, _, waiting = waiting.partition(b"\\n")
        asked = json.loads(line)
        try:
            names = {"send": send}
            exec(asked["source"], names)
            send(returned=names[asked["name"]](**asked["values"]))
        except BaseException:
            send(raised=traceback.format_exc())
"""


class GuestFailed(AssertionError):
    """The function in the guest did not return."""


class Line:
    """Lines of JSON over a socket, each with a timeout."""

    def __init__(self, path: Path) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(1)
        self.socket: socket.socket | None = None
        self.waiting = b""

    def connect(self, *, seconds: float) -> None:
        self.listener.settimeout(seconds)
        self.socket, _ = self.listener.accept()

    def send(self, message: Mapping[str, Any]) -> None:
        assert self.socket is not None
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self, *, seconds: float) -> dict[str, Any]:
        assert self.socket is not None
        until = time.monotonic() + seconds
        while True:
            line, end, rest = self.waiting.partition(b"\n")
            if end:
                self.waiting = rest
                if line.startswith(b"{"):  # some firmware writes to every serial line
                    message: dict[str, Any] = json.loads(line)
                    return message
                continue
            self.socket.settimeout(max(0.01, until - time.monotonic()))
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionResetError("QEMU has ended")
            self.waiting += data

    def close(self) -> None:
        self.listener.close()
        if self.socket is not None:
            self.socket.close()


class Guest:
    """A running computer with two optical drives, `ide` and `scsi`, both empty at the start."""

    def __init__(self, directory: Path, process: subprocess.Popen[bytes], *, monitor: Line, wire: Line) -> None:
        self.directory, self.process, self.monitor, self.wire = directory, process, monitor, wire

    def call(self, function: Callable[..., Any], *, seconds: float = CALL_SECONDS, **values: Any) -> Any:
        """Runs the function in the guest: it imports what it needs; its arguments and its result are JSON values."""
        self.begin(function, **values)
        return self.finish(seconds=seconds)

    def begin(self, function: Callable[..., Any], **values: Any) -> None:
        source = "from __future__ import annotations\n" + textwrap.dedent(inspect.getsource(function))
        self.wire.send({"source": source, "name": function.__name__, "values": values})

    def finish(self, *, seconds: float = CALL_SECONDS) -> Any:
        answer = self.receive(self.wire, seconds=seconds)
        if "raised" in answer:
            raise GuestFailed(f"inside:\n{answer['raised']}")
        return answer["returned"]

    def receive(self, line: Line, *, seconds: float) -> dict[str, Any]:
        try:
            return line.receive(seconds=seconds)
        except OSError as error:
            told = "".join(
                (self.directory / name).read_text(errors="replace")[-2000:] for name in ("console", "qemu.log")
            )
            raise GuestFailed(f"{error} ({seconds:g} s were allowed); it said last:\n{told}") from error

    def ask_monitor(self, command: str, **arguments: Any) -> Any:
        self.monitor.send({"execute": command, "arguments": arguments})
        while True:
            answer = self.receive(self.monitor, seconds=CALL_SECONDS)
            if "error" in answer:
                raise GuestFailed(f"{command}: {answer['error']}")
            if "return" in answer:  # and not an event
                return answer["return"]

    def insert(self, drive: str, image: Path) -> None:
        self.ask_monitor("blockdev-change-medium", id=drive, filename=str(image), format="raw", force=True)

    def insert_broken(self, drive: str, image: Path, *, sector: int) -> None:
        """A disc of which one sector (of 2048 bytes) cannot be read."""
        self.ask_monitor("blockdev-open-tray", id=drive, force=True)
        bad = {"event": "none", "iotype": "read", "sector": sector * 4}
        file = {"driver": "blkdebug", "image": {"driver": "file", "filename": str(image)}, "inject-error": [bad]}
        self.ask_monitor("blockdev-add", **{"driver": "raw", "node-name": "broken", "read-only": True, "file": file})
        self.ask_monitor("blockdev-insert-medium", id=drive, **{"node-name": "broken"})
        self.ask_monitor("blockdev-close-tray", id=drive)

    def empty(self, drive: str) -> None:
        self.ask_monitor("blockdev-open-tray", id=drive, force=True)
        if "inserted" in self.drive(drive):
            self.ask_monitor("blockdev-remove-medium", id=drive)
        self.ask_monitor("blockdev-close-tray", id=drive)

    @contextmanager
    def disk(self, image: Path) -> Iterator[None]:
        """Attaches the image as a hard disk, and detaches it at the end of the block."""
        file = {"driver": "file", "filename": str(image)}
        self.ask_monitor("blockdev-add", **{"driver": "raw", "node-name": "disk", "file": file})
        self.ask_monitor("device_add", driver="scsi-hd", id="disk", bus="bus.0", drive="disk")
        try:
            yield
        finally:
            self.ask_monitor("device_del", id="disk")
            self.until(lambda: all(each["qdev"] != "disk" for each in self.ask_monitor("query-block")))
            self.ask_monitor("blockdev-del", **{"node-name": "disk"})

    def until(self, seen: Callable[[], bool]) -> None:
        deadline = time.monotonic() + CALL_SECONDS
        while not seen():
            if time.monotonic() > deadline:
                raise GuestFailed(f"it did not come to that in {CALL_SECONDS:g} s")
            time.sleep(0.05)

    def drive(self, name: str) -> dict[str, Any]:
        """The drive as QEMU reports it: `tray_open`, `locked`, and `inserted` if there is a medium."""
        drives: list[dict[str, Any]] = self.ask_monitor("query-block")
        (found,) = (drive for drive in drives if drive["qdev"] == name)
        return found

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.monitor.close()
        self.wire.close()


@contextmanager
def running(
    directory: Path,
    *,
    files: Mapping[str, Path],
    smbios: Sequence[str] = (),
    acpi: Sequence[str] = (),
    doors: Mapping[str, int] | None = None,
) -> Iterator[Guest]:
    """`files`: files and directories of the host, by their paths in the guest. `doors`: addresses that lead,
    on port 80, to a port of the host's loopback, each through a network card of its own."""
    qemu = need("qemu-system-x86_64")
    kernel, base = pieces()
    initrd = directory / "initrd"
    shutil.copy(base, initrd)
    with initrd.open("ab") as file:
        file.writelines(overlay(files))
    command = [
        need("setpriv"), "--pdeathsig", "KILL",  # QEMU is killed when this process ends
        qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-machine", "pc", "-accel", "tcg", "-cpu", "max", "-m", "1024",
        "-kernel", str(kernel), "-initrd", str(initrd), "-append", KERNEL_OPTIONS,
        "-serial", f"file:{directory}/console", "-serial", "chardev:wire",
        "-chardev", f"socket,id=wire,path={directory}/wire",
        "-chardev", f"socket,id=monitor,path={directory}/monitor", "-mon", "chardev=monitor,mode=control",
        "-device", "ide-cd,id=ide", "-device", "virtio-scsi-pci,id=bus", "-device", "scsi-cd,id=scsi,bus=bus.0",
        *(word for table in smbios for word in ("-smbios", table)),
        *(word for table in acpi for word in ("-acpitable", table)),
        *network(directory, doors or {}),
    ]  # fmt: skip
    monitor, wire = Line(directory / "monitor"), Line(directory / "wire")
    with (directory / "qemu.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    guest = Guest(directory, process, monitor=monitor, wire=wire)
    try:
        for line in (wire, monitor):
            line.connect(seconds=CALL_SECONDS)
        guest.receive(monitor, seconds=CALL_SECONDS)
        guest.ask_monitor("qmp_capabilities")
        guest.finish(seconds=BOOT_SECONDS)
        yield guest
    finally:
        guest.stop()
        initrd.unlink()  # large; pytest keeps the directory


def network(directory: Path, doors: Mapping[str, int]) -> Iterable[str]:
    relay = directory / "relay"
    relay.write_text(RELAY)
    for number, (address, port) in enumerate(doors.items()):
        net = address.rpartition(".")[0]
        forward = f"guestfwd=tcp:{address}:80-cmd:{need('python3')} -IS {relay} {port}"
        yield from ("-netdev", f"user,id=net{number},restrict=on,net={net}.0/24,host={net}.2,dns={net}.3,{forward}")
        yield from ("-device", f"virtio-net-pci,netdev=net{number},romfile=")


# QEMU starts it for each connection, which is its standard input.
RELAY = """\
import os, socket, sys, threading
inside, outside = socket.socket(fileno=0), socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def carry(one, other):
    try:
        while data := one.recv(65536):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
    except OSError:
        os._exit(1)
threading.Thread(target=carry, args=(inside, outside)).start()
carry(outside, inside)
"""


def pieces() -> tuple[Path, Path]:
    """The kernel, and the Debian tree as an archive; made if they are missing."""
    kernel, tree = CACHE / "vmlinuz", CACHE / "tree.cpio"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tree.exists():
            with tempfile.TemporaryDirectory(dir=CACHE) as work:
                build(Path(work), kernel=kernel, tree=tree)
    return kernel, tree


def build(work: Path, *, kernel: Path, tree: Path) -> None:
    root, unpacked = work / "root", work / "kernel"
    command = [
        "timeout",
        "--kill-after=10",
        f"{BUILD_SECONDS:g}",
        need("mmdebstrap"),
        "--quiet",
        "--variant=minbase",
        f"--include={','.join(PACKAGES)}",
    ]
    command += ['--aptopt=APT::Install-Recommends "false"', f"--customize-hook={DOWNLOAD_KERNEL}", SUITE, str(root)]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        unfit(f"mmdebstrap failed: {ran.stderr.strip()[-500:]}")
    (package,) = (root / "kernel").iterdir()
    subprocess.run(["dpkg-deb", "-x", str(package), str(unpacked)], check=True, timeout=BUILD_SECONDS)
    add_modules(root, unpacked / "lib/modules")
    for name in (*NEEDLESS, "kernel"):
        shutil.rmtree(root / name)
    for name in ("etc/hostname", *(f"etc/ssh/{key.name}" for key in (root / "etc/ssh").glob("ssh_host_*"))):
        (root / name).unlink()  # what a generalised image does not have
    (image,) = (unpacked / "boot").glob("vmlinuz-*")
    shutil.copy(image, kernel)
    archive = work / "tree.cpio"
    with archive.open("wb") as file:
        file.writelines(archived(root, inside=""))
        file.write(LAST)
    archive.rename(tree)


def add_modules(root: Path, modules: Path) -> None:
    """The kernel modules that are needed, and their dependencies."""
    (version,) = (path.name for path in modules.iterdir())
    place = root / "usr/lib/modules" / version
    shutil.copytree(modules / version, place)

    def inside(*command: str) -> str:
        ran = subprocess.run(["chroot", str(root), *command], capture_output=True, check=True, timeout=BUILD_SECONDS)
        return ran.stdout.decode()

    inside("depmod", version)
    shown = inside("modprobe", "-S", version, "--show-depends", "-a", *MODULES)
    wanted = {Path(line.split()[1]).name for line in shown.splitlines() if line.startswith("insmod")}
    for path in place.rglob("*.ko"):
        if path.name not in wanted:
            path.unlink()
    inside("depmod", version)


def overlay(files: Mapping[str, Path]) -> Iterator[bytes]:
    yield entry("init", INIT.encode(), mode=0o100755)
    yield entry("guest.py", GUEST.encode(), mode=0o100644)
    for inside, path in files.items():
        for parent in reversed(Path(inside).parents[:-1]):
            yield entry(str(parent).lstrip("/"), b"", mode=0o40755)
        yield from archived(path, inside=inside.lstrip("/"))
    yield LAST


def archived(top: Path, *, inside: str) -> Iterator[bytes]:
    """A file, or a directory and everything in it."""
    for path in (top, *sorted(top.rglob("*"))):
        status = path.lstat()
        if path.is_symlink():
            data = os.readlink(path).encode()
        elif path.is_dir():
            data = b""
        elif path.is_file():
            data = path.read_bytes()
        else:
            continue  # device nodes: the kernel makes them itself
        name = str(Path(inside, path.relative_to(top)))
        owner = status.st_uid, status.st_gid
        yield entry(name, data, mode=status.st_mode, owner=owner, changed=int(status.st_mtime))


def entry(name: str, data: bytes, *, mode: int, owner: tuple[int, int] = (0, 0), changed: int = 0) -> bytes:
    """One file in the format of an initramfs."""
    path = name.encode() + b"\0"
    fields = (0, mode, *owner, 1, changed, len(data), 0, 0, 0, 0, len(path), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + path
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)


LAST = entry("TRAILER!!!", b"", mode=0)
