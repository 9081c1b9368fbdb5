"""The objects that work beside the phases of a run, each with its own state."""

from __future__ import annotations

from azureinit.record import Record
from azureinit.run.in_progress import InProgress
from azureinit.run.logins import Logins
from azureinit.run.platform import Platform
from azureinit.run.waiting import Waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.run.state import Context


class Channels(Record):
    platform: Platform
    waiting: Waiting
    logins: Logins
    in_progress: InProgress


def open_channels(context: Context) -> Channels:
    platform = Platform(context)
    waiting = Waiting(context, platform)
    return Channels(
        platform=platform,
        waiting=waiting,
        logins=Logins(context, waiting),
        in_progress=InProgress(context, platform),
    )
