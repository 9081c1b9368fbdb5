"""What azure-init configured of this VM's network: `<vm id>.network`. Only that is ever removed again.

The record exists as long as a file or an address of azure-init's does: a later boot of a machine without it asks IMDS
nothing.
"""

from __future__ import annotations

from azureinit.memory.sealed import seal, unseal
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureinit.machine import Machine
    from azureinit.memory.instance import Instance

MOST_BYTES = 1 << 20
RELOAD = b"reload\n"  # the content of `<vm id>.reload`


class NetworkRecord(Record):
    """By MAC address. `files`: every address that IMDS listed for a NIC that has configuration in files; what IMDS
    lacks of it is removed only after two equal answers. `addresses`: those that were set in the running kernel."""

    files: Mapping[str, tuple[str, ...]] = {}
    addresses: Mapping[str, tuple[str, ...]] = {}


class Kept(Record):
    """What an earlier run left, and where; without a path nothing is recorded."""

    record: NetworkRecord = NetworkRecord()
    data: bytes | None = None
    path: str = ""
    reload_path: str = ""
    reload: bool = False  # files were written, and their manager has not loaded them


def read_kept(machine: Machine, instance: Instance | None) -> Kept:
    if instance is None:
        return Kept()
    data = machine.read(instance.path("network"), limit=MOST_BYTES)
    reload_path = instance.path("reload")
    return Kept(
        record=parse_record(data or b""),
        data=data,
        path=instance.path("network"),
        reload_path=reload_path,
        reload=machine.stat(reload_path) is not None,
    )


def encode_record(record: NetworkRecord) -> bytes:
    return seal({"files": _ordered(record.files), "addresses": _ordered(record.addresses)}) + b"\n"


def _ordered(lists: Mapping[str, tuple[str, ...]]) -> dict[str, list[str]]:
    return {mac: sorted(lists[mac]) for mac in sorted(lists) if lists[mac]}


def parse_record(data: bytes) -> NetworkRecord:
    """A damaged record counts as empty: nothing is removed then."""
    values = unseal(data) or {}
    files, addresses = values.get("files"), values.get("addresses")
    if not isinstance(files, dict) or not isinstance(addresses, dict):
        return NetworkRecord()
    return NetworkRecord(files=_texts(files), addresses=_texts(addresses))


def _texts(lists: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    found = {mac: each for mac, each in lists.items() if isinstance(each, list)}
    return {mac: tuple(one for one in each if isinstance(one, str)) for mac, each in found.items()}
