"""What a disk holds: signatures, and whether it is blank or exactly the NTFS that the platform ships.

Blank means: no signature, and zeros in the first and last 16 MiB and in 64 samples of 1 MiB between them. Data that
lies only between the samples is not seen. A small disk is read as a whole. A disk without any signature is always read
that far, and a disk with a DOS table and one partition also beside that partition.
"""

from __future__ import annotations

from azureinit.errors import AzureInitError, LocalError
from azureinit.facts.signatures import Signature as Signature, View, find_signatures, merged_regions, probed_regions
from azureinit.machine.block import PIECE, Digest, is_zero
from azureinit.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    from azureinit.machine import Machine

    class Image(Protocol):
        """machine.ImageFile, or a test's."""

        def read(self, offset: int, length: int) -> bytes: ...


MIB = 1 << 20
EDGE = 16 * MIB  # of the beginning and of the end, which must read as zeros
SAMPLES, SAMPLE = 64, MIB  # evenly spaced between them
BLOCK = 4096
SECTOR = 512  # a DOS table is in the first 512 bytes, whatever the disk's sectors are
BLKID_TIMEOUT = 60.0
NOTHING_FOUND, CONTRADICTORY = 2, 8  # blkid's exit codes
NO_CONTENT = ("DEVNAME", "PART_ENTRY_")  # blkid's words for the device itself, not for what is on it


class Content(Record):
    """`blank`: no signature, and every byte of the bound is zero.

    `regions`: everything that was read, as (offset, length). `digest` is over the bytes of these regions in that order,
    for the check under the exclusive open before a write.
    """

    size: int
    blank: bool
    signatures: tuple[Signature, ...] = ()
    nonzero: int | None = None  # the first offset that is not zero; beside a signature, of the probed areas only
    # The partition (start, size) outside of which all bytes but the table were read.
    around: tuple[int, int] | None = None
    beside: int | None = None  # the first offset outside of it that is not zero
    ambiguous: str = ""  # what a second probe (blkid) says against the first
    pristine_ntfs: bool = False
    ntfs: str = ""  # why an NTFS is not the pristine one, or cannot be read
    ntfs_unreadable: bool = False
    regions: tuple[tuple[int, int], ...] = ()
    digest: str = ""


def read_device(machine: Machine, path: str, size: int, *, only: tuple[int, int] | None = None) -> Content:
    """The content of a device of that size, with blkid's opinion. LocalError if any part of it cannot be read.

    `only`: start and size of its partition, if it has exactly one.
    """
    image = machine.open_image(path)
    try:
        if image.size != size:
            raise LocalError(f"{path} has {image.size} bytes, and {size} were expected: it is changing", path=path)
        content = read_content(image, size, only=only)
    finally:
        image.close()
    if content.signatures and not content.pristine_ntfs:
        return content
    # Also where there are bytes: they count as unfinished work of our own only if blkid knows no file system in them.
    return contradicted(content, read_second_opinion(machine, path))


def contradicted(content: Content, opinion: str) -> Content:
    """With the second probe's findings, which must be `ntfs` for the platform's NTFS, and otherwise none."""
    if not opinion or (content.pristine_ntfs and opinion == "ntfs"):
        return content
    return replace(content, blank=False, pristine_ntfs=False, ambiguous=f"blkid finds: {opinion}")


def read_second_opinion(machine: Machine, path: str) -> str:
    """What blkid finds on a device; empty if that is nothing, or if util-linux's blkid is not installed."""
    if machine.find("blkid") is None:
        return ""
    try:
        ran = machine.run(("blkid", "--probe", "--output", "export", machine.real(path)), timeout=BLKID_TIMEOUT)
    except AzureInitError as error:
        return f"nothing certain ({error})"
    if b"BusyBox" in ran.err:
        return ""
    return parse_blkid(ran.status, ran.out, ran.told)


def parse_blkid(status: int, out: bytes, told: str) -> str:
    if status == NOTHING_FOUND:
        return ""
    if status == CONTRADICTORY:
        return "signatures that contradict each other"
    if status:
        return f"nothing certain ({told})"
    tags = dict(line.split("=", 1) for line in out.decode("utf-8", "replace").splitlines() if "=" in line)
    found = {name: value for name, value in tags.items() if not name.startswith(NO_CONTENT)}
    return found.get("TYPE") or found.get("PTTYPE") or " ".join(sorted(found))


