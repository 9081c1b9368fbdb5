"""Runs inside the guest of `disk_guest`: disks that look like Azure's, and one scenario after another on them."""

from __future__ import annotations

import contextlib
import glob
import io
import os
import shutil
import subprocess
import sys
import time
import zlib
from typing import Any

TARGET = "/sys/kernel/config/nvmet"
NQN = "nqn.2026-01.test:"
DISKS = "/run/disks"  # the content of the disks, in memory
MODEL = "Microsoft NVMe Direct Disk v2"
NO_RESOURCE = "/run/no-resource"  # the rules of the guest make no link while it exists
LINK = "/dev/disk/azure/resource"
CONFIG = "/etc/azure-init/azure-init.toml"
UTILS_CONFIG = "/etc/azure-ephemeral-disk-setup.conf"
BIN = "/srv/bin"  # programs in it are bound over those of the system, which are in REAL meanwhile
REAL = "/srv/real"
FSTAB = "LABEL=root / ext4 defaults 0 1\n"
TOOLS = ("/usr/sbin", "/usr/bin")  # where the agent looks for programs
WARM: list[bool] = []  # the agent's modules are loaded
FLUSH, REREAD = 0x1261, 0x125F  # ioctl: BLKFLSBUF, BLKRRPART


def read(path: str) -> str:
    with open(path, errors="replace") as file:
        return file.read()


