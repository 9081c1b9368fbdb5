"""NTFS's structures: boot sector, file records and their attributes. Pure; what is not understood raises Odd."""

from __future__ import annotations

from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

STRIDE = 512  # of fixups, whatever the sector size
SECTORS, RECORDS = (512, 1024, 2048, 4096), (512, 1024, 2048, 4096)
MOST_CLUSTER = 2 << 20
ATTRIBUTE_LIST, FILE_NAME, DATA, END = 0x20, 0x30, 0x80, 0xFFFFFFFF
DIRECTORY = 2


class Odd(Exception):
    """A structure that this reader does not understand."""


class Boot(Record):
    cluster: int = 0  # bytes
    clusters: int = 0
    record: int = 0  # bytes of a file record
    table: int = 0  # the master file table's first cluster
    behind: int = 0  # bytes of the partition after the volume


class Name(Record):
    parent: int
    sequence: int  # of the parent
    space: int
    text: str


class Attribute(Record):
    """`value`: of a resident one. `first`: the number of its first cluster; not 0 for the later parts of a long one."""

    kind: int
    name: str = ""
    flags: int = 0
    value: bytes | None = None
    first: int = 0
    length: int = 0
    written: int = 0
    runs: bytes = b""


class FileRecord:
    """Filled from one record, or several that belong together."""

    def __init__(self, *, sequence: int, directory: bool, base: int, attributes: list[Attribute]) -> None:
        self.sequence = sequence
        self.directory = directory
        self.base = base
        self.attributes = attributes
        self.names = [_file_name(one) for one in attributes if one.kind == FILE_NAME]

    @property
    def has_list(self) -> bool:
        return any(one.kind == ATTRIBUTE_LIST for one in self.attributes)

    @property
    def size(self) -> int:
        """Of its largest stream."""
        sizes = [one.length if one.value is None else len(one.value) for one in self.attributes if one.kind == DATA]
        return max(sizes, default=0)

    def the(self, kind: int) -> Attribute | None:
        """The unnamed attribute of that kind."""
        found = [one for one in self.attributes if one.kind == kind and not one.name]
        if len(found) > 1:
            raise Odd("an attribute is there twice")
        return found[0] if found else None


def parse_boot(data: bytes, size: int) -> Boot:
    if len(data) < 512 or data[3:11] != b"NTFS    " or data[510:512] != b"\x55\xaa":
        raise Odd("the boot sector is damaged")
    sector, cluster = _little(data[11:13]), _scaled(data[13])
    record = data[64]
    if sector not in SECTORS or not cluster or not 0 < sector * cluster <= MOST_CLUSTER:
        raise Odd("the boot sector has impossible sizes")
    cluster *= sector
    length = 1 << (256 - record) if record >= 240 else record * cluster
    if length not in RECORDS:
        raise Odd("the boot sector has impossible record sizes")
    total = _little(data[40:48]) * sector
    if not 0 < total <= size:
        raise Odd("the volume is larger than its partition")
    clusters, table = total // cluster, _little(data[48:56])
    if not 0 < table < clusters:
        raise Odd("the file table lies outside the volume")
    return Boot(cluster=cluster, clusters=clusters, record=length, table=table, behind=size - total)


def _scaled(number: int) -> int:
    """Sectors in a cluster: a power of two, or the negated exponent of one."""
    if number > 128:
        return 1 << (256 - number) if number >= 240 else 0
    return number if number and not number & (number - 1) else 0


def with_fixups(data: bytes) -> bytes:
    """The last two bytes of every 512 are kept elsewhere in the record; in their place is the number of the write."""
    start, count = _little(data[4:6]), _little(data[6:8])
    if count != len(data) // STRIDE + 1 or start + 2 * count > STRIDE - 2:
        raise Odd("its fixups are damaged")
    number, fixed = data[start : start + 2], bytearray(data)
    for index in range(1, count):
        end = index * STRIDE
        if data[end - 2 : end] != number:
            raise Odd("it was written only in part")
        fixed[end - 2 : end] = data[start + 2 * index : start + 2 * index + 2]
    return bytes(fixed)


def parse_record(data: bytes) -> FileRecord:
    if data[:4] != b"FILE":
        raise Odd("it is not a file record")
    data = with_fixups(data)
    used = _little(data[24:28])
    if not used <= len(data):
        raise Odd("it has an impossible size")
    return FileRecord(
        sequence=_little(data[16:18]),
        directory=bool(data[22] & DIRECTORY),
        base=_little(data[32:40]),
        attributes=list(_attributes(data[:used], _little(data[20:22]))),
    )


def _attributes(data: bytes, at: int) -> Iterator[Attribute]:
    while at + 4 <= len(data):
        kind, length = _little(data[at : at + 4]), _little(data[at + 4 : at + 8])
        if kind == END:
            return
        if length < 24 or length % 8 or at + length > len(data):
            break
        yield _attribute(kind, data[at : at + length])
        at += length
    raise Odd("its attributes have no end")


def _attribute(kind: int, data: bytes) -> Attribute:
    letters, at = data[9], _little(data[10:12])
    name = data[at : at + 2 * letters]
    if len(name) != 2 * letters:
        raise Odd("an attribute's name is cut off")
    text, flags = name.decode("utf-16-le", "replace"), _little(data[12:14])
    if not data[8]:
        length, at = _little(data[16:20]), _little(data[20:22])
        value = data[at : at + length]
        if at < 24 or len(value) != length:
            raise Odd("an attribute's value is cut off")
        return Attribute(kind=kind, name=text, flags=flags, value=value, length=length)
    if data[8] != 1 or len(data) < 64:
        raise Odd("an attribute is of an unknown form")
    first, at = _little(data[16:24]), _little(data[32:34])
    length, written = _little(data[48:56]), _little(data[56:64])
    return Attribute(kind=kind, name=text, flags=flags, first=first, length=length, written=written, runs=data[at:])


def _file_name(attribute: Attribute) -> Name:
    value = attribute.value
    if value is None or len(value) < 66 or len(value) < 66 + 2 * value[64]:
        raise Odd("a file name is cut off")
    text = value[66 : 66 + 2 * value[64]].decode("utf-16-le", "replace")
    return Name(parent=_little(value[:6]), sequence=_little(value[6:8]), space=value[65], text=text)


def parse_runs(data: bytes) -> Iterator[tuple[int, int]]:
    """(first cluster, number of clusters) of each piece."""
    at = cluster = 0
    while at < len(data) and data[at]:
        counted, moved = data[at] & 15, data[at] >> 4
        if not 0 < counted <= 8 or not 0 < moved <= 8 or at + 1 + counted + moved > len(data):
            raise Odd("an attribute is sparse, or its place is damaged")
        at += 1
        count = _little(data[at : at + counted])
        cluster += int.from_bytes(data[at + counted : at + counted + moved], "little", signed=True)
        at += counted + moved
        if not count:
            raise Odd("an attribute has an empty piece")
        yield cluster, count


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")
