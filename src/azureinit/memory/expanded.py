"""expanded, in the directory of the VM's customData: what its includes and templates became. Mode 0600.

The network stage writes it; later stages fetch and render nothing. At a later boot it is what `#include-once` and the
sources of files are read from.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64

from azureinit.errors import LocalError
from azureinit.memory.sealed import seal, unseal
from azureinit.userdata.expanding import Expansion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

NAME = "expanded"
MOST_BYTES = 128 << 20


def encode_expansion(expansion: Expansion) -> bytes:
    """Without what failed: that is tried again."""
    fetched = {url: _encoded(data) for url, data in expansion.fetched.items() if isinstance(data, bytes)}
    rendered = [
        [_encoded(template), _encoded(text)]
        for template, text in expansion.rendered.items()
        if isinstance(text, bytes)
    ]  # fmt: skip
    return seal({"fetched": fetched, "rendered": rendered})


def decode_expansion(data: bytes) -> Expansion | None:
    """None for anything that `encode_expansion` cannot have made."""
    values = unseal(data)
    if values is None:
        return None
    try:
        return Expansion(
            fetched={url: a2b_base64(text) for url, text in values["fetched"].items()},
            rendered={a2b_base64(template): a2b_base64(text) for template, text in values["rendered"]},
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def write_expansion(machine: Machine, directory: str, expansion: Expansion) -> None:
    machine.make_dirs(directory, mode=0o700)
    machine.write(f"{directory}/{NAME}", encode_expansion(expansion), mode=0o600)


def read_expansion(machine: Machine, directory: str) -> Expansion | None:
    """None where there is none, or the file is damaged or unreadable."""
    try:
        data = machine.read(f"{directory}/{NAME}", limit=MOST_BYTES)
    except LocalError:
        return None
    return decode_expansion(data) if data else None


def _encoded(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()
