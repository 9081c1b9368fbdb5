"""A machine whose links, addresses, routes and DHCP servers are made up: no socket, no root."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from azureinit.machine import Machine
from azureinit.machine.netlink import Address, Link, Route
from azureinit.machine.network_changes import Rule
from azureinit.machine.processes import Ran
from support.wire import Ticking

MAC = "00:0d:3a:12:34:56"
CARD = Link(index=2, name="eth0", mac=MAC, mtu=1500, up=True, carrier=True, loopback=False, state="up")
LOOPBACK = Link(index=1, name="lo", mac="", mtu=65536, up=True, carrier=True, loopback=True, state="up")
OWN = Address(index=2, family=4, address="10.0.0.4", prefix=24, scope="global")
OFFER, ACK = 2, 5


def offer(
    question: bytes, options: bytes, *, xid: bytes | None = None, mac: bytes | None = None, kind: int = OFFER
) -> bytes:
    """The answer to a question, by default to the machine that asked it."""
    head = b"\2\1\6\0" + (xid or question[4:8]) + bytes(8) + bytes((10, 0, 0, 4)) + bytes(8)
    head += (mac or question[28:34]).ljust(16, b"\0") + bytes(192) + b"\x63\x82\x53\x63"
    return head + bytes((53, 1, kind)) + options + b"\xff"


class Networked(Machine):
    """`rooted` is False, though the files are those of a tree: it counts as the running system."""

    def __init__(
        self,
        root: Path,
        *,
        links: tuple[Link, ...] = (LOOPBACK, CARD),
        addresses: tuple[Address, ...] = (),
        routes: tuple[Route, ...] = (),
        answers: Callable[[int, bytes], list[bytes]] = lambda number, question: [],
    ) -> None:
        """`answers`: what DHCP servers say to a question, given its number, from 1, and its content."""
        self.time = Ticking()
        super().__init__(root=str(root), kernel=str(root), clock=self.time, environ={})
        self.place = root
        self.links, self.addresses, self.routes, self.answers = links, addresses, routes, answers
        self.rules: tuple[Rule, ...] = ()
        self.changed: list[tuple[int, tuple[str, ...], tuple[str, ...]]] = []  # link, addresses added and removed
        self.asked: list[bytes] = []  # DHCP questions
        self.ran: list[tuple[str, ...]] = []
        self.changes: list[Callable[[], None]] = []  # one for each quiet period while a route is waited for

    @property
    def rooted(self) -> bool:
        return False

    def put(self, path: str, text: str) -> None:
        file = self.place / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def read_links(self) -> tuple[Link, ...]:
        return self.links

    def read_addresses(self) -> tuple[Address, ...]:
        return self.addresses

    def read_routes(self) -> tuple[Route, ...]:
        return self.routes

    def read_rules(self) -> tuple[Rule, ...]:
        return self.rules

    def change_addresses(self, index: int, *, add: tuple[str, ...], remove: tuple[str, ...]) -> None:
        self.changed.append((index, add, remove))

    def remove_rules(self, rules: tuple[Rule, ...]) -> None:
        self.rules = tuple(rule for rule in self.rules if rule not in rules)

    def put_card(self, name: str, *, index: int, mac: str, driver: str = "hv_netvsc", kind: str = "1") -> None:
        """A link with hardware, in sysfs."""
        place = f"/sys/class/net/{name}"
        for attribute, value in (("ifindex", str(index)), ("address", mac), ("type", kind)):
            self.put(f"{place}/{attribute}", f"{value}\n")
        device = self.place / place.lstrip("/") / "device"
        device.mkdir()
        (device / "driver").symlink_to(f"../../../bus/drivers/{driver}")

    def watch_routes(self) -> Any:
        return QuietWatch(self)

    def broadcast(self, link: str) -> Any:
        return Cable(self)

    def run(self, argv: tuple[str, ...], **_: Any) -> Ran:
        self.ran.append(argv)
        return Ran(argv=argv, status=0, out=b"", err=b"")


class QuietWatch:
    """The kernel announces nothing; time passes, and with it the machine's next change."""

    def __init__(self, machine: Networked) -> None:
        self.machine = machine

    def __enter__(self) -> QuietWatch:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self, seconds: float) -> bool:
        self.machine.time.at += seconds
        if self.machine.changes:
            self.machine.changes.pop(0)()
        return False


class Cable:
    """Answers arrive at once; without one, time passes."""

    def __init__(self, machine: Networked) -> None:
        self.machine = machine
        self.arriving: list[bytes] = []

    def __enter__(self) -> Cable:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def send(self, content: bytes) -> None:
        self.machine.asked.append(content)
        self.arriving = self.machine.answers(len(self.machine.asked), content)

    def receive(self, seconds: float) -> bytes | None:
        if self.arriving:
            return self.arriving.pop(0)
        self.machine.time.at += seconds
        return None
