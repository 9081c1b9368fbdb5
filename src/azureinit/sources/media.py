"""The provisioning medium: finding it, waiting for it, and reading ovf-env.xml without a mount."""

from __future__ import annotations

import errno
from stat import S_ISREG

from azureinit.errors import AzureInitError, LocalError, MediaAbsent, MediaUnreadable, OvfInvalid
from azureinit.record import Record, Secret
from azureinit.sources.ovf import MOST_BYTES, Ovf, parse_ovf
from azureinit.sources.udf import is_udf, read_udf_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from azureinit.machine import Machine
    from azureinit.sources.udf import Image

    Observe = Callable[..., None]
    Read = Callable[..., "Medium"]

NAME = "ovf-env.xml"
OPTICAL = b"5"  # the SCSI device type
DISKS = ("sd", "vd", "xvd", "hd", "nvme")
MOST_DISK = 1 << 30  # larger disks are user data, not a medium
NO_MEDIUM = (errno.ENOMEDIUM, errno.ENOENT, errno.ENXIO, errno.ENODEV)
NOT_READY = (*NO_MEDIUM, errno.EIO, errno.EAGAIN, errno.EBUSY)
GUESSED_SIZE = 0x1FFFFF * 512  # the kernel's value for an optical drive of unknown size
FIRST_DELAY, MOST_DELAY = 0.1, 1.0
AGAIN_SECS = 3.0  # seconds before an unreadable medium is read again
# Seconds to search only optical drives: with a known drive, and without one.
DRIVE_SECS, NO_DRIVE_SECS = 60.0, 10.0
MOST_TEXT = 200
MOST_CAUSES = 1000


class Medium(Record):
    ovf: Ovf
    device: str | None  # what to eject
    how: str
    document: Secret | None = None  # ovf-env.xml itself


def read_media(
    machine: Machine,
    *,
    path: str,
    deadline: float,
    observe: Observe | None = None,
    note: Callable[[AzureInitError], None] | None = None,
    optical_only: bool = False,
) -> Medium:
    """The first medium with a valid ovf-env.xml; searched for at least once, then until `deadline`.

    Azure's is in an optical drive. Other disks, which any user may have attached, are searched only if no drive had it
    in time, and never with `optical_only`. `note` is called with the error of an unreadable medium before the second
    attempt.
    """
    search = Search(machine, observe, note, others_by=None if optical_only else deadline)
    delay = FIRST_DELAY
    while True:
        medium = search.named(path) if path else search.anywhere()
        if medium is not None:
            return medium
        left = deadline - machine.clock.monotonic()
        if left <= 0 or search.is_over:
            raise search.error()
        machine.clock.sleep(min(delay, left))
        delay = min(delay * 1.5, MOST_DELAY)


class NotHere(Exception):
    """A place that is not the medium; `again` if it may become one."""

    def __init__(self, note: str, *, again: bool = False) -> None:
        super().__init__(note)
        self.again = again


