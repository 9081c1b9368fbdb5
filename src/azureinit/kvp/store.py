"""One pool: its file of records, changed under both locks. A crash at any point leaves complete records.

Adding is one write at the end. Replacing is one write of one record. Removing copies records from the end into the
holes, then truncates: a crash in between duplicates a record and never loses one. Every operation but clearing refuses
a file whose length is not a multiple of a record.
"""

from __future__ import annotations

from errno import ENOTDIR

from azureinit.errors import LocalError
from azureinit.kvp.records import (
    KEY_SIZE,
    RECORD_SIZE,
    SAFE,
    UNSAFE,
    KvpUnreadable,
    check_key_count,
    check_size,
    key_field,
    parse_leniently,
    parse_records,
    record,
    records,
)
from azureinit.machine.pools import open_pool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from azureinit.kvp.records import Pair
    from azureinit.machine import Machine
    from azureinit.machine.pools import PoolFile

    T = TypeVar("T")

DIRECTORY = "/var/lib/hyperv"
POOLS = ("external", "guest", "auto", "auto-external", "auto-internal")  # by pool number
GUEST = "guest"  # from the guest to the host
MAX_POOL = 1 << 27  # bytes: 50 times a full pool


class Store:
    """`timeout`: seconds to wait for other processes' locks. `largest`: the largest pool to read, in bytes."""

    def __init__(
        self,
        machine: Machine,
        *,
        pool: str = GUEST,
        directory: str = DIRECTORY,
        unsafe: bool = False,
        timeout: float,
        largest: int | None = MAX_POOL,
    ) -> None:
        self.machine = machine
        self.pool = pool
        name = f".kvp_pool_{POOLS.index(pool)}"
        self.path = f"{directory}{name}" if directory.endswith("/") or not directory else f"{directory}/{name}"
        self.limits = UNSAFE if unsafe else SAFE
        self.timeout = timeout
        self.directory, self.largest = directory, largest

    # ---- reading

    def pairs(self) -> list[Pair]:
        """Every record in order."""
        return self._checked(parse_records, self._read())

    def readable_pairs(self) -> list[Pair]:
        """Every readable record, even if the file is damaged."""
        return parse_leniently(self._read())

    def entries(self) -> dict[str, str]:
        """Each key's last value."""
        return dict(self.pairs())

    def read(self, key: str) -> str | None:
        key_field(key)
        return self.entries().get(key)

    def count(self) -> int:
        """Number of records, from the file's length, without a lock."""
        _, size = self._found() or (0, 0)
        self._checked(check_size, size)
        return size // RECORD_SIZE

    def count_keys(self, prefix: str) -> int:
        """Records whose key starts with the prefix."""
        data, start = self._read(), prefix.encode()
        return sum(data.startswith(start, at) for at in range(0, len(data), RECORD_SIZE))

    def is_stale(self) -> bool:
        """Whether the pool was last written by an earlier boot."""
        found = self._found()
        return found is not None and whole_seconds(found[0]) <= read_boot_time(self.machine)

    def stamp(self) -> tuple[int, int]:
        """A value that changes whenever the file changes."""
        found = self.machine.stat(self.path)
        return (0, 0) if found is None else (found.st_mtime_ns, found.st_size)

    # ---- writing

    def append(self, key: str, value: str) -> None:
        self.append_all(((key, value),))

    def append_all(self, pairs: Iterable[Pair]) -> None:
        """One lock, one write."""
        added = b"".join(records(pairs, self.limits))
        if added:
            with self._open() as file:
                self._checked(check_size, file.size())
                file.append(added)

    def upsert(self, key: str, value: str) -> None:
        """Replace the key's first record and remove its others; a new key is appended."""
        new = record(key, value, self.limits)
        with self._open() as file:
            data = self._whole(file)
            places = _places(data, {new[:KEY_SIZE]})
            if not places:
                check_key_count(len({data[at : at + KEY_SIZE] for at in range(0, len(data), RECORD_SIZE)}) + 1)
                file.append(new)
                return
            file.overwrite(new, offset=places[0], before=data[places[0] : places[0] + RECORD_SIZE])
            _remove(file, data, places[1:])

    def delete(self, *keys: str) -> int:
        """Returns the number of removed records. The order of the rest may change."""
        fields = {key_field(key) for key in keys}
        file = self._open_existing(change=True) if fields else None
        if file is None:
            return 0
        with file:
            data = self._whole(file)
            places = _places(data, fields)
            _remove(file, data, places)
        return len(places)

    def load(self, pairs: Iterable[Pair]) -> None:
        """Replace all records."""
        new = records(pairs, self.limits)
        check_key_count(len({one[:KEY_SIZE] for one in new}))
        with self._open() as file:
            file.replace(b"".join(new), before=self._whole(file))

    def clear(self) -> None:
        file = self._open_existing(change=True)
        if file is not None:
            with file:
                file.truncate(0)

    def clear_if_stale(self) -> bool:
        if self._found() is None:
            return False
        boot_time = read_boot_time(self.machine)
        file = self._open_existing(change=True)
        if file is None:
            return False
        with file:
            stale = whole_seconds(file.modified_ns()) <= boot_time
            if stale:
                file.truncate(0)
        return stale

    # ---- the file

    def _found(self) -> tuple[int, int] | None:
        """Modification time in nanoseconds, and size. An error if the directory is a file."""
        found = self.machine.stat(self.path)
        if found is None:
            self._check_directory()
            return None
        return found.st_mtime_ns, found.st_size

    def _check_directory(self) -> None:
        if self.machine.stat(self.directory or ".") is not None and not self.machine.is_dir(self.directory or "."):
            shown = self.machine.shown(self.path)
            error = LocalError(f"cannot open {shown}: Not a directory", path=shown)
            error.errno = ENOTDIR
            raise error

    def _open(self) -> PoolFile:
        file = open_pool(self.machine, self.path, change=True, create=True, timeout=self.timeout)
        assert file is not None, "create=True makes the file"
        return file

    def _open_existing(self, *, change: bool) -> PoolFile | None:
        file = open_pool(self.machine, self.path, change=change, timeout=self.timeout)
        if file is None:
            self._check_directory()
        return file

    def _read(self) -> bytes:
        file = self._open_existing(change=False)
        if file is None:
            return b""
        with file:
            return file.read(limit=self.largest)

    def _whole(self, file: PoolFile) -> bytes:
        """Checks the length only: records of other programs that are not UTF-8 do not prevent writing."""
        self._checked(check_size, file.size())
        return file.read(limit=self.largest)

    def _checked(self, check: Callable[..., T], value: object) -> T:
        try:
            return check(value)
        except KvpUnreadable as error:
            shown = self.machine.shown(self.path)
            raise LocalError(f"{error}: {shown}", hint="clearing the pool makes it usable", path=shown) from None


