"""The links of a machine in a pool, in network namespaces: what the platform's moves look like to a real kernel."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.need import need, need_root

SRC = Path(__file__).parents[2] / "src"
# Prints a line of JSON whenever the state changes. A line on standard input ends it; "stall" stops the reading.
WATCHER = """
import json, select, sys, time
sys.path.insert(0, sys.argv[1])
from azureinit.config.model import Config
from azureinit.machine import Clock, Machine
from azureinit.plan.pool import begin
from azureinit.run.pool_links import PoolLinks
from azureinit.run.state import Context
from azureinit.telemetry.events import Events

clock = Clock()
context = Context(machine=Machine(), config=Config(), events=Events(clock=clock), started=clock.monotonic())
links = PoolLinks(context)
if len(sys.argv) > 2:
    links.watch.kernel.setsockopt(1, 8, 2048)  # SO_RCVBUF
pool, told = begin(links.nic, now=clock.monotonic()), None
while True:
    shown = {"phase": pool.phase, "gone": pool.gone, "down": pool.down, "since": pool.since}
    shown["index"] = pool.nic.index if pool.nic else 0
    if shown != told:
        print(json.dumps(shown), flush=True)
        told = shown
    if select.select([sys.stdin], [], [], 0)[0]:
        word = sys.stdin.readline().strip()
        if word != "stall":
            break
        print(json.dumps({"stalled": True}), flush=True)
        sys.stdin.readline()
    pool = links.wait(pool, 0.05)
"""


class Net:
    """Two network namespaces: the machine's, with eth0, and the host's far end of it."""

    def __init__(self, *options: str) -> None:
        self.far, self.here = (subprocess.Popen(["unshare", "-n", "sleep", "120"]) for _ in range(2))
        self.watcher: subprocess.Popen[str] | None = None
        self.index = 0  # of eth0
        own = Path("/proc/self/ns/net").readlink()
        until = time.monotonic() + 10
        while any(Path(f"/proc/{one.pid}/ns/net").readlink() == own for one in (self.far, self.here)):
            assert time.monotonic() < until
            time.sleep(0.01)
        self.ip("link", "add", "eth0", "type", "veth", "peer", "name", "p0", "netns", str(self.far.pid))
        self.ip("link", "set", "eth0", "up")
        self.there("link", "set", "p0", "up")
        self.ip("address", "add", "10.8.0.4/24", "dev", "eth0")
        self.ip("route", "add", "default", "via", "10.8.0.1", "dev", "eth0")
        command = ["nsenter", "-t", str(self.here.pid), "-n", sys.executable, "-c", WATCHER, str(SRC), *options]
        self.watcher = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ip(self, *words: str, far: bool = False) -> None:
        pid = (self.far if far else self.here).pid
        subprocess.run(["nsenter", "-t", str(pid), "-n", "ip", *words], check=True, timeout=10)

    def there(self, *words: str) -> None:
        self.ip(*words, far=True)

    def state(self, seen: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The first state from now on that is like this."""
        assert self.watcher is not None and self.watcher.stdout is not None
        bound = threading.Timer(20, self.watcher.kill)
        bound.start()
        try:
            for line in self.watcher.stdout:
                found: dict[str, Any] = json.loads(line)
                if seen(found):
                    return found
        finally:
            bound.cancel()
        raise AssertionError("the watcher has ended, or the state did not come")

    def say(self, word: str) -> None:
        assert self.watcher is not None and self.watcher.stdin is not None
        self.watcher.stdin.write(f"{word}\n")
        self.watcher.stdin.flush()

    def close(self) -> None:
        if self.watcher is not None:
            self.watcher.kill()
            self.watcher.communicate()
        for one in (self.here, self.far):
            one.kill()
            one.wait()


@pytest.fixture
def net() -> Iterator[Callable[..., Net]]:
    need_root()
    for tool in ("ip", "nsenter", "unshare"):
        need(tool)
    made: list[Net] = []

    def make(*options: str) -> Net:
        made.append(Net(*options))
        made[-1].index = made[-1].state(lambda one: one["phase"] == "waiting")["index"]
        return made[-1]

    yield make
    for one in made:
        one.close()


def down(found: dict[str, Any]) -> object:
    return found.get("down")


def moved(found: dict[str, Any]) -> object:
    return found.get("phase") == "moved"


def gone(found: dict[str, Any]) -> object:
    return found.get("gone")


def test_the_link_loses_its_carrier_and_gets_it_again_under_another_name(net: Callable[..., Net]) -> None:
    """P7, P9."""
    one = net()
    one.there("link", "set", "p0", "down")
    one.state(down)
    one.ip("link", "set", "eth0", "down")
    one.ip("link", "set", "eth0", "name", "wan0")
    one.ip("link", "set", "wan0", "up")
    one.there("link", "set", "p0", "up")
    assert one.state(moved)["index"] == one.index


