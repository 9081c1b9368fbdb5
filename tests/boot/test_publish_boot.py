"""Publishing the host name to DNS: real DHCP clients, a lease taken under the old name, and the platform's ledger."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakeazure.platform.events import Lease
from support.container_roots import ONLINE, Root, until
from support.dhcp_clients import CLIENTS, PROFILE, START
from support.installed import Images

pytestmark = pytest.mark.newer

ADDRESS, NAME = "10.0.0.4", "web-1"
LOOK = "echo after: $(ip -4 -brief address show eth0)"
# What happens to the link and its addresses is told as it happens.
SERVICE = """
[Unit]
{after}
[Service]
Type=oneshot
StandardOutput=journal+console
StandardError=journal+console
ExecStart=/bin/sh -c '{start}'
ExecStart=/bin/sh -c 'ip -4 monitor link address & sleep 0.5; /usr/bin/publish; sleep 3; {look}'
"""
PUBLISH = f"""\
#!/usr/bin/python3 -I
import sys
sys.path.insert(0, "/usr/lib/azure-init")
from azureinit.apply.executor import apply_step
from azureinit.memory.journal import MemoryJournal
from azureinit.facts.dhcp_client import read_dhcp_client
from azureinit.machine import Machine
from azureinit.plan.publish import plan_publish
machine = Machine()
dhcp = read_dhcp_client(machine)
machine.set_hostname("{NAME}")
(step,) = plan_publish(hostname="{NAME}", dhcp=dhcp, renamed=True)
print("dhcp:", dhcp.client, dhcp.link, flush=True)
print("publishing:", step.why, flush=True)
print("done by:", apply_step(machine, step, journal=MemoryJournal(), deadline=float("inf")), flush=True)
"""


@pytest.fixture
def root(images: Images, tmp_path: Path) -> Iterator[Root]:
    yield Root(images, tmp_path)
    shutil.rmtree(tmp_path, ignore_errors=True)


def renamed(root: Root, *, suite: str = "trixie", start: str = "true", after: str = "") -> tuple[list[Lease], str]:
    """The leases that were asked for, and what the machine said of its link."""
    root.write("usr/bin/publish", PUBLISH, mode=0o755)
    root.unit("azure-init.service", SERVICE.format(start=start, after=after, look=LOOK))
    options = ("--stay", "--ledger", str(root.ledger), "--console", str(root.console))
    running = root.start(*options, suite=suite)
    try:
        until(lambda: "after: " in said(root) or running.poll() is not None, lambda: said(root))
    finally:
        running.send_signal(signal.SIGINT)
        complaints = running.communicate(timeout=60)[1]
    assert "after: " in said(root), complaints + said(root)
    leases = [event for event in root.events() if isinstance(event, Lease) and event.kind != "release"]
    return leases, said(root)


def said(root: Root) -> str:
    return root.console.read_text(errors="replace") if root.console.exists() else ""


def is_down(console: str) -> bool:
    return any("eth0" in line and ("state DOWN" in line or "NO-CARRIER" in line) for line in monitored(console))


def is_taken_away(console: str) -> bool:
    return any("Deleted" in line and f"inet {ADDRESS}" in line for line in monitored(console))


def monitored(console: str) -> list[str]:
    """Not what shutting down does."""
    return console.partition("publishing:")[2].partition("after: ")[0].splitlines()


@pytest.mark.parametrize(
    ("suite", "keeps"),
    [("bullseye", False), ("jammy", False), ("bookworm", False), ("noble", False), ("trixie", True)],
)
def test_networkd_asks_again_under_the_new_name_and_the_link_stays_up(root: Root, suite: str, keeps: bool) -> None:
    leases, console = renamed(root, suite=suite, after=ONLINE)
    assert "dhcp: systemd-networkd eth0" in console, console
    assert "done by: networkctl reload" in console
    assert leases[0].hostname != NAME
    assert (leases[-1].kind, leases[-1].hostname, leases[-1].address) == ("request", NAME, ADDRESS)
    assert not is_down(console)
    assert f"{ADDRESS}/24" in console.partition("after: ")[2].splitlines()[0]
    if keeps:  # older ones take the address away for a moment
        assert not is_taken_away(console)


@pytest.mark.parametrize("client", sorted(START))
def test_other_clients_ask_again_under_the_new_name_and_the_address_stays(root: Root, client: str) -> None:
    root.extra = CLIENTS
    (root.layer / "etc/systemd/system/multi-user.target.wants/systemd-networkd.service").unlink()
    if client != "NetworkManager":
        (root.layer / "etc/systemd/system/NetworkManager.service").symlink_to("/dev/null")
    root.write("etc/NetworkManager/system-connections/eth0.nmconnection", PROFILE, mode=0o600)
    leases, console = renamed(root, start=f"ip link set eth0 up; {START[client]}")
    assert f"dhcp: {client} eth0" in console, console
    assert leases[0].hostname != NAME
    assert (leases[-1].kind, leases[-1].hostname, leases[-1].address) == ("request", NAME, ADDRESS)
    assert not is_down(console)
    assert not is_taken_away(console)
    assert f"{ADDRESS}/24" in console.partition("after: ")[2].splitlines()[0]
