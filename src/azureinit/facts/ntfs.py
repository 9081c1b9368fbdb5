"""NTFS, read without mounting it: is it exactly the volume that the platform ships, and does it hold no other files?

Every record of the master file table that is in use is looked at, so no directory index has to be trusted. A foreign
file is always reported as one, even if the rest of the volume is damaged. A volume is `unreadable` if it shows no
foreign file and is not understood in every part that matters.
"""

from __future__ import annotations

from azureinit.facts.ntfs_records import (
    Attribute,
    Boot,
    FileRecord,
    Odd,
    parse_boot,
    parse_record,
    parse_runs,
    with_fixups,
)
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.facts.ntfs_records import Name

    Read = Callable[[int, int], bytes]

LABEL = "Temporary Storage"
README, INFORMATION = "dataloss_warning_readme.txt", "system volume information"
MOST_README = 64 << 10
MOST_TABLE = 32 << 20  # a new volume's is below 1 MiB
MOST_BITMAP = 1 << 20
LOG, VOLUME, ROOT, EXTEND = 2, 3, 5, 11
SYSTEM = (
    "$mft", "$mftmirr", "$logfile", "$volume", "$attrdef", ".", "$bitmap", "$boot", "$badclus", "$secure", "$upcase",
    "$extend",
)  # fmt: skip
RESERVED = 24  # the records below it are NTFS's own; those after $Extend have no names
STREAMS_OF_SYSTEM = {6: "$srat", 8: "$bad", 9: "$sds", 10: "$info"}
DOS_NAME = 2
DIRTY = 1
LOG_PAGE, NO_CLIENT, CLEAN = 4096, 0xFFFF, 2
DATA, BITMAP, VOLUME_NAME, VOLUME_INFORMATION = 0x80, 0xB0, 0x60, 0x70


class NtfsFinding(Record):
    """`why`: why it is not the pristine one. `label`: the volume's name, where it could be read."""

    pristine: bool = False
    why: str = ""
    unreadable: bool = False
    label: str = ""


def examine_ntfs(read: Read, size: int) -> NtfsFinding:
    """`read(offset, length)` returns exactly that many bytes, or raises LocalError, which is passed on."""
    volume = _Volume(read, size)
    try:
        volume.load()
    except Odd as odd:
        volume.odd = volume.odd or str(odd)
    foreign = volume.foreign()
    label = volume.label()
    if foreign:
        return NtfsFinding(why=foreign, label=label)
    if not volume.odd and label != LABEL:
        return NtfsFinding(why=f'its label is "{label}", not "{LABEL}"', label=label)
    try:
        trouble = volume.odd or volume.dirty()
    except Odd as odd:
        trouble = str(odd)
    if trouble:
        return NtfsFinding(why=f"its NTFS cannot be read: {trouble}", unreadable=True, label=label)
    return NtfsFinding(pristine=True, label=label)


