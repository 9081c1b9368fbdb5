"""Asks a DHCP server for the wireserver's address, for machines without a readable lease.

Sends only a DISCOVER: no address is accepted, and no link is changed.
"""

from __future__ import annotations

from azureinit.addresses import is_host_address
from azureinit.machine.dhcp import discover, parse_offer
from azureinit.machine.packets import new_transaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine
    from azureinit.machine.dhcp import Offer

PAUSES = (1.0, 2.0, 4.0)  # seconds to wait for an answer to each attempt


def ask_server(machine: Machine, *, link: str, mac: str, until: float) -> tuple[Offer | None, tuple[str, ...]]:
    """The first offer that names a wireserver, else the first offer; and what was wrong with others."""
    clock, card = machine.clock, bytes.fromhex(mac.replace(":", ""))
    started = clock.monotonic()
    transaction = new_transaction()
    without: Offer | None = None
    odd: dict[str, None] = {}
    with machine.broadcast(link) as wire:
        for pause in PAUSES:
            now = clock.monotonic()
            if now >= until:
                break
            wire.send(discover(mac=card, transaction=transaction, seconds=int(now - started)))
            end = min(until, now + pause)
            while (left := end - clock.monotonic()) > 0:
                content = clock.wait(wire.receive, left)
                offer = parse_offer(content, mac=card, transaction=transaction) if content else None
                if offer is None:
                    continue
                if offer.wireserver and is_host_address(offer.wireserver):
                    return offer, tuple(odd)
                if offer.wireserver is not None:
                    said = offer.wireserver or "not four bytes"
                    odd[f"option 245 in the offer of {offer.server or 'a server'} is no wireserver: {said}"] = None
                without = without or offer
            if without is not None:  # asking the same server again gives the same answer
                break
    return without, tuple(odd)
