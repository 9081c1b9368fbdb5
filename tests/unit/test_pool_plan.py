"""The decisions of a machine in a pool, as events come."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from azureinit.plan.pool import (
    AGAIN_SECS,
    FAST_SECS,
    LEASE_SECS,
    MOVED,
    POLL,
    RECONFIGURE,
    WAIT,
    WAITING,
    Nic,
    Pool,
    Seen,
    answered,
    begin,
    blocked,
    lost,
    next_of,
    reconfigured,
    routed,
    seen,
)
from support.bounds import bounded

NIC = Nic(index=2, mac="00:0d:3a:12:34:56")
VF = Seen(index=3, mac=NIC.mac, card=False, state="up")


def link(state: str, *, index: int = 2, mac: str = NIC.mac, card: bool = True, gone: bool = False) -> Seen:
    return Seen(index=index, mac=mac, card=card, state=state, gone=gone)


def after(pool: Pool, *links: Seen, now: float = 5.0) -> Pool:
    for one in links:
        pool = seen(pool, one, now=now)
    return pool


def test_a_link_that_goes_down_and_up_has_moved() -> None:
    """P7."""
    pool = after(begin(NIC, now=0.0), link("down"), link("up"), now=5.0)
    assert pool.phase == MOVED and next_of(pool, now=5.0).do == POLL


def test_a_link_that_only_comes_up_has_not_moved() -> None:
    assert after(begin(NIC, now=0.0), link("up"), link("up")).phase == WAITING


def test_a_link_is_known_by_index_and_mac_under_any_name() -> None:
    """P9."""
    other = after(begin(NIC, now=0.0), link("down", index=7), link("up", index=7))
    assert other.phase == WAITING
    assert after(begin(NIC, now=0.0), link("down", mac="aa:bb"), link("up", mac="aa:bb")).phase == WAITING


def test_a_link_that_is_removed_and_comes_again_has_moved() -> None:
    """P20."""
    pool = after(begin(NIC, now=0.0), link("down"), link("down", gone=True))
    assert pool.gone and pool.phase == WAITING
    pool = after(pool, link("down", index=9, mac="00:0d:3a:aa:bb:cc"))
    assert pool.phase == MOVED and pool.nic == Nic(index=9, mac="00:0d:3a:aa:bb:cc")


def test_a_vf_that_leaves_first_is_not_the_link() -> None:
    """P16."""
    gone = Seen(index=3, mac=NIC.mac, card=False, gone=True)
    pool = after(begin(NIC, now=0.0), gone, link("down"))
    assert pool.phase == WAITING and not pool.gone
    assert after(pool, link("down", gone=True), VF).phase == WAITING
    assert after(pool, link("down", gone=True), VF, link("up", index=4)).phase == MOVED


def test_a_bridge_that_appears_is_not_the_link() -> None:
    """P18."""
    pool = after(begin(NIC, now=0.0), link("down", gone=True), link("up", index=8, card=False))
    assert pool.phase == WAITING and pool.gone


def test_after_a_secondary_link_the_primary_one_begins_anew() -> None:
    """P17."""
    pool = after(begin(NIC, now=0.0), link("down", gone=True), link("up", index=8), now=5.0)
    pool = answered(pool, heard=False, pause=1.0, now=6.0)
    again = after(pool, link("up", index=9), now=7.0)
    assert again.nic == Nic(index=9, mac=NIC.mac) and again.since == 7.0 and again.ask_manager == 7.0 + LEASE_SECS


def test_without_an_announcement_the_data_are_asked_for_every_minute() -> None:
    """P8."""
    pool = begin(NIC, now=0.0)
    assert next_of(pool, now=59.0) == next_of(pool, now=1.0)
    assert next_of(pool, now=60.0).do == POLL
    pool = answered(pool, heard=True, pause=1.0, now=60.1)
    assert next_of(pool, now=61.0).until == 120.1


def test_after_a_move_the_data_are_asked_for_every_second_and_later_every_minute() -> None:
    now = 5.0
    pool = after(begin(NIC, now=0.0), link("down"), link("up"), now=now)
    while now < 5.0 + FAST_SECS:
        assert next_of(pool, now=now).do == POLL
        pool = answered(pool, heard=True, pause=1.0, now=now)
        assert next_of(pool, now=now).until == now + 1.0
        now += 1.0
    assert answered(pool, heard=True, pause=1.0, now=now).phase == WAITING


def test_the_manager_is_asked_once_after_ten_seconds_without_an_answer() -> None:
    pool = after(begin(NIC, now=0.0), link("down"), link("up"), now=0.0)
    pool = blocked(pool, now=0.0)
    assert next_of(pool, now=0.5).do == WAIT
    pool = blocked(pool, now=LEASE_SECS)
    assert next_of(pool, now=LEASE_SECS + 0.1).do == RECONFIGURE
    pool = reconfigured(pool, now=LEASE_SECS + 0.1)
    assert next_of(pool, now=LEASE_SECS + 0.1).do == WAIT
    heard = answered(after(begin(NIC, now=0.0), link("down"), link("up"), now=0.0), heard=True, pause=9.5, now=1.0)
    assert next_of(heard, now=LEASE_SECS + 0.1).do == WAIT


def test_while_imds_stays_silent_the_manager_is_asked_again_every_hour() -> None:
    """A move after the first silence, which nothing announced, would leave the link with the pool's lease for ever."""
    now, asked = 60.0, list[float]()
    pool = answered(begin(NIC, now=0.0), heard=False, pause=1.0, now=now)
    while now < 60.0 + 2.5 * AGAIN_SECS:
        do = next_of(pool, now=now)
        if do.do == POLL:
            pool = answered(pool, heard=False, pause=1.0, now=now)
        elif do.do == RECONFIGURE:
            asked.append(now)
            pool = reconfigured(pool, now=now)
        else:
            now = do.until
    assert asked == [60.0 + LEASE_SECS + n * AGAIN_SECS for n in range(3)]
    heard = answered(pool, heard=True, pause=1.0, now=now)
    assert next_of(heard, now=now).until == now + heard.slow_secs


