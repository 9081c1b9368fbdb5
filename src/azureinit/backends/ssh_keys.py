"""Authorized keys through update-ssh-keys, which merges authorized_keys out of the pieces in authorized_keys.d."""

from __future__ import annotations

from azureinit.facts.ssh import MERGER
from azureinit.plan.actions import Declined, Run, Way
from azureinit.record import Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureinit.facts.host import Host
    from azureinit.plan.actions import Action


def merge(*, username: str, pieces: Mapping[str, bytes], before: tuple[Action, ...], host: Host) -> Way | Declined:
    """Write these pieces, by name, and the merged file. `before`: actions on other files, done first."""
    if host.rooted:
        return Declined(backend=MERGER, why="it works on the running system, not on the one under --root")
    if not host.privileged:
        return Declined(backend=MERGER, why="only root writes into another's home")
    # -A and not -a: with -a an empty piece of that name means that the piece is switched off.
    runs = (Run(argv=(MERGER, "-u", username, "-A", name), stdin=Secret(data)) for name, data in pieces.items())
    return Way(backend=MERGER, actions=(*before, *runs))
