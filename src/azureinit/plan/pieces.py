"""Keys where authorized_keys is merged from the pieces in authorized_keys.d: azure-init writes a piece of its own."""

from __future__ import annotations

from azureinit.backends.ssh_keys import merge
from azureinit.plan.actions import MakeDir, Way, Write
from azureinit.plan.keys import BACKEND, PIECE, with_keys
from azureinit.pubkey import key_identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureinit.facts.host import Host
    from azureinit.facts.key_files import AdminFiles, KeysFile
    from azureinit.plan.actions import Action, Declined

OLD = "old_authorized_keys"  # the merging program's name for keys that were there before it


def merged_ways(
    merged: str,
    lines: Mapping[str, tuple[str, ...]],
    actions: tuple[Action, ...],
    *,
    username: str,
    host: Host,
    admin: AdminFiles,
) -> tuple[Way | Declined, ...]:
    """By the merging program, which locks out other instances; where it cannot run, by writing the same files.

    `actions`: everything that is needed so that every file has its keys.
    """
    files = {file.path: file for file in admin.keys_files}
    own, old = f"{merged}.d/{PIECE}", f"{merged}.d/{OLD}"
    pieces = {PIECE: with_keys(_data(files, own), lines[own])}
    kept = _in_no_piece(merged, files, lines[own])
    if not kept:
        return (_by_merger(merged, pieces, actions, username, host), Way(backend=BACKEND, actions=actions))
    pieces = {OLD: _joined(_data(files, old), kept), **pieces}  # first, so that an interruption loses no key
    write = Write(
        path=old,
        data=pieces[OLD],
        mode=0o600,
        owner=username,
        beneath=files[merged].beneath,
        was=files[old].data if old in files else None,
    )
    made = tuple(action for action in actions if isinstance(action, MakeDir))
    rest = tuple(action for action in actions if not isinstance(action, MakeDir))
    ourselves = Way(backend=BACKEND, actions=(*made, write, *rest))
    return (_by_merger(merged, pieces, actions, username, host), ourselves)


def _by_merger(
    merged: str, pieces: Mapping[str, bytes], actions: tuple[Action, ...], username: str, host: Host
) -> Way | Declined:
    # Without the directory of pieces: where it is missing, the program keeps the older keys itself.
    others = tuple(action for action in actions if not _is_mergers(action, merged))
    return merge(username=username, pieces=pieces, before=others, host=host)


def _is_mergers(action: Action, merged: str) -> bool:
    """Whether the program does this itself: the directory of pieces, its files, and the merged file."""
    return isinstance(action, (MakeDir, Write)) and (
        action.path == merged or f"{action.path}/".startswith(f"{merged}.d/")
    )


def _in_no_piece(merged: str, files: Mapping[str, KeysFile], wanted: tuple[str, ...]) -> list[str]:
    """The lines of the merged file that the next merge would drop."""
    pieces = (_lines(_data(files, path)) for path in files if path.startswith(f"{merged}.d/"))
    known = {None, *map(key_identity, wanted), *(key_identity(line) for piece in pieces for line in piece)}
    return [line for line in _lines(_data(files, merged)) if key_identity(line) not in known]


def _data(files: Mapping[str, KeysFile], path: str) -> bytes:
    return (files[path].data if path in files else None) or b""


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", "surrogateescape").split("\n")


def _joined(data: bytes, lines: list[str]) -> bytes:
    start = data + b"\n" if data and not data.endswith(b"\n") else data
    return start + "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
