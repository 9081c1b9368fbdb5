"""DHCP messages as a server would send them."""

from __future__ import annotations

import struct

MAC = bytes.fromhex("000d3a123456")
XID = 0xCAFEBABE


def answer(
    options: bytes,
    *,
    operation: int = 2,
    mac: bytes = MAC,
    xid: int = XID,
    name: bytes = b"",
    file: bytes = b"",
    cookie: bytes = b"\x63\x82\x53\x63",
) -> bytes:
    head = struct.pack("!BBBBIHH", operation, 1, 6, 0, xid, 0, 0x8000) + bytes(4) + bytes((10, 0, 0, 4)) + bytes(8)
    return head + mac.ljust(16, b"\0") + name.ljust(64, b"\0") + file.ljust(128, b"\0") + cookie + options
