"""Which of IMDS's answers counts, where IMDS is asked again and again. Pure.

What an answer adds counts at once. What it lacks counts when the next answer is equal, and never in an answer with an
entry that could not be used. After a start, the answer that the machine was configured for is not known: if the first
one leads to any change, it counts when the second is equal.
"""

from __future__ import annotations

from azureinit.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.nics import Nics
    from azureinit.sources.network_metadata import NetworkMetadata, Nic


class Seen(Record):
    """`settled`: the answer that the machine is configured for. `last`: the one before the present one."""

    settled: NetworkMetadata | None = None
    last: NetworkMetadata | None = None


class Due(Record):
    """What to plan for. `tentative`: a plan that changes anything waits for an equal answer."""

    answer: NetworkMetadata
    confirmed: bool = False
    tentative: bool = False


def due(seen: Seen, answer: NetworkMetadata) -> Due | None:
    """None: everything stays as it is until the next answer."""
    if not answer.nics:
        return None
    twice = seen.last is not None and is_same(seen.last, answer)
    if twice and not answer.warnings:
        return Due(answer=answer, confirmed=True)
    if seen.settled is None:
        return Due(answer=answer, tentative=not twice)
    both = _joined(seen.settled, answer)
    return None if both is None else Due(answer=both)


def is_same(one: NetworkMetadata, other: NetworkMetadata) -> bool:
    """NICs in any order: IMDS keeps none."""
    return _ordered(one) == _ordered(other)


def _ordered(answer: NetworkMetadata) -> tuple[Nic, ...]:
    return tuple(sorted(answer.nics, key=lambda nic: nic.mac))


def _joined(old: NetworkMetadata, new: NetworkMetadata) -> NetworkMetadata | None:
    """The new answer with the NICs and secondary addresses that only the old one has.

    None where more has changed than that: another first address or subnet, or an address at another NIC.
    """
    before, now = ({nic.mac: nic for nic in answer.nics} for answer in (old, new))
    made = []
    for mac in (*now, *(mac for mac in before if mac not in now)):
        here, there = now.get(mac), before.get(mac)
        nic = here if there is None else there if here is None else _both(there, here)
        if nic is None:
            return None
        made.append(nic)
    addresses = [address for nic in made for address in (*nic.ipv4, *nic.ipv6)]
    return replace(new, nics=tuple(made)) if len(addresses) == len(set(addresses)) else None


def _both(old: Nic, new: Nic) -> Nic | None:
    firsts_differ = old.ipv4[:1] != new.ipv4[:1] or (old.ipv6 and old.ipv6[:1] != new.ipv6[:1])
    if firsts_differ or (old.subnet and old.subnet != new.subnet):
        return None
    return replace(new, ipv4=_union(old.ipv4, new.ipv4), ipv6=_union(old.ipv6, new.ipv6))


def _union(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    """The first address is the same in both, if both have one."""
    first = old[:1] or new[:1]
    return (*first, *sorted({*old, *new} - {*first}))


def nics_in_brief(nics: Nics) -> tuple[object, ...]:
    """What a plan depends on besides the answer. Addresses and files do not count: what an administrator changes while
    IMDS's answer stays the same is not changed back."""
    each = ((nic.link, nic.holder, nic.leased, nic.to_platform, nic.router) for nic in nics.nics)
    return (*each, nics.problems, nics.cloud_netconfig, nics.tools)