def put(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def run(*words: str, check: bool = True) -> str:
    ran = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = ran.stdout.decode(errors="replace")
    if check and ran.returncode:
        raise RuntimeError(f"{' '.join(words)}: {ran.returncode}: {said}")
    return said


def shell(script: str, environment: dict[str, str]) -> tuple[int, str]:
    ran = subprocess.run(
        ["sh", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **environment},
    )
    return ran.returncode, ran.stdout.decode(errors="replace")


# ---- disks


def prepare() -> None:
    if os.path.isdir(f"{TARGET}/ports/1"):
        return
    run("modprobe", "-a", "nvmet", "nvme-loop", "loop")
    if not os.path.isdir(TARGET):
        run("mount", "-t", "configfs", "configfs", "/sys/kernel/config")
    os.makedirs(f"{TARGET}/ports/1")
    put(f"{TARGET}/ports/1/addr_trtype", "loop")
    os.makedirs(DISKS, exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", "size=2g", "tmpfs", DISKS)


def connect(name: str, *, size: int = 0, path: str = "", model: str, sector: int = 512) -> str:
    """A disk with that serial: of `size` bytes of zeros in memory, the content it had before, or that of `path`."""
    prepare()
    if not path:
        path = f"{DISKS}/{name}"
        if size:
            with open(path, "wb") as file:
                file.truncate(size)
        path = run("losetup", "--find", "--show", "--sector-size", str(sector), path).strip()
    system = f"{TARGET}/subsystems/{NQN}{name}"
    os.makedirs(f"{system}/namespaces/1")
    put(f"{system}/attr_allow_any_host", "1")
    put(f"{system}/attr_model", model)
    put(f"{system}/attr_serial", name)
    put(f"{system}/namespaces/1/device_path", path)
    put(f"{system}/namespaces/1/enable", "1")
    os.symlink(system, f"{TARGET}/ports/1/subsystems/{NQN}{name}")
    with open("/dev/nvme-fabrics", "r+b", buffering=0) as door:
        door.write(f"transport=loop,nqn={NQN}{name}".encode())
        told = door.read(200).decode()  # instance=1,cntlid=1
    number = dict(word.split("=") for word in told.strip().split(","))["instance"]
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for found in glob.glob(f"/sys/class/nvme/nvme{number}/nvme{number}n*"):
            device = os.path.basename(found)
            if os.path.exists(f"/dev/{device}"):
                run("udevadm", "settle")
                return device
        time.sleep(0.05)
    raise RuntimeError(f"no disk of nvme{number} appeared: {told}")


def connected() -> dict[str, str]:
    """Kernel names by serial."""
    found = {}
    for controller in glob.glob("/sys/class/nvme/nvme*"):
        if read(f"{controller}/subsysnqn").startswith(NQN):
            for device in glob.glob(f"{controller}/nvme*n*"):
                found[read(f"{controller}/serial").strip()] = os.path.basename(device)
    return found


def disconnect(*names: str) -> None:
    """All, if none is named. What is in a file in memory remains until the disk is connected anew with a size."""
    for controller in glob.glob("/sys/class/nvme/nvme*"):
        nqn = read(f"{controller}/subsysnqn").strip()
        if nqn.startswith(NQN) and (not names or nqn[len(NQN) :] in names):
            put(f"{controller}/delete_controller", "1")
    for system in glob.glob(f"{TARGET}/subsystems/{NQN}*"):
        nqn = os.path.basename(system)
        if names and nqn[len(NQN) :] not in names:
            continue
        path = read(f"{system}/namespaces/1/device_path").strip()
        os.unlink(f"{TARGET}/ports/1/subsystems/{nqn}")
        os.rmdir(f"{system}/namespaces/1")
        os.rmdir(system)
        if path.startswith("/dev/loop"):
            run("losetup", "--detach", path)
    run("udevadm", "settle")


def wipe(serial: str, device: str) -> None:
    """As after a redeployment: nothing but zeros."""
    path = f"{DISKS}/{serial}"
    size = os.stat(path).st_size
    os.truncate(path, 0)
    os.truncate(path, size)
    forget(f"/dev/{device}")


def forget(device: str) -> None:
    """What the kernel remembers of the content and of the partitions."""
    import fcntl

    handle = os.open(device, os.O_RDONLY)
    try:
        fcntl.ioctl(handle, FLUSH)
        if glob.glob(f"/sys/block/{os.path.basename(device)}/*/partition"):
            fcntl.ioctl(handle, REREAD)
    finally:
        os.close(handle)


def fingerprint(path: str) -> int:
    """Of everything that is not zero."""
    found = 0
    with open(path, "rb", buffering=0) as file:
        at, size = 0, file.seek(0, os.SEEK_END)
        while at < size:
            if not path.startswith("/dev/"):
                try:
                    at = os.lseek(file.fileno(), at, os.SEEK_DATA)
                except OSError:  # only a hole is left
                    break
            file.seek(at)
            piece = file.read(1 << 20)
            if piece != bytes(len(piece)):
                found = zlib.crc32(piece, found ^ at)
            at += len(piece)
    return found


def resource() -> str:
    """The device of the SCSI resource disk, whether its link is there or not."""
    for model in glob.glob("/sys/block/sd*/device/model"):
        if read(model).startswith("AZRESOURCE"):
            return f"/dev/{model.split('/')[3]}"
    return ""


def hide_resource(device: str, *, hidden: bool) -> None:
    """Empties the disk. A write to it makes udev look at its rules again."""
    if hidden:
        put(NO_RESOURCE, "")
    elif os.path.exists(NO_RESOURCE):
        os.unlink(NO_RESOURCE)
    run("blkdiscard", "--force", device)
    forget(device)
    run("udevadm", "settle")
    if hidden == os.path.exists(LINK):
        run("udevadm", "trigger", "--action=change", "--settle", device)
    assert hidden != os.path.exists(LINK)


# ---- a scenario


def clean() -> None:
    """Back to a machine on which nothing was set up."""
    for line in read("/proc/self/mounts").splitlines():
        if line.split()[1].startswith(("/usr/bin/", "/usr/sbin/")):
            run("umount", line.split()[1])
    for hidden in (path for place in TOOLS for path in glob.glob(f"{place}/*.hidden")):
        os.rename(hidden, hidden[: -len(".hidden")])
    if read("/proc/swaps").count("\n") > 1:
        run("swapoff", "--all", check=False)
    ours = ("/dev/nvme", "/dev/md", "/dev/mapper", "/dev/dm", resource() or "/dev/nvme")
    for _ in range(3):
        mounted = [line.split()[:2] for line in read("/proc/self/mounts").splitlines()]
        for source, point in reversed(mounted):
            if source.startswith(ours) or point.startswith(("/mnt", "/media")):
                run("umount", "--lazy" if _ else "--force", point, check=False)
    if glob.glob("/sys/block/dm-*"):
        run("vgchange", "-an", check=False)
    for array in glob.glob("/sys/block/md*"):
        run("mdadm", "--stop", f"/dev/{os.path.basename(array)}", check=False)
    for name in glob.glob("/sys/block/dm-*/dm/name"):
        run("dmsetup", "remove", "--force", read(name).strip(), check=False)
    changed = read("/etc/fstab") != FSTAB
    if changed or "i" in run("lsattr", "/etc/fstab").split()[0]:
        run("chattr", "-i", "/etc/fstab")
        put("/etc/fstab", FSTAB)
    places = [f"/{top}/systemd/system/*.{kind}" for top in ("etc", "run") for kind in ("mount", "swap")]
    units = [unit for place in places for unit in glob.glob(place) if os.path.realpath(unit) != "/dev/null"]
    for path in (
        *units,
        *glob.glob("/var/lib/azure-init/*.disks"),
        UTILS_CONFIG,
        "/etc/waagent.conf",
        "/usr/sbin/waagent",
        "/run/azure-init/disks.json",
        "/run/killed",
        "/run/starts",
    ):
        if os.path.lexists(path):
            os.unlink(path)
    for place in (BIN, REAL, "/mnt"):
        shutil.rmtree(place, ignore_errors=True)
        os.makedirs(place, exist_ok=True)
    if changed or units:
        run("systemctl", "daemon-reload")
        run("systemctl", "reset-failed", check=False)


def replace_tools(hide: list[str]) -> None:
    """A program in BIN instead of the system's; those in `hide` are not there."""
    for place in TOOLS:
        for tool in hide:
            if os.path.lexists(f"{place}/{tool}"):
                os.rename(f"{place}/{tool}", f"{place}/{tool}.hidden")
        for tool in os.listdir(BIN):
            path = f"{place}/{tool}"
            if not os.path.lexists(path) or os.path.exists(f"{REAL}/{tool}"):
                continue
            shutil.copy(path, f"{REAL}/{tool}")
            if os.path.islink(path):  # one program with several names
                os.rename(path, f"{path}.hidden")
                os.symlink(f"{BIN}/{tool}", path)
            else:
                # The system's own, also after it was replaced.
                mount = f"{REAL}/mount" if os.path.exists(f"{REAL}/mount") else "mount"
                run(mount, "--bind", f"{BIN}/{tool}", path)


def agent(words: list[str]) -> tuple[int, str]:
    """`azure-init` with these words, in a child that has its modules already: emulated imports take seconds."""
    import azureinit.cli

    if not WARM:
        WARM.append(True)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            azureinit.cli.main(["disk", "plan"])
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(into, 1)
        os.dup2(into, 2)
        os.setsid()
        put("/run/agent.pid", str(os.getpid()))
        status = 99
        try:
            sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
            sys.stderr = open(2, "w", closefd=False, buffering=1)  # noqa: SIM115
            status = azureinit.cli.main(words)
            sys.stdout.flush()
        except BaseException as error:  # noqa: BLE001
            os.write(2, f"Traceback: {type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(status)
    os.close(into)
    said = b""
    while data := os.read(out, 65536):
        said += data
    os.close(out)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said.decode(errors="replace")


def scenario(
    *,
    nvme: int,
    size: int,
    sector: int,
    resource_disk: bool,
    config: str,
    conf: str,
    before: str,
    runs: list[str],
    after: str,
    hide: list[str],
) -> dict[str, Any]:
    """`runs`: words for the agent, or, after a `!`, a script between two runs."""
    began = time.monotonic()
    spent: dict[str, float] = {}

    def lap(name: str) -> None:
        nonlocal began
        began, took = time.monotonic(), time.monotonic() - began
        spent[name] = round(took, 1)

    clean()
    lap("clean")
    names = {f"S{size}B{sector}N{number}": "" for number in range(nvme)}
    there = connected()
    extra = [serial for serial in there if serial not in names]
    if extra:
        disconnect(*extra)
    for serial in names:
        names[serial] = there.get(serial) or connect(serial, size=size << 20, model=MODEL, sector=sector)
        wipe(serial, names[serial])
    scsi = resource()
    if scsi:
        hide_resource(scsi, hidden=not resource_disk)
    os.makedirs(os.path.dirname(CONFIG), exist_ok=True)
    put(CONFIG, config)
    if conf:
        put(UTILS_CONFIG, conf)
    environment = {f"D{number}": f"/dev/{device}" for number, device in enumerate(names.values())}
    environment |= {"R": scsi, "BIN": BIN}
    lap("disks")
    if before:
        status, said = shell("set -e\n" + before, environment)
        if status:
            raise RuntimeError(f"preparation: {status}: {said}")
        run("udevadm", "settle")
    replace_tools(hide)
    lap("before")
    seen = _contents(names, scsi if resource_disk else "")
    lap("contents")
    told = []
    for words in runs:
        if words.startswith("!"):
            status, said = shell("set -e\n" + words[1:], environment)
            if status:
                raise RuntimeError(f"{words}: {status}: {said}")
            replace_tools([])
            continue
        told.append(agent(words.split()))
    lap("runs")
    run("udevadm", "settle")
    checked = shell("set -e\n" + after, environment) if after else (0, "")
    mounts = [line.split()[:4] for line in read("/proc/self/mounts").splitlines()]
    ours = ("/dev/nvme", "/dev/md", "/dev/mapper", scsi or "/dev/nvme")
    lap("after")
    return {
        "spent": spent,
        "runs": told,
        "after": checked,
        "changed": [name for name, was in _contents(names, scsi if resource_disk else "").items() if was != seen[name]],
        "mounts": [row for row in mounts if row[0].startswith(ours)],
        "swaps": [line.split()[0] for line in read("/proc/swaps").splitlines()[1:]],
        "fstab": read("/etc/fstab"),
    }


def _contents(names: dict[str, str], scsi: str) -> dict[str, int]:
    os.sync()
    found = {serial: fingerprint(f"{DISKS}/{serial}") for serial in names}
    if scsi:
        forget_pages(scsi)
        found["resource"] = fingerprint(scsi)
    return found


def forget_pages(device: str) -> None:
    import fcntl

    handle = os.open(device, os.O_RDONLY)
    fcntl.ioctl(handle, FLUSH)
    os.close(handle)
