"""cloud-init's own code, as Debian ships it: unpacked once, and imported from there for comparison."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from support.container import made_once

# The package and those that its modules import at once, all without compiled code.
PURE = (
    "cloudinit",
    "requests",
    "urllib3",
    "idna",
    "chardet",
    "certifi",
    "configobj",
    "validate",
    "six",
    "jsonpatch",
    "jsonpointer",
)
SUITES = ("bookworm", "trixie")


def code_of(suite: str) -> Path:
    """The directory of the package `cloudinit`."""
    root = made_once(f"cloud-init-code-{suite}", "1", "--variant=extract", "--include=cloud-init", suite)
    return root / "usr/lib/python3/dist-packages/cloudinit"


@contextmanager
def imported(suite: str, name: str, place: Path) -> Iterator[ModuleType]:
    """A module of it. `place` gets links to it and to what it needs; other packages of the suite are not imported."""
    code = code_of(suite)
    for package in [*PURE, *(f"{name}.py" for name in PURE)]:
        if (code.parent / package).exists():
            (place / package).symlink_to(code.parent / package)
    sys.path.insert(0, str(place))
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield importlib.import_module(name)
    finally:
        sys.dont_write_bytecode = written
        sys.path.remove(str(place))
        for module in [one for one in sys.modules if one.split(".")[0] in PURE]:
            del sys.modules[module]
