"""Ways to add a route to one host; it lasts until the next boot."""

from __future__ import annotations

from azureinit.plan.actions import Run, Way

METRIC = 65536  # above what DHCP clients use: where one comes to set a route of its own, that is the one taken


def ip_route(*, host: str, link: str, gateway: str) -> Way:
    """`onlink`: the server that gave the address says that the gateway is there, whatever the address's prefix."""
    through = ("via", gateway, "dev", link, "onlink") if gateway else ("dev", link, "scope", "link")
    argv = ("ip", "-4", "route", "add", f"{host}/32", *through, "metric", str(METRIC))
    return Way(backend="ip", actions=(Run(argv=argv, timeout=10.0, changes=False),))
