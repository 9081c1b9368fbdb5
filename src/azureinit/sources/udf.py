"""UDF without the kernel: reads one file of the root directory, with limits on every length and loop.

The path: anchor -> volume descriptor sequence -> partitions and logical volume -> file set -> root directory ->
file. Structures are those of ECMA-167 and OSTA UDF 1.02 to 2.60; partitions not plain are in udf_partitions.py.

Every descriptor on the path is verified: the tag's checksum, the CRC, and, except for directory entries, the location.
A damaged one is replaced by its copy (anchors, sequences, tables), or the medium is refused. UDF has no checksum of
file contents, unless they are inside the file entry.
"""

from __future__ import annotations

from binascii import crc_hqx
from struct import unpack_from

from azureinit.errors import MediaUnreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    class Image(Protocol):
        @property
        def size(self) -> int: ...

        def read(self, offset: int, length: int, /) -> bytes: ...

    Where = Callable[[int], tuple[int, int]]  # a partition's block -> the medium's block, and how many follow it there
    Extent = tuple[int, int, int]  # partition reference, block, bytes


MOST_READ = 32 << 20  # bytes read of one image; the search for a virtual allocation table needs most of them
BLOCK_SIZES = (2048, 512, 4096, 1024)
RECOGNITION = (b"BEA01", b"BOOT2", b"CD001", b"CDW02", b"NSR02", b"NSR03", b"TEA01")

ANCHOR, POINTER, PARTITION, LOGICAL_VOLUME, TERMINATOR = 2, 3, 5, 6, 8
FILE_SET, FILE_IDENTIFIER, ALLOCATION_EXTENT, FILE_ENTRY, EXTENDED_FILE_ENTRY = 256, 257, 258, 261, 266
DIRECTORY, PLAIN_FILE = 4, 5
SHORT, LONG, EMBEDDED = 0, 1, 3
HOLE = DAMAGED = -1

MOST_DESCRIPTORS = 64
MOST_POINTERS = 4
MOST_MAPS = 8
MOST_EXTENTS = 1024
MOST_CONTINUATIONS = 64
MOST_NAMES = 4096
MOST_DIRECTORY = 1 << 20


