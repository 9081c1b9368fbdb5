"""A network of our own, with no name and no way out: the platform at one end, the machine's interface at the other."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import subprocess
from pathlib import Path

from fakeazure.platform.addresses import GATEWAY, IMDS, WIRESERVER

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
MS_PRIVATE_ALL = 0x00040000 | 0x00004000  # MS_PRIVATE, and MS_REC for what is mounted below
TUN = "/dev/net/tun"
SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # not on everybody's PATH


class NoNetwork(Exception):
    """There can be no network of our own here; the text says why and what to do."""


def enter_network(*, mounts: bool = False) -> None:
    """From here on this process and its children have a network of their own, and with `mounts` their own mounts.

    Both are gone with the last of these processes. To be called before there is any thread: it moves only the caller.
    """
    if os.geteuid() == 0:
        unshare(CLONE_NEWNET | (CLONE_NEWNS if mounts else 0))
    else:
        enter_as_somebody(CLONE_NEWNET | (CLONE_NEWNS if mounts else 0))
    if mounts:
        keep_mounts_private()
    ip("link", "set", "lo", "up")
    # Without a way out, a machine that asks for one is told so at once, and does not wait for an answer.
    with contextlib.suppress(OSError):
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def enter_as_somebody(flags: int) -> None:
    """Without privileges: root of a user namespace, and nobody anywhere else."""
    user, group = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER | flags)
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    except OSError as error:
        raise refused(error) from None


def unshare(flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) != 0:
        raise refused(OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno())))


def keep_mounts_private() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(None, b"/", None, MS_PRIVATE_ALL, None) != 0:
        number = ctypes.get_errno()
        raise NoNetwork(
            f"cannot keep mounts to ourselves: {os.strerror(number).lower()}; try it outside of a container"
        )


def refused(error: OSError) -> NoNetwork:
    reason = (error.strerror or str(error)).lower()
    if os.geteuid() == 0:
        advice = "in a container, give it CAP_SYS_ADMIN"
    elif error.errno in (errno.EPERM, errno.EACCES, errno.ENOSPC):
        advice = "run it as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1)"
    else:
        advice = "run it as root"
    return NoNetwork(f"cannot make a network of its own: {reason}; {advice}")


def make_tap(name: str = "tap0", *, gateway: str = GATEWAY, wireserver: str = WIRESERVER) -> None:
    """A cable for QEMU; what comes out of it arrives here."""
    if not Path(TUN).exists():
        raise NoNetwork(f"cannot make a tap device: {TUN} is missing; load the kernel's tun module")
    if not os.access(TUN, os.R_OK | os.W_OK):
        raise NoNetwork(f"cannot make a tap device: {TUN} is not for everybody here; run it as root")
    ip("tuntap", "add", "dev", name, "mode", "tap")
    attach_platform(name, gateway=gateway, wireserver=wireserver)


def make_veth(
    *, inside: str = "eth0", outside: str = "azure0", mac: str, gateway: str = GATEWAY, wireserver: str = WIRESERVER
) -> None:
    """A pair of interfaces: `inside` is to be given to a container, the platform is at the other."""
    ip("link", "add", outside, "type", "veth", "peer", "name", inside, "address", mac)
    attach_platform(outside, gateway=gateway, wireserver=wireserver)


def attach_platform(device: str, *, gateway: str, wireserver: str) -> None:
    """The DHCP server is where it always is, wherever the wireserver is."""
    for address in dict.fromkeys((gateway, f"{WIRESERVER}/32", f"{wireserver}/32", f"{IMDS}/32")):
        ip("address", "add", address, "dev", device)
    ip("link", "set", device, "up")


def ip(*arguments: str) -> None:
    tool = shutil.which("ip", path=os.pathsep.join((os.environ.get("PATH", os.defpath), *SBIN)))
    if tool is None:
        raise NoNetwork("the ip tool is missing: install iproute2")
    ran = subprocess.run([tool, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        reason = ran.stderr.strip().removeprefix("RTNETLINK answers: ") or f"exit status {ran.returncode}"
        advice = "run it as root" if os.getuid() or "permitted" in reason else "see if this kernel knows such devices"
        raise NoNetwork(f"cannot lay the network: ip {' '.join(arguments[:4])}: {reason}; {advice}")
