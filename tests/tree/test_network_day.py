"""Hours of the service that follows the network, on a clock that the test moves, against a real HTTP server: how often
IMDS is asked, and how many lines are logged."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from azureinit.errors import LocalError
from azureinit.machine.link_events import CHANGED, Change
from azureinit.run.network_watch import LONGEST, Watcher
from support.bounds import bounded
from support.followed_network import Followed, lines, watcher_of
from support.several_nics import A, B, entry, network
from support.wire import Server, answer, unused_url

DAY = 3600.0 * bounded(4, 24)  # CI takes a shorter one
MOST = DAY / 45 + 10  # requests: the shortest interval, and those after a start
FINE = answer(body=json.dumps(network(entry(A, "10.0.0.4", "10.0.0.5"))).encode())


class Kernel:
    """Announces something every `period` seconds, after `change` was called; time passes while it is waited for."""

    def __init__(self, machine: Followed, *, period: float = DAY, change: Callable[[], None] = lambda: None) -> None:
        self.machine, self.period, self.change = machine, period, change
        self.next = machine.time.at + period

    def wait(self, seconds: float) -> tuple[Change, ...]:
        clock = self.machine.time
        clock.at = max(clock.at, min(clock.at + max(seconds, 0.001), self.next))
        if clock.at < self.next:
            return ()
        self.next = clock.at + self.period
        self.change()
        return (Change(kind=CHANGED),)


def live(watcher: Watcher, kernel: Any, seconds: float = DAY) -> None:
    clock = watcher.machine.clock
    ends = clock.monotonic() + seconds
    while clock.monotonic() < ends:
        watcher.wait(kernel, watcher.look())


def test_equal_answers_cost_a_request_a_minute_and_no_line(tmp_path: Path) -> None:
    machine = Followed(tmp_path, A)
    with Server(FINE) as server:
        watcher = watcher_of(machine, endpoint=server.url)
        live(watcher, Kernel(machine), 300)
        told, done, asked = len(lines(watcher)), machine.effects, len(server.requests)
        assert machine.held(A) == {"10.0.0.5"}
        began = time.thread_time()
        live(watcher, Kernel(machine))
        spent = time.thread_time() - began
        print(f"CPU of {DAY / 3600:.0f} hours: {spent:.1f} s for {len(server.requests) - asked} requests")
        assert DAY / 60 <= len(server.requests) - asked <= MOST
        assert {request.split()[1] for request in server.requests} == {
            b"/metadata/instance/network?api-version=2021-08-01"
        }
    assert (len(lines(watcher)), machine.effects) == (told, done)


def test_a_nic_that_comes_and_goes_causes_no_more_requests(tmp_path: Path) -> None:
    machine = Followed(tmp_path, A)

    def flap() -> None:
        if (tmp_path / "sys/class/net/eth1").exists():
            shutil.rmtree(tmp_path / "sys/class/net/eth1")
        else:
            machine.put_card("eth1", index=3, mac=B)

    with Server(FINE) as server:
        watcher = watcher_of(machine, endpoint=server.url)
        live(watcher, Kernel(machine, period=7.0, change=flap))
        assert len(server.requests) <= MOST
    assert len(lines(watcher)) < 20, lines(watcher)


def test_a_nic_that_appears_once_is_asked_about_soon_and_links_of_containers_are_not(tmp_path: Path) -> None:
    machine = Followed(tmp_path, A)
    moments: list[float] = []
    with Server(FINE) as server:
        watcher = watcher_of(machine, endpoint=server.url, seconds=600.0)
        live(watcher, Kernel(machine), 2000.0)

        def appear() -> None:
            moments.append(machine.time.at)
            machine.put(f"/sys/class/net/veth{len(moments)}/ifindex", f"{10 + len(moments)}\n")
            machine.put(f"/sys/class/net/veth{len(moments)}/address", f"02:00:00:00:00:{len(moments):02x}\n")
            machine.put(f"/sys/class/net/veth{len(moments)}/type", "1\n")
            if len(moments) == 1:
                machine.put_card("enP1s1", index=9, mac=A, driver="mlx5_core")  # a VF

        at, before = watcher.look(), len(server.requests)
        watcher.wait(Kernel(machine, period=50.0, change=appear), at)  # type: ignore[arg-type]
        assert machine.time.at >= at and len(moments) > 5 and len(server.requests) == before

        def attach() -> None:
            if not moments:
                moments.append(machine.time.at)
                machine.put_card("eth1", index=3, mac=B)

        moments.clear()
        at = watcher.look()
        watcher.wait(Kernel(machine, period=100.0, change=attach), at)  # type: ignore[arg-type]
        assert machine.time.at < at and machine.time.at - moments[0] < 60.0


def test_an_imds_that_does_not_answer_is_asked_rarely_and_told_of_in_a_few_lines(tmp_path: Path) -> None:
    machine = Followed(tmp_path, A)
    with Server(answer(503)) as server:
        watcher = watcher_of(machine, endpoint=server.url)
        live(watcher, Kernel(machine))
        assert DAY / LONGEST <= len(server.requests) <= DAY / LONGEST / 0.75 + 5
        assert len(lines(watcher)) <= 8, lines(watcher)
    silent = watcher_of(machine, endpoint=unused_url())
    live(silent, Kernel(machine))
    assert len(lines(silent)) <= 8 and "connection refused" in lines(silent)[0]


def test_a_refusal_for_too_many_requests_is_one_request_and_its_pause_is_kept(tmp_path: Path) -> None:
    machine = Followed(tmp_path, A)
    refusal = answer(429, headers="Retry-After: 1500\r\n")
    with Server(refusal, FINE) as server:
        watcher = watcher_of(machine, endpoint=server.url)
        began = machine.time.at
        assert watcher.look() == began + 1500.0
        assert len(server.requests) == 1
        assert "status 429" in lines(watcher)[0]
        watcher.look()
        assert lines(watcher)[1] == "IMDS answers again; requests that failed: 1"


def test_imds_is_not_asked_by_another_nic_than_the_primary(tmp_path: Path) -> None:
    machine = Followed(tmp_path, A, B)
    machine.routes = machine.routes[1:]  # the lease of A leads to the platform, and the only route leaves by B
    watcher = watcher_of(machine, endpoint="http://169.254.169.254")
    watcher.look()
    (line,) = lines(watcher)
    assert line.startswith("the route to IMDS leaves by eth1, which is not the primary NIC: not asked; asked again in ")
    machine.routes = ()
    watcher.look()
    assert lines(watcher)[1].startswith("there is no route to IMDS (169.254.169.254)")


def test_a_kernel_that_cannot_be_asked_for_a_while_does_not_end_the_service(tmp_path: Path) -> None:
    machine = Followed(tmp_path, A)

    class Refusing(Followed):
        def names(self, path: str) -> tuple[str, ...] | None:
            if path == "/sys/class/net":
                raise LocalError("cannot read /sys/class/net: Cannot allocate memory")
            return super().names(path)

    with Server(FINE) as server:
        watcher = watcher_of(machine, endpoint=server.url)
        live(watcher, Kernel(machine, period=7.0), 300)
        machine.__class__ = Refusing
        live(watcher, Kernel(machine, period=7.0), 3600)
        asked = len(server.requests)
        machine.__class__ = Followed
        live(watcher, Kernel(machine, period=7.0), 3600)
        assert len(server.requests) > asked
    assert machine.held(A) == {"10.0.0.5"} and len(lines(watcher)) < 20, lines(watcher)
