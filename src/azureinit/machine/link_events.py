"""The kernel's announcements about links and IPv4 routes.

The socket is bound to port 0, so that the kernel chooses one: other netlink sockets of this process do not collide.
Links are told by index and MAC, since udev and administrators rename them.
"""

from __future__ import annotations

import errno

from azureinit.machine.files import local_error
from azureinit.machine.netlink import HEADER, parse_links
from azureinit.machine.sockets import AF_NETLINK, NETLINK_ROUTE, SOCK_CLOEXEC, SOCK_RAW, socket, timeout
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from azureinit.machine.netlink import Link

LINKS, IPV4_ROUTES = 0x1, 0x40  # multicast groups
NEW_LINK, DELETED_LINK, NEW_ROUTE, DELETED_ROUTE = 16, 17, 24, 25
PIECE = 1 << 16
MOST_PIECES = 256  # in one call
# Kinds of changes.
CHANGED, GONE, ROUTE, LOST = "changed", "gone", "route", "lost"


class Change(Record):
    """`link`: of CHANGED and GONE. LOST: the kernel dropped announcements, and everything has to be read again."""

    kind: str
    link: Link | None = None


class LinkWatch:
    def __init__(self) -> None:
        try:
            self.kernel = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)
            self.kernel.bind((0, LINKS | IPV4_ROUTES))
        except OSError as error:
            raise local_error(error, "listen to", "the kernel's links") from error

    def __enter__(self) -> LinkWatch:
        return self

    def __exit__(self, *_: Any) -> None:
        self.kernel.close()

    def wait(self, seconds: float) -> tuple[Change, ...]:
        """All that is known after the first announcement; nothing if none came in this time."""
        found: list[Change] = []
        left = max(seconds, 0.001)
        for _ in range(MOST_PIECES):
            try:
                self.kernel.settimeout(left)
                found += parse_changes(self.kernel.recv(PIECE))
            except (TimeoutError, timeout, BlockingIOError):
                break
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise local_error(error, "listen to", "the kernel's links") from error
                found.append(Change(kind=LOST))
            left = 0.0
        return tuple(found)


def parse_changes(data: bytes) -> tuple[Change, ...]:
    """One read can hold several messages. The rest after a malformed or incomplete one is skipped."""
    return tuple(_changes(data))


def _changes(data: bytes) -> Iterator[Change]:
    place = 0
    while place + HEADER.size <= len(data):
        length, kind, flags, sequence, port = HEADER.unpack_from(data, place)
        if length < HEADER.size or place + length > len(data):
            return
        if kind in (NEW_ROUTE, DELETED_ROUTE):
            yield Change(kind=ROUTE)
        elif kind in (NEW_LINK, DELETED_LINK):
            # A deleted link is announced in the shape of a new one.
            body = data[place + HEADER.size : place + length]
            for link in parse_links(HEADER.pack(length, NEW_LINK, flags, sequence, port) + body):
                yield Change(kind=CHANGED if kind == NEW_LINK else GONE, link=link)
        place += length + 3 & ~3
