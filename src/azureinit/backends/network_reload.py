"""Having a network manager load files for NICs other than the primary, and for one that has become the primary."""

from __future__ import annotations

from azureinit.backends.network_files import keyfile_path, profile_uuid
from azureinit.facts.link_managers import IFUPDOWN, NETPLAN, NETWORK_MANAGER, NETWORKD, SCRIPTS
from azureinit.plan.actions import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from azureinit.plan.actions import Action
    from azureinit.plan.network_layout import Layout

TIMEOUT, PATIENCE = 60.0, "45"
TOOL = {NETWORKD: "networkctl", NETPLAN: "networkctl", NETWORK_MANAGER: "nmcli", IFUPDOWN: "ifup", SCRIPTS: "ifup"}


def unload(manager: str, layouts: Sequence[Layout], *, up: Collection[str]) -> tuple[Action, ...]:
    """Before the files are written: `ifdown` removes the rules that they name now, and a table may get another number.

    `up`: the names of the links that the manager has configured already.
    """
    if manager not in (IFUPDOWN, SCRIPTS):
        return ()
    return tuple(_run("ifdown", one.name) for one in layouts if one.name in up)


def load(manager: str, layouts: Sequence[Layout]) -> tuple[Action, ...]:
    if manager in (NETWORKD, NETPLAN):
        # networkd configures anew only the links whose file is another one, or newer than the one it has loaded.
        return (_run("networkctl", "reload"),)
    if manager == NETWORK_MANAGER:
        made: list[Action] = []
        for one in layouts:
            made.append(_run("nmcli", "connection", "load", keyfile_path(one.mac)))
            made.append(
                _run("nmcli", "--wait", PATIENCE, "connection", "up", "uuid", profile_uuid(one.mac), "ifname", one.name)
            )
        return tuple(made)
    return tuple(_run("ifup", one.name) for one in layouts)


def load_later(manager: str, layout: Layout) -> tuple[Action, ...]:
    """For the primary: NetworkManager gets to know the profile and does not activate it."""
    if manager != NETWORK_MANAGER:
        return ()
    return (_run("nmcli", "connection", "load", keyfile_path(layout.mac)),)


def _run(*argv: str) -> Run:
    return Run(argv=argv, timeout=TIMEOUT, changes=False)
