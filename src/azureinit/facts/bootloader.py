"""The boot loader's own files: where words for the kernel's command line go, and which are there already."""

from __future__ import annotations

from azureinit.errors import LocalError
from azureinit.facts.kernel import HEADER
from azureinit.machine.kernel import architecture
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from azureinit.machine import Machine

DROPIN_DIR = "/etc/default/grub.d"
DROPIN = f"{DROPIN_DIR}/99-azure-init.cfg"  # read last, since other files set the whole value
DEFAULTS = "/etc/default/grub"
GRUB = ("GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT")
MKCONFIG = ("grub-mkconfig", "grub2-mkconfig")
MENUS = ("/boot/grub2/grub.cfg", "/boot/grub/grub.cfg")
GRUBENV = "/boot/grub2/grubenv"
OEM = "/oem/grub.cfg"
OEM_NAMES = ("linux_append", "linux_console")
ENTRIES = ("/boot/loader/entries", "/efi/loader/entries", "/boot/efi/loader/entries")
CMDLINE, VENDORS_CMDLINE = "/etc/kernel/cmdline", "/usr/lib/kernel/cmdline"
ADDED = "/etc/azure-init.kernel-arguments"  # the words that azure-init added, for files that cannot mark them
# A line feed first: it ends a last line that has none, and is removed with the block.
BEGIN = b"\n# azure-init: begin; `azure-init deprovision` takes these lines away again.\n"
END = b"# azure-init: end\n"
PLACES = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
ARM_LOADER = "/lib/ld-linux-aarch64.so.1"
MOST_BYTES = 4 << 20


class Loader(Record):
    """`kind` is the backend's name; empty where no known boot loader was found."""

    kind: str = ""
    arm: bool = False
    path: str = ""  # the file that gets the words
    data: bytes | None = None  # its content
    makes_dir: bool = False  # its directory does not exist
    words: frozenset[str] = frozenset()  # that other programs put there
    overrider: str = ""  # a file that is read after this one and replaces the whole value
    menu: frozenset[str] | None = None  # in the boot menu; None where that cannot be read
    remake: tuple[tuple[str, ...], ...] = ()  # the command that makes the boot menu anew
    added: tuple[str, ...] = ()  # the words that azure-init recorded as its own
    noted: bool = False  # that record exists, whatever it holds
    vendors: bytes | None = None  # the package's file, where the one in /etc does not exist
    rooted: bool = False

    @property
    def rest(self) -> bytes:
        """The file without azure-init's block."""
        return without_block(self.data or b"")

    @property
    def removable(self) -> bool:
        """Whether words of azure-init are there that can be removed."""
        own = (self.data or b"").startswith(HEADER) if self.path == DROPIN else self.rest != (self.data or b"")
        return own or self.noted


def read_loader(machine: Machine) -> Loader:
    """The first that fits, in this order: a machine may have the files of several boot loaders."""
    for read in (_read_bls, _read_dropins, _read_grubby, _read_defaults, _read_oem, _read_kernel_install):
        loader = read(machine)
        if loader is not None:
            return loader
    return Loader(arm=_is_arm(machine), rooted=machine.rooted)


def _read_bls(machine: Machine) -> Loader | None:
    entries = _read_entries(machine) if _tool(machine, "grubby") else []
    return _grubby(machine, entries) if entries else None


def _read_grubby(machine: Machine) -> Loader | None:
    menu = _read_menu(machine) if _tool(machine, "grubby") else None
    return None if menu is None else _grubby(machine, [menu])


def _grubby(machine: Machine, entries: list[frozenset[str]]) -> Loader:
    note = _read(machine, ADDED)
    added = parse_added(note or b"")
    return Loader(
        kind="grubby",
        arm=_is_arm(machine),
        words=frozenset().union(*entries).difference(added),
        menu=entries[0].intersection(*entries),
        added=added,
        noted=note is not None,
        rooted=machine.rooted,
    )


