"""userdata.refresh: at a later boot the network stage asks IMDS once for userData, and what runs at every boot uses it.

What runs once for each VM stays with the copy of the first boot. The new document is kept in the VM's directory for the
stages after the network stage, and for a boot in which IMDS does not answer.
"""

from __future__ import annotations

from azureinit.errors import AzureInitError
from azureinit.memory.instance import read_sealed
from azureinit.memory.sealed import seal
from azureinit.memory.userdata import CUSTOM_DATA, USER_DATA, SavedUserdata
from azureinit.record import Secret, replace
from azureinit.run.serving import ask_user_data, given
from azureinit.sources.metadata import Metadata
from azureinit.telemetry.events import INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine
    from azureinit.run.state import Context

DIRECTORY = "refreshed"  # in the VM's own


def is_wanted(context: Context, saved: SavedUserdata) -> bool:
    """userData counts: customData alone is never asked for again."""
    settings = context.config.userdata
    return settings.refresh and bool(saved.source) and (USER_DATA in saved.source or settings.use == "both")


def refreshed_place(directory: str) -> str:
    return f"{directory}/{DIRECTORY}"


def has_refreshed(machine: Machine, directory: str) -> bool:
    return machine.stat(f"{refreshed_place(directory)}/userdata") is not None


def read_refreshed(context: Context, saved: SavedUserdata, directory: str) -> SavedUserdata | None:
    """The document that the network stage has kept; None: that of the first boot counts."""
    if not is_wanted(context, saved):
        return None
    values = read_sealed(context.machine, f"{refreshed_place(directory)}/userdata") or {}
    source, text = values.get("source"), values.get("data")
    if not isinstance(source, str) or not isinstance(text, str):
        return None
    return replace(saved, source=source, data=Secret(text.encode("latin-1", "replace")))


def refresh(context: Context, saved: SavedUserdata, directory: str) -> SavedUserdata | None:
    """Ask IMDS, and keep the document if it differs from that of the first boot. Logins wait meanwhile."""
    if not is_wanted(context, saved):
        return None
    try:
        user = ask_user_data(context.machine, context.config, observe=context.events.observe)
    except AzureInitError as error:
        context.events.tell(WARN, USER_DATA, f"not refreshed, and the last document is used: {error}")
        return read_refreshed(context, saved, directory)
    custom = saved.metadata.custom_data if CUSTOM_DATA in saved.source else None
    found = given(context.config, Metadata(custom_data=custom, user_data=user))
    place, machine = refreshed_place(directory), context.machine
    if found.left or found.data == saved.data:
        if found.left:
            context.events.tell(WARN, found.source, f"{found.left}; the copy of the first boot is used")
        if has_refreshed(machine, directory):
            machine.remove(f"{place}/userdata")
        return None
    context.events.tell(INFO, USER_DATA, "has changed since this VM's first boot: what runs at every boot uses it")
    machine.make_dirs(place, mode=0o700)
    values = {"source": found.source, "data": found.data.reveal().decode("latin-1")}
    machine.write(f"{place}/userdata", seal(values), mode=0o600)
    return replace(saved, source=found.source, data=found.data)