def test_an_administrator_who_takes_the_link_down_and_up_starts_the_polling_too(net: Callable[..., Net]) -> None:
    """P10: and the move that follows is noticed."""
    one = net()
    one.ip("link", "set", "eth0", "down")
    one.state(down)
    one.ip("link", "set", "eth0", "up")
    first = one.state(moved)
    one.there("link", "set", "p0", "down")
    one.state(down)
    one.there("link", "set", "p0", "up")
    assert one.state(lambda found: moved(found) and found["since"] > first["since"])["index"] == first["index"]


def test_other_links_come_and_go_and_the_next_card_is_another_one(net: Callable[..., Net]) -> None:
    """P16, P18, P20: a second link that leaves first, bridges, and the card under another name with another MAC."""
    one = net()
    one.ip("link", "add", "enP1", "type", "veth", "peer", "name", "p1", "netns", str(one.far.pid))
    one.ip("link", "del", "enP1")
    one.ip("link", "add", "docker0", "type", "bridge")
    one.ip("link", "set", "docker0", "up")
    one.there("link", "del", "p0")
    one.state(gone)
    one.ip("link", "add", "docker1", "type", "bridge")
    one.ip("link", "set", "docker1", "up")
    mac = ["address", "00:0d:3a:aa:bb:cc"]
    one.ip("link", "add", "ens9", *mac, "type", "veth", "peer", "name", "p2", "netns", str(one.far.pid))
    names = subprocess.run(
        ["nsenter", "-t", str(one.here.pid), "-n", "ip", "-json", "link", "show", "ens9"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert one.state(moved)["index"] == json.loads(names.stdout)[0]["ifindex"]


def test_a_card_that_is_moved_away_and_back_is_found_again(net: Callable[..., Net]) -> None:
    """P15, P20."""
    one = net()
    one.ip("link", "set", "eth0", "netns", str(one.far.pid))
    one.state(gone)
    one.there("link", "set", "eth0", "netns", str(one.here.pid))
    assert one.state(moved)["index"]


def test_lost_announcements_are_made_up_for(net: Callable[..., Net]) -> None:
    """P36."""
    one = net("small buffer")
    one.say("stall")
    one.state(lambda found: found.get("stalled"))
    one.there("link", "del", "p0")
    batch = "".join(f"link add d{number} type bridge\nlink del d{number}\n" for number in range(120))
    command = ["nsenter", "-t", str(one.here.pid), "-n", "ip", "-batch", "-"]
    subprocess.run(command, input=batch, text=True, check=True, timeout=30)
    one.ip("link", "add", "ens9", "type", "veth", "peer", "name", "p2", "netns", str(one.far.pid))
    one.say("go on")
    assert one.state(moved)["index"] != one.index


# ---- the answer to Ready

SILENT = """
import socket
server = socket.create_server(("10.8.0.1", 8080))
print("listening", flush=True)
connection, _ = server.accept()
connection.recv(65536)
print("asked", flush=True)
connection.recv(65536)
"""
SENDER = """
import sys
sys.path.insert(0, sys.argv[1])
from azureinit.config.model import Config, Wireserver
from azureinit.errors import VerdictUndelivered
from azureinit.http import open_connection
from azureinit.machine import Clock, Machine
from azureinit.machine.interruptible import interruptible
from azureinit.report.health import policy, send_ready
from azureinit.record import replace
from azureinit.run.pool_links import PoolLinks
from azureinit.run.state import Context
from azureinit.telemetry.events import Events

clock = Clock()
config = Config(wireserver=Wireserver(health_endpoint="http://10.8.0.1:8080/health", read_timeout_secs=600.0))
links = PoolLinks(Context(machine=Machine(), config=config, events=Events(clock=clock), started=clock.monotonic()))
retry = replace(policy(config), attempts=1)
try:
    send_ready(
        config, clock=clock, deadline=clock.monotonic() + 900, retry=retry,
        connect=lambda *where: interruptible(open_connection(*where), links.moved),
    )
except VerdictUndelivered as error:
    print(error, flush=True)
"""


def test_the_wait_for_an_answer_ends_when_the_link_is_removed(net: Callable[..., Net]) -> None:
    """P14, P15: the platform takes the card of a Savable machine before it answers."""
    one = net()
    one.there("address", "add", "10.8.0.1/24", "dev", "p0")
    inside = ["nsenter", "-n", "-t"]
    started: list[subprocess.Popen[str]] = []

    def start(pid: int, *words: str) -> subprocess.Popen[str]:
        started.append(
            subprocess.Popen([*inside, str(pid), sys.executable, "-c", *words], stdout=subprocess.PIPE, text=True)
        )
        return started[-1]

    try:
        server = start(one.far.pid, SILENT)
        assert server.stdout is not None and server.stdout.readline() == "listening\n"
        sender = start(one.here.pid, SENDER, str(SRC))
        assert server.stdout.readline() == "asked\n"
        one.ip("link", "delete", "eth0")
        told, _ = sender.communicate(timeout=60)
        assert "the link has been removed" in told.lower(), told
    finally:
        for process in started:
            process.kill()
            process.communicate()