class Search:
    """The result for every searched place: a note if it is not the medium, an error if it is and cannot be read."""

    def __init__(
        self,
        machine: Machine,
        observe: Observe | None,
        note: Callable[[AzureInitError], None] | None = None,
        *,
        others_by: float | None,
    ) -> None:
        self.machine, self.observe, self.note = machine, observe, note
        self.started, self.others_by = machine.clock.monotonic(), others_by
        self.expected: set[str] = set()  # places where failures count; elsewhere they are ignored
        self.judged: dict[str, AzureInitError | str] = {}  # not searched again
        self.waiting: dict[str, AzureInitError | str] = {}  # may be different next time
        self.misread: dict[str, tuple[float, AzureInitError]] = {}  # when to read an unreadable medium again

    @property
    def is_over(self) -> bool:
        broken = {place for place, found in self.judged.items() if isinstance(found, AzureInitError)}
        return self.expected.isdisjoint(self.waiting) and not self.expected.isdisjoint(broken)

    def named(self, path: str) -> Medium | None:
        self.waiting = {}
        self.expected.add(path)
        return self.attempt(path, read_named, {})

    def anywhere(self) -> Medium | None:
        self.waiting = {}
        for place, read, options in self.places():
            medium = self.attempt(place, read, options)
            if medium is not None:
                return medium
        return None

    def places(self) -> Iterator[tuple[str, Read, dict[str, object]]]:
        drives = self.optical_drives()
        self.expected.update(drives)
        for drive in drives:
            yield drive, read_device, {"expected": True, "eject": True}
        mounts = list(self.mounts())
        for device, directory in mounts:
            if device in drives:
                yield directory, read_mounted, {"device": device}
        if not self.looks_elsewhere():
            return
        for disk in self.small_disks():
            yield disk, read_device, {"expected": False, "eject": False}
        for device, directory in mounts:
            if device not in drives:
                yield directory, read_mounted, {"device": device}

    def looks_elsewhere(self) -> bool:
        if self.others_by is None:
            return False
        patience = DRIVE_SECS if self.expected else NO_DRIVE_SECS
        return self.machine.clock.monotonic() >= min(self.started + patience, self.others_by)

    def attempt(self, place: str, read: Read, options: dict[str, object]) -> Medium | None:
        if place in self.judged:
            return None
        again_at, failed = self.misread.get(place, (0.0, None))
        if failed is not None and self.machine.clock.monotonic() < again_at:
            self.waiting[place] = failed
            return None
        try:
            return read(self.machine, place, **options)
        except NotHere as note:
            self.tell(place, str(note), again=note.again)
        except LocalError as error:
            if error.errno in NO_MEDIUM:
                self.tell(place, "no medium", again=True)
            elif place in self.expected:
                self.tell(place, error, again=error.errno in NOT_READY)
            else:
                self.tell(place, "not readable", again=False)
        except AzureInitError as error:
            once_more = place in self.expected and failed is None
            self.tell(place, error, again=once_more)
            if once_more:
                self.misread[place] = self.machine.clock.monotonic() + AGAIN_SECS, error
                if self.note is not None:
                    self.note(error)
        return None

    def tell(self, place: str, found: AzureInitError | str, *, again: bool) -> None:
        if again:
            self.waiting[place] = found
            return
        self.judged[place] = found
        if self.observe is not None:
            self.observe("media", place=place, found=str(found))

    def error(self) -> AzureInitError:
        places = {**self.judged, **self.waiting}
        failures = {place: found for place, found in places.items() if isinstance(found, AzureInitError)}
        if not failures:
            notes = ", ".join(f"{place.replace('/dev/', '')} ({found})" for place, found in places.items())
            looked = (
                f"looked at {notes}" if notes else "there is no optical drive, no small disk and no mount to look at"
            )
            return MediaAbsent(f"no provisioning medium was found: {looked}"[:MOST_TEXT])
        first, *others = failures.values()
        if isinstance(first, OvfInvalid) and not others:
            return first
        return MediaUnreadable("; ".join(f"{place}: {found}" for place, found in failures.items())[:MOST_CAUSES])

    # ---- where to look

    def optical_drives(self) -> list[str]:
        """Optical drives, by SCSI type, which is known before the device node exists, and by block device name."""
        drives = {name for name in self.names("/sys/block") if name.startswith("sr")}
        for address in self.names("/sys/bus/scsi/devices"):
            if self.text(f"/sys/bus/scsi/devices/{address}/type") == OPTICAL:
                blocks = self.names(f"/sys/bus/scsi/devices/{address}/block")
                drives.update(blocks)
                if not blocks:
                    self.expected.add(f"SCSI {address}")
                    self.waiting[f"SCSI {address}"] = "no device yet"
        return ["/dev/" + name for name in sorted(drives)]

    def small_disks(self) -> list[str]:
        found = []
        for name in self.names("/sys/block"):
            sectors = self.text(f"/sys/block/{name}/size") if name.startswith(DISKS) else b""
            if sectors.isdigit() and 0 < int(sectors) * 512 <= MOST_DISK:
                found.append("/dev/" + name)
        return found

    def mounts(self) -> Iterator[tuple[str | None, str]]:
        """Mount points: another program may have mounted the medium from a device that this process cannot read."""
        for line in self.text("/proc/self/mounts").split(b"\n"):
            fields = [unescaped(field) for field in line.split(b" ")]
            if len(fields) > 2 and fields[2] in ("udf", "iso9660"):
                yield fields[0] if fields[0].startswith("/dev/") else None, fields[1]

    def names(self, path: str) -> tuple[str, ...]:
        try:
            return self.machine.names(path) or ()
        except LocalError:
            return ()

    def text(self, path: str) -> bytes:
        try:
            return (self.machine.read(path, limit=MOST_BYTES) or b"").strip()
        except LocalError:
            return b""


