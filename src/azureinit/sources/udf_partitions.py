"""UDF partitions on top of other partitions: sparable (rewritable discs), virtual (write-once discs) and metadata."""

from __future__ import annotations

from struct import unpack_from

from azureinit.errors import MediaUnreadable
from azureinit.sources.udf import HOLE, Volume, contents, extents, is_whole, node, plain, tag, unusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.sources.udf import Where

VAT_150, VAT_200 = 0, 248  # file types of a virtual allocation table, by UDF revision
SPARING_TABLE = 0  # descriptor type of a sparing table
UNUSED = 0xFFFFFFF0  # and above: unused spare packets
MOST_TABLE = 1 << 20
TABLE_SEARCH = 16 << 20
SEARCHED_AT_ONCE = 256 << 10


def add_layered_partitions(volume: Volume, maps: list[bytes], partitions: dict[int, tuple[int, ...]]) -> None:
    """Sparable partitions first: like plain ones, they can hold the others."""
    bases: dict[int, int] = {}
    for part, entry in enumerate(maps):
        number: int = unpack_from("<H", entry, 4 if entry[0] == 1 else 38)[0]
        if number not in partitions:
            continue
        if b"*UDF Sparable Partition" in entry:
            start, blocks = partitions[number]
            volume.parts[part] = sparable(volume, entry, plain(start, blocks))
        if entry[0] == 1 or b"*UDF Sparable Partition" in entry:
            bases[number] = part
    for part, entry in enumerate(maps):
        base = bases.get(unpack_from("<H", entry, 38)[0]) if entry[0] == 2 else None
        if base is not None and b"*UDF Virtual Partition" in entry:
            volume.parts[part] = virtual(volume, base)
        elif base is not None and b"*UDF Metadata Partition" in entry:
            volume.parts[part] = metadata(volume, entry, base)


def sparable(volume: Volume, entry: bytes, base: Where) -> Where:
    packet, tables, size = unpack_from("<HBxI", entry, 40)
    found = (sparing_table(volume, at, size) for at in unpack_from("<4I", entry, 48)[:tables])
    spared = next((table for table in found if table is not None), None)
    if spared is None or packet == 0:
        raise MediaUnreadable("no sparing table")
    moved = spared

    def where(block: int) -> tuple[int, int]:
        within = block % packet
        absolute, run = base(block)
        if block - within in moved:
            absolute = moved[block - within] + within
        return absolute, min(run, packet - within)

    return where if moved else base


def sparing_table(volume: Volume, at: int, size: int) -> dict[int, int] | None:
    """The moved packets and their new places; None if the table is absent or damaged. There are copies of it."""
    try:
        data = volume.disc.read(at * volume.block_size, min(max(size, 56), MOST_TABLE))
    except MediaUnreadable:
        return None
    if tag(data) != SPARING_TABLE or not is_whole(data) or data[17:35] != b"*UDF Sparing Table":
        return None
    count = min(unpack_from("<H", data, 48)[0], (len(data) - 56) // 8)
    pairs = [unpack_from("<2I", data, 56 + 8 * index) for index in range(count)]
    return {original: mapped for original, mapped in pairs if original < UNUSED}


def virtual(volume: Volume, base: int) -> Where:
    table = virtual_allocation_table(volume, base)

    def where(block: int) -> tuple[int, int]:
        if 4 * block + 4 > len(table):
            raise MediaUnreadable(f"block {block} lies outside its virtual partition")
        return volume.where(base, unpack_from("<I", table, 4 * block)[0])[0], 1

    return where


def virtual_allocation_table(volume: Volume, base: int) -> bytes:
    """The virtual allocation table is recorded last; search from the end, since an image may have trailing blanks."""
    start, blocks = volume.where(base, 0)
    size = volume.block_size
    end = min(start + blocks, volume.disc.size // size)
    floor = max(start, end - TABLE_SEARCH // size)
    while end > floor:
        first = max(floor, end - SEARCHED_AT_ONCE // size)
        data = volume.disc.read(first * size, (end - first) * size)
        for block in range(end - 1, first - 1, -1) if data.count(0) != len(data) else ():
            at = (block - first) * size
            if data[at : at + 2] in (b"\x05\x01", b"\x0a\x01") and data[at + 27] in (VAT_150, VAT_200):
                table = parse_table(volume, base, block - start)
                if table is not None:
                    return table
        end = first
    raise MediaUnreadable("no virtual allocation table")


def parse_table(volume: Volume, base: int, block: int) -> bytes | None:
    """The table without header or trailer; None if the block is not its file entry."""
    try:
        table = node(volume, base, block)
        data = contents(volume, table, most=MOST_TABLE, called="the virtual allocation table")
    except MediaUnreadable:
        return None
    if table.kind == VAT_200:
        return data[unpack_from("<H", data)[0] :] if len(data) > 1 else None
    return data[:-36] if data[-35:].startswith(b"*UDF Virtual Alloc Tbl") else None


def metadata(volume: Volume, entry: bytes, base: int) -> Where:
    """The partition's content is the metadata file, or its mirror."""
    file, mirror = unpack_from("<2I", entry, 40)
    try:
        pieces = list(extents(volume, node(volume, base, file)))
    except MediaUnreadable:
        pieces = list(extents(volume, node(volume, base, mirror)))
    if any(part not in (base, HOLE) for part, _, _ in pieces):
        raise MediaUnreadable("the metadata partition is on an invalid partition")

    def where(block: int) -> tuple[int, int]:
        left = block
        for part, first, length in pieces:
            count = -(-length // volume.block_size)
            if left < count:
                absolute, run = volume.where(part, first + left) if part != HOLE else unusable(block)
                return absolute, min(run, count - left)
            left -= count
        raise MediaUnreadable(f"block {block} lies outside the metadata partition")

    return where