class Bounded:
    """An image with complete reads only, and a limit on the bytes read."""

    __slots__ = ("_image", "_left", "size")

    def __init__(self, image: Image, *, most: int) -> None:
        self._image, self._left, self.size = image, most, image.size

    def read(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0 or offset + length > self.size:
            raise MediaUnreadable(f"{length} bytes at {offset} lie outside the medium of {self.size} bytes")
        self.spend(max(length, 512))  # limits the number of reads, too
        data = self._image.read(offset, length)
        if len(data) != length:
            raise MediaUnreadable(f"short read: {len(data)} of {length} bytes at {offset}")
        return data

    def spend(self, length: int) -> None:
        self._left -= length
        if self._left < 0:
            raise MediaUnreadable("gave up: the medium's structures form a loop")


class Volume:
    """A logical volume and its partitions."""

    __slots__ = ("block_size", "disc", "file_set", "parts")

    def __init__(self, disc: Bounded, *, block_size: int, file_set: tuple[int, int]) -> None:
        self.disc, self.block_size, self.file_set = disc, block_size, file_set
        self.parts: list[Where] = []

    def read(self, extent: Extent) -> bytes:
        part, block, left = extent
        if part == HOLE:
            self.disc.spend(left)
            return bytes(left)
        pieces = []
        while left > 0:
            absolute, run = self.where(part, block)
            take = min(left, run * self.block_size)
            pieces.append(self.disc.read(absolute * self.block_size, take))
            block, left = block + run, left - take
        return b"".join(pieces)

    def where(self, part: int, block: int) -> tuple[int, int]:
        if part >= len(self.parts):
            raise MediaUnreadable(f"partition {part} is not on the medium")
        return self.parts[part](block)

    def descriptor(self, part: int, block: int, *kinds: int) -> bytes:
        data = self.read((part, block, self.block_size))
        if verified(data, location=block) not in kinds:
            raise MediaUnreadable(f"block {block} of partition {part} has another descriptor than expected")
        return data


class Node:
    """A file or directory, from its (extended) file entry."""

    __slots__ = ("allocation", "data", "kind", "length", "part")

    def __init__(self, *, kind: int, length: int, allocation: int, data: bytes, part: int) -> None:
        self.kind, self.length, self.allocation, self.data, self.part = kind, length, allocation, data, part


def is_udf(image: Image) -> bool:
    """A quick check: the recognition sequence, else the anchors."""
    disc = Bounded(image, most=MOST_READ)
    head = disc.read(32768, min(disc.size - 32768, 32768)) if disc.size > 32768 else b""
    for step in (2048, 4096):
        for at in range(0, len(head) - 5, step):
            identifier = head[at + 1 : at + 6]
            if identifier in (b"NSR02", b"NSR03"):
                return True
            if identifier not in RECOGNITION:
                break
    return next(anchors(disc), None) is not None


def read_udf_file(image: Image, name: str, *, limit: int) -> bytes | None:
    """The file `name` of the root directory; None if a valid volume has no such file."""
    disc = Bounded(image, most=MOST_READ + limit)
    causes: dict[str, None] = {}
    about: dict[str, str] = {}
    tried: set[tuple[int, int, int]] = set()
    for block_size, sequences in anchors(disc):
        for length, location in sequences:
            if (block_size, length, location) in tried:
                continue
            tried.add((block_size, length, location))
            try:
                volume = open_volume(disc, block_size=block_size, length=length, location=location)
                return read_from_root(volume, name, limit=limit)
            except MediaUnreadable as error:
                causes[str(error)] = None
                about.update(error.data)
    raise MediaUnreadable("not readable as UDF: " + ("; ".join(causes) or "no anchor volume descriptor"), **about)


def anchors(disc: Bounded) -> Iterator[tuple[int, tuple[tuple[int, int], tuple[int, int]]]]:
    """Block size and (length, location) of both volume descriptor sequences, from every possible anchor."""
    for block_size in BLOCK_SIZES:
        last = disc.size // block_size - 1
        for block in dict.fromkeys((256, last - 256, last, 512)):
            if 0 < block <= last:
                data = disc.read(block * block_size, 512)
                if tag(data) == ANCHOR and is_whole(data) and unpack_from("<I", data, 12)[0] == block:
                    main_length, main, reserve_length, reserve = unpack_from("<4I", data, 16)
                    yield block_size, ((main_length, main), (reserve_length, reserve))


def tag(data: bytes) -> int:
    """The descriptor's type; 0 for an unrecorded block; DAMAGED if the tag's checksum is wrong."""
    if len(data) < 16 or (sum(data[:4]) + sum(data[5:16])) & 255 != data[4]:
        return DAMAGED
    kind: int = unpack_from("<H", data)[0]
    return kind


def is_whole(data: bytes) -> bool:
    """Whether the CRC of what follows the tag is right."""
    crc, covered = unpack_from("<2H", data, 8)
    return bool(covered + 16 <= len(data) and crc_hqx(data[16 : 16 + covered], 0) == crc)


def verified(data: bytes, *, location: int) -> int:
    kind = tag(data)
    recorded = unpack_from("<I", data, 12)[0]
    if kind == 0:
        raise MediaUnreadable(f"block {location} holds no descriptor")
    if kind == DAMAGED or not is_whole(data):
        raise damaged(f"the descriptor in block {location} is damaged")
    if recorded != location:
        raise damaged(f"the descriptor in block {location} belongs into block {recorded}")
    return kind


def damaged(message: str) -> MediaUnreadable:
    return MediaUnreadable(message, damaged=True)


def open_volume(disc: Bounded, *, block_size: int, length: int, location: int) -> Volume:
    partitions: dict[int, tuple[int, int, int]] = {}  # number -> sequence number, start, blocks
    logical, newest = b"", -1
    for data in sequence(disc, block_size=block_size, length=length, location=location):
        kind, order = tag(data), unpack_from("<I", data, 16)[0]
        if kind == PARTITION:
            number, (start, blocks) = unpack_from("<H", data, 22)[0], unpack_from("<2I", data, 188)
            if number not in partitions or order >= partitions[number][0]:
                partitions[number] = order, start, blocks
        elif kind == LOGICAL_VOLUME and order >= newest:
            logical, newest = data, order
    if not logical:
        raise MediaUnreadable("no logical volume descriptor")
    if unpack_from("<I", logical, 212)[0] != block_size:
        raise MediaUnreadable("the logical volume's block size is not the medium's")
    block, part = unpack_from("<IH", logical, 252)
    volume = Volume(disc, block_size=block_size, file_set=(part, block))
    add_partitions(volume, partition_maps(logical), {number: found[1:] for number, found in partitions.items()})
    return volume


def sequence(disc: Bounded, *, block_size: int, length: int, location: int) -> Iterator[bytes]:
    """The volume descriptors of one sequence, each verified, up to its terminator or the first unrecorded block."""
    for _ in range(MOST_POINTERS):
        blocks = min(length // block_size, MOST_DESCRIPTORS)
        data = disc.read(location * block_size, blocks * block_size)
        following = None
        for index in range(blocks):
            one = data[index * block_size : (index + 1) * block_size]
            if tag(one) in (0, TERMINATOR):
                return
            if verified(one, location=location + index) == POINTER:
                following = unpack_from("<2I", one, 20)
                break
            yield one
        if following is None:
            return
        length, location = following
    raise MediaUnreadable("the volume descriptor sequence has no end")


def partition_maps(logical: bytes) -> list[bytes]:
    length, count = unpack_from("<2I", logical, 264)
    table = logical[440 : 440 + length]
    maps: list[bytes] = []
    while len(maps) < min(count, MOST_MAPS):
        size = table[1] if len(table) > 1 else 0
        if (table[:1], size) not in ((b"\1", 6), (b"\2", 64)) or size > len(table):
            raise MediaUnreadable("a partition map is of no known kind")
        maps.append(table[:size])
        table = table[size:]
    return maps


def add_partitions(volume: Volume, maps: list[bytes], partitions: dict[int, tuple[int, ...]]) -> None:
    volume.parts = [unusable] * len(maps)
    for part, entry in enumerate(maps):
        number: int = unpack_from("<H", entry, 4 if entry[0] == 1 else 38)[0]
        if entry[0] == 1 and number in partitions:
            start, blocks = partitions[number]
            volume.parts[part] = plain(start, blocks)
    if any(entry[0] == 2 for entry in maps):
        from azureinit.sources.udf_partitions import add_layered_partitions  # rare: imported only when needed

        add_layered_partitions(volume, maps, partitions)


def unusable(_block: int) -> tuple[int, int]:
    raise MediaUnreadable("a partition has an unsupported type, or no description")


def plain(start: int, blocks: int) -> Where:
    def where(block: int) -> tuple[int, int]:
        if block >= blocks:
            raise MediaUnreadable(f"block {block} lies outside its partition of {blocks}")
        return start + block, blocks - block

    return where


def node(volume: Volume, part: int, block: int) -> Node:
    data = volume.descriptor(part, block, FILE_ENTRY, EXTENDED_FILE_ENTRY)
    strategy, kind, flags = unpack_from("<H5xB6xH", data, 20)
    head = 216 if tag(data) == EXTENDED_FILE_ENTRY else 176
    attributes, descriptors = unpack_from("<2I", data, head - 8)
    if strategy != 4:
        raise MediaUnreadable(f"a file entry uses strategy {strategy}, which this reader does not support")
    if head + attributes + descriptors > len(data) or flags & 7 > EMBEDDED:
        raise MediaUnreadable(f"the file entry in block {block} is damaged")
    start = head + attributes
    length: int = unpack_from("<Q", data, 56)[0]
    return Node(kind=kind, length=length, allocation=flags & 7, data=data[start : start + descriptors], part=part)


def extents(volume: Volume, file: Node) -> Iterator[Extent]:
    """The extents of a file, in order, with continuations; HOLE for unrecorded bytes."""
    if file.allocation not in (SHORT, LONG):
        raise MediaUnreadable("extended allocation descriptors are not supported")
    size = 8 if file.allocation == SHORT else 16
    data, left = file.data, MOST_EXTENTS
    for _ in range(MOST_CONTINUATIONS):
        following = None
        for at in range(0, len(data) - size + 1, size):
            length, block = unpack_from("<2I", data, at)
            part = file.part if size == 8 else unpack_from("<H", data, at + 8)[0]
            recorded, length, left = length >> 30, length & 0x3FFFFFFF, left - 1
            if length == 0:
                return
            if left < 0:
                raise MediaUnreadable("a file has too many extents")
            if recorded == 3:
                following = part, block
                break
            yield HOLE if recorded else part, block, length
        if following is None:
            return
        more = volume.descriptor(*following, ALLOCATION_EXTENT)
        data = more[24 : 24 + unpack_from("<I", more, 20)[0]]
    raise MediaUnreadable("a file's allocation has no end")


def contents(volume: Volume, file: Node, *, most: int, called: str) -> bytes:
    if file.length > most:
        raise MediaUnreadable(f"{called} has {file.length} bytes, more than the {most} allowed")
    if file.allocation == EMBEDDED:
        data = file.data[: file.length]
    else:
        pieces, left = [], file.length
        for part, block, length in extents(volume, file) if left else ():
            pieces.append(volume.read((part, block, min(length, left))))
            left -= len(pieces[-1])
            if left == 0:
                break
        data = b"".join(pieces)
    if len(data) != file.length:
        raise MediaUnreadable(f"{called} ends after {len(data)} of {file.length} bytes")
    return data


def read_from_root(volume: Volume, name: str, *, limit: int) -> bytes | None:
    part, block = volume.file_set
    root_block, root_part = unpack_from("<IH", volume.descriptor(part, block, FILE_SET), 404)
    root = node(volume, root_part, root_block)
    if root.kind != DIRECTORY:
        raise MediaUnreadable("the root directory is not a directory")
    found = find(contents(volume, root, most=MOST_DIRECTORY, called="the root directory"), name)
    if found is None:
        return None
    file = node(volume, *found)
    if file.kind != PLAIN_FILE:
        raise MediaUnreadable(f"{name} is not a plain file")
    return contents(volume, file, most=limit, called=name)


def find(directory: bytes, name: str) -> tuple[int, int] | None:
    """Partition and block of the file entry for `name`; a name that differs only in case is second choice."""
    second: tuple[int, int] | None = None
    at = 0
    for _ in range(MOST_NAMES):
        if at == len(directory):
            return second
        one = directory[at : at + 38]
        if len(one) < 38 or tag(one) != FILE_IDENTIFIER:
            raise damaged("a directory entry is damaged")
        characteristics, name_length, block, part, use_length = unpack_from("<BB4xIH6xH", one, 18)
        crc, covered = unpack_from("<2H", one, 8)
        end = at + 38 + use_length + name_length
        following = at + (end - at + 3) // 4 * 4
        checked = directory[at + 16 : at + 16 + covered]
        if end > len(directory) or at + 16 + covered > following or crc_hqx(checked, 0) != crc:
            raise damaged("a directory entry is damaged")
        if not characteristics & 0b1110:  # parent, deleted, directory
            called = decoded(directory[end - name_length : end])
            if called == name:
                return part, block
            if second is None and called.lower() == name.lower():
                second = part, block
        at = min(following, len(directory))
    raise MediaUnreadable("the root directory has too many entries")


def decoded(name: bytes) -> str:
    """OSTA compressed Unicode: the first byte is the number of bits of each character."""
    return name[1:].decode("utf-16-be" if name[:1] == b"\x10" else "latin-1", "replace")
