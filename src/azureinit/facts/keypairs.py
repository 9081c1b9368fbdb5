"""The files of a user's own key pairs, as they are: what is in them is nobody else's to see."""

from __future__ import annotations

from azureinit.facts.ssh import KeysFile, read_keys_files
from azureinit.record import Record, Secret, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine


class PairFile(Record):
    """One half of a pair; `file` tells all but its content."""

    file: KeysFile
    data: Secret | None = None


def read_pair_files(machine: Machine, *, home: str, paths: tuple[str, ...]) -> tuple[PairFile, ...]:
    return tuple(
        PairFile(file=replace(file, data=None), data=None if file.data is None else Secret(file.data))
        for file in read_keys_files(machine, home=home, paths=paths)
    )