def read_named(machine: Machine, path: str) -> Medium:
    """A directory, an image file or a device. With --root, a missing path is looked up on the running system."""
    if machine.names(path) is None and machine.names_host(path) is None:
        return read_device(machine, path, expected=True, eject=path.startswith("/dev/"))
    file = f"{path.rstrip('/')}/{NAME}"
    data = machine.read(file, limit=MOST_BYTES)
    if data is None and machine.rooted:
        data = machine.read_host(file, limit=MOST_BYTES)
    if data is None:
        raise NotHere(f"no {NAME}", again=True)
    return Medium(ovf=parse_ovf(data), device=None, how="directory", document=Secret(data))


def read_mounted(machine: Machine, directory: str, *, device: str | None) -> Medium:
    for name in (NAME, NAME.replace("-", "_")):
        file = f"{directory.rstrip('/')}/{name}"
        found = machine.stat(file)
        if found is None:
            continue
        if not S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
            raise MediaUnreadable(f"{name} is not a regular file or is too large")
        data = machine.read(file, limit=MOST_BYTES)
        if data is not None:
            how = f"mounted at {directory}"
            return Medium(ovf=parse_ovf(data), device=device, how=how, document=Secret(data))
    raise NotHere(f"no {NAME}")


def read_device(machine: Machine, device: str, *, expected: bool, eject: bool) -> Medium:
    """If the built-in readers fail on a likely medium, mount it with the kernel, and keep both errors.

    Not for a medium with inconsistent structures: the kernel checks less and could read other content.
    """
    image = machine.open_image(device)
    try:
        how, data = read_image(image)
        if not how:
            raise MediaUnreadable("neither UDF nor ISO 9660") if expected else NotHere("neither UDF nor ISO 9660")
    except MediaUnreadable as error:
        if not expected or "damaged" in error.data:
            raise
        how, data = "mounted", mount_and_read(machine, device, error)
    except LocalError as error:
        if image.size == GUESSED_SIZE and error.errno == errno.EIO:
            raise NotHere("no medium", again=True) from error
        raise
    finally:
        image.close()
    if data is None:
        raise NotHere(f"no {NAME}")
    return Medium(ovf=parse_ovf(data), device=device if eject else None, how=how, document=Secret(data))


def mount_and_read(machine: Machine, device: str, first: MediaUnreadable) -> bytes | None:
    try:
        return machine.mount_and_read(device, NAME, limit=MOST_BYTES)
    except AzureInitError as error:
        raise MediaUnreadable(f"{first}; and mounting it: {error}") from error


def read_image(image: Image) -> tuple[str, bytes | None]:
    """The file system with the file, else one without it; "" for an unknown one. A disc may have both kinds."""
    if image.size == 0:
        raise NotHere("no medium", again=True)
    how = ""
    causes: list[str] = []
    about: dict[str, str] = {}
    for kind, recognise, read in readers():
        try:
            if not recognise(image):
                continue
            how, data = kind, read(image, NAME, limit=MOST_BYTES)
        except MediaUnreadable as error:
            causes.append(str(error))
            about.update(error.data)
            continue
        if data is not None:
            return how, data
    if causes:
        raise MediaUnreadable("; ".join(causes), **about)
    return how, None


def readers() -> Iterator[tuple[str, Callable[[Image], bool], Callable[..., bytes | None]]]:
    yield "udf", is_udf, read_udf_file
    from azureinit.sources.iso9660 import is_iso9660, read_iso_file  # Azure's own medium does not need it

    yield "iso9660", is_iso9660, read_iso_file


def unescaped(field: bytes) -> str:
    """Decodes the octal escapes of blanks and backslashes in /proc/mounts."""
    first, *rest = field.split(b"\\")
    for part in rest:
        octal = part[:3]
        plain = len(octal) < 3 or octal.strip(b"01234567") != b"" or int(octal, 8) > 255
        first += b"\\" + part if plain else bytes((int(octal, 8),)) + part[3:]
    return first.decode("utf-8", "surrogateescape")
