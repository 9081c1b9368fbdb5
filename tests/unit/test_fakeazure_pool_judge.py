"""The judge on lives that begin in a pool: the honest ones, and each of the lies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakeazure.judge import judge
from fakeazure.platform.events import End, Event, Found, Lease, Login
from support.judged_events import asked, boot, failed, in_pool, progress, ready, reused, shown

DATA, INSTANCE = "/metadata/reprovisiondata", "/metadata/instance"
POOL = [in_pool(), ready(1)]
TAKEN = [reused(10), asked(DATA, t=11), asked(INSTANCE, t=11.1)]
HONEST = [*POOL, asked(DATA, status=404, t=5), *TAKEN, progress(11.5), ready(12)]


def test_a_life_has_two_ready_and_its_time_counts_from_the_reuse() -> None:
    judgement = judge(HONEST)
    assert judgement.complaints == () and (judgement.state, judgement.at) == ("ready", 2)


def test_a_failure_after_the_reuse_is_the_verdict() -> None:
    events = [*POOL, *TAKEN, failed(12)]
    assert judge(events).complaints == ("Ready was expected, but the platform was told of a failure",)
    assert judge([in_pool(verdict="failure"), *events[1:]]).ok


def test_waiting_in_the_pool_is_no_verdict() -> None:
    assert judge([in_pool(verdict="none"), ready(1), End(t=90_000, exit_code=None)]).ok
    waiting = judge([*POOL, End(t=90, exit_code=None)])
    assert waiting.complaints == ("Ready was expected, but the platform was told no verdict",)


def test_a_pool_that_cannot_be_entered_is_a_failure_of_the_vm() -> None:
    assert judge([in_pool(verdict="failure"), failed(1)]).ok
    assert judge([in_pool(), failed(1)]).state == "failed"


def test_an_os_disk_is_started_again_as_the_customers() -> None:
    kind = "PreprovisionedOSDisk"
    events = [in_pool(kind=kind), ready(1), reused(5, kind), End(t=6, exit_code=0), boot(2, t=7)]
    judgement = judge([*events, asked(INSTANCE, t=8), ready(9)])
    assert judgement.complaints == () and (judgement.boot, judgement.at) == (2, 2)
    assert judge(events).complaints == ("Ready was expected, but the platform was told no verdict",)


def test_a_reboot_in_the_pool_needs_no_second_ready() -> None:
    assert judge([*POOL, in_pool(2, t=7), asked(DATA, status=404, t=8), *TAKEN, ready(12)]).ok


def test_an_answer_that_was_lost_may_be_followed_by_ready_again() -> None:
    assert judge([in_pool(), ready(1, acknowledged=False), ready(3), *TAKEN, ready(12)]).ok


def test_a_power_cut_right_after_ready_may_be_followed_by_ready_again() -> None:
    assert judge([*POOL, in_pool(2, t=1.5), ready(3), *TAKEN, ready(12)]).ok


def end(t: float) -> End:
    return End(t=t, exit_code=0, of="machine")


def test_the_moment_of_a_power_cut_is_the_end_of_the_machine() -> None:
    """A loaded host starts it again much later."""
    assert judge([*POOL, end(1.5), in_pool(2, t=8), ready(9), *TAKEN, ready(12)]).ok
    late = judge([*POOL, end(6), in_pool(2, t=6.1), ready(9), *TAKEN, ready(12)])
    assert late.complaints == ("told Ready twice in the pool, the second time after 8.0 s",)


CUT = [*POOL, end(1.05), in_pool(2, t=2)]


def test_a_customer_may_take_the_vm_while_its_second_ready_is_on_its_way() -> None:
    """The platform cut the power at the first one, and has just said that the VM is in the pool."""
    judgement = judge([*CUT, asked(INSTANCE, t=9.9), reused(10), ready(10.1), *TAKEN[1:], progress(11.5), ready(12)])
    assert judgement.complaints == () and judgement.at == 2


LATE: list[tuple[list[Event], str]] = [
    ([*CUT, asked(INSTANCE, t=6), reused(10), ready(10.1)], "the metadata are seconds old"),
    ([*CUT, asked(INSTANCE, t=9.9), reused(10), asked(INSTANCE, t=10.05), ready(10.1)], "they say that it has left"),
    ([*CUT, reused(10), ready(10.1)], "they were not read"),
    ([*POOL, end(6), in_pool(2, t=7), asked(INSTANCE, t=9.9), reused(10), ready(10.1)], "the first was noted"),
    ([*POOL, asked(INSTANCE, t=9.9), reused(10), ready(10.1)], "the power did not fail"),
]


@pytest.mark.parametrize(("events", "why"), LATE, ids=[why for _, why in LATE])
def test_any_other_ready_after_that_is_a_lie(events: list[Event], why: str) -> None:
    judgement = judge([*events, *TAKEN[1:], ready(12)])
    assert "told Ready without the customer's data" in judgement.complaints, why
    assert any("told Ready twice in one boot" in text for text in judgement.complaints)


def login(t: float, *, ok: bool, of_pool: bool = False, user: str = "ada") -> Login:
    return Login(t=t, how="key", user=user, ok=ok, of_pool=of_pool)


def lease(t: float, hostname: str) -> Lease:
    return Lease(t=t, kind="request", mac="00:0d:3a:00:00:01", address="10.0.0.4", hostname=hostname)


EARLY = "while it was in the pool"
LIES: list[tuple[list[Event], str]] = [
    ([*POOL, ready(3), *TAKEN, ready(12)], "told Ready twice in the pool, the second time after 2.0 s"),
    ([*POOL, in_pool(2, t=5), ready(6), *TAKEN, ready(12)],
     "told Ready twice in the pool, the second time after 5.0 s"),
    ([in_pool(), *TAKEN, ready(12)], "was taken from the pool, and had not told Ready there"),
    ([in_pool(), failed(1), *TAKEN, ready(12)], "told a failure in the pool"),
    ([*POOL, login(5, ok=True, user="pooladmin", of_pool=True), *TAKEN, ready(12)], f"let pooladmin in {EARLY}"),
    ([*POOL, login(5, ok=True), *TAKEN, ready(12)], f"let ada in {EARLY}"),
    ([*POOL, lease(5, "pool-vm"), *TAKEN, ready(12)],
     f"sent the host name 'pool-vm' {EARLY}: the name of the pool's VM"),
    ([*POOL, Found(t=5, what="/home/ada", in_pool=True), *TAKEN, ready(12)],
     "provisioned before a customer had it: /home/ada"),
    ([*POOL, reused(10), asked(INSTANCE, t=11), ready(12)], "told Ready without the customer's data"),
    ([*POOL, asked(INSTANCE, t=9), reused(10), asked(DATA, t=11), ready(12)],
     "told Ready with metadata that are older than the reuse"),
    ([*POOL, reused(10), asked(INSTANCE, t=10.5), asked(DATA, t=11), ready(12)],
     "told Ready with metadata that are older than the reuse"),
    ([*HONEST, login(13, ok=True, user="pooladmin", of_pool=True)], "lets pooladmin in, the user of the pool's VM"),
    ([*POOL, *TAKEN, lease(11.2, "pool-vm"), ready(12)], "sends the host name 'pool-vm', of the pool's VM"),
    ([*HONEST, Found(t=13, what="/home/pooladmin", in_pool=False)], "kept of the pool's VM: /home/pooladmin"),
    ([*POOL, asked(DATA, status=404, t=5), asked(DATA, status=404, t=5.5), *TAKEN, ready(12)],
     "asked for reprovisiondata 0.500 s after 404: less than a second"),
    ([*POOL, reused(10), asked(DATA, t=11, size=0), asked(DATA, t=11.01), asked(INSTANCE, t=11.1), ready(12)],
     "asked for reprovisiondata 0.010 s after 200: less than a second"),
    ([*POOL, *TAKEN, ready(12), ready(13)], "told Ready twice in one boot"),
    ([*POOL, *TAKEN, ready(12), login(13, ok=False)], "told Ready, and then a login as ada with the key was refused"),
]  # fmt: skip


@pytest.mark.parametrize(("events", "says"), LIES, ids=[str(n) for n in range(len(LIES))])
def test_each_lie_of_such_a_life_is_found(events: list[Event], says: str) -> None:
    judgement = judge(events)
    whole = "\n".join(judgement.complaints)
    assert judgement.state == "lied" and says in whole, whole
    assert says in shown(judgement)


def test_a_refused_login_of_the_pools_user_is_right() -> None:
    assert judge([*HONEST, login(13, ok=True), login(14, ok=False, user="pooladmin", of_pool=True)]).ok


def test_polls_of_two_boots_are_not_compared() -> None:
    events = [*POOL, asked(DATA, status=404, t=5), in_pool(2, t=5.1), asked(DATA, status=404, t=5.3), *TAKEN, ready(12)]
    assert judge(events).ok
    assert not judge([replace(one) for one in events if one is not events[3]]).ok
