"""What a run writes for the next one: the settings from the media, and a verdict that is not delivered yet."""

from __future__ import annotations

from azureinit.errors import AzureInitError
from azureinit.memory.pending import read_pending, write_pending
from azureinit.record import replace
from azureinit.sources.metadata import needs_saving
from azureinit.telemetry.events import WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.memory.pending import Pending
    from azureinit.run.state import Context, Identity
    from azureinit.sources.metadata import Metadata


def save_media(context: Context, identity: Identity, metadata: Metadata, *, with_secrets: bool = True) -> None:
    """Keep the settings from the media: the host ejects the media after any verdict."""
    if identity.instance is not None and needs_saving(metadata):
        from azureinit.memory.saved import write_saved

        write_saved(context.machine, identity.instance.path("saved"), metadata, with_secrets=with_secrets)


def keep_pending(context: Context, identity: Identity, pending: Pending) -> None:
    """Keep a verdict that is not delivered. If it cannot be written, the next run starts from the beginning."""
    try:
        save_pending(context, identity, pending)
    except AzureInitError as error:
        context.events.tell(WARN, "pending verdict", str(error))


def save_pending(context: Context, identity: Identity, pending: Pending) -> None:
    if identity.instance is None:
        return
    if not pending.unconfirmed:
        before = read_pending(context.machine, identity.instance)
        pending = replace(pending, unconfirmed=before is not None and before.unconfirmed)
    write_pending(context.machine, identity.instance, pending)
