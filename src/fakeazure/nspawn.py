"""A root directory as a machine: its mounts, and the systemd-nspawn that boots it, among processes of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from fakeazure import groups
from fakeazure.network import SBIN
from fakeazure.reaper import Workplace
from fakeazure.rival import OFF, is_enabled

# The tools, and the packages that bring them.
TOOLS = {
    "systemd-nspawn": "systemd-container",
    "ip": "iproute2",
    "mount": "mount",
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "ssh": "openssh-client",
}
INITS = ("usr/lib/systemd/systemd", "lib/systemd/systemd", "usr/sbin/init", "sbin/init")
INTERFACE = "eth0"
NOTES = Path("/run/systemd/nspawn")
# A container has no firmware to show the conditions of units that it is Azure; they read init's words instead. Those of
# networkd's files are read by networkd, which may not look at init and takes this variable for what it would see.
FORCE = "azure-init=force"
INIT_WORDS = (FORCE, f"systemd.setenv=SYSTEMD_PROC_CMDLINE={FORCE}")


RIVAL = (
    "cloud-init is enabled in {root}: on Azure azure-init would leave the machine to it, and a container cannot show "
    "that, for it has no firmware by which cloud-init finds Azure. Disable it "
    f"(touch {{root}}/{OFF}), or boot the image as a disk with fakeazure boot"
)


class NoContainer(Exception):
    """This root cannot be booted here; the text says why and what to do."""


def check_host() -> None:
    if os.geteuid() != 0:
        raise NoContainer("only root can boot a container: run it with sudo")
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *SBIN))
    missing = [f"{tool} (package {package})" for tool, package in TOOLS.items() if not shutil.which(tool, path=path)]
    if missing:
        raise NoContainer(f"not installed: {', '.join(missing)}")


def check_root(root: Path) -> None:
    if not root.is_dir():
        raise NoContainer(f"{root} is not a directory: name the root directory of a system")
    if not any(os.path.lexists(root / init) for init in INITS):
        raise NoContainer(f"{root} is not the root of a system that boots: there is no systemd and no init in it")
    if is_enabled(root):
        raise NoContainer(RIVAL.format(root=root))


def mount_root(root: Path, directory: Path, *, keep: bool) -> Path:
    """Where the machine's root is for us and our children alone; unless `keep`, what it writes stays in `directory`."""
    lower, upper, work, whole = (directory / name for name in ("lower", "upper", "work", "root"))
    for one in (lower, upper, work, whole):
        one.mkdir()
    if keep:
        mount("--bind", str(root), str(whole))
        return whole
    mount("--bind", str(root), str(lower))  # so that no comma and no colon of ROOT's name is in the options
    try:
        mount("-t", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", "overlay", str(whole))
    except NoContainer as error:
        raise NoContainer(f"{error}; name another file system with TMPDIR=/var/tmp, or use --keep") from None
    return whole


def prepare_mounts() -> None:
    """What systemd-nspawn must find. Nobody but us and our children sees it."""
    NOTES.mkdir(parents=True, exist_ok=True)
    mount("-t", "tmpfs", "tmpfs", str(NOTES))  # so that nothing of it is left, however we end
    # With a /sys that can be written, it waits for udev, which does not know our network.
    mount("--rbind", "/sys", "/sys")
    mount("-o", "remount,bind,ro", "/sys")


def mount(*arguments: str) -> None:
    ran = subprocess.run(
        ["mount", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=environment()
    )
    if ran.returncode != 0:
        said = ran.stderr.strip().splitlines() or [f"exit status {ran.returncode}"]
        raise NoContainer(f"cannot mount what the machine needs: {said[0].removeprefix('mount: ')}")


def environment() -> dict[str, str]:
    return {"PATH": os.pathsep.join((os.environ.get("PATH", os.defpath), *SBIN)), "LC_ALL": "C.UTF-8"}


def start(whole: Path, console: Path, *, binds: Iterable[str], place: Workplace) -> subprocess.Popen[bytes]:
    """`console`: what the machine's is added to. `binds`: options as systemd-nspawn takes them."""
    groups.remove(place.control_groups)  # of an earlier boot
    try:
        groups.make(place.control_groups)
    except groups.NoGroups as error:
        raise NoContainer(str(error)) from None
    command = [
        *groups.joining(place.control_groups),
        "setpriv", "--pdeathsig", "KILL",
        "unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
        "systemd-nspawn", "--quiet", "--boot", f"--directory={whole}", "--machine=fakeazure", "--settings=no",
        "--register=no", "--keep-unit", "--console=read-only", "--link-journal=no", "--resolv-conf=off",
        "--timezone=off", f"--network-interface={INTERFACE}", *binds, *INIT_WORDS,
    ]  # fmt: skip
    with console.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            process_group=place.group,
            env=environment(),
        )
