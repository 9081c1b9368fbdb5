"""`fakeazure run`: one command on this host, with a platform in its environment."""

from __future__ import annotations

import errno
import os
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fakeazure import show
from fakeazure.machines.faketime import NoFaketime, faketime
from fakeazure.machines.messages import print_lines, print_start, print_verdict
from fakeazure.machines.process import Stop, end, has_ended, kill
from fakeazure.machines.reboots import Deadline
from fakeazure.machines.ssh_key import with_fresh_key
from fakeazure.machines.terminal import lend_terminal, terminal_kept
from fakeazure.machines.workspace import Workspace
from fakeazure.platform import agent_config
from fakeazure.platform.clock import Clock
from fakeazure.platform.events import End
from fakeazure.platform.fabric import Fabric
from fakeazure.platform.pool import CUT
from fakeazure.platform.scenario import Scenario
from fakeazure.platform.vm import Expect

UNJUDGED = "No verdict: this command does not provision, and it reported nothing"
ADVICE = {
    errno.ENOENT: "install it, or give its full path if it is not on the PATH",
    errno.EACCES: "make it executable (chmod +x)",
    errno.ENOEXEC: "a script begins with a line such as #!/bin/sh",
}


class CannotRun(Exception):
    """The command was not started; the text says why."""


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

    `pools`: the directory of key-value pools that the command uses by itself; None: a temporary one, named in its
    configuration. `judged`: false for a command that does not provision. It must report nothing, and its exit code
    is returned.
    """
    with Stop() as stop, Workspace() as workspace:
        directory = workspace.directory
        scenario, private_key = with_fresh_key(scenario, directory)
        fabric = Fabric.of(
            scenario if judged else replace(scenario, expect=no_verdict(scenario)),
            ledger=ledger or directory / "ledger.jsonl",
            eject=True,
            directory=directory,
            pools=pools or new_pools(directory),
        )
        with fabric:
            environment = {**os.environ, **agent_config.environment(fabric, tell_pools=pools is None)}
            if private_key:
                environment["FAKEAZURE_KEY"] = str(private_key)
            environment |= clock_environment(scenario.clock, directory)
            print_start(fabric, f"running {textwrap.shorten(shlex.join(command), 60, placeholder=' ...')}")
            exit_code = run_to_end(fabric, workspace, stop, command, environment, until_verdict=until_verdict)
            while fabric.restart_due and not stop.number:
                fabric.reboot()
                exit_code = run_to_end(fabric, workspace, stop, command, environment, until_verdict=until_verdict)
            if not judged and exit_code is not None and not fabric.ledger.told:
                print_lines([*show.timeline(fabric.ledger.events, show.palette_for(sys.stdout)), "", UNJUDGED])
                return 128 + stop.number if stop.number else exit_code if exit_code >= 0 else 128 - exit_code
            print_verdict(fabric)
            return stop.exit_code(truthful=fabric.judge().ok)


def no_verdict(scenario: Scenario) -> Expect:
    return Expect(verdict="none", within_secs=(scenario.expect or Expect()).within_secs)


def new_pools(directory: Path) -> Path:
    pools = directory / "kvp"
    pools.mkdir()
    return pools


def clock_environment(clock: Clock, directory: Path) -> dict[str, str]:
    try:
        return faketime(clock, now=datetime.now(UTC), directory=directory) if clock.wrong else {}
    except NoFaketime as error:
        raise CannotRun(str(error)) from None


def run_to_end(
    fabric: Fabric,
    workspace: Workspace,
    stop: Stop,
    command: Sequence[str],
    environment: dict[str, str],
    *,
    until_verdict: bool,
) -> int | None:
    """The command's exit code, negative for a signal; None: it was ended at the deadline."""
    with terminal_kept():
        try:
            child = subprocess.Popen(command, env=environment, process_group=workspace.group)
        except OSError as error:
            raise CannotRun(start_problem(error, command[0])) from None
        lend_terminal(workspace.group)
        in_time = wait_for(child, fabric, stop, until_verdict=until_verdict)
        exit_code = (kill if fabric.restart_due == CUT else end)(child, workspace.group)
    if exit_code == -signal.SIGINT:
        stop.number = signal.SIGINT  # Ctrl-C went to the command's process group, which had the terminal
    fabric.read_pool(late=bool(fabric.ledger.final_verdicts))
    known = exit_code if in_time else None
    fabric.ledger.add(End(t=fabric.ledger.now(), exit_code=known, stopped=bool(stop.number)))
    return known


def start_problem(error: OSError, program: str) -> str:
    advice = f"; {ADVICE[error.errno]}" if error.errno in ADVICE else ""
    return f"cannot run {program}: {(error.strerror or str(error)).lower()}{advice}"


def wait_for(child: subprocess.Popen[Any], fabric: Fabric, stop: Stop, *, until_verdict: bool) -> bool:
    """False: the deadline passed without a verdict."""
    deadline = Deadline(fabric, seconds=fabric.expect.within_secs)
    pause = 0.001
    while not (has_ended(child) or stop.number):
        if fabric.restart_due:
            return True
        told = bool(fabric.ledger.final_verdicts)
        if told and until_verdict:
            return True
        if not told and deadline.passed():
            return False
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)
    return True