class _Volume:
    """`odd`: the first thing that was not understood."""

    def __init__(self, read: Read, size: int) -> None:
        self.read = read
        self.size = size
        self.odd = ""
        self.too_large = ""
        self.boot = Boot()
        self.files: dict[int, FileRecord] = {}

    # ---- reading

    def load(self) -> None:
        self.boot = parse_boot(self.read(0, 512), self.size)
        table, bitmap = self._table()
        extensions: list[tuple[int, FileRecord]] = []
        length = self.boot.record
        for number in range(len(table) // length):
            data = table[number * length : (number + 1) * length]
            marked = bool(bitmap[number >> 3] & 1 << (number & 7)) if number >> 3 < len(bitmap) else False
            try:
                file = _file(number, data, marked=marked)
            except Odd as odd:
                self.odd = self.odd or f"record {number}: {odd}"
                continue
            if file is None:
                continue
            if file.base:
                extensions.append((number, file))
            else:
                self.files[number] = file
        if not int.from_bytes(bitmap, "little").bit_length() <= len(table) // length <= 8 * len(bitmap):
            self.odd = self.odd or "the file table and its bitmap differ in size"
        for number, file in extensions:
            self._extend(number, file)

    def _extend(self, number: int, file: FileRecord) -> None:
        """A record that holds more attributes of another file."""
        base = self.files.get(file.base & 0xFFFFFFFFFFFF)
        if base is None or base.sequence != file.base >> 48:
            self.odd = self.odd or f"record {number} belongs to a file that does not exist"
            self.files[number] = file  # its names are still looked at
            return
        base.attributes += file.attributes
        base.names += file.names

    def _table(self) -> tuple[bytes, bytes]:
        start = self.boot.table * self.boot.cluster
        if start + self.boot.record > self.size:
            raise Odd("the file table lies outside the volume")
        own = parse_record(self.read(start, self.boot.record))
        data = own.the(DATA)
        if own.has_list or data is None or data.value is not None:
            raise Odd("the file table is described in an unusual way")
        if data.length > MOST_TABLE:
            self.too_large = f"its file table has {data.length >> 20} MiB: it holds or held many files"
            raise Odd("the file table is too large")
        bits = own.the(BITMAP)
        if bits is None:
            raise Odd("the file table has no bitmap")
        return self.content(data, MOST_TABLE), self.content(bits, MOST_BITMAP)

    def content(self, attribute: Attribute, most: int) -> bytes:
        """What an attribute holds, up to the end of what was ever written."""
        if attribute.value is not None:
            return attribute.value
        if attribute.flags or attribute.first:
            raise Odd("an attribute is compressed, encrypted, sparse or in parts")
        if attribute.written > attribute.length or attribute.written > most:
            raise Odd("an attribute has an impossible size")
        cluster, left = self.boot.cluster, attribute.written
        data = bytearray()
        for start, count in parse_runs(attribute.runs):
            if left <= 0:
                break
            if start < 0 or count > self.boot.clusters or start + count > self.boot.clusters:
                raise Odd("an attribute lies outside the volume")
            length = min(left, count * cluster)
            data += self.read(start * cluster, length)
            left -= length
        if left > 0:
            raise Odd("an attribute is shorter than its size")
        return bytes(data)

    # ---- judging

    def label(self) -> str:
        name = self._value(VOLUME_NAME)
        return name.decode("utf-16-le", "replace") if name else ""

    def _value(self, kind: int) -> bytes | None:
        file = self.files.get(VOLUME)
        found = [one.value for one in file.attributes if one.kind == kind] if file is not None else []
        return found[0] if len(found) == 1 else None

    def foreign(self) -> str:
        """What the platform does not ship with it; empty if there is nothing of the kind."""
        if self.too_large:
            return self.too_large
        if self.boot.behind > self.boot.cluster:  # a copy of the boot sector, and what is less than a cluster
            return f"it ends {self.boot.behind} bytes before its partition, and what is there is not examined"
        for number, file in sorted(self.files.items()):
            why = self._foreign(number, file)
            if why:
                return why
        return ""

    def _foreign(self, number: int, file: FileRecord) -> str:
        for attribute in file.attributes:
            if attribute.kind == DATA and attribute.name and not self._may_have(number, attribute.name, file):
                shown = file.names[0].text if file.names else f"record {number}"
                return f'its "{_shown(shown)}" has a second stream "{_shown(attribute.name)}"'
        for name in file.names:
            if number < len(SYSTEM):
                fine = name.parent == ROOT and name.text.lower() == SYSTEM[number]
            elif number < RESERVED:
                fine = False
            else:
                fine = self._is_shipped(file, name)
            if not fine:
                return f'it holds "{_shown(name.text)}"'
        if number >= RESERVED and not file.names and not self.odd:
            self.odd = f"record {number} has no name"
        return ""

    def _may_have(self, number: int, stream: str, file: FileRecord) -> bool:
        if number < RESERVED:
            return STREAMS_OF_SYSTEM.get(number) == stream.lower()
        return all(name.parent != ROOT for name in file.names) and bool(file.names)

    def _is_shipped(self, file: FileRecord, name: Name) -> bool:
        parent = self.files.get(name.parent)
        if parent is None or not parent.directory or parent.sequence != name.sequence:
            return False
        if name.parent != ROOT:
            return self._is_below(name.parent)
        if name.space == DOS_NAME:  # the short form of another name
            others = [one for one in file.names if one.space != DOS_NAME and one.parent == ROOT]
            return len(others) == 1 and self._is_shipped(file, others[0])
        if name.text.lower() == INFORMATION:
            return file.directory
        return name.text.lower() == README and not file.directory and file.size <= MOST_README

    def _is_below(self, number: int) -> bool:
        """In $Extend or System Volume Information."""
        seen: set[int] = set()
        while number not in seen:
            seen.add(number)
            if number == EXTEND:
                return True
            file = self.files.get(number)
            names = [one for one in file.names if one.space != DOS_NAME] if file is not None else []
            if file is None or not file.directory or len(names) != 1 or number == ROOT:
                return False
            parent = self.files.get(names[0].parent)
            if parent is None or parent.sequence != names[0].sequence:
                return False
            if names[0].parent == ROOT:
                return names[0].text.lower() == INFORMATION or number == EXTEND
            number = names[0].parent
        return False

    def dirty(self) -> str:
        information = self._value(VOLUME_INFORMATION)
        if information is None or len(information) < 12:
            raise Odd("the volume has no information about itself")
        if information[10] & DIRTY:
            return "the volume is marked as dirty"
        missing = [number for number in range(len(SYSTEM)) if number not in self.files or not self.files[number].names]
        if missing:
            raise Odd(f"system file {missing[0]} is missing")
        data = self.files[LOG].the(DATA)
        if data is None or data.value is not None or data.flags or data.first:
            raise Odd("its log is not a plain file")
        return self._log_state(data)

    def _log_state(self, data: Attribute) -> str:
        """The log has to be empty, or closed: changes that are only in the log are not in the file table."""
        start, count = next(parse_runs(data.runs), (-1, 0))
        if start < 0 or count * self.boot.cluster < 2 * LOG_PAGE or start + count > self.boot.clusters:
            raise Odd("its log is in pieces")
        pages = self.read(start * self.boot.cluster, 2 * LOG_PAGE)
        if pages == b"\xff" * len(pages):
            return ""
        newest, clean = -1, False
        for page in (pages[:LOG_PAGE], pages[LOG_PAGE:]):
            if page[:4] != b"RSTR" or _little(page[16:20]) != LOG_PAGE:
                continue
            area = with_fixups(page)[_little(page[24:26]) :]
            if len(area) < 16:
                raise Odd("its log begins in an unusual way")
            if _little(area[:8]) > newest:
                newest = _little(area[:8])
                clean = _little(area[12:14]) == NO_CLIENT or bool(_little(area[14:16]) & CLEAN)
        if newest < 0:
            raise Odd("its log begins in an unusual way")
        return "" if clean else "its log has changes that were not carried out"


def _file(number: int, data: bytes, *, marked: bool) -> FileRecord | None:
    """None for a record that is not in use."""
    if data[:4] == b"FILE" and data[22] & 1:
        return parse_record(data)
    if number < len(SYSTEM) or (marked and number >= RESERVED):
        raise Odd("it should be in use, and is not")
    if data[:4] == b"BAAD":
        raise Odd("it is marked as damaged")
    return None


def _shown(name: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in name[:80])


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")
