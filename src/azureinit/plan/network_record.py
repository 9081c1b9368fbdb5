"""What a plan for the network is made from, and the record of what azure-init configured. Pure."""

from __future__ import annotations

from azureinit.memory.network import NetworkRecord, encode_record
from azureinit.plan.actions import Remove, Step, Way, Write
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from azureinit.config.model import Network
    from azureinit.facts.nics import NicFacts, Nics
    from azureinit.memory.network import Kept
    from azureinit.plan.actions import Action, Item
    from azureinit.plan.network_layout import Layout
    from azureinit.sources.network_metadata import NetworkMetadata

RECORD = "network record"  # the name of the steps that write the record


class Asked(Record):
    """Everything that a plan for the network is made from. `confirmed`: two answers of IMDS are equal."""

    answer: NetworkMetadata
    nics: Nics
    config: Network
    kept: Kept
    confirmed: bool = False


class Placed(Record):
    """A layout, the NIC that it is for, and the manager that is to have it."""

    layout: Layout
    nic: NicFacts
    manager: str


def known_addresses(asked: Asked) -> dict[str, set[str]]:
    """The addresses that IMDS lists, by MAC address."""
    return {nic.mac: {*nic.ipv4, *nic.ipv6} for nic in asked.answer.nics}


def _recorded(asked: Asked, placed: Sequence[Placed], *, after: bool) -> NetworkRecord:
    """`after`: when everything is done; else before, with what may still be there."""
    old, known = asked.kept.record, known_addresses(asked)
    files = {mac: set(each) for mac, each in old.files.items() if not after or is_kept(asked, mac)}
    for one in placed:
        files[one.layout.mac] = files.get(one.layout.mac, set()) | known[one.layout.mac]
    addresses = {mac: set(each) for mac, each in old.addresses.items()}
    for one in placed:
        if asked.nics.live:
            wanted = {*one.layout.secondary, *one.layout.secondary6}
            new = wanted - {*one.nic.addresses}
            own = addresses.get(one.layout.mac, set())
            addresses[one.layout.mac] = own | new
    if after:
        files, addresses = (
            {mac: each & known.get(mac, set()) for mac, each in one.items()} for one in (files, addresses)
        )
    return NetworkRecord(files=_sorted(files), addresses=_sorted(addresses))


def _sorted(lists: Mapping[str, set[str]]) -> dict[str, tuple[str, ...]]:
    return {mac: tuple(sorted(each)) for mac, each in lists.items() if each}


def is_kept(asked: Asked, mac: str) -> bool:
    """IMDS lists a NIC whose link is not here at this boot, or a part is switched off: what it has stays."""
    off = not (asked.config.secondary_nics and asked.config.secondary_addresses)
    here = {nic.link.mac for nic in asked.nics.nics}
    return (off or mac not in here) and mac in {nic.mac for nic in asked.answer.nics}


def plan_record(asked: Asked, placed: Sequence[Placed]) -> Iterator[Item]:
    """The first step, so that whatever an interrupted run made is known to the next one."""
    record = _recorded(asked, placed, after=False)
    data = encode_record(record)
    if asked.kept.path and record != NetworkRecord() and data != asked.kept.data:
        why = "what azure-init configures here, and may remove again"
        write = Write(path=asked.kept.path, data=data, mode=0o600, was=asked.kept.data)
        yield step_of(RECORD, why, write, did="recorded which NICs and addresses azure-init configures")


def plan_record_after(asked: Asked, placed: Sequence[Placed]) -> Iterator[Item]:
    """The last step: the record loses what was removed."""
    before, after = _recorded(asked, placed, after=False), _recorded(asked, placed, after=True)
    if not asked.kept.path or before == after:
        return
    if after == NetworkRecord():
        why = "nothing that azure-init configured is left"
        did = f"removed the record of the network: {why}"
        yield step_of(RECORD, why, Remove(path=asked.kept.path), did=did)
    else:
        write = Write(path=asked.kept.path, data=encode_record(after), mode=0o600)
        yield step_of(RECORD, "the rest is gone", write, did="recorded what is left of the network configuration")


def step_of(name: str, why: str, *actions: Action, did: str) -> Step:
    return Step(name=name, why=why, did=did, ways=(Way(backend="native", actions=actions),))
