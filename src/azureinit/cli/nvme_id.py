"""`azure-nvme-id`: lists Azure's NVMe namespaces and what each is, with the options and output of azure-vm-utils' own.

udev starts it for each namespace that appears, so it parses its few options itself and loads few modules.
"""

from __future__ import annotations

import sys

from azureinit.facts.nvme_namespaces import CLASS, pairs, read_namespaces, read_vendor_specific
from azureinit.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn, TextIO

    from azureinit.facts.nvme_namespaces import Namespace
    from azureinit.machine import Machine

PROG = "azure-nvme-id"
PLAIN, JSON = "plain", "json"
USAGE = f"""\
Usage: {PROG} [--debug] [--format {PLAIN}|{JSON}] [--help | --udev | --version]

List the NVMe namespaces of this Azure VM, and what each is. Needs root.

  --debug              Tell on standard error what is read
  --format {PLAIN}|{JSON}  How to print the list: lines of text, or JSON [default: {PLAIN}]
  -h, --help           Print this help
  --udev               Print the properties of $DEVNAME for a udev rule
  --version            Print the version
"""
NUMBERS = ("index", "lun")


def main(argv: list[str], *, machine: Machine, out: TextIO, err: TextIO) -> int:
    words = list(argv)
    debug = udev = False
    form = PLAIN
    while words:
        word = words.pop(0)
        if word == "--debug":
            debug = True
        elif word == "--udev":
            udev = True
        elif word == "--version":
            out.write(f"{PROG} v{VERSION}\n")  # azure-vm-utils' self-test accepts a number that begins with v or 0
            return 0
        elif word in ("-h", "--help"):
            out.write(USAGE)
            return 0
        elif word == "--format" and words and words[0] in (PLAIN, JSON):
            form = words.pop(0)
        else:
            wrong = words[0] if word == "--format" and words else word
            err.write(f"invalid argument: {wrong}\n")
            out.write(USAGE)
            return 1
    log = err.write if debug else _silent
    if udev:
        return print_properties(machine, out=out, err=err)
    found = read_namespaces(machine)
    if found is None:
        err.write(f"no NVMe devices in {CLASS}: No such file or directory\n")
    for one in found or ():
        log(f"DEBUG: {one.path}: model {one.model!r}, serial {one.serial!r}, nsid {one.nsid}, "
            f"vendor-specific {one.vendor_specific!r}\n")  # fmt: skip
        if one.vendor_specific is None:
            err.write(f"{one.why}\n")
    out.write(as_json(found or ()) if form == JSON else as_lines(found or ()))
    return 0


def _silent(_text: str) -> int:
    return 0


def as_lines(found: tuple[Namespace, ...]) -> str:
    return "".join(f"{one.path}: {one.description}\n" for one in found if one.vendor_specific is not None)


def as_json(found: tuple[Namespace, ...]) -> str:
    from azureinit.jsontext import dumps

    rows = [
        {
            "path": one.path,
            "model": one.model,
            "properties": {
                key: int(value) if key in NUMBERS and value.isdigit() else value
                for key, value in pairs(one.description)[0]
            },
            "vs": one.vendor_specific,
        }
        for one in found
    ]
    return f"{dumps(rows)}\n"


def print_properties(machine: Machine, *, out: TextIO, err: TextIO) -> int:
    """Only what the namespace says of itself: the rules know the models that say nothing."""
    path = machine.environ.get("DEVNAME")
    if not path:
        err.write("environment variable 'DEVNAME' not set\n")
        return 1
    text, why = read_vendor_specific(machine, path)
    if text is None:
        err.write(f"{why}\n")
        return 1
    known, malformed = pairs(text)
    for part in malformed:
        err.write(f"{path}: not key=value: {part}\n")
    lines = [("VS", text), *((key.upper(), value) for key, value in known)]
    out.write("".join(f"AZURE_DISK_{key}={value}\n" for key, value in lines))
    return 0


def command() -> NoReturn:
    """The installed `azure-nvme-id` calls this."""
    from azureinit.machine import Machine
    from azureinit.machine.this_process import leave, open_streams

    open_streams()
    try:
        status = main(sys.argv[1:], machine=Machine(), out=sys.stdout, err=sys.stderr)
        sys.stdout.flush()
    except BrokenPipeError:
        status = 0  # the reader of the output has closed it, as `head` does
    except OSError as error:
        sys.stderr.write(f"cannot write: {error.strerror or error}\n")
        status = 1
    leave(status)
