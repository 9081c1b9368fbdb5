"""Provisioning media for the readers' tests: made by the usual tools, then filled or damaged by this module.

Nothing here uses the readers' own code: the UDF structures are written independently, so that no error is in both.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

from support.need import need

SHORT, LONG, EXTENDED, EMBEDDED = range(4)
BLOCK = 2048


class Memory:
    """An image in memory that counts what is read from it."""

    def __init__(self, data: bytes | bytearray) -> None:
        self.data, self.size = bytes(data), len(data)
        self.reads = self.total = 0

    def read(self, offset: int, length: int) -> bytes:
        self.reads += 1
        self.total += length
        return self.data[offset : offset + length]


def genisoimage(directory: Path, files: dict[str, bytes], *options: str) -> bytes:
    tool = need("genisoimage")
    tree = directory / "tree"
    tree.mkdir()
    for name, data in files.items():
        (tree / name).write_bytes(data)
    out = directory / "out.iso"
    subprocess.run([tool, "-quiet", *options, "-o", str(out), str(tree)], check=True, stderr=subprocess.DEVNULL)
    shutil.rmtree(tree)
    return out.read_bytes()


def mkudffs(directory: Path, *options: str, revision: str, media: str = "dvd", block_size: int = BLOCK) -> bytes:
    tool = need("mkudffs")
    out = directory / "out.udf"
    out.write_bytes(bytes(8 << 20))
    command = [tool, f"--blocksize={block_size}", f"--media-type={media}", f"--udfrev={revision}", *options, str(out)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return out.read_bytes()


def without_iso(image: bytes) -> bytes:
    """A bridge disc without its ISO 9660 half, like Azure's media: UDF recognition at sector 16."""
    sectors = [image[at : at + BLOCK] for at in range(16 * BLOCK, 64 * BLOCK, BLOCK)]
    kept = [sector for sector in sectors if sector[1:6] in (b"BEA01", b"NSR02", b"NSR03", b"TEA01")]
    assert len(kept) == 3
    head = b"".join(kept)
    blanked = b"".join(bytes(BLOCK) if sector[1:6] == b"CD001" or sector in kept else sector for sector in sectors)
    changed = image[: 16 * BLOCK] + head + blanked[len(head) :] + image[64 * BLOCK :]
    assert b"CD001" not in changed
    return changed


def crc(data: bytes) -> int:
    value = 0
    for byte in data:
        value ^= byte << 8
        for _ in range(8):
            value = ((value << 1) ^ 0x1021 if value & 0x8000 else value << 1) & 0xFFFF
    return value


def tagged(kind: int, location: int, body: bytes) -> bytes:
    tag = bytearray(struct.pack("<HHBBHHHI", kind, 3, 0, 0, 1, crc(body), len(body), location))
    tag[4] = sum(tag) & 255
    return bytes(tag) + body


def retagged(descriptor: bytes, *, location: int | None = None) -> bytes:
    """The same kind of descriptor around a changed body."""
    kind, place = struct.unpack_from("<H10xI", descriptor)
    return tagged(kind, place if location is None else location, descriptor[16:])


def osta(name: str, bits: int) -> bytes:
    return b"\x08" + name.encode("latin-1") if bits == 8 else b"\x10" + name.encode("utf-16-be")


def identifier(name: bytes, *, block: int, part: int, location: int, characteristics: int = 0) -> bytes:
    icb = struct.pack("<IIH6x", BLOCK, block, part)
    body = struct.pack("<HBB", 1, characteristics, len(name)) + icb + struct.pack("<H", 0) + name
    return tagged(257, location, body + bytes(-(16 + len(body)) % 4))


def entry(
    location: int, *, length: int, allocation: int, descriptors: bytes, kind: int = 5, extended: bool = False
) -> bytes:
    icb = struct.pack("<IHHHBB6xH", 0, 4, 0, 1, 0, kind, allocation)
    body = icb + struct.pack("<IIIHBBIQ", 0, 0, 0, 1, 0, 0, 0, length)
    body += bytes((208 if extended else 168) - 16 - len(body))
    return tagged(266 if extended else 261, location, body + struct.pack("<II", 0, len(descriptors)) + descriptors)


