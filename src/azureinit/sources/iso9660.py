"""ISO 9660 without the kernel: reads one file of the root directory, by its plain, Rock Ridge or Joliet name.

The format has no checksums. Its redundancy is verified: numbers are stored in both byte orders, the root directory's
extent in two places, and every extent must be inside the volume. Fields without redundancy that could lead to other
content (extended attributes, sections, interleaving) are refused. A refused disc is not mounted either.
"""

from __future__ import annotations

from struct import unpack_from

from azureinit.errors import MediaUnreadable
from azureinit.sources.udf import Bounded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from azureinit.sources.udf import Image

MOST_READ = 8 << 20  # bytes read of one image, without the file itself
SECTOR = 2048
PRIMARY, SUPPLEMENTARY, TERMINATOR = 1, 2, 255
JOLIET = (b"%/@", b"%/C", b"%/E")
IS_DIRECTORY, ASSOCIATED, GOES_ON = 0x02, 0x04, 0x80

MOST_DESCRIPTORS = 16
MOST_NAMES = 4096
MOST_DIRECTORY = 1 << 20
MOST_CONTINUATIONS = 8


class Tree:
    """A volume descriptor's view of the disc: where the root directory lies and how its names are written."""

    __slots__ = ("block_size", "blocks", "disc", "extent", "joliet")

    def __init__(self, disc: Bounded, descriptor: bytes, *, joliet: bool) -> None:
        self.disc, self.joliet = disc, joliet
        self.block_size = both(descriptor, 128, "H")
        self.blocks = both(descriptor, 80)
        if self.block_size not in (512, 1024, 2048):
            raise damaged(f"a block size of {self.block_size} is not ISO 9660's")
        self.extent = extent_of(descriptor[156:190])

    def read(self, block: int, length: int, *, offset: int = 0) -> bytes:
        if block + -(-(offset + length) // self.block_size) > self.blocks:
            raise damaged(f"{length} bytes at block {block} lie outside the volume of {self.blocks} blocks")
        return self.disc.read(block * self.block_size + offset, length)


def damaged(message: str) -> MediaUnreadable:
    """An inconsistency. The kernel does not check for it, so that its answer cannot be trusted either."""
    return MediaUnreadable(message, damaged=True)


def both(data: bytes, at: int, kind: str = "I") -> int:
    """A number that is stored twice, once in each byte order."""
    size = 4 if kind == "I" else 2
    little, big = unpack_from("<" + kind, data, at)[0], unpack_from(">" + kind, data, at + size)[0]
    if little != big:
        raise damaged("a number is not the same in both byte orders")
    return int(little)


def extent_of(record: bytes) -> tuple[int, int]:
    """Block and length of a directory record's file."""
    if record[1]:
        raise damaged("a directory record has extended attributes, which this reader does not support")
    return both(record, 2), both(record, 10)


def is_iso9660(image: Image) -> bool:
    at = 16 * SECTOR
    return image.size >= at + SECTOR and Bounded(image, most=MOST_READ).read(at, 6)[1:] == b"CD001"


def read_iso_file(image: Image, name: str, *, limit: int) -> bytes | None:
    """The file `name` of the root directory; None if a valid volume has no such file."""
    disc = Bounded(image, most=MOST_READ + limit)
    causes: dict[str, None] = {}
    data: dict[str, str] = {}
    for descriptor, joliet in descriptors(disc):
        try:
            found = read_from_root(Tree(disc, descriptor, joliet=joliet), name, limit=limit)
        except MediaUnreadable as error:
            causes[str(error)] = None
            data.update(error.data)
            continue
        if found is not None:
            return found
    if causes:
        raise MediaUnreadable("not readable as ISO 9660: " + "; ".join(causes), **data)
    return None


def descriptors(disc: Bounded) -> list[tuple[bytes, bool]]:
    """Every volume descriptor with a root directory, Joliet's first: its names are not truncated."""
    found: list[tuple[bytes, bool]] = []
    for index in range(16, min(16 + MOST_DESCRIPTORS, disc.size // SECTOR)):
        data = disc.read(index * SECTOR, SECTOR)
        if data[1:6] != b"CD001" or data[0] == TERMINATOR:
            break
        if data[0] == SUPPLEMENTARY and data[88:91] in JOLIET:
            found.insert(0, (data, True))
        elif data[0] == PRIMARY:
            found.append((data, False))
    if not found:
        raise MediaUnreadable("not readable as ISO 9660: no volume descriptor")
    return found


def read_from_root(tree: Tree, name: str, *, limit: int) -> bytes | None:
    second: bytes | None = None
    for called, record in entries(tree):
        if name in called:
            return contents(tree, record, name, limit=limit)
        if second is None and folded(name) in map(folded, called):
            second = record
    return None if second is None else contents(tree, second, name, limit=limit)


def contents(tree: Tree, record: bytes, name: str, *, limit: int) -> bytes:
    block, length = extent_of(record)
    if length > limit:
        raise damaged(f"{name} has {length} bytes, more than the {limit} allowed")
    if record[25] & (IS_DIRECTORY | ASSOCIATED):
        raise damaged(f"{name} is not a plain file")
    if record[25] & GOES_ON or record[26] or record[27]:
        raise damaged(f"{name} is interleaved or in several sections, which this reader does not support")
    return tree.read(block, length) if length else b""


def entries(tree: Tree) -> Iterator[tuple[tuple[str, ...], bytes]]:
    """Names and record of each entry of the root directory, without "." and ".."."""
    directory = root_directory(tree)
    skip: int | None = None
    at = seen = 0
    while at < len(directory):
        size = directory[at]
        if size == 0:  # no record crosses a sector's end
            at += SECTOR - at % SECTOR
            continue
        record = directory[at : at + size]
        at, seen = at + size, seen + 1
        if size < 34 or len(record) < size or 33 + record[32] > size or (at - 1) // SECTOR != (at - size) // SECTOR:
            raise damaged("a directory entry is damaged")
        if seen > MOST_NAMES:
            raise MediaUnreadable("the root directory has too many entries")
        if seen == 1:
            if extent_of(record) != tree.extent:
                raise damaged("the root directory has no entry for itself")
            skip = rock_ridge_skip(record)
        elif record[25] & ASSOCIATED or record[32:34] == b"\1\1":
            continue
        else:
            yield names_of(tree, record, skip), record
    if seen == 0:
        raise damaged("the root directory is empty, and so damaged")


def root_directory(tree: Tree) -> bytes:
    block, length = tree.extent
    if length > MOST_DIRECTORY:
        raise damaged(f"the root directory has {length} bytes, more than the {MOST_DIRECTORY} allowed")
    return tree.read(block, length)


def names_of(tree: Tree, record: bytes, skip: int | None) -> tuple[str, ...]:
    """All names of an entry, Rock Ridge's first."""
    name = record[33 : 33 + record[32]]
    if tree.joliet:
        return (without_version(name.decode("utf-16-be", "replace")),)
    plain = without_version(name.decode("latin-1"))
    rock_ridge = rock_ridge_name(tree, record, skip) if skip is not None else b""
    return (rock_ridge.decode("utf-8", "replace"), plain) if rock_ridge else (plain,)


def without_version(name: str) -> str:
    return name.partition(";")[0].rstrip(".")


def folded(name: str) -> str:
    """Compares plain ISO names, which have neither lower case nor hyphens."""
    return name.lower().replace("_", "-")


def system_use(record: bytes) -> bytes:
    return record[33 + record[32] + (record[32] + 1) % 2 :]


def rock_ridge_skip(record: bytes) -> int | None:
    """The offset of system use fields, if the root's "." entry announces the sharing protocol (SUSP)."""
    field = system_use(record)
    return field[6] if len(field) >= 7 and field[:2] == b"SP" and field[4:6] == b"\xbe\xef" else None


def rock_ridge_name(tree: Tree, record: bytes, skip: int) -> bytes:
    name, area = b"", system_use(record)[skip:]
    for _ in range(MOST_CONTINUATIONS):
        following: tuple[int, int, int] | None = None
        while len(area) >= 4:
            size = area[2]
            field, area = area[:size], area[size:]
            if size < 4 or len(field) < size or field[:2] == b"ST":
                break
            if field[:2] == b"NM" and size >= 5 and not field[4] & 0b110:  # neither "." nor ".."
                name += field[5:]
            elif field[:2] == b"CE" and size >= 28:
                following = both(field, 4), both(field, 12), both(field, 20)
        if following is None:
            return name
        block, offset, length = following
        if offset + length > tree.block_size:
            raise damaged("a Rock Ridge continuation is damaged")
        area = tree.read(block, length, offset=offset)
    raise damaged("a Rock Ridge name has no end")
