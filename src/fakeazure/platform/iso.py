"""ISO 9660 images: one flat directory, with Rock Ridge and Joliet names."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from datetime import datetime

SECTOR = 2048
FIRST_DESCRIPTOR = 16
FIRST_TABLE = 70  # not used by UDF, so that a bridge can hold both
TABLES_END = FIRST_TABLE + 6  # for each of the two trees: two path tables and the directory

Extent = tuple[int, int]  # first sector of the image, length in bytes
Encode = Callable[[str], bytes]

# The Rock Ridge entries SP and ER in the first directory record.
ROCK_RIDGE = b"SP\7\1\xbe\xef\0" + b"ER\x12\1\x0a\0\0\1RRIP_1991A"
DIRECTORY_MODE, FILE_MODE = 0o040555, 0o100444


def structures(files: Mapping[str, Extent], *, label: str, made: datetime, end: int) -> dict[int, bytes]:
    """Everything but the file data: sector -> bytes. `end` is the number of sectors of the whole image."""
    result: dict[int, bytes] = {}
    plain: tuple[Encode, int, bytes] = (ascii_text, 1, b"")
    joliet: tuple[Encode, int, bytes] = (wide_text, 2, b"%/E")
    for n, (text, kind, escapes) in enumerate((plain, joliet)):
        little, big, directory = (FIRST_TABLE + 3 * n + k for k in range(3))
        root = record(b"\0", (directory, SECTOR), made, directory=True)
        result[FIRST_DESCRIPTOR + n] = volume_descriptor(
            kind, escapes, root, text=text, label=label, made=made, end=end, tables=(little, big)
        )
        result[little] = struct.pack("<BBIH", 1, 0, directory, 1) + b"\0\0"
        result[big] = struct.pack(">BBIH", 1, 0, directory, 1) + b"\0\0"
        result[directory] = joliet_listing(files, root, made) if n else plain_listing(files, directory, made)
    result[FIRST_DESCRIPTOR + 2] = b"\xffCD001\1"
    return result


def plain_listing(files: Mapping[str, Extent], directory: int, made: datetime) -> bytes:
    here, posix = (directory, SECTOR), posix_file(DIRECTORY_MODE, links=2)
    whole = record(b"\0", here, made, directory=True, extra=ROCK_RIDGE + posix)
    whole += record(b"\1", here, made, directory=True, extra=posix)
    for name in sorted(files, key=short_name):
        whole += record(short_name(name), files[name], made, extra=posix_file(FILE_MODE, links=1) + real_name(name))
    return checked(whole)


def joliet_listing(files: Mapping[str, Extent], root: bytes, made: datetime) -> bytes:
    parent = root[:33] + b"\1" + root[34:]
    named = sorted((wide_text(name), extent) for name, extent in files.items())
    return checked(root + parent + b"".join(record(name, extent, made) for name, extent in named))


def checked(listing: bytes) -> bytes:
    if len(listing) > SECTOR:
        raise ValueError("too many files for a one-sector ISO 9660 directory")
    return listing


def posix_file(mode: int, *, links: int) -> bytes:
    return b"PX\x24\1" + both(mode, 4) + both(links, 4) + both(0, 4) + both(0, 4)


def real_name(name: str) -> bytes:
    return b"NM" + bytes([len(name.encode()) + 5, 1, 0]) + name.encode()


def record(name: bytes, extent: Extent, made: datetime, *, directory: bool = False, extra: bytes = b"") -> bytes:
    sector, length = extent
    padding = b"\0" * (len(name) + 1 & 1)
    extra += b"\0" * (len(extra) & 1)
    when = bytes([made.year - 1900, made.month, made.day, made.hour, made.minute, made.second, 0])
    tail = both(sector, 4) + both(length, 4) + when + bytes([2 if directory else 0, 0, 0]) + both(1, 2)
    whole = tail + bytes([len(name)]) + name + padding + extra
    return bytes([len(whole) + 2, 0]) + whole


def volume_descriptor(
    kind: int,
    escapes: bytes,
    root: bytes,
    *,
    text: Encode,
    label: str,
    made: datetime,
    end: int,
    tables: tuple[int, int],
) -> bytes:
    little, big = tables

    def field(content: str, size: int) -> bytes:
        return text(content.ljust(size))[:size]

    when = made.strftime("%Y%m%d%H%M%S00").encode() + b"\0"  # the last byte is the time zone: UTC
    never = b"0" * 16 + b"\0"
    return b"".join((
        bytes([kind]), b"CD001\1\0",
        field("", 32), field(label, 32),
        b"\0" * 8, both(end, 4), escapes.ljust(32, b"\0"),
        both(1, 2), both(1, 2), both(SECTOR, 2), both(10, 4),
        struct.pack("<II", little, 0), struct.pack(">II", big, 0),
        root,
        field("", 128), field("", 128), field("", 128), field("FAKEAZURE", 128),
        field("", 37), field("", 37), field("", 37),
        when, when, never, when,
        b"\1\0",
    ))  # fmt: skip


def both(number: int, size: int) -> bytes:
    return number.to_bytes(size, "little") + number.to_bytes(size, "big")


def ascii_text(text: str) -> bytes:
    return text.encode("ascii", "replace")


def wide_text(text: str) -> bytes:
    return text.encode("utf-16-be")


def short_name(name: str) -> bytes:
    """`ovf-env.xml` as the standard's first level spells it: OVF_ENV.XML;1."""
    stem, _, suffix = name.upper().rpartition(".")
    clean = ["".join(c if c.isascii() and c.isalnum() else "_" for c in part) for part in (stem[:8], suffix[:3])]
    return f"{clean[0]}.{clean[1]};1".encode()