class Udf:
    """An image of mkudffs, opened for writing. `part` is where entries go: the last partition map."""

    def __init__(self, image: bytes, *, block_size: int = BLOCK) -> None:
        self.image, self.size = bytearray(image), block_size
        main = struct.unpack_from("<I", self.block(256), 20)[0]
        sequence = {struct.unpack_from("<H", self.block(main + i))[0]: main + i for i in range(6)}
        self.logical_at, partition = sequence[6], self.block(sequence[5])
        self.start, self.count = struct.unpack_from("<2I", partition, 188)
        logical = self.block(self.logical_at)
        self.maps = struct.unpack_from("<I", logical, 268)[0]
        self.part = self.maps - 1
        fileset_block = struct.unpack_from("<I", logical, 252)[0]
        self.file_set_at = self.start + fileset_block
        self.root = struct.unpack_from("<I", self.block(self.file_set_at), 404)[0]
        self.free = self.count // 2 if self.maps == 1 else 8  # the table must stay the last recorded block

    def block(self, number: int) -> bytes:
        return bytes(self.image[number * self.size : (number + 1) * self.size])

    def put(self, number: int, data: bytes) -> None:
        self.image[number * self.size : number * self.size + len(data)] = data

    def store(self, data: bytes) -> int:
        """Data into free blocks of the partition, with a gap behind them."""
        block, self.free = self.free, self.free + len(data) // self.size + 2
        self.put(self.start + block, data)
        return block

    def allocate(self, data: bytes, allocation: int) -> bytes:
        """Allocation descriptors for data cut into two extents that do not lie side by side."""
        if allocation == EMBEDDED:
            return data
        cut = len(data) // self.size // 2 * self.size
        descriptors = b""
        for piece in filter(None, (data[:cut], data[cut:])):
            block = self.store(piece)
            descriptors += struct.pack("<2I", len(piece), block)
            if allocation in (LONG, EXTENDED):
                descriptors += struct.pack("<H6x", 0)
            if allocation == EXTENDED:
                descriptors += bytes(4)
        return descriptors

    def add(
        self,
        name: str,
        data: bytes,
        *,
        allocation: int = SHORT,
        bits: int = 8,
        extended: bool = False,
        characteristics: int = 0,
        kind: int = 5,
        descriptors: bytes | None = None,
        length: int | None = None,
    ) -> None:
        body = self.allocate(data, allocation) if descriptors is None else descriptors
        self.free, at = self.free + 1, self.free
        size = len(data) if length is None else length
        location = self.virtual(at) if self.maps > 1 else at
        self.put(
            self.start + at,
            entry(location, length=size, allocation=allocation, descriptors=body, kind=kind, extended=extended),
        )
        fid = identifier(
            osta(name, bits), block=location, part=self.part, location=self.root, characteristics=characteristics
        )
        self.grow(self.start + self.root, fid)

    def grow(self, at: int, more: bytes, *, before: int = 0) -> None:
        """Inserts bytes at (or before) the end of the embedded data of an entry."""
        old = self.block(at)
        head = self.head(old)
        attributes, used = struct.unpack_from("<2I", old, head - 8)
        end = head + attributes + used
        new = bytearray(old[: end - before] + more + old[end - before : end])
        struct.pack_into("<I", new, head - 4, used + len(more))
        struct.pack_into("<Q", new, 56, used + len(more))
        self.put(at, retagged(bytes(new)))

    @staticmethod
    def head(entry: bytes) -> int:
        return 216 if entry[:2] == b"\x0a\x01" else 176

    def virtual(self, block: int) -> int:
        """A new number in the virtual allocation table, for a block of the partition under it."""
        numbers = range(self.start + self.count - 1, self.start, -1)
        at = next(n for n in numbers if self.block(n)[:2] in (b"\x0a\x01", b"\x05\x01"))
        table = self.block(at)
        assert table[27] in (0, 248), "the last entry on a write-once disc is its table"
        # UDF 1.50 has a trailer behind the table, later ones a header before it.
        around = 152 if table[27] == 248 else 36
        used = struct.unpack_from("<I", table, self.head(table) - 4)[0]
        self.grow(at, struct.pack("<I", block), before=36 if table[27] == 0 else 0)
        return int(used - around) // 4

    def into_metadata_partition(self) -> None:
        """Moves file set and root directory into a metadata partition of two pieces, as UDF 2.50 lays it out."""
        first, second, file = (self.store(bytes(self.size)) for _ in range(3))
        descriptors = struct.pack("<4I", self.size, first, self.size, second)
        self.put(
            self.start + file,
            entry(file, length=2 * self.size, allocation=SHORT, descriptors=descriptors, kind=250, extended=True),
        )
        self.put(self.start + second, retagged(self.block(self.start + self.root).rstrip(b"\0") + bytes(8), location=1))
        file_set = bytearray(self.block(self.file_set_at)[:512])
        struct.pack_into("<IH", file_set, 404, 1, 1)
        self.put(self.start + first, retagged(bytes(file_set), location=0))
        self.put(self.file_set_at, bytes(self.size))
        self.put(self.start + self.root, bytes(self.size))
        logical = bytearray(self.block(self.logical_at)[:512])
        kind = b"\0*UDF Metadata Partition".ljust(24, b"\0") + b"\x50\x02".ljust(8, b"\0")
        table = (
            struct.pack("<BB2x", 2, 64) + kind + struct.pack("<HHIIIIHB5x", 1, 0, file + 1, file, 0xFFFFFFFF, 1, 1, 0)
        )
        struct.pack_into("<IH", logical, 252, 0, 1)
        struct.pack_into("<2I", logical, 264, 70, 2)
        logical[446:510] = table
        self.put(self.logical_at, retagged(bytes(logical)))
