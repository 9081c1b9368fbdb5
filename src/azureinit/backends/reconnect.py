"""A new lease for a link that is in another network now: one way for each manager of links.

A lease of Azure never expires, so that a manager which did not notice the move does not ask again by itself.
"""

from __future__ import annotations

from azureinit.plan.actions import Declined, Run, Way

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.dhcp_client import DhcpClient

TIMEOUT = 30.0
# Per client: the tool, and the commands. LINK stands for the link's name.
LINK = "{link}"
COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "systemd-networkd": (("networkctl", "reconfigure", LINK),),
    "NetworkManager": (("nmcli", "device", "reapply", LINK),),
    # The running dhclient keeps its lease: it is stopped without a release, which would go to the old network.
    "dhclient": (
        ("dhclient", "-4", "-x", "-pf", f"/run/dhclient.{LINK}.pid", LINK),
        ("ip", "-4", "address", "flush", "dev", LINK),
        ("dhclient", "-4", "-nw", "-pf", f"/run/dhclient.{LINK}.pid", LINK),
    ),
    "dhcpcd": (("dhcpcd", "-n", LINK),),
    "wicked": (("wicked", "ifup", LINK),),
}


def reconnect(dhcp: DhcpClient) -> Way | Declined:
    commands = COMMANDS.get(dhcp.client, ())
    if not commands:
        return Declined(backend=dhcp.client or "network", why=f"no known manager has {dhcp.link}")
    tool = commands[0][0]
    if tool not in dhcp.tools:
        return Declined(backend=dhcp.client, why=f"{tool} is not installed")
    runs = tuple(Run(argv=tuple(word.replace(LINK, dhcp.link) for word in argv), timeout=TIMEOUT) for argv in commands)
    return Way(backend=dhcp.client, actions=runs)
