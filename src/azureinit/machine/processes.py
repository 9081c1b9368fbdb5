"""Running programs: limited in time and output, with an environment built from scratch, both streams captured."""

from __future__ import annotations

import os
import select

from azureinit.errors import LocalError, SubprocessFailed, SubprocessTimeout, ToolMissing
from azureinit.machine.limits import restore_core_limit
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from azureinit.machine import Machine
    from azureinit.machine.outlets import LogFile

SIGKILL, SIGPIPE = 9, 13
IGNORED = (SIGPIPE, 25)  # by Python itself: SIGPIPE and SIGXFSZ. A program gets their defaults
NOTHING: Mapping[str, str] = {}
KEPT = 2 << 20  # of each stream
LOGGED = 1 << 20  # of a log before it is rotated to `.1`
TOLD = 500
PIPE = 1 << 16
MOST_LEFT = 16  # reads of a stream whose child has ended
# Reads on for the processes that a program left running: 16384 pieces for the log, 2 MiB at most, then for nothing.
# In the background of a shell that ends at once, so that it is no child of this process.
RELAY = 'umask 077; exec 3<&0; (dd bs=128 count=16384 2>/dev/null >>"$1"; exec cat >/dev/null) <&3 3<&- &'
LAST_BREATH = 1.0  # how long to wait for a killed child; one that is stuck in the kernel never ends
PAUSE = 0.02


class Ran(Record):
    argv: tuple[str, ...]
    status: int  # negative: the signal that ended it
    out: bytes
    err: bytes
    output: str | None = None  # the log file that got both streams

    @property
    def ending(self) -> str:
        return f"exit status: {self.status}" if self.status >= 0 else f"signal: {-self.status}"

    @property
    def told(self) -> str:
        """The end of its error output. Never its standard output, which may be a secret."""
        if self.output is not None:
            return f"its output is in {self.output}"
        return self.err.strip().decode("utf-8", "replace")[-TOLD:]

    def check(self) -> Ran:
        if self.status == 0:
            return self
        command = self.argv[0].rpartition("/")[2]
        text = f"{command} failed ({self.ending})" + (f": {self.told}" if self.told else "")
        raise SubprocessFailed(text, command=command, exit_status=self.ending)


def run(
    machine: Machine,
    argv: tuple[str, ...],
    *,
    stdin: bytes,
    timeout: float,
    env: Mapping[str, str],
    output: str | None = None,
    kept: int = KEPT,
    begun: Callable[[int], None] | None = None,
) -> Ran:
    return start(machine, argv, stdin=stdin, env=env, output=output, kept=kept, begun=begun)(timeout)


def start(
    machine: Machine,
    argv: tuple[str, ...],
    *,
    stdin: bytes = b"",
    env: Mapping[str, str] = NOTHING,
    output: str | None = None,
    kept: int = KEPT,
    begun: Callable[[int], None] | None = None,
) -> Callable[[float], Ran]:
    """Start a program. The returned function waits for its end; until then its output must fit into a pipe.

    `env`: an empty value takes a variable away. `output`: processes that the program leaves running keep their output,
    and may go on writing to it. `kept`: bytes of each stream. `begun` is given the pid; where it fails, the program is
    killed.
    """
    path = argv[0] if argv[0].startswith("/") else machine.find(argv[0])
    if path is None:
        raise ToolMissing(f"{argv[0]} is not installed", command=argv[0])
    environ = {"PATH": ":".join(machine.search), "LC_ALL": "C", "LANG": "C", **env}
    environ = {name: value for name, value in environ.items() if value}
    log = _log(machine, output) if output is not None else None
    spawned = _spawn(path, argv, environ, merged=log is not None, empty=log is not None and not stdin)
    child = _Child(*spawned, stdin, log=log, most=kept)
    return lambda timeout: child.wait(machine, argv, timeout=timeout, begun=begun)


def _log(machine: Machine, path: str) -> LogFile:
    """The log file of a program: mode 0600, written as output arrives, at most two rotations."""
    from azureinit.machine.outlets import LogFile

    return LogFile(machine, path, limit=LOGGED)


def _spawn(
    path: str, argv: tuple[str, ...], environ: dict[str, str], *, merged: bool, empty: bool
) -> tuple[int, tuple[int, int, int]]:
    """`merged`: both streams share one pipe, so that their order is kept. `empty`: the standard input is /dev/null.
    Programs that find a pipe there, such as ripgrep, read it instead of files.
    """
    pairs: list[tuple[int, int]] = []
    spawned = False
    try:
        for _stream in range(3):
            pairs.append(os.pipe2(os.O_CLOEXEC))  # noqa: PERF401 - those made are closed if the next cannot be
        theirs = (pairs[0][0], pairs[1][1], pairs[1 if merged else 2][1])
        actions: list[tuple[object, ...]] = [(os.POSIX_SPAWN_DUP2, end, stream) for stream, end in enumerate(theirs)]
        if empty:
            actions[0] = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        child = os.posix_spawn(path, argv, environ, file_actions=actions, setpgroup=0, setsigdef=IGNORED)
        spawned = True
        restore_core_limit(child)
    except FileNotFoundError as error:
        raise ToolMissing(f"cannot run {path}: {error.strerror}", command=argv[0]) from error
    except (OSError, ValueError) as error:  # the latter for a NUL in an argument
        told = error.strerror if isinstance(error, OSError) else str(error)
        raise LocalError(f"cannot run {path}: {told}", path=path) from error
    finally:
        for number, (read, write) in enumerate(pairs):
            ours, other = (write, read) if number == 0 else (read, write)
            os.close(other)
            if not spawned:
                os.close(ours)
    return child, (pairs[0][1], pairs[1][0], pairs[2][0])


