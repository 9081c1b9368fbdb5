"""What a machine in a pool does next: poll for the customer's data, wait, or have the network configured again. Pure.

A Pool is what is known; `seen`, `lost`, `blocked`, `answered` and `reconfigured` make the next one, `next_of` decides.
While nothing happens, the data are asked for every minute, so that a missed announcement does not lose the machine.
The link's way down and up again, or its exchange for another, begins FAST_SECS of polling every second: so does an
IMDS that stops answering, since the network may have moved unannounced. No two requests are closer than a second.
"""

from __future__ import annotations

from azureinit.record import Record, replace

WAITING, MOVED = "waiting", "moved"
POLL, WAIT, RECONFIGURE = "poll", "wait", "reconfigure"
SLOW_SECS, FAST_SECS = 60.0, 600.0
PAUSE_SECS = 1.0  # between requests, at least
LEASE_SECS = 10.0  # without an answer after a move, before the network's manager is asked to configure the link again
AGAIN_SECS = 3600.0  # still without an answer: asked once more, since a later move may have been missed
NEVER = float("inf")
DOWN = ("down", "lowerlayerdown", "notpresent")


class Nic(Record):
    """`kind`: as in a Link; empty for a real card."""

    index: int
    mac: str
    kind: str = ""


class Seen(Record):
    """One announcement about a link. `card`: it is a link to the outside, not a virtual function or a bridge."""

    index: int
    mac: str
    card: bool
    state: str = ""  # operational state
    gone: bool = False


class Pool(Record):
    nic: Nic | None
    phase: str = WAITING
    since: float = 0.0  # when the phase began
    down: bool = False  # the link has gone down and not come up yet
    gone: bool = False  # the link was removed, and no other has come yet
    heard: bool = True  # IMDS has answered since the phase began
    ask_manager: float = NEVER  # when the network's manager is asked, if IMDS has not answered by then
    next_poll: float = 0.0
    not_before: float = 0.0  # of the next request
    polls: int = 0
    slow_secs: float = SLOW_SECS


class Next(Record):
    do: str
    until: float = 0.0  # of WAIT


def begin(
    nic: Nic | None, *, now: float, recovered: bool = False, pause: float = 0.0, slow_secs: float = SLOW_SECS
) -> Pool:
    """`recovered`: an earlier run has reported Ready, and the customer's data may be there; asked for after `pause`."""
    slow = max(slow_secs, PAUSE_SECS)
    if recovered:
        return _moved(Pool(nic=nic, slow_secs=slow, not_before=now + pause), now=now)
    return Pool(nic=nic, since=now, next_poll=now + slow, not_before=now, slow_secs=slow)


def next_of(pool: Pool, *, now: float) -> Next:
    if now >= pool.next_poll:
        return Next(do=POLL)
    if now >= pool.ask_manager:
        return Next(do=RECONFIGURE)
    return Next(do=WAIT, until=min(pool.next_poll, pool.ask_manager))


def seen(pool: Pool, link: Seen, *, now: float) -> Pool:
    nic = pool.nic
    ours = nic is not None and link.index == nic.index and (link.mac == nic.mac or not (link.mac and nic.mac))
    if link.gone:
        return replace(pool, gone=True, down=False) if ours else pool
    if not link.card:
        return pool
    if pool.gone or nic is None or (not ours and pool.phase == MOVED):
        # Another card, or the same one again; the first that comes may be a secondary one, and then another follows.
        kind = nic.kind if nic is not None else ""
        return _moved(replace(pool, nic=Nic(index=link.index, mac=link.mac, kind=kind)), now=now)
    if not ours:
        return pool
    if link.state in DOWN:
        return replace(pool, down=True)
    if link.state == "up" and pool.down:
        return _moved(pool, now=now)
    return pool


def lost(pool: Pool, links: tuple[Seen, ...], *, now: float) -> Pool:
    """Announcements were lost, and these links are there: the machine may have moved."""
    present = [link for link in links if link.card]
    nic = pool.nic
    if nic is not None and any(link.index == nic.index and link.mac == nic.mac for link in present):
        return _moved(pool, now=now)
    if not present:
        return replace(pool, gone=nic is not None)
    kind = nic.kind if nic is not None else ""
    return _moved(replace(pool, nic=Nic(index=present[0].index, mac=present[0].mac, kind=kind)), now=now)


def routed(pool: Pool) -> Pool:
    """The routes have changed: a request that waited for one is due."""
    return pool if pool.phase == WAITING else replace(pool, next_poll=max(pool.not_before, pool.since))


def blocked(pool: Pool, *, now: float) -> Pool:
    """There is no route to IMDS, and so no request was sent. A changed route makes it due."""
    pool = _moved(pool, now=now) if pool.phase == WAITING else pool
    fast = now < pool.since + FAST_SECS
    return replace(pool, next_poll=now + (PAUSE_SECS if fast else pool.slow_secs))


def answered(pool: Pool, *, heard: bool, pause: float, now: float) -> Pool:
    """A request has ended, with any answer or with none."""
    pool = replace(pool, polls=pool.polls + 1)
    if not heard and pool.heard:
        pool = _moved(pool, now=now)  # the network has gone, and nothing announced it
    fast = pool.phase == MOVED and now < pool.since + FAST_SECS
    wait = max(pause, PAUSE_SECS)
    pool = replace(pool, heard=pool.heard or heard, not_before=now + wait)
    if heard:
        pool = replace(pool, ask_manager=NEVER)
    if not fast:
        pool = replace(pool, phase=WAITING)
    return replace(pool, next_poll=now + (wait if fast else max(wait, pool.slow_secs)))


def reconfigured(pool: Pool, *, now: float) -> Pool:
    return replace(pool, ask_manager=now + AGAIN_SECS)


def _moved(pool: Pool, *, now: float) -> Pool:
    return replace(
        pool,
        phase=MOVED,
        since=now,
        down=False,
        gone=False,
        heard=False,
        ask_manager=now + LEASE_SECS,
        next_poll=max(now, pool.not_before),
    )
