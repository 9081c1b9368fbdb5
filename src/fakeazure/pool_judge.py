"""The judge's rules for a VM from a pool: one Ready in the pool, and nothing of one owner for another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from fakeazure.platform.events import Boot, End, Event, Found, Lease, Login, Request, Reused, Told

REPROVISION, INSTANCE = "/metadata/reprovisiondata", "/metadata/instance"
OS_DISK = "PreprovisionedOSDisk"
LEAST_PAUSE_SECS = 0.95  # a second, less what two time stamps may differ
CUT_SECS = 2.0  # a machine whose power fails so soon after Ready may not have noted that it reported it
ASKED_SECS = 1.0  # an answer of the metadata may be so old when the machine acts on it


def in_order(events: Sequence[Event]) -> list[Event]:
    """The events, where a Ready of the pool that was on its way while a customer took the VM comes before that.

    Only after a power cut at an earlier Ready, and only if the metadata said a moment ago that the VM was in the pool:
    no machine can know more.
    """
    found = list(events)
    start = next((n for n, one in enumerate(found) if isinstance(one, Reused)), len(found))
    late = next((n for n in range(start, len(found)) if is_ready(found[n])), None)
    boot = max((n for n, one in enumerate(found[:late]) if isinstance(one, Boot)), default=0)
    earlier = [one for one in found[:boot] if isinstance(one, Told) and is_ready(one)]
    if late is None or boot > start or not earlier or not power_failed(found, earlier[-1]):
        return found
    asked = [n for n in range(boot, late) if isinstance(one := found[n], Request) and one.path == INSTANCE]
    if asked and asked[-1] < start and found[late].t - found[asked[-1]].t < ASKED_SECS:
        found.insert(start, found.pop(late))
    return found


def is_ready(event: Event) -> bool:
    return isinstance(event, Told) and event.kind == "ready"


def final_verdicts(events: Iterable[Event]) -> list[Told]:
    """All verdicts but Ready in the pool, after which the machine waits for its customer."""
    found, in_pool = [], False
    for event in events:
        if isinstance(event, Boot):
            in_pool = bool(event.pool)
        elif isinstance(event, Reused):
            in_pool = False
        elif isinstance(event, Told) and event.kind != "progress" and not (in_pool and event.kind == "ready"):
            found.append(event)
    return found


def by_owner(boot: Boot, events: Sequence[Event]) -> tuple[list[Event], list[Event], float]:
    """The events of one boot in the pool and with the customer, and when the second part began.

    A failure in the pool of a VM that no customer took is the verdict about the VM.
    """
    if not boot.pool:
        return [], list(events), boot.t
    for n, event in enumerate(events):
        if isinstance(event, Reused):
            # An OS disk is still in its pool until the host has shut the VM down.
            return (
                (list(events), [], event.t)
                if event.pps_type == OS_DISK
                else (list(events[:n]), list(events[n + 1 :]), event.t)
            )
    mine = [one for one in events if not (isinstance(one, Told) and one.kind != "failed")]
    return list(events), mine, boot.t


def pool_lies(events: Sequence[Event]) -> list[str]:
    """What is wrong with a whole life, from the pool to the customer."""
    boots = [event for event in events if isinstance(event, Boot)]
    if not boots or not boots[0].pool:
        return []
    reused = next((event for event in events if isinstance(event, Reused)), None)
    start = len(events) if reused is None else events.index(reused)
    before, after = events[:start], events[start:]
    lies = [*pool_verdicts(before, taken=reused is not None), *provisioned_early(before), *tight_polls(events)]
    return [*lies, *customers_data(after, reused), *kept_of_the_pool(boots[0], after)] if reused else lies


def pool_verdicts(events: Sequence[Event], *, taken: bool) -> Iterator[str]:
    told = [event for event in events if isinstance(event, Told) and event.kind != "progress"]
    ready = [one for one in told if one.kind == "ready"]
    if taken and not ready:
        yield "was taken from the pool, and had not told Ready there"
    if taken and len(ready) < len(told):
        yield "told a failure in the pool"
    for one, other in pairwise(ready):
        if one.acknowledged and not power_failed(events, one):
            yield f"told Ready twice in the pool, the second time after {other.t - one.t:.1f} s"


def power_failed(events: Sequence[Event], ready: Told) -> bool:
    """Whether the machine ended soon after this Ready. A ledger without its end has only the next start."""
    ends = (one.t for one in events[events.index(ready) :] if isinstance(one, Boot | End))
    return next(ends, float("inf")) - ready.t < CUT_SECS


def provisioned_early(events: Iterable[Event]) -> Iterator[str]:
    """Whatever is provisioned in the pool is not of the customer's data."""
    pool: Boot | None = None
    for event in events:
        if isinstance(event, Boot):
            pool = event
        elif isinstance(event, Login) and event.ok:
            yield f"let {event.user} in while it was in the pool"
        elif isinstance(event, Lease) and pool and event.hostname == pool.pool.get("name"):
            yield f"sent the host name {event.hostname!r} while it was in the pool: the name of the pool's VM"
        elif isinstance(event, Found):
            yield f"provisioned before a customer had it: {event.what}"


def tight_polls(events: Sequence[Event]) -> Iterator[str]:
    asked: list[Request] = []
    for event in events:
        if isinstance(event, Boot):
            asked = []
        elif isinstance(event, Request) and event.path == REPROVISION:
            asked.append(event)
            if len(asked) > 1 and not has_body(asked[-2]) and event.t - asked[-2].t < LEAST_PAUSE_SECS:
                got = asked[-2].status or "no answer"
                yield f"asked for reprovisiondata {event.t - asked[-2].t:.3f} s after {got}: less than a second"
                return


def has_body(answer: Request) -> bool:
    return answer.status == 200 and answer.size > 0


def customers_data(events: Sequence[Event], reused: Reused) -> Iterator[str]:
    """Ready of the customer's VM rests on what the platform says after the reuse."""
    ready = next((n for n, one in enumerate(events) if isinstance(one, Told) and one.kind == "ready"), None)
    if ready is None:
        return
    asked = [one for one in events[:ready] if isinstance(one, Request)]
    data = [n for n, one in enumerate(asked) if one.path == REPROVISION and has_body(one)]
    if reused.pps_type != OS_DISK and not data:
        yield "told Ready without the customer's data"
    elif not any(one.path == INSTANCE for one in asked[data[0] if data else 0 :]):
        yield "told Ready with metadata that are older than the reuse"


def kept_of_the_pool(boot: Boot, events: Iterable[Event]) -> Iterator[str]:
    for event in events:
        if isinstance(event, Login) and event.ok and event.of_pool:
            yield f"lets {event.user} in, the user of the pool's VM"
        elif isinstance(event, Lease) and event.hostname == boot.pool.get("name"):
            yield f"sends the host name {event.hostname!r}, of the pool's VM"
        elif isinstance(event, Found) and not event.in_pool:
            yield f"kept of the pool's VM: {event.what}"
