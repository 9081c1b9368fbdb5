"""What a run writes for the next one: the media's words, and a verdict that is still to be delivered."""

from __future__ import annotations

from azureinit.errors import AzureInitError
from azureinit.memory.instance import write_saved
from azureinit.memory.pending import read_pending, write_pending
from azureinit.record import replace
from azureinit.sources.metadata import SAVED
from azureinit.telemetry.events import WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.memory.pending import Pending
    from azureinit.run.state import Context, Identity
    from azureinit.sources.metadata import Metadata


def save_media(context: Context, identity: Identity, metadata: Metadata, *, with_hash: bool = True) -> None:
    """The host ejects the media after any verdict."""
    if identity.instance is None:
        return
    media_only = metadata.has_password or metadata.custom_data is not None or metadata.guest_agent_off
    media_only = media_only or metadata.proxy_agent or bool(metadata.key_pairs)
    if not media_only and metadata.provenance.get("username", "imds") == "imds":
        return
    values = {field: getattr(metadata, field) for field in SAVED if getattr(metadata, field) is not None}
    values["keys"] = [(key.data, key.path) for key in metadata.keys]
    if metadata.thumbprints:
        values["thumbprints"] = metadata.thumbprints
    if with_hash and metadata.key_pairs:  # by name: the wireserver has their keys
        values["key_pairs"] = [(pair.thumbprint, pair.path) for pair in metadata.key_pairs]
    if with_hash and metadata.password_hash is not None:
        values["password_hash"] = metadata.password_hash
    write_saved(context.machine, identity.instance, values)


def keep_pending(context: Context, identity: Identity, pending: Pending) -> None:
    """Where even that cannot be written, the next run starts from the beginning."""
    if identity.instance is None:
        return
    try:
        if not pending.unconfirmed:
            before = read_pending(context.machine, identity.instance)
            pending = replace(pending, unconfirmed=before is not None and before.unconfirmed)
        write_pending(context.machine, identity.instance, pending)
    except AzureInitError as error:
        context.events.tell(WARN, "pending verdict", str(error))
