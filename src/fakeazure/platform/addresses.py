"""The addresses of Azure's services, and where the simulated ones listen."""

from __future__ import annotations

from ipaddress import IPv4Interface

from fakeazure.platform.vm import Interface

WIRESERVER = "168.63.129.16"
IMDS = "169.254.169.254"
GATEWAY = "10.0.0.1/24"
ROUTER6 = "fe80::1234:5678:9abc"  # Azure's IPv6 router on every interface

Address = tuple[str, int]  # IPv4 address and TCP port; port 0: any free port
Endpoints = tuple[Address, Address, Address]  # of IMDS, the wireserver and the host plugin, in this order

ANY_PORT: Address = ("127.0.0.1", 0)
LOOPBACK: Endpoints = (ANY_PORT, ANY_PORT, ANY_PORT)


def azure_endpoints(wireserver: str = "") -> Endpoints:
    """Azure's addresses and ports. `wireserver` replaces the address of the wireserver and of the host plugin."""
    host = wireserver or WIRESERVER
    return (IMDS, 80), (host, 80), (host, 32526)


def gateway_for(interface: Interface) -> str:
    """The first address of the interface's subnet, as on Azure: `10.0.0.1/24`."""
    network = IPv4Interface(f"{interface.address}/{interface.prefix}").network
    return f"{network.network_address + 1}/{network.prefixlen}"