def test_an_imds_that_falls_silent_is_a_move_that_nothing_announced() -> None:
    pool = answered(begin(NIC, now=0.0), heard=False, pause=1.0, now=60.0)
    assert pool.phase == MOVED and not pool.heard
    slow = answered(pool, heard=False, pause=1.0, now=60.0 + FAST_SECS)
    assert slow.phase == WAITING
    assert answered(slow, heard=False, pause=1.0, now=800.0).phase == WAITING


def test_a_new_route_makes_a_blocked_request_due() -> None:
    pool = blocked(after(begin(NIC, now=0.0), link("down"), link("up"), now=5.0), now=5.0)
    assert next_of(pool, now=5.1).do == WAIT
    assert next_of(routed(pool), now=5.1).do == POLL
    assert routed(begin(NIC, now=0.0)) == begin(NIC, now=0.0)


def test_lost_announcements_count_as_a_move() -> None:
    """P36."""
    assert lost(begin(NIC, now=0.0), (link("up"),), now=3.0).phase == MOVED
    assert lost(begin(NIC, now=0.0), (), now=3.0).gone
    found = lost(begin(NIC, now=0.0), (link("up", index=5), link("up", index=6, card=False)), now=3.0)
    assert found.phase == MOVED and found.nic is not None and found.nic.index == 5


def test_a_run_that_continues_asks_at_once_or_after_its_pause() -> None:
    """P5, P22."""
    assert next_of(begin(NIC, now=3.0, recovered=True), now=3.0).do == POLL
    assert next_of(begin(NIC, now=3.0, recovered=True, pause=1.0), now=3.5).do == WAIT


# ---- any sequence of events

STATES = st.sampled_from(["up", "down", "lowerlayerdown", "unknown", "dormant", ""])
LINKS = st.builds(
    Seen,
    index=st.integers(1, 4),
    mac=st.sampled_from([NIC.mac, "00:0d:3a:aa:bb:cc", ""]),
    card=st.booleans(),
    state=STATES,
    gone=st.booleans(),
)
EVENTS = st.one_of(
    LINKS,
    st.just("route"),
    st.tuples(st.just("lost"), st.lists(LINKS, max_size=3).map(tuple)),
    st.tuples(st.just("time"), st.floats(0.0, 90.0)),
)


@settings(max_examples=bounded(300, 5000), deadline=None)
@given(
    events=st.lists(EVENTS, max_size=60),
    answers=st.lists(st.tuples(st.booleans(), st.booleans(), st.floats(0.0, 100.0)), min_size=1, max_size=20),
    recovered=st.booleans(),
)
def test_in_any_sequence_requests_keep_their_pause_and_never_end(
    events: list[object], answers: list[tuple[bool, bool, float]], recovered: bool
) -> None:
    """Between two requests there is a second at least, and two minutes at most; a Retry-After is kept."""
    now, pool = 0.0, begin(NIC, now=0.0, recovered=recovered)
    requests: list[float] = []
    earliest, manager, given_answers = 0.0, 0, 0
    for event in [*events, ("time", 90.0), ("time", 90.0)]:
        for _ in range(300):  # everything that is due now
            do = next_of(pool, now=now)
            if do.do == WAIT:
                break
            if do.do == RECONFIGURE:
                manager += 1
                pool = reconfigured(pool, now=now)
                continue
            has_route, heard, pause = answers[given_answers % len(answers)]
            given_answers += 1
            if not has_route:
                pool = blocked(pool, now=now)
                continue
            assert now >= earliest
            requests.append(now)
            pool = answered(pool, heard=heard, pause=min(pause, 60.0), now=now)
            earliest = now + max(1.0, min(pause, 60.0))
        else:
            raise AssertionError("it never waits")
        assert do.until > now
        if isinstance(event, Seen):
            pool = seen(pool, event, now=now)
        elif event == "route":
            pool = routed(pool)
        elif isinstance(event, tuple) and event[0] == "lost":
            pool = lost(pool, event[1], now=now)
        elif isinstance(event, tuple):
            now = min(now + event[1], do.until)
        assert next_of(pool, now=now).do != WAIT or next_of(pool, now=now).until <= now + 60.0
    assert manager <= len(events) + given_answers + 2


@settings(max_examples=bounded(300, 5000), deadline=None)
@given(before=st.lists(LINKS, max_size=30))
def test_after_any_events_a_move_of_the_link_is_noticed(before: list[Seen]) -> None:
    pool = after(begin(NIC, now=0.0), *before, now=1.0)
    nic = pool.nic
    assert nic is not None
    if not pool.gone:
        down = link("down", index=nic.index, mac=nic.mac)
        up = link("up", index=nic.index, mac=nic.mac)
        moved = after(pool, down, up, now=50.0)
        assert moved.phase == MOVED and moved.since == 50.0
    gone = after(pool, link("down", index=nic.index, mac=nic.mac, gone=True), now=60.0)
    moved = after(gone, link("down", index=77, mac="00:0d:3a:99:99:99"), now=61.0)
    assert moved.phase == MOVED and moved.since == 61.0 and moved.nic is not None and moved.nic.index == 77
