"""Adding words to the kernel command line, and removing azure-init's, in the files of the boot loader."""

from __future__ import annotations

from azureinit.facts.bootloader import ADDED, BEGIN, CMDLINE, DROPIN, DROPIN_DIR, END
from azureinit.facts.kernel import HEADER
from azureinit.plan.actions import MakeDir, Remove, Run, Way, Write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from azureinit.facts.bootloader import Loader
    from azureinit.plan.actions import Action

    Words = tuple[str, ...]

SLOW = 300.0  # seconds; os-prober searches every disk
ARGUMENTS = (
    b"# Words that azure-init added to the kernel's command line; `azure-init deprovision` takes them away again.\n"
)


def has(words: Iterable[str], word: str) -> bool:
    """`console=ttyS0,115200` counts as `console=ttyS0`."""
    return any(one == word or one.startswith(f"{word},") for one in words)


def lacking(wanted: Words, words: Iterable[str]) -> Words:
    known = tuple(words)
    return tuple(word for word in wanted if not has(known, word))


# ---- adding


def add_to_dropin(wanted: Words, loader: Loader) -> tuple[Action, ...]:
    return _add_lines(HEADER + _shell(lacking(wanted, loader.words)), wanted, loader)


def add_to_defaults(wanted: Words, loader: Loader) -> tuple[Action, ...]:
    return _add_lines(_block(loader.rest, _shell(lacking(wanted, loader.words))), wanted, loader)


def add_to_oem(wanted: Words, loader: Loader) -> tuple[Action, ...]:
    words = " ".join(lacking(wanted, loader.words))
    line = f'set linux_append="$linux_append {words}"\n'.encode() if words else b""
    return _add_lines(_block(loader.rest, line), wanted, loader)


def add_by_grubby(wanted: Words, loader: Loader) -> tuple[Action, ...]:
    """The note first: a word that it does not name is never removed again."""
    missing = lacking(wanted, loader.menu or ())
    if not missing:
        return ()
    return (*_note(lacking(missing, loader.words), loader), _grubby(f"--args={' '.join(missing)}"))


def add_to_cmdline(wanted: Words, loader: Loader) -> tuple[Action, ...]:
    old = loader.vendors or b"" if loader.data is None else loader.data
    missing = lacking(wanted, old.decode("utf-8", "surrogateescape").split())
    makes_dir = (MakeDir(path=CMDLINE.rpartition("/")[0], mode=0o755),) if loader.makes_dir else ()
    line, end = _ended(old)
    data = b" ".join((*((line,) if line else ()), *(word.encode() for word in missing))) + end
    write = (*_note(missing, loader), *makes_dir, Write(path=CMDLINE, data=data, mode=0o644, was=loader.data))
    return (*(write if missing else ()), *_remake(wanted, loader, changed=bool(missing)))


def _add_lines(data: bytes, wanted: Words, loader: Loader) -> tuple[Action, ...]:
    needless = loader.data is None and data == HEADER
    if data == loader.data or needless:
        return _remake(wanted, loader, changed=False)
    makes_dir = (MakeDir(path=DROPIN_DIR, mode=0o755),) if loader.makes_dir else ()
    mode = 0o644 if loader.data is None else None
    write = Write(path=loader.path, data=data, mode=mode, was=loader.data)
    return (*makes_dir, write, *_remake(wanted, loader, changed=True))


def _remake(wanted: Words, loader: Loader, *, changed: bool) -> tuple[Action, ...]:
    """Also where nothing has to be written: an earlier run may have been interrupted before it."""
    stale = loader.menu is not None and bool(lacking(wanted, loader.menu))
    return tuple(Run(argv=argv, timeout=SLOW) for argv in loader.remake) if changed or stale else ()


def _shell(words: Words) -> bytes:
    return f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {" ".join(words)}"\n'.encode() if words else b""


def _block(rest: bytes, lines: bytes) -> bytes:
    return rest + BEGIN + lines + END if lines else rest


def _note(words: Words, loader: Loader) -> tuple[Action, ...]:
    everything = (*loader.added, *(word for word in words if word not in loader.added))
    if everything == loader.added:
        return ()
    data = ARGUMENTS + "".join(f"{word}\n" for word in everything).encode()
    return (Write(path=ADDED, data=data, mode=0o644),)


def _grubby(change: str) -> Run:
    return Run(argv=("grubby", "--update-kernel=ALL", change), timeout=SLOW)


# ---- removing: the note last, so that an interrupted run can be continued


def take_dropin(loader: Loader) -> tuple[Action, ...]:
    emptied = (Write(path=DROPIN, data=HEADER, was=loader.data), *_runs(loader)) if loader.remake else ()
    return (*emptied, Remove(path=DROPIN))


def take_block(loader: Loader) -> tuple[Action, ...]:
    empty = loader.rest + BEGIN + END
    last = Write(path=loader.path, data=loader.rest, was=loader.data)
    if not loader.remake:
        return (last,)
    return (
        Write(path=loader.path, data=empty, was=loader.data),
        *_runs(loader),
        Write(path=loader.path, data=loader.rest, was=empty),
    )


def take_by_grubby(loader: Loader) -> tuple[Action, ...]:
    run = (_grubby(f"--remove-args={' '.join(loader.added)}"),) if loader.added else ()
    return (*run, Remove(path=ADDED))


def take_from_cmdline(loader: Loader) -> tuple[Action, ...]:
    write: tuple[Action, ...] = ()
    if loader.data is not None and loader.added:
        data = _without(loader.data, loader.added)
        same = loader.vendors is not None and data.split() == loader.vendors.split()
        write = (Remove(path=CMDLINE) if same else Write(path=CMDLINE, data=data, was=loader.data),)
    return (*write, *_runs(loader), Remove(path=ADDED))


def _without(data: bytes, words: Words) -> bytes:
    """The last occurrence of each word, with the space before it."""
    line, end = _ended(data)
    text = b" " + line + b" "
    for word in reversed(words):
        before, found, after = text.rpartition(f" {word} ".encode())
        text = before + b" " + after if found else text
    return text[1:-1] + end


def _ended(data: bytes) -> tuple[bytes, bytes]:
    line = data.rstrip()
    return line, data[len(line) :] if data else b"\n"


def _runs(loader: Loader) -> tuple[Action, ...]:
    return tuple(Run(argv=argv, timeout=SLOW) for argv in loader.remake)


def way(loader: Loader, actions: tuple[Action, ...]) -> Way:
    return Way(backend=loader.kind, actions=actions)


ADD: dict[str, Callable[[Words, Loader], tuple[Action, ...]]] = {
    "grubby": add_by_grubby,
    "grub drop-in": add_to_dropin,
    "grub defaults": add_to_defaults,
    "grub of the OEM": add_to_oem,
    "kernel-install": add_to_cmdline,
}
TAKE: dict[str, Callable[[Loader], tuple[Action, ...]]] = {
    "grubby": take_by_grubby,
    "grub drop-in": take_dropin,
    "grub defaults": take_block,
    "grub of the OEM": take_block,
    "kernel-install": take_from_cmdline,
}
