"""Running a program: bounded in time and output, its environment built from scratch, both streams kept."""

from __future__ import annotations

import os
import select

from azureinit.errors import LocalError, SubprocessFailed, SubprocessTimeout, ToolMissing
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureinit.machine import Machine

SIGKILL, SIGPIPE = 9, 13
KEPT = 2 << 20


class Ran(Record):
    argv: tuple[str, ...]
    status: int
    out: bytes
    err: bytes

    def check(self) -> Ran:
        if self.status == 0:
            return self
        how = f"exit status: {self.status}" if self.status >= 0 else f"signal: {-self.status}"
        told = (self.err.strip() or self.out.strip()).decode("utf-8", "replace")[-500:]
        command = self.argv[0].rpartition("/")[2]
        text = f"{command} failed ({how})" + (f": {told}" if told else "")
        raise SubprocessFailed(text, command=command, exit_status=how)


def run(
    machine: Machine, argv: tuple[str, ...], *, stdin: bytes, timeout: float, env: Mapping[str, str]
) -> Ran:
    path = argv[0] if argv[0].startswith("/") else machine.find(argv[0])
    if path is None:
        raise ToolMissing(f"{argv[0]} is not installed", command=argv[0])
    environ = {"PATH": ":".join(machine.search), "LC_ALL": "C", "LANG": "C", **env}
    child, pipes = _spawn(path, argv, environ)
    return _wait(machine, argv, child, pipes, stdin=stdin, timeout=timeout)


def _spawn(path: str, argv: tuple[str, ...], environ: dict[str, str]) -> tuple[int, tuple[int, int, int]]:
    pairs = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
    (in_read, in_write), (out_read, out_write), (err_read, err_write) = pairs
    actions = [
        (os.POSIX_SPAWN_DUP2, in_read, 0),
        (os.POSIX_SPAWN_DUP2, out_write, 1),
        (os.POSIX_SPAWN_DUP2, err_write, 2),
    ]
    try:
        child = os.posix_spawn(path, argv, environ, file_actions=actions, setpgroup=0, setsigdef=[SIGPIPE])
    except OSError as error:
        for end in (in_write, out_read, err_read):
            os.close(end)
        raise LocalError(f"cannot run {path}: {error.strerror}", path=path) from error
    finally:
        for end in (in_read, out_write, err_write):
            os.close(end)
    return child, (in_write, out_read, err_read)


def _wait(
    machine: Machine, argv: tuple[str, ...], child: int, pipes: tuple[int, int, int], *, stdin: bytes, timeout: float
) -> Ran:
    feed, out, err = pipes
    kept: dict[int, bytes] = {out: b"", err: b""}
    for end in pipes:
        os.set_blocking(end, False)
    poll = select.poll()
    exited = _pidfd(child)
    open_ends = {feed, out, err}
    for end, wanted in ((feed, select.POLLOUT), (out, select.POLLIN), (err, select.POLLIN), (exited, select.POLLIN)):
        if end >= 0:
            poll.register(end, wanted)
    deadline = machine.clock.monotonic() + timeout
    done = False
    try:
        while not done:
            left = deadline - machine.clock.monotonic()
            if left <= 0:
                os.killpg(child, SIGKILL)
                os.waitpid(child, 0)
                raise SubprocessTimeout(f"{argv[0]} was ended after {timeout:g} s", command=argv[0])
            # Without a pidfd the end of both streams is the end of the child.
            done = exited < 0 and not open_ends & {out, err}
            for end, _event in () if done else poll.poll(left * 1000):
                if end == exited:
                    done = True
                elif end == feed:
                    stdin = _feed(feed, stdin)
                    if not stdin:
                        _drop(feed, poll, open_ends)
                elif not _drain(end, kept):
                    _drop(end, poll, open_ends)
        # A daemon left behind may hold the streams open for ever: take what is there, do not wait for more.
        for end in open_ends & {out, err}:
            _drain(end, kept)
        status = os.waitpid(child, 0)[1]
    finally:
        for end in (*open_ends, *((exited,) if exited >= 0 else ())):
            os.close(end)
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    return Ran(argv=argv, status=code, out=kept[out], err=kept[err])


def _pidfd(child: int) -> int:
    try:
        return os.pidfd_open(child)
    except (OSError, AttributeError):
        return -1


def _feed(end: int, data: bytes) -> bytes:
    try:
        return data[os.write(end, data) :] if data else b""
    except BlockingIOError:
        return data
    except BrokenPipeError:
        return b""  # it did not want the rest; its exit status tells


def _drain(end: int, kept: dict[int, bytes]) -> bool:
    """False at the end of the stream."""
    while True:
        try:
            data = os.read(end, 1 << 16)
        except BlockingIOError:
            return True
        if not data:
            return False
        kept[end] = (kept[end] + data)[:KEPT]


def _drop(end: int, poll: select.poll, open_ends: set[int]) -> None:
    poll.unregister(end)
    open_ends.discard(end)
    os.close(end)
