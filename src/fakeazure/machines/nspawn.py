"""systemd-nspawn: checks of the host and of the root directory, the mounts, and the command that boots it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from fakeazure.machines import cgroups
from fakeazure.machines.cloud_init import OFF, is_enabled
from fakeazure.machines.network import SBIN
from fakeazure.machines.workspace import Workspace

# Tool -> Debian package.
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
STATE = Path("/run/systemd/nspawn")
# A container has no Azure firmware: the conditions of azure-init's units match the command line of init instead.
# networkd cannot read that command line, and matches its files against SYSTEMD_PROC_CMDLINE.
FORCE = "azure-init=force"
INIT_ARGUMENTS = (FORCE, f"systemd.setenv=SYSTEMD_PROC_CMDLINE={FORCE}")
CLOUD_INIT_ENABLED = (
    "cloud-init is enabled in {root}: on Azure, azure-init would leave the machine to cloud-init, but in a container "
    "cloud-init detects no Azure firmware and stays off. Disable it "
    f"(touch {{root}}/{OFF}), or boot the image as a disk with fakeazure boot"
)


class NoContainer(Exception):
    """The root directory cannot be booted on this host; the text says why and what to do."""


def check_host() -> None:
    if os.geteuid() != 0:
        raise NoContainer("booting a container needs root: run it with sudo")
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *SBIN))
    missing = [f"{tool} (package {package})" for tool, package in TOOLS.items() if not shutil.which(tool, path=path)]
    if missing:
        raise NoContainer(f"not installed: {', '.join(missing)}")


def check_root(root: Path) -> None:
    if not root.is_dir():
        raise NoContainer(f"{root} is not a directory: name the root directory of a system")
    if not any(os.path.lexists(root / init) for init in INITS):
        raise NoContainer(f"{root} cannot boot: it has neither systemd nor another init")
    if is_enabled(root):
        raise NoContainer(CLOUD_INIT_ENABLED.format(root=root))


def mount_root(root: Path, directory: Path, *, keep: bool) -> Path:
    """Mounts the machine's root in this mount namespace. Unless `keep`, its writes go to a layer in `directory`."""
    lower, upper, work, whole = (directory / name for name in ("lower", "upper", "work", "root"))
    for one in (lower, upper, work, whole):
        one.mkdir()
    if keep:
        mount("--bind", str(root), str(whole))
        return whole
    mount("--bind", str(root), str(lower))  # a comma or colon in ROOT's name would break the overlay's options
    try:
        mount("-t", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", "overlay", str(whole))
    except NoContainer as error:
        raise NoContainer(f"{error}; use another file system (TMPDIR=/var/tmp), or --keep") from None
    return whole


def prepare_mounts() -> None:
    """Mounts that systemd-nspawn needs, in this mount namespace."""
    STATE.mkdir(parents=True, exist_ok=True)
    mount("-t", "tmpfs", "tmpfs", str(STATE))  # its files disappear with the namespace
    # With a writable /sys, systemd-nspawn waits for udev, which does not see this network namespace.
    mount("--rbind", "/sys", "/sys")
    mount("-o", "remount,bind,ro", "/sys")


def mount(*arguments: str) -> None:
    ran = subprocess.run(
        ["mount", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=environment()
    )
    if ran.returncode != 0:
        said = ran.stderr.strip().splitlines() or [f"exit status {ran.returncode}"]
        raise NoContainer(f"cannot mount: {said[0].removeprefix('mount: ')}")


def environment() -> dict[str, str]:
    return {"PATH": os.pathsep.join((os.environ.get("PATH", os.defpath), *SBIN)), "LC_ALL": "C.UTF-8"}


def start(
    whole: Path,
    console: Path,
    *,
    binds: Iterable[str],
    workspace: Workspace,
    interfaces: Iterable[str] = (INTERFACE,),
) -> subprocess.Popen[bytes]:
    """`console`: the file to which the console is appended. `binds`: further options of systemd-nspawn."""
    cgroups.remove(workspace.control_groups)  # of an earlier boot
    try:
        cgroups.make(workspace.control_groups)
    except cgroups.NoGroups as error:
        raise NoContainer(str(error)) from None
    command = [
        *cgroups.joining(workspace.control_groups),
        "setpriv", "--pdeathsig", "KILL",
        "unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
        "systemd-nspawn", "--quiet", "--boot", f"--directory={whole}", "--machine=fakeazure", "--settings=no",
        "--register=no", "--keep-unit", "--console=read-only", "--link-journal=no", "--resolv-conf=off",
        "--timezone=off", *(f"--network-interface={name}" for name in interfaces), *binds, *INIT_ARGUMENTS,
    ]  # fmt: skip
    with console.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            process_group=workspace.group,
            env=environment(),
        )