def _read_dropins(machine: Machine) -> Loader | None:
    """Whether drop-ins are read: looked up in the program that would read them."""
    mkconfig = _mkconfig(machine) if _has_menu(machine) else ""
    if b"/default/grub.d/" not in (_read(machine, mkconfig) or b"" if mkconfig else b""):
        return None
    names = sorted(name for name in _names(machine, DROPIN_DIR) if name.endswith(".cfg"))
    others = {path: _read(machine, path) or b"" for name in names if (path := f"{DROPIN_DIR}/{name}") != DROPIN}
    overriders = [path for path, data in others.items() if path > DROPIN and overrides(data, GRUB[0])]
    return Loader(
        kind="grub drop-in",
        arm=_is_arm(machine),
        path=DROPIN,
        data=_read(machine, DROPIN),
        makes_dir=not machine.is_dir(DROPIN_DIR),
        words=parse_assignments((_read(machine, DEFAULTS) or b"", *others.values()), GRUB),
        overrider=overriders[-1] if overriders else "",
        menu=_read_menu(machine),
        remake=_remake(machine, mkconfig),
        rooted=machine.rooted,
    )


def _read_defaults(machine: Machine) -> Loader | None:
    mkconfig, data = _mkconfig(machine), _read(machine, DEFAULTS)
    if data is None or not mkconfig or not _has_menu(machine):
        return None
    return Loader(
        kind="grub defaults",
        arm=_is_arm(machine),
        path=DEFAULTS,
        data=data,
        words=parse_assignments((without_block(data),), GRUB),
        menu=_read_menu(machine),
        remake=_remake(machine, mkconfig),
        rooted=machine.rooted,
    )


def _read_oem(machine: Machine) -> Loader | None:
    """GRUB itself reads this file at every boot: no menu is made of it."""
    data = _read(machine, OEM)
    if data is None:
        return None
    words = parse_assignments((without_block(data),), OEM_NAMES)
    return Loader(kind="grub of the OEM", arm=_is_arm(machine), path=OEM, data=data, words=words, rooted=machine.rooted)


def _read_kernel_install(machine: Machine) -> Loader | None:
    data, vendors, note = _read(machine, CMDLINE), _read(machine, VENDORS_CMDLINE), _read(machine, ADDED)
    if data is None and vendors is None:
        return None
    added, entries = parse_added(note or b""), _read_entries(machine)
    return Loader(
        kind="kernel-install",
        arm=_is_arm(machine),
        path=CMDLINE,
        data=data,
        vendors=vendors,
        makes_dir=data is None and not machine.is_dir("/etc/kernel"),
        words=frozenset(_words(data or vendors or b"")).difference(added),
        menu=entries[0].intersection(*entries) if entries else None,
        remake=_installs(machine),
        added=added,
        noted=note is not None,
        rooted=machine.rooted,
    )


# ---- what the files say


def parse_assignments(files: Iterable[bytes], names: tuple[str, ...]) -> frozenset[str]:
    """The words in shell variables after all files in order. A value that refers to its own variable appends."""
    values: dict[str, list[str]] = {}
    for data in files:
        for name, words, adds in _assignments(data, names):
            values[name] = [*values.get(name, []), *words] if adds else words
    return frozenset(word for words in values.values() for word in words)


def overrides(data: bytes, name: str) -> bool:
    """Whether the file replaces the variable's earlier value."""
    return any(not adds for _, _, adds in _assignments(data, (name,)))


def _assignments(data: bytes, names: tuple[str, ...]) -> Iterator[tuple[str, list[str], bool]]:
    for line in data.decode("utf-8", "surrogateescape").split("\n"):
        name, equals, text = line.strip().partition("=")
        name = name.rpartition(" ")[2]  # behind `set` or `export`
        adds, name = name.endswith("+"), name.rstrip("+")
        if not equals or name not in names or line.lstrip().startswith("#"):
            continue
        value = text[1:].partition(text[0])[0] if text[:1] in ('"', "'") else text.partition(" ")[0]
        words = [word for word in value.split() if not word.startswith("$")]
        yield name, words, adds or _mentions(text, name)


def _mentions(text: str, name: str) -> bool:
    """Whether the text has `$NAME` or `${NAME...}`, and not a longer name."""
    rests = (rest for begin in (f"${name}", f"${{{name}") for rest in text.split(begin)[1:])
    return any(not (rest[:1] == "_" or rest[:1].isalnum()) for rest in rests)