def read_content(image: Image, size: int, *, only: tuple[int, int] | None = None) -> Content:
    """LocalError if any part of the bound cannot be read."""
    if size <= 0:
        raise LocalError("the disk has no bytes")
    reader = Reader(image)
    probed = probed_regions(size)
    areas = tuple((offset, reader.read(offset, length)) for offset, length in probed)
    firsts = [first_nonzero(data) for _, data in areas]
    nonzero = next((area[0] + at for area, at in zip(areas, firsts) if at is not None), None)
    # No magic number is made of zeros.
    signatures = find_signatures(View(tuple(area for area, at in zip(areas, firsts) if at is not None)), size)
    if not signatures:
        found = (nonzero, reader.search(_without(bound(size), probed)))
        nonzero = min((at for at in found if at is not None), default=None)
    content = Content(size=size, blank=nonzero is None and not signatures, signatures=signatures, nonzero=nonzero)
    if any(one.kind == "ntfs" for one in signatures):
        content = _with_ntfs(content, reader)
    if only is not None and {one.kind for one in signatures} == {"dos"}:
        content = _with_gaps(content, reader, only)
    return replace(content, regions=reader.regions(), digest=reader.digest())


def bound(size: int) -> tuple[tuple[int, int], ...]:
    """What has to be zero on a blank disk, as (offset, length): sorted, without overlaps."""
    between = size - 2 * EDGE
    if between <= SAMPLES * SAMPLE:
        return ((0, size),)
    gaps = between - SAMPLES * SAMPLE
    starts = (EDGE + gaps * (number + 1) // (SAMPLES + 1) + number * SAMPLE for number in range(SAMPLES))
    samples = [(start // BLOCK * BLOCK, SAMPLE) for start in starts]
    return merged_regions([(0, EDGE), *samples, (size - EDGE, EDGE)], size)


def first_nonzero(data: bytes) -> int | None:
    for start in range(0, len(data), PIECE):
        piece = data[start : start + PIECE]
        if not is_zero(piece):
            return start + len(piece) - len(piece.lstrip(b"\0"))
    return None


def _without(regions: tuple[tuple[int, int], ...], gone: tuple[tuple[int, int], ...]) -> Iterator[tuple[int, int]]:
    """Both are sorted and without overlaps."""
    for start, length in regions:
        end = start + length
        for other, size in gone:
            if other + size <= start or other >= end:
                continue
            if start < other:
                yield start, other - start
            start = min(end, other + size)
        if start < end:
            yield start, end - start


def _with_gaps(content: Content, reader: Reader, only: tuple[int, int]) -> Content:
    """The bytes beside the partition, unless there are too many of them."""
    start, end = only[0], sum(only)
    if not SECTOR <= start < end <= content.size or max(start, content.size - end) > EDGE:
        return content
    gaps = ((SECTOR, start - SECTOR), (end, content.size - end))
    return replace(content, around=only, beside=reader.search(iter(gaps)))


def _with_ntfs(content: Content, reader: Reader) -> Content:
    from azureinit.facts.ntfs import examine_ntfs

    found = examine_ntfs(reader.read, content.size)
    own = [replace(one, label=found.label) if one.kind == "ntfs" else one for one in content.signatures]
    content = replace(content, signatures=tuple(own), ntfs=found.why, ntfs_unreadable=found.unreadable)
    others = sorted({one.kind for one in own if one.kind != "ntfs"})
    if others:
        return replace(content, ntfs=f"beside NTFS it has signatures of {', '.join(others)}", ntfs_unreadable=False)
    return replace(content, pristine_ntfs=found.pristine)


class Reader:
    """Reads exactly what is asked for, and keeps a list and a digest of it."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._regions: list[tuple[int, int]] = []
        self._digest = Digest()

    def read(self, offset: int, length: int) -> bytes:
        return b"".join(self.pieces(offset, length))

    def pieces(self, offset: int, length: int) -> Iterator[bytes]:
        end = offset + length
        while offset < end:
            data = self._piece(offset, min(PIECE, end - offset))
            self._digest.add(data)
            self._regions.append((offset, len(data)))
            offset += len(data)
            yield data

    def _piece(self, offset: int, length: int) -> bytes:
        data = self._image.read(offset, length)
        while len(data) < length:
            more = self._image.read(offset + len(data), length - len(data))
            if not more:
                raise LocalError(f"the disk ends at byte {offset + len(data)}, earlier than its size says")
            data += more
        return data

    def search(self, regions: Iterator[tuple[int, int]]) -> int | None:
        """Read all of them. Returns the first offset that is not zero."""
        found = None
        for start, length in regions:
            for data in self.pieces(start, length):
                at = first_nonzero(data) if found is None else None
                found = found if at is None else start + at
                start += len(data)
        return found

    def regions(self) -> tuple[tuple[int, int], ...]:
        return tuple(self._regions)

    def digest(self) -> str:
        return self._digest.text()
