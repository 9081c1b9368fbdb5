"""`fakeazure run`: a platform around one command, from its start to the platform's verdict."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, Self

from fakeazure import directions, show
from fakeazure.clock import Clock, NoFaketime, faketime
from fakeazure.events import End
from fakeazure.fabric import Fabric
from fakeazure.reaper import Workplace
from fakeazure.spec import Scenario
from fakeazure.vm import Expect, Key, Vm

PATIENCE_SECS = 3.0  # between asking a command to end and ending it
UNJUDGED = "No verdict: this command does not provision, and it reported nothing"
UNREPORTED = "the command reported nothing; for one that is not to provision, say --no-verdict before the --"
ADVICE = {
    errno.ENOENT: "is it installed? say its whole path if it is not on the PATH",
    errno.EACCES: "make it executable (chmod +x)",
    errno.ENOEXEC: "a script begins with a line such as #!/bin/sh",
}


class Stop:
    """Remembers that a signal asked us to end. Nothing is thrown: a child could be lost between start and note."""

    NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.number = 0
        self.count = 0  # who asks twice is in a hurry

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._ask) for number in self.NUMBERS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, _frame: FrameType | None) -> None:
        self.number = number
        self.count += 1


class CannotRun(Exception):
    """The command did not even start."""


def run(
    scenario: Scenario,
    command: Sequence[str],
    *,
    ledger: Path | None,
    until_verdict: bool,
    pools: Path | None = None,
    judged: bool = True,
) -> int:
    """The exit code: 0 when the platform was told the truth in time, 1 when not, 128 + n when stopped by signal n.

    `pools`: where the command keeps its key-value pools anyway; None: we give it a place, and tell it.
    `judged`: false for a command that does not provision. It must report nothing, and its own exit code is ours.
    """
    with Stop() as stop, Workplace() as place:
        ledger = ledger or place.directory / "ledger.jsonl"
        vm, private_key = with_own_key(scenario, place.directory)
        fabric = Fabric(
            vm=vm,
            media=scenario.media,
            imds=scenario.imds,
            wireserver=scenario.wireserver,
            faults=scenario.faults,
            expect=scenario.expect if judged else silence(scenario),
            azure_init=scenario.azure_init,
            ledger=ledger,
            eject=True,
            directory=place.directory,
            pools=pools or own_pools(place.directory),
        )
        with fabric:
            environment = {**os.environ, **directions.environment(fabric, tell_pools=pools is None)}
            if private_key:
                environment["FAKEAZURE_KEY"] = str(private_key)
            environment |= wrong_clock(scenario.clock, place.directory)
            introduce(fabric, command)
            exit_code = attend(fabric, place, stop, command, environment, until_verdict=until_verdict)
            if not judged and exit_code is not None and not fabric.ledger.told:
                print_lines([*show.timeline(fabric.ledger.events, show.palette_for(sys.stdout)), "", UNJUDGED])
                return 128 + stop.number if stop.number else exit_code if exit_code >= 0 else 128 - exit_code
            conclude(fabric)
            truthful = fabric.judge().ok
        return 128 + stop.number if stop.number else 0 if truthful else 1


def silence(scenario: Scenario) -> Expect:
    return Expect(verdict="none", within_secs=(scenario.expect or Expect()).within_secs)


def with_own_key(scenario: Scenario, directory: Path) -> tuple[Vm, Path | None]:
    """A fresh key pair, whose private half the platform keeps, unless the scenario brings keys."""
    tool = shutil.which("ssh-keygen")
    if scenario.own_keys or not tool:
        return scenario.vm, None
    private = directory / "id_ed25519"
    comment = f"{scenario.vm.username}@fakeazure"
    made = subprocess.run(
        [tool, "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(private)],
        stdin=subprocess.DEVNULL, capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode != 0:
        return scenario.vm, None
    return replace(scenario.vm, keys=(Key(private.with_suffix(".pub").read_text().strip()),)), private


def wrong_clock(clock: Clock, directory: Path) -> dict[str, str]:
    try:
        return faketime(clock, now=datetime.now(UTC), directory=directory) if clock.wrong else {}
    except NoFaketime as error:
        raise CannotRun(str(error)) from None


def own_pools(directory: Path) -> Path:
    pools = directory / "kvp"
    pools.mkdir()
    return pools


def attend(
    fabric: Fabric,
    place: Workplace,
    stop: Stop,
    command: Sequence[str],
    environment: dict[str, str],
    *,
    until_verdict: bool,
) -> int | None:
    """Runs the command to its end or the end of its time. Its exit code, negative for a signal; None: out of time."""
    with terminal_kept():
        try:
            child = subprocess.Popen(command, env=environment, process_group=place.group)
        except OSError as error:
            raise CannotRun(reason_for(error, command[0])) from None
        lend_terminal(place.group)
        in_time = wait_for(child, fabric, stop, until_verdict=until_verdict)
        exit_code = end(child, place.group)
    if exit_code == -signal.SIGINT:
        stop.number = signal.SIGINT  # the terminal was lent, so Ctrl-C went to the command and not to us
    fabric.read_pool(late=bool(fabric.ledger.verdicts))
    known = exit_code if in_time else None
    fabric.ledger.add(End(t=fabric.ledger.now(), exit_code=known, stopped=bool(stop.number)))
    return known


def reason_for(error: OSError, program: str) -> str:
    advice = f"; {ADVICE[error.errno]}" if error.errno in ADVICE else ""
    return f"cannot run {program}: {(error.strerror or str(error)).lower()}{advice}"


def wait_for(child: subprocess.Popen[Any], fabric: Fabric, stop: Stop, *, until_verdict: bool) -> bool:
    """False: the time was up, and the platform had no verdict."""
    deadline = time.monotonic() + fabric.expect.within_secs
    pause = 0.001
    while not (has_ended(child) or stop.number):
        told = bool(fabric.ledger.verdicts)
        if told and until_verdict:
            return True
        if not told and time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)
    return True


def has_ended(child: subprocess.Popen[Any]) -> bool:
    """Without collecting it: that is for later."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def end(child: subprocess.Popen[Any], group: int, *, patience: float = PATIENCE_SECS) -> int:
    """Ends what is left of the command's process group, politely at first. The command's own exit status."""
    until = time.monotonic() + patience
    if not has_ended(child):
        os.killpg(group, signal.SIGTERM)
    while not has_ended(child) and time.monotonic() < until:
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    return child.wait()