def parse_menu(data: bytes) -> frozenset[str]:
    """The words that every kernel of a grub.cfg has. grub-mkconfig replaces the file as a whole."""
    lines = (_words(line) for line in data.split(b"\n"))
    kernels = (words for words in lines if words and words[0] in ("linux", "linux16", "linuxefi"))
    return frozenset(word for words in kernels for word in words[2:])


def parse_entry(data: bytes, environment: dict[str, str]) -> frozenset[str]:
    """The options of one boot loader entry; variables in it are GRUB's."""
    words: list[str] = []
    for line in data.split(b"\n"):
        key, *values = _words(line) or ("",)
        for value in values if key == "options" else ():
            words += environment.get(value[1:], "").split() if value.startswith("$") else [value]
    return frozenset(words)


def parse_environment(data: bytes) -> dict[str, str]:
    pairs = (line.partition("=") for line in data.decode("utf-8", "surrogateescape").split("\n") if line[:1] != "#")
    return {name: value for name, equals, value in pairs if equals}


def parse_added(data: bytes) -> tuple[str, ...]:
    lines = (line.strip() for line in data.decode("utf-8", "surrogateescape").split("\n"))
    return tuple(line for line in lines if line and not line.startswith("#"))


def without_block(data: bytes) -> bytes:
    before, begin, rest = data.partition(BEGIN)
    _, end, after = rest.partition(END)
    return before + after if begin and end else data


def _words(data: bytes) -> list[str]:
    return data.decode("utf-8", "surrogateescape").split()


# ---- the machine


def _has_menu(machine: Machine) -> bool:
    """Whether GRUB boots this machine: its programs may be installed without it."""
    try:
        return any(machine.is_file(path) for path in MENUS)
    except LocalError:
        return True  # root sees it


def _read_menu(machine: Machine) -> frozenset[str] | None:
    for path in MENUS:
        data = _read(machine, path)
        if data is not None:
            return parse_menu(data)
    return None


def _read_entries(machine: Machine) -> list[frozenset[str]]:
    environment = parse_environment(_read(machine, GRUBENV) or b"")
    for place in ENTRIES:
        names = [name for name in _names(machine, place) if name.endswith(".conf")]
        if names:
            return [parse_entry(_read(machine, f"{place}/{name}") or b"", environment) for name in names]
    return []


def _remake(machine: Machine, mkconfig: str) -> tuple[tuple[str, ...], ...]:
    if machine.rooted:
        return ()
    if _tool(machine, "update-grub"):
        return (("update-grub",),)
    return tuple((mkconfig, "-o", path) for path in MENUS if machine.is_file(path))[:1]


def _installs(machine: Machine) -> tuple[tuple[str, ...], ...]:
    if machine.rooted or not _tool(machine, "kernel-install"):
        return ()
    found = []
    for version in _names(machine, "/usr/lib/modules"):
        images = (f"/usr/lib/modules/{version}/vmlinuz", f"/boot/vmlinuz-{version}")
        found += [("kernel-install", "add", version, image) for image in images if machine.is_file(image)][:1]
    return tuple(found)


def _mkconfig(machine: Machine) -> str:
    return next((path for name in MKCONFIG if (path := _tool(machine, name))), "")


def _tool(machine: Machine, name: str) -> str:
    """Under --root: in the tree, not in the running system."""
    if not machine.rooted:
        return machine.find(name) or ""
    return next((f"{place}/{name}" for place in PLACES if machine.is_file(f"{place}/{name}")), "")


def _is_arm(machine: Machine) -> bool:
    return machine.stat(ARM_LOADER) is not None if machine.rooted else architecture() == "aarch64"


def _read(machine: Machine, path: str) -> bytes | None:
    """None also for a file that only root may read: without privileges the plan says less."""
    try:
        return machine.read(path, limit=MOST_BYTES)
    except LocalError:
        return None


def _names(machine: Machine, path: str) -> tuple[str, ...]:
    try:
        return machine.names(path) or ()
    except LocalError:
        return ()
