"""Asking for the address again under the host's new name, while the link stays up: one way for each DHCP client.

What each of them does was seen on the wire. `networkctl renew`, `nmcli device reapply` and `nmcli connection up` are
not among them: they ask under the old name, and the last also takes the address away.
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
# Beside the client that runs, where its profile lets it write; the script that would change the link is left out.
DHCLIENT = ("-4", "-sf", "/bin/true", "-pf", "/run/dhclient.azure-init.pid", "-lf", "/run/dhclient.azure-init.leases")
TIMEOUT = 30.0


def reload(_hostname: str, dhcp: DhcpClient) -> Way | Declined:
    """The address stays where networkd can do that (257), and is away for a moment where it cannot (249 to 255)."""
    why = _missing("networkctl", dhcp)
    file = dhcp.config.rpartition("/")[2]
    if not why and not file.endswith(".network"):
        why = f"networkd does not say by which file {dhcp.link} is configured"
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
    """Of the running device only: no profile is changed."""
    return _way("nmcli", dhcp, _run("nmcli", "device", "modify", dhcp.link, "ipv4.dhcp-hostname", hostname))


def dhclient(_hostname: str, dhcp: DhcpClient) -> Way | Declined:
    """A second one asks under the kernel's name of now, changes nothing, and goes."""
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
