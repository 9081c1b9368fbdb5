"""Process groups: every program that is started leads one. What it starts belongs to it, unless it leaves the group."""

from __future__ import annotations

import os

from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

SIGTERM, SIGKILL = 15, 9
GRACE_SECS, LAST_SECS, PAUSE = 5.0, 1.0, 0.02
ENDED = ("Z", "X")


class Process(Record):
    pid: int
    state: str
    group: int
    session: int
    since: int  # in clock ticks since the boot


def read_process(machine: Machine, pid: int) -> Process | None:
    """None where there is no such process."""
    data = machine.read(f"/proc/{pid}/stat", limit=4096)
    fields = (data or b"").rpartition(b")")[2].decode("ascii", "replace").split()
    try:
        return Process(pid=pid, state=fields[0], group=int(fields[2]), session=int(fields[3]), since=int(fields[19]))
    except (IndexError, ValueError):
        return None


def members(machine: Machine, leader: Process) -> tuple[Process, ...]:
    """The processes of the group that `leader` began. The kernel gives its number to no other process while one of them
    is left; another program that leads a group of that number has begun at another time, or is of another session."""
    now = read_process(machine, leader.pid)
    if now is not None and now.since != leader.since:
        return ()
    pids = [int(name) for name in machine.names("/proc") or () if name.isdecimal()]
    found = [one for pid in pids if (one := read_process(machine, pid)) is not None]
    own = (leader.pid, leader.session)
    return tuple(one for one in found if (one.group, one.session) == own and one.state not in ENDED)


def end_group(machine: Machine, leader: Process) -> bool:
    """SIGTERM, and after a while SIGKILL, for what is left of the group. False: nothing was left."""
    if not members(machine, leader):
        return False
    for signal, seconds in ((SIGTERM, GRACE_SECS), (SIGKILL, LAST_SECS)):
        try:
            os.killpg(leader.pid, signal)
        except ProcessLookupError:
            break
        until = machine.clock.monotonic() + seconds
        while members(machine, leader) and machine.clock.monotonic() < until:
            machine.clock.sleep(PAUSE)
        if not members(machine, leader):
            break
    return True
