"""Renewing a DHCP lease under the host's new name while the link stays up: one way for each DHCP client.

The effect of each was verified on the wire. `networkctl renew`, `nmcli device reapply` and `nmcli connection up` are
not used: they ask under the old name, and the last also removes the address.
"""

from __future__ import annotations

from azureinit.plan.actions import Declined, MakeDir, Remove, Run, Way, Write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.facts.dhcp_client import DhcpClient
    from azureinit.plan.actions import Action

RUNTIME = "/run/systemd/network"
DROPIN = "azure-init-hostname.conf"
NOTE = b"# The host has got its name: a changed file makes networkd ask for this link's address again.\n"
# Files of a second dhclient, in places that its AppArmor profile allows; without the script that changes the link.
DHCLIENT = ("-4", "-sf", "/bin/true", "-pf", "/run/dhclient.azure-init.pid", "-lf", "/run/dhclient.azure-init.leases")
TIMEOUT = 30.0


def reload(_hostname: str, dhcp: DhcpClient) -> Way | Declined:
    """The address stays with systemd 257; with 249 to 255 it is removed for a moment."""
    why = _missing("networkctl", dhcp)
    file = dhcp.config.rpartition("/")[2]
    if not why and not file.endswith(".network"):
        why = f"networkd does not report the configuration file of {dhcp.link}"
    if why:
        return Declined(backend="networkctl reload", why=why)
    beside = f"{RUNTIME}/{file}.d"
    actions: tuple[Action, ...] = (
        MakeDir(path=RUNTIME, mode=0o755),
        MakeDir(path=beside, mode=0o755),
        Write(path=f"{beside}/{DROPIN}", data=NOTE, mode=0o644),
        _run("networkctl", "reload"),
    )
    return Way(backend="networkctl reload", actions=actions)


def reconfigure(_hostname: str, dhcp: DhcpClient) -> Way | Declined:
    return _way("networkctl reconfigure", dhcp, _run("networkctl", "reconfigure", dhcp.link))


def nmcli(hostname: str, dhcp: DhcpClient) -> Way | Declined:
    """Changes the running device only, no connection profile."""
    return _way("nmcli", dhcp, _run("nmcli", "device", "modify", dhcp.link, "ipv4.dhcp-hostname", hostname))


def dhclient(_hostname: str, dhcp: DhcpClient) -> Way | Declined:
    """A second dhclient asks under the kernel's current name, changes nothing, and exits."""
    ask, go = _run("dhclient", "-1", *DHCLIENT, dhcp.link), _run("dhclient", "-x", *DHCLIENT, dhcp.link)
    return _way("dhclient", dhcp, ask, go, Remove(path=DHCLIENT[-1]))


def dhcpcd(_hostname: str, dhcp: DhcpClient) -> Way | Declined:
    return _way("dhcpcd", dhcp, _run("dhcpcd", "-n", dhcp.link))


def wicked(_hostname: str, dhcp: DhcpClient) -> Way | Declined:
    return _way("wicked", dhcp, _run("wicked", "ifup", dhcp.link))


def _way(backend: str, dhcp: DhcpClient, *actions: Action) -> Way | Declined:
    why = _missing(backend.partition(" ")[0], dhcp)
    return Declined(backend=backend, why=why) if why else Way(backend=backend, actions=actions)


def _missing(tool: str, dhcp: DhcpClient) -> str:
    return "" if tool in dhcp.tools else f"{tool} is not installed"


def _run(*argv: str) -> Run:
    return Run(argv=argv, timeout=TIMEOUT)


PUBLISH: dict[str, tuple[Callable[[str, DhcpClient], Way | Declined], ...]] = {
    "systemd-networkd": (reload, reconfigure),
    "NetworkManager": (nmcli,),
    "dhclient": (dhclient,),
    "dhcpcd": (dhcpcd,),
    "wicked": (wicked,),
}
