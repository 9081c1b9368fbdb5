"""A network namespace with the platform's addresses and the machine's interface, without a way out."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from fakeazure.platform.addresses import GATEWAY, IMDS, ROUTER6, WIRESERVER, gateway_for
from fakeazure.platform.dhcp import Dhcp, Offer
from fakeazure.platform.dhcp6 import Ipv6
from fakeazure.platform.ledger import Ledger
from fakeazure.platform.vm import Vm

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
MS_PRIVATE_ALL = 0x00040000 | 0x00004000  # MS_PRIVATE | MS_REC
TUN = "/dev/net/tun"
VF_KINDS = ("dummy", "ifb")  # links without a device behind them; which of them exist depends on the kernel
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
    # The platform's own IPv6 addresses are valid at once, so that the first router solicitation is answered. And the
    # platform calls itself a router: a machine drops the default route of a neighbour that does not.
    for setting, value in (("default/accept_dad", "0"), ("all/forwarding", "1")):
        with contextlib.suppress(OSError):
            Path(f"/proc/sys/net/ipv6/conf/{setting}").write_text(value)


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


def make_taps(vm: Vm, *, stem: str, wireserver: str) -> list[str]:
    """A tap device for each interface, and for each VF; their names."""
    first, *others = vm.interfaces
    make_tap(device(stem, 0), gateway=gateway_for(first), wireserver=wireserver)
    for n, _ in enumerate(others, 1):
        ip("tuntap", "add", "dev", device(stem, n), "mode", "tap")
    attach_others(vm, stem=stem)
    for name in vf_names(vm, stem=stem):  # the VF is behind the same switch port, so that DHCP answers there too
        ip("tuntap", "add", "dev", name, "mode", "tap")
        ip("link", "set", name, "up")
    return [device(stem, n) for n, _ in enumerate(vm.interfaces)] + vf_names(vm, stem=stem)


def make_veths(vm: Vm, *, stem: str, inside: str, wireserver: str) -> tuple[list[str], list[str]]:
    """A veth pair for each interface; and a link for each VF, which leads nowhere. Names outside, and inside."""
    first, *others = vm.interfaces
    make_veth(
        inside=device(inside, 0),
        outside=device(stem, 0),
        mac=first.mac,
        gateway=gateway_for(first),
        wireserver=wireserver,
    )
    for n, nic in enumerate(others, 1):
        ip("link", "add", device(stem, n), "type", "veth", "peer", "name", device(inside, n), "address", nic.mac)
    attach_others(vm, stem=stem)
    numbers = range(len(vm.interfaces))
    vfs = [make_vf(f"vf{n}", mac=nic.mac) for n, nic in enumerate(vm.interfaces) if nic.vf]
    return [device(stem, n) for n in numbers], [*(device(inside, n) for n in numbers), *vfs]


def device(stem: str, n: int) -> str:
    return f"{stem}{n}"


def vf_names(vm: Vm, *, stem: str) -> list[str]:
    return [f"{stem}vf{n}" for n, nic in enumerate(vm.interfaces) if nic.vf]


def make_vf(name: str, *, mac: str) -> str:
    """A link with the MAC address of another and a driver of its own, as the VF of accelerated networking."""
    with contextlib.suppress(NoNetwork):
        ip("link", "delete", name)  # of an earlier boot
    for kind in VF_KINDS:
        with contextlib.suppress(NoNetwork):
            ip("link", "add", name, "address", mac, "type", kind)
            return name
    raise NoNetwork(f"cannot create a VF: the kernel has none of the link types {', '.join(VF_KINDS)}: load one")


def attach_others(vm: Vm, *, stem: str) -> None:
    """The interfaces after the first. The platform has the same addresses behind each of them.

    Each of the machine's addresses is reached through its interface alone, and what comes from it through another
    interface is dropped, as Azure drops packets with another interface's address. Two interfaces may have one subnet.
    """
    gateways = {gateway_for(vm.interfaces[0])}
    for n, nic in enumerate(vm.interfaces):
        name, gateway = device(stem, n), gateway_for(nic)
        if gateway not in gateways:
            ip("address", "add", gateway, "dev", name)
            gateways.add(gateway)
        ip("link", "set", name, "up")
        for address in nic.ipv6:
            ip("-6", "route", "replace", f"{address}/128", "dev", name)
        if len(vm.interfaces) > 1:
            for address in nic.addresses:
                ip("route", "replace", f"{address}/32", "dev", name)
            check_senders(name)


def serve_leases(
    stack: contextlib.ExitStack, vm: Vm, devices: Sequence[str], offers: Mapping[str, Offer], ledger: Ledger
) -> None:
    """DHCP on each of the devices, and IPv6 where an interface has it. `devices`: interfaces first, in their order."""
    for name in devices:
        stack.enter_context(Dhcp(name, offers, ledger))
    for name, nic in zip(devices, vm.interfaces, strict=False):
        if nic.ipv6:
            ip("-6", "address", "replace", f"{ROUTER6}/64", "dev", name, "nodad")
            stack.enter_context(Ipv6(name, nic, ledger))


def check_senders(name: str) -> None:
    try:
        Path(f"/proc/sys/net/ipv4/conf/{name}/rp_filter").write_text("1")
    except OSError as error:
        raise NoNetwork(f"cannot check the senders of packets on {name}: {error.strerror}; run it as root") from None


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
