"""The log on a terminal and a pipe, with several writing processes, and in another user's file."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

from azureinit.machine import Machine
from azureinit.telemetry.events import INFO, Event
from azureinit.telemetry.log import DEFAULT, file_listener
from support.need import need_root

SRC = Path(__file__).parents[2] / "src"
ON_A_TERMINAL = """
import os, sys
from azureinit.machine.outlets import stderr_is_terminal
from azureinit.telemetry.events import Event
from azureinit.telemetry.log import DEFAULT, stream_listener, wants_colour

colour = wants_colour(os.environ, terminal=stderr_is_terminal())
listen = stream_listener(sys.stderr.write, chosen=DEFAULT, colour=colour)
listen(Event(at=0.0, kind="finish", level=40, name="user", text="no useradd", seconds=0.0123, failed=True))
"""


def on_a_terminal(**environ: str) -> bytes:
    ours, theirs = pty.openpty()
    try:
        code = (sys.executable, "-c", ON_A_TERMINAL)
        subprocess.run(code, env={"PYTHONPATH": str(SRC), **environ}, stderr=theirs, check=True)
        os.set_blocking(ours, False)
        return os.read(ours, 4096)
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_real_terminal_is_told_in_colour() -> None:
    red = b"azure-init: \x1b[31merror: user failed: no useradd\x1b[0m \x1b[2m(12 ms)\x1b[0m\r\n"
    plain = b"azure-init: error: user failed: no useradd (12 ms)\r\n"
    assert on_a_terminal(TERM="xterm") == red
    assert on_a_terminal(TERM="xterm", NO_COLOR="1") == on_a_terminal(TERM="dumb") == plain


def test_a_pipe_is_told_without() -> None:
    environ = {"PYTHONPATH": str(SRC), "TERM": "xterm"}
    ran = subprocess.run((sys.executable, "-c", ON_A_TERMINAL), env=environ, capture_output=True, check=True)
    assert ran.stderr == b"azure-init: error: user failed: no useradd (12 ms)\n"


WRITER = """
import sys
from azureinit.machine import Machine
from azureinit.telemetry.events import Event
from azureinit.telemetry.log import DEFAULT, file_listener

root, who, limit, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
listen = file_listener(Machine(root=root, environ={}), "/log", chosen=DEFAULT, limit_bytes=limit)
sys.stdin.read()
for number in range(count):
    listen(Event(at=0.0, kind="event", level=20, name="writer", text=f"{who}: {number:06d}"))
"""


def write_together(root: Path, *, limit: int, count: int) -> None:
    argv = (sys.executable, "-c", WRITER, str(root))
    environ = {"PYTHONPATH": str(SRC)}
    writers = [
        subprocess.Popen((*argv, who, str(limit), str(count)), env=environ, stdin=subprocess.PIPE) for who in ("a", "b")
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()
    for writer in writers:
        assert writer.wait(timeout=60) == 0


def test_two_that_write_at_the_same_time_lose_no_line(tmp_path: Path) -> None:
    """Together they need one file and a half: whoever comes first to the limit puts it aside, and only that one."""
    count, length = 3000, len(b"1970-01-01T00:00:00.000000+00:00 info    a: 000000\n")
    write_together(tmp_path, limit=2 * count * length * 2 // 3, count=count)
    told = [line.split()[-2:] for name in ("log.1", "log") for line in (tmp_path / name).read_text().splitlines()]
    for who in ("a:", "b:"):
        assert [number for name, number in told if name == who] == [f"{number:06d}" for number in range(count)]


def test_two_that_put_it_aside_all_the_time_leave_whole_lines_and_the_newest(tmp_path: Path) -> None:
    write_together(tmp_path, limit=500, count=1000)
    told = [line for name in ("log.1", "log") for line in (tmp_path / name).read_text().splitlines()]
    assert {len(line) for line in told} == {len("1970-01-01T00:00:00.000000+00:00 info    a: 000000")}
    assert any(line.endswith("000999") for line in told)


def event(
    text: str, *, level: int = INFO, kind: str = "event", failed: bool = False, seconds: float | None = None
) -> Event:
    if kind == "finish" and seconds is None:
        seconds = 0.0123
    return Event(at=0.0, kind=kind, level=level, name="user", text=text, seconds=seconds, failed=failed)


def write_log(root: Path, *events: Event, path: str = "/log", limit: int = 0) -> None:
    listen = file_listener(Machine(root=str(root), environ={}), path, chosen=DEFAULT, limit_bytes=limit)
    for one in events:
        listen(one)


def test_another_users_file_is_not_ours_to_write_in(tmp_path: Path) -> None:
    need_root()
    log = tmp_path / "log"
    log.write_text("theirs\n")
    os.chown(log, 1234, 1234)
    write_log(tmp_path, event("made"))
    assert log.read_text() == "theirs\n"
