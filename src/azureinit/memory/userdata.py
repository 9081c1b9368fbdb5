"""<vm id>.userdata: the customData of this VM as the first boot found it, and what the stages need of the platform's
request. Mode 0600."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64

from azureinit.memory.instance import read_sealed
from azureinit.memory.saved import metadata_from_saved, saved_values
from azureinit.memory.sealed import seal
from azureinit.record import Record, Secret, replace
from azureinit.sources.metadata import Metadata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine
    from azureinit.memory.instance import Instance

CUSTOM_DATA, USER_DATA = "customData", "userData"


class SavedUserdata(Record):
    source: str
    data: Secret  # decoded from the platform's base64
    metadata: Metadata


def write_userdata(machine: Machine, instance: Instance, saved: SavedUserdata) -> None:
    values = {
        "source": saved.source,
        "data": b2a_base64(saved.data.reveal(), newline=False).decode(),
        "metadata": saved_values(saved.metadata, with_secrets=False),
        "about": dict(saved.metadata.about),  # region and size of the VM, for instance data
    }
    machine.write(instance.path("userdata"), seal(values), mode=0o600)


def read_chosen_name(machine: Machine, instance: Instance | None) -> str | None:
    """The host name that customData set; it wins over the platform's. None where it set none."""
    data = machine.read(f"{instance.path('d')}/hostname", limit=4096) if instance is not None else None
    return None if data is None else data.decode("utf-8", "replace").strip() or None


def read_userdata(machine: Machine, instance: Instance) -> SavedUserdata | None:
    """None where there is none, or the file is damaged."""
    values = read_sealed(machine, instance.path("userdata"))
    if values is None:
        return None
    source, data, asked = values.get("source"), values.get("data"), values.get("metadata")
    if not isinstance(source, str) or not isinstance(data, str) or not isinstance(asked, dict):
        return None
    metadata, about = metadata_from_saved(asked) or Metadata(), values.get("about")
    if isinstance(about, dict):
        metadata = replace(metadata, about={key: text for key, text in about.items() if isinstance(text, str)})
    try:
        return SavedUserdata(source=source, data=Secret(a2b_base64(data)), metadata=metadata)
    except ValueError:
        return None
