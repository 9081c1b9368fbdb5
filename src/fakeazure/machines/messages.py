"""What `run`, `boot` and `container` print: the first line, how to log in, the timeline and the verdict."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from fakeazure import show
from fakeazure.platform.events import End
from fakeazure.platform.machine import Machine

UNREPORTED = "the command reported nothing; if it does not provision, use --no-verdict before the --"


def print_start(machine: Machine, doing: str, *more: str) -> None:
    """`doing`: what is started, in the first line. `more`: further lines."""
    vm, paint = machine.vm, show.palette_for(sys.stderr)
    what = "specialised" if vm.specialised else f"user {vm.username!r}"
    for line in (f"machine {vm.name!r} ({vm.id}), {what}; {doing}", *more):
        print(paint("dim", f"fakeazure: {line}"), file=sys.stderr)


def print_login_command(machine: Machine, private_key: Path | None) -> None:
    """How to log in to a machine that keeps running, from a root shell."""
    key = f" -i {private_key}" if private_key else ""
    login = f"{machine.vm.username}@{machine.vm.primary.address}"
    command = f"nsenter --target {os.getpid()} --net ssh{key} {login}"
    print(f"fakeazure: the machine runs until Ctrl-C; to log in: {command}", file=sys.stderr)


def print_verdict(machine: Machine) -> None:
    """The timeline, the verdict, and notes."""
    paint, judgement = show.palette_for(sys.stdout), machine.judge()
    lines = [*show.timeline(machine.ledger.events, paint), "", *show.verdict(judgement, paint)]
    lines += [
        f"  Note: {script.left} of the scripted answers for {script.path} were not used"
        for script in machine.scripts.values()
        if script.left
    ]
    events = machine.ledger.events
    succeeded = any(isinstance(one, End) and one.of == "command" and one.exit_code == 0 for one in events)
    if succeeded and not machine.ledger.told and not judgement.ok:
        lines.append(f"  Note: {UNREPORTED}")
    print_lines(lines)


def print_lines(lines: Sequence[str]) -> None:
    sys.stdout.flush()
    print("\n" + "\n".join(lines), flush=True)
