"""Changes of the kernel's addresses and routing rules over rtnetlink, and its rules. No child process."""

from __future__ import annotations

import errno
import os
import struct

from azureinit.errors import LocalError
from azureinit.machine import sockets
from azureinit.machine.files import local_error
from azureinit.machine.netlink import (
    ERROR,
    FAR_END,
    HEADER,
    NEAR_END,
    PATIENCE,
    PIECE,
    attributes_in,
    ip_text,
    ip_version,
    messages_in,
    number_in,
    read_answer,
)
from azureinit.record import Record

NEW_ADDRESS, OLD_ADDRESS = 20, 21
NEW_RULE, OLD_RULE, GET_RULE = 32, 33, 34
REQUEST_ACK, REQUEST_DUMP, CREATE_NEW = 0x5, 0x301, 0x600
ADDRESS, RULE = struct.Struct("=BBBBI"), struct.Struct("=BBBBBBBBI")
TO_TABLE = 1  # the action of a rule
SOURCE, PRIORITY, TABLE = 2, 6, 15
LIFETIMES, FOREVER = 6, 0xFFFFFFFF  # of an address
GLOBAL = 0


class Rule(Record):
    """A rule by source address that names a table; others are not read."""

    family: int
    source: str
    prefix: int
    table: int
    priority: int


def read_rules() -> tuple[Rule, ...]:
    found: list[Rule] = []
    try:
        for family in (sockets.AF_INET, sockets.AF_INET6):
            found += parse_rules(_dump_rules(family))
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:  # a kernel without policy routing
            return ()
        raise local_error(error, "ask the kernel for its", "routing rules") from error
    return tuple(found)


def parse_rules(answer: bytes) -> list[Rule]:
    found = []
    for kind, _flags, _sequence, body in messages_in(answer):
        if kind != NEW_RULE or len(body) < RULE.size:
            continue
        family, _to, prefix, _tos, table, _one, _two, action, _flags = RULE.unpack_from(body)
        parts = attributes_in(body[RULE.size :])
        source = ip_text(parts.get(SOURCE, b""))
        if action == TO_TABLE and source:
            found.append(
                Rule(
                    family=ip_version(family),
                    source=source,
                    prefix=prefix,
                    table=number_in(parts.get(TABLE, b"")) or table,
                    priority=number_in(parts.get(PRIORITY, b"")),
                )
            )
    return found


def add_address(index: int, address: str) -> None:
    """As /32 or /128: it must not make a route to its subnet. One that is there already is no error.

    IPv6 with no preferred lifetime: else the kernel would prefer it, as the newest, as the source of all packets.
    """
    _change_address(NEW_ADDRESS, CREATE_NEW, index, address, fine=errno.EEXIST)


def remove_address(index: int, address: str) -> None:
    """Only as /32 or /128: a subnet's address is not azure-init's. One that is absent already is no error."""
    _change_address(OLD_ADDRESS, 0, index, address, fine=errno.EADDRNOTAVAIL)


def _change_address(kind: int, flags: int, index: int, address: str, *, fine: int) -> None:
    family, packed = _packed(address)
    body = ADDRESS.pack(family, len(packed) * 8, 0, GLOBAL, index)
    body += _attribute(NEAR_END, packed) + _attribute(FAR_END, packed)
    if kind == NEW_ADDRESS and family == sockets.AF_INET6:
        body += _attribute(LIFETIMES, struct.pack("=IIII", 0, FOREVER, 0, 0))
    _send(kind, flags, body, f"{'set' if kind == NEW_ADDRESS else 'remove'} the address", address, fine=fine)


def remove_rule(rule: Rule) -> None:
    family, packed = _packed(rule.source)
    body = RULE.pack(family, 0, rule.prefix, 0, 0, 0, 0, TO_TABLE, 0) + _attribute(SOURCE, packed)
    body += _attribute(TABLE, struct.pack("=I", rule.table)) + _attribute(PRIORITY, struct.pack("=I", rule.priority))
    _send(OLD_RULE, 0, body, "remove the routing rule for", rule.source, fine=errno.ENOENT)


def _packed(address: str) -> tuple[int, bytes]:
    family = sockets.AF_INET6 if ":" in address else sockets.AF_INET
    try:
        return family, sockets.inet_pton(family, address)
    except OSError:
        raise LocalError(f"{address!r} is not an address") from None


def _attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def _dump_rules(family: int) -> bytes:
    body = RULE.pack(family, 0, 0, 0, 0, 0, 0, 0, 0)
    kernel = _open()
    try:
        kernel.send(HEADER.pack(HEADER.size + len(body), GET_RULE, REQUEST_DUMP, 1, 0) + body)
        return read_answer(kernel, 1)[0]
    finally:
        kernel.close()


def _send(kind: int, flags: int, body: bytes, doing: str, what: str, *, fine: int) -> None:
    try:
        kernel = _open()
        try:
            kernel.send(HEADER.pack(HEADER.size + len(body), kind, REQUEST_ACK | flags, 1, 0) + body)
            told = kernel.recv(PIECE)
        finally:
            kernel.close()
        for answer, _flags, _sequence, text in messages_in(told):
            failed = -struct.unpack_from("=i", text)[0] if answer == ERROR and len(text) >= 4 else 0
            if failed and failed != fine:
                raise OSError(failed, os.strerror(failed))
    except OSError as error:
        raise local_error(error, doing, what) from error


def _open() -> sockets.socket:
    kernel = sockets.socket(sockets.AF_NETLINK, sockets.SOCK_RAW | sockets.SOCK_CLOEXEC, sockets.NETLINK_ROUTE)
    kernel.settimeout(PATIENCE)
    kernel.bind((0, 0))
    return kernel