class _Child:
    """One child process and its three streams."""

    def __init__(
        self, child: int, pipes: tuple[int, int, int], stdin: bytes, *, log: LogFile | None = None, most: int = KEPT
    ) -> None:
        self.child, self.stdin, self.log, self.most = child, memoryview(stdin), log, most
        self.feed, self.out, self.err = pipes
        self.kept = {self.out: bytearray(), self.err: bytearray()}
        self.open = set(pipes)
        self.poll = select.poll()
        for end in pipes:
            os.set_blocking(end, False)
            self.poll.register(end, select.POLLOUT if end == self.feed else select.POLLIN)
        self.exited = _pidfd(child)
        if self.exited >= 0:
            self.poll.register(self.exited, select.POLLIN)

    def wait(
        self,
        machine: Machine,
        argv: tuple[str, ...],
        *,
        timeout: float,
        begun: Callable[[int], None] | None = None,
    ) -> Ran:
        deadline = machine.clock.monotonic() + timeout
        status: int | None = None
        late = False
        try:
            if begun is not None:
                begun(self.child)
            while status is None:
                left = deadline - machine.clock.monotonic()
                late = left <= 0
                if late:
                    raise self.late(argv, timeout)
                # Without a pidfd the child's end wakes nothing: a daemon that it started may hold its streams open.
                for end, _event in self.poll.poll(1000 * (left if self.exited >= 0 else min(left, PAUSE))):
                    if end != self.exited and not self.move(end):
                        self.close(end)
                status = self.ended()
            for end in (self.out, self.err):
                for _read in range(MOST_LEFT if end in self.open else 0):
                    if not self.move(end):
                        self.close(end)
                        break
            if self.log is not None and self.out in self.open:
                _relay(self.out, machine.real(self.log.path, final=False))
        finally:
            if status is None:
                self.kill(grace=LAST_BREATH if self.log is not None and not late else 0.0)
            for end in (*self.open, *((self.exited,) if self.exited >= 0 else ())):
                os.close(end)
            if self.log is not None:
                self.log.close()
        return self.ran(argv, os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status))

    def ran(self, argv: tuple[str, ...], status: int) -> Ran:
        out, err = bytes(self.kept[self.out]), bytes(self.kept[self.err])
        return Ran(argv=argv, status=status, out=out, err=err, output=None if self.log is None else self.log.path)

    def late(self, argv: tuple[str, ...], timeout: float) -> SubprocessTimeout:
        command = argv[0].rpartition("/")[2]
        told = self.ran(argv, -SIGKILL).told
        text = f"{command} was killed after {max(timeout, 0.0):g} s" + (f": {told}" if told else "")
        return SubprocessTimeout(text, command=command)

    def ended(self) -> int | None:
        pid, status = os.waitpid(self.child, os.WNOHANG)
        return status if pid else None

    def kill(self, *, grace: float = 0.0) -> None:
        """Kill the process group and reap the child. Give up reaping a child that is stuck in the kernel.

        `grace`: a program of the user's that asks for a reboot gets that long to end on its own, and to note that it
        has asked.
        """
        for _pause in range(int(grace / PAUSE)):
            if self.ended() is not None:
                return
            select.select((), (), (), PAUSE)
        try:
            os.killpg(self.child, SIGKILL)
        except OSError:
            pass
        for _pause in range(int(LAST_BREATH / PAUSE)):
            if self.ended() is not None:
                return
            select.select((), (), (), PAUSE)

    def move(self, end: int) -> bool:
        """Move one piece of a stream, so that the timeout is checked between pieces. False at the stream's end."""
        try:
            if end == self.feed:
                self.stdin = self.stdin[os.write(end, self.stdin[:PIPE]) :] if self.stdin else self.stdin
                return bool(self.stdin)
            data = os.read(end, PIPE)
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False  # the child closed its stdin early; its exit status decides
        if self.log is not None:
            self.log.write(data)
        else:
            self.kept[end] += data[: self.most - len(self.kept[end])]
        return bool(data)

    def close(self, end: int) -> None:
        self.poll.unregister(end)
        self.open.discard(end)
        os.close(end)


def _relay(end: int, log: str) -> None:
    """Without a reader the next output of a process that still holds the stream would end it by SIGPIPE."""
    actions = [
        (os.POSIX_SPAWN_DUP2, end, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    try:
        os.set_blocking(end, True)
        argv = ("sh", "-c", RELAY, "sh", log)
        environ = {"PATH": os.defpath}
        os.waitpid(os.posix_spawn("/bin/sh", argv, environ, file_actions=actions, setpgroup=0, setsigdef=IGNORED), 0)
    except OSError:
        pass


def _pidfd(child: int) -> int:
    try:
        return os.pidfd_open(child)
    except (OSError, AttributeError):
        return -1
