"""The kernel log from /dev/kmsg: the newest messages, as dmesg shows them."""

from __future__ import annotations

import os
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.machine import Machine

PATH = "/dev/kmsg"
LONGEST_RECORD = 1 << 14
LONGEST_WAIT = 1.0  # seconds; a kernel that logs faster than it is read would make this endless


def read_kernel_log(machine: Machine, *, limit: int) -> bytes | None:
    """The newest whole lines, at most `limit` bytes; None if the log cannot be read."""
    try:
        file = os.open(machine.real(PATH), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        until = machine.clock.monotonic() + LONGEST_WAIT
        return last_lines(
            lambda: os.read(file, LONGEST_RECORD), limit=limit, late=lambda: machine.clock.monotonic() > until
        )
    except OSError:
        return None
    finally:
        os.close(file)


def last_lines(read: Callable[[], bytes], *, limit: int, late: Callable[[], bool]) -> bytes:
    """`read` returns one record at a time, as the device does."""
    kept: deque[bytes] = deque()
    size = 0
    while not late():
        try:
            record = read()
        except BrokenPipeError:
            continue  # the record was overwritten; the next read returns the oldest one left
        except BlockingIOError:
            break
        if not record:
            break
        line = parse_record(record)
        if line is None:
            continue
        kept.append(line)
        size += len(line)
        while size > limit:
            size -= len(kept.popleft())
    return b"".join(kept)


def parse_record(record: bytes) -> bytes | None:
    """`level,number,microseconds,flags;text`. The continuation lines, which name the device, are dropped."""
    head, semicolon, text = record.partition(b"\n")[0].partition(b";")
    fields = head.split(b",")
    if not semicolon or len(fields) < 3 or not fields[2].isdigit() or len(fields[2]) > 20:
        return None
    return b"[%12.6f] %s\n" % (int(fields[2]) / 1e6, text)
