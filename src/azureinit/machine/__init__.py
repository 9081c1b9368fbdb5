"""The only access to this computer: its files here, and its processes, kernel, locks and network behind lazy imports.

Paths are absolute, as the target machine sees them. `/proc`, `/sys` and `/dev` lie under `kernel`, everything else
under `root`. With both at "/" this is simply the computer that the program runs on. A test hands in a Machine of its
own: another root, another clock, or a subclass with made-up links, addresses and routes.
"""

from __future__ import annotations

import os

from azureinit.machine.clock import Clock as Clock, rfc3339 as rfc3339
from azureinit.machine.files import (
    MOST_BYTES as MOST_BYTES,
    Appender as Appender,
    ImageFile as ImageFile,
    is_temporary as is_temporary,
    local_error as local_error,
    temporary_path as temporary_path,
)
from azureinit.machine.filetree import KERNEL as KERNEL, FileTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from azureinit.machine.link_events import LinkWatch
    from azureinit.machine.netlink import Address, Link, Route
    from azureinit.machine.network_changes import Rule
    from azureinit.machine.packets import Broadcast
    from azureinit.machine.processes import Ran
    from azureinit.machine.sockets import socket
    from azureinit.machine.watch import RouteWatch

TOOLS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


class Machine(FileTree):
    def __init__(
        self,
        *,
        root: str = "/",
        kernel: str = "/",
        search: tuple[str, ...] | None = None,
        clock: Clock | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(root=root, kernel=kernel)
        self.environ: Mapping[str, str] = os.environ if environ is None else environ
        path = self.environ.get("PATH", "")
        self.search = search if search is not None else (*filter(None, path.split(":")), *TOOLS)
        self.clock = clock or Clock()
        self.pid = os.getpid()
        # When sources/route.py first saw a default route and no other to the platform: waited for once in a run.
        self.default_route_since: float | None = None

    # ---- processes

    def find(self, tool: str) -> str | None:
        for directory in self.search:
            path = f"{directory}/{tool}"
            if os.access(path, os.X_OK) and os.path.isfile(path):
                return path
        return None

    def run(
        self,
        argv: tuple[str, ...],
        *,
        stdin: bytes = b"",
        timeout: float,
        env: Mapping[str, str] | None = None,
        output: str | None = None,
        kept: int = 2 << 20,
        begun: Callable[[int], None] | None = None,
    ) -> Ran:
        """Run a program to its end. `output`: a log file that gets both streams; then the result holds neither.
        `kept`: bytes of each stream that the result holds. `begun` is given the pid of the program."""
        from azureinit.machine.processes import run

        return run(self, argv, stdin=stdin, timeout=timeout, env=env or {}, output=output, kept=kept, begun=begun)

    def start(self, argv: tuple[str, ...]) -> Callable[[float], Ran]:
        """Start a program and return. The returned function waits for its end, at most the given number of seconds."""
        from azureinit.machine.processes import start

        return start(self, argv)

    # ---- the kernel

    def hostname(self) -> str:
        return os.uname().nodename

    def kernel_release(self) -> str:
        return os.uname().release

    def set_hostname(self, name: str) -> None:
        from azureinit.machine import kernel

        kernel.set_hostname(name)

    def eject(self, device: str, *, timeout: float) -> None:
        from azureinit.machine import kernel

        kernel.eject(self, device, timeout=timeout)

    def mount_and_read(self, device: str, name: str, *, limit: int) -> bytes | None:
        from azureinit.machine import kernel

        return kernel.mount_and_read(self, device, name, limit=limit)

    def is_claimed(self, path: str) -> str:
        """Why a block device cannot be opened exclusively; empty if it can."""
        from azureinit.machine.disk_use import is_claimed

        return is_claimed(self, path)

    def identify_namespace(self, path: str) -> bytes:
        """The NVMe namespace's answer to Identify Namespace. A test hands in a recorded one."""
        from azureinit.machine.block import identify_namespace

        return identify_namespace(self, path)

    def hold(self, path: str, *, timeout: float, note: bytes = b"") -> bytes:
        """Lock a file against other azure-init processes until this process ends. Returns the last holder's note."""
        from azureinit.machine import kernel

        return kernel.hold(self, path, timeout=timeout, note=note)

    def try_lock(self, path: str) -> Callable[[], None] | None:
        """Lock a file against other azure-init processes until the returned function is called; None: one holds it."""
        from azureinit.machine import kernel

        return kernel.try_lock(self, path)

    def is_another(self, pid: int) -> bool:
        """True for a live process other than this one. A recorded PID may have been reused by this process."""
        return pid not in (0, self.pid) and self.stat(f"/proc/{pid}") is not None

    def boot_id(self) -> str:
        return (self.read("/proc/sys/kernel/random/boot_id") or b"").decode().strip()

    # ---- the network

    def read_links(self) -> tuple[Link, ...]:
        from azureinit.machine.netlink import read_links

        return read_links()

    def read_addresses(self) -> tuple[Address, ...]:
        from azureinit.machine.netlink import read_addresses

        return read_addresses()

    def read_routes(self) -> tuple[Route, ...]:
        from azureinit.machine.netlink import read_routes

        return read_routes()

    def read_rules(self) -> tuple[Rule, ...]:
        """The kernel's routing rules by source address."""
        from azureinit.machine.network_changes import read_rules

        return read_rules()

    def change_addresses(self, index: int, *, add: tuple[str, ...], remove: tuple[str, ...]) -> None:
        """Addresses of a link in the running kernel, as /32 or /128."""
        from azureinit.machine.network_changes import add_address, remove_address

        for address in add:
            add_address(index, address)
        for address in remove:
            remove_address(index, address)

    def remove_rules(self, rules: tuple[Rule, ...]) -> None:
        from azureinit.machine.network_changes import remove_rule

        for rule in rules:
            remove_rule(rule)

    def watch_routes(self) -> RouteWatch:
        """The kernel's announcements of new IPv4 routes, from now on."""
        from azureinit.machine.watch import RouteWatch

        return RouteWatch()

    def watch_links(self) -> LinkWatch:
        """The kernel's announcements about links and routes, from now on."""
        from azureinit.machine.link_events import LinkWatch

        return LinkWatch()

    def resolve(self, host: str) -> tuple[str, ...]:
        """The addresses of a host. A test hands in made-up ones."""
        from azureinit.machine.outgoing import resolve

        return resolve(host)

    def connect(self, host: str, port: int, seconds: float, *, secure: bool) -> socket:
        """A connection to a host by name; with `secure` in TLS. OSError, or outgoing.Refused."""
        from azureinit.machine.outgoing import connect

        return connect(self, host, port, seconds, secure=secure)

    def broadcast(self, link: str) -> Broadcast:
        """UDP from the DHCP client's port on a link that may have no address."""
        from azureinit.machine.packets import Broadcast

        return Broadcast(link)
