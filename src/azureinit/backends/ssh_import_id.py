"""Public keys from a server: by ssh-import-id, run as the account."""

from __future__ import annotations

from azureinit.plan.actions import Run, Way

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.host import Host

TOOL = "ssh-import-id"
TIMEOUT = 120.0


def import_ids(account: str, ids: tuple[str, ...], host: Host) -> Way | str:
    """Or why it cannot be done."""
    if TOOL not in host.tools:
        return f"{TOOL} is not installed"
    if "sudo" in host.tools:
        become: tuple[str, ...] = ("sudo", "--preserve-env=https_proxy", "-Hu", account)
    elif "doas" in host.tools:
        become = ("doas", "-u", account)
    else:
        return "neither sudo nor doas is installed"
    return Way(backend=TOOL, actions=(Run(argv=(*become, TOOL, *ids), timeout=TIMEOUT),))
