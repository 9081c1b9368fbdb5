"""Adding a route to one host, by ip; it lasts until the next boot."""

from __future__ import annotations

from azureinit.plan.actions import Run, Way

METRIC = 65536  # above the metrics of DHCP clients, whose own routes take precedence
FIRST_METRIC = 1  # below them


def ip_route(*, host: str, link: str, gateway: str, metric: int = METRIC) -> Way:
    """`onlink`: the lease names the gateway, even if it is outside the address's prefix."""
    through = ("via", gateway, "dev", link, "onlink") if gateway else ("dev", link, "scope", "link")
    argv = ("ip", "-4", "route", "add", f"{host}/32", *through, "metric", str(metric))
    return Way(backend="ip", actions=(Run(argv=argv, timeout=10.0, changes=False),))