@contextlib.contextmanager
def terminal_kept() -> Iterator[None]:
    """Takes the terminal back at the end, as a shell does from its job."""
    if not owns_terminal():
        yield
        return
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.tcsetpgrp(0, os.getpgrp())
        signal.signal(signal.SIGTTOU, before)


def lend_terminal(group: int) -> None:
    if owns_terminal():
        with contextlib.suppress(OSError):
            os.tcsetpgrp(0, group)
            os.killpg(group, signal.SIGCONT)  # it may have read before it was its turn, and was halted for that


def owns_terminal() -> bool:
    try:
        return os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def introduce(fabric: Fabric, command: Sequence[str]) -> None:
    vm = fabric.vm
    paint = show.palette_for(sys.stderr)
    who = "a specialised machine" if vm.specialised else f"user {vm.username!r}"
    running = textwrap.shorten(shlex.join(command), 60, placeholder=" ...")
    print(paint("dim", f"fakeazure: machine {vm.name!r} ({vm.id}), {who}; running {running}"), file=sys.stderr)


def conclude(fabric: Fabric) -> None:
    paint = show.palette_for(sys.stdout)
    lines = [*show.timeline(fabric.ledger.events, paint), "", *show.verdict(fabric.judge(), paint)]
    lines += [
        f"  Note: {script.left} of the scripted answers for {script.path} were never asked for"
        for script in fabric.scripts.values()
        if script.left
    ]
    ended = any(isinstance(one, End) and one.of == "command" and one.exit_code == 0 for one in fabric.ledger.events)
    if ended and not fabric.ledger.told and not fabric.judge().ok:
        lines.append(f"  Note: {UNREPORTED}")
    print_lines(lines)


def print_lines(lines: Sequence[str]) -> None:
    sys.stdout.flush()
    print("\n" + "\n".join(lines), flush=True)
