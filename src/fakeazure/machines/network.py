"""A network namespace with the platform's addresses and the machine's interface, without a way out."""

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
MS_PRIVATE_ALL = 0x00040000 | 0x00004000  # MS_PRIVATE | MS_REC
TUN = "/dev/net/tun"
SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # not on every user's PATH


class NoNetwork(Exception):
    """The network cannot be created; the text says why and what to do."""


def enter_network(*, mounts: bool = False) -> None:
    """Moves this process into a new network namespace, and with `mounts` into a new mount namespace.

    Both disappear with the last process in them. Call it before any thread starts: it moves only the calling thread.
    """
    if os.geteuid() == 0:
        unshare(CLONE_NEWNET | (CLONE_NEWNS if mounts else 0))
    else:
        enter_unprivileged(CLONE_NEWNET | (CLONE_NEWNS if mounts else 0))
    if mounts:
        keep_mounts_private()
    ip("link", "set", "lo", "up")
    # With forwarding on, packets without a route are refused at once, and the machine need not wait for a timeout.
    with contextlib.suppress(OSError):
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def enter_unprivileged(flags: int) -> None:
    """Without privileges: as root of a new user namespace."""
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
        raise NoNetwork(f"cannot make mounts private: {os.strerror(number).lower()}; run it outside of a container")


def refused(error: OSError) -> NoNetwork:
    reason = (error.strerror or str(error)).lower()
    if os.geteuid() == 0:
        advice = "in a container, give it CAP_SYS_ADMIN"
    elif error.errno in (errno.EPERM, errno.EACCES, errno.ENOSPC):
        advice = "run it as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1)"
    else:
        advice = "run it as root"
    return NoNetwork(f"cannot create a network namespace: {reason}; {advice}")


def make_tap(name: str = "tap0", *, gateway: str = GATEWAY, wireserver: str = WIRESERVER) -> None:
    """A tap device for QEMU, with the platform's addresses."""
    if not Path(TUN).exists():
        raise NoNetwork(f"cannot create a tap device: {TUN} is missing; load the kernel's tun module")
    if not os.access(TUN, os.R_OK | os.W_OK):
        raise NoNetwork(f"cannot create a tap device: no access to {TUN}; run it as root")
    ip("tuntap", "add", "dev", name, "mode", "tap")
    attach_platform(name, gateway=gateway, wireserver=wireserver)


def make_veth(
    *, inside: str = "eth0", outside: str = "azure0", mac: str, gateway: str = GATEWAY, wireserver: str = WIRESERVER
) -> None:
    """A veth pair: `inside` is for a container, `outside` has the platform's addresses."""
    ip("link", "add", outside, "type", "veth", "peer", "name", inside, "address", mac)
    attach_platform(outside, gateway=gateway, wireserver=wireserver)


def attach_platform(device: str, *, gateway: str, wireserver: str) -> None:
    """Azure's wireserver address stays, also with another wireserver: the DHCP server has it."""
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
        advice = (
            "run it as root" if os.getuid() or "permitted" in reason else "check that the kernel has this device type"
        )
        raise NoNetwork(f"cannot set up the network: ip {' '.join(arguments[:4])}: {reason}; {advice}")