def whole_seconds(nanoseconds: int) -> int:
    """Whole seconds, rounded down; a float would round up just before the next second."""
    return nanoseconds // 1_000_000_000


def read_boot_time(machine: Machine) -> int:
    for line in (machine.read("/proc/stat", limit=1 << 24) or b"").split(b"\n"):
        if line.startswith(b"btime "):
            number = line[len(b"btime ") :].strip()
            if number.isdigit():
                return int(number)
            raise LocalError("cannot determine when this machine booted: btime in /proc/stat is not a number")
    raise LocalError("cannot determine when this machine booted: no btime in /proc/stat")


def _places(data: bytes, fields: set[bytes]) -> list[int]:
    return [at for at in range(0, len(data), RECORD_SIZE) if data[at : at + KEY_SIZE] in fields]


def _remove(file: PoolFile, data: bytes, places: list[int]) -> None:
    """Moves the last record into each hole, as the Rust agent does. Only holes are overwritten."""
    end = len(data)
    holes = set(places)
    for hole in places:
        while end - RECORD_SIZE in holes and end > hole:
            end -= RECORD_SIZE
        if hole >= end:
            break
        end -= RECORD_SIZE
        last = data[end : end + RECORD_SIZE]
        file.overwrite(last, offset=hole, before=data[hole : hole + RECORD_SIZE])
    if places:
        file.truncate(end)
