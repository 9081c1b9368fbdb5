"""The command: run, boot, container, serve, scenarios, judge, tell, new."""

from __future__ import annotations

import argparse
import io
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 - one sentence instead of a traceback
    sys.exit("fakeazure needs Python 3.11 or newer; the agent itself runs on 3.9")

from fakeazure import serve, show
from fakeazure.arguments import parser
from fakeazure.judge import judge
from fakeazure.machines import boot, container, qemu
from fakeazure.machines.azure_init_command import provisions
from fakeazure.machines.command import CannotRun, run
from fakeazure.machines.control import NotTold, tell
from fakeazure.machines.disk_image import DiskInvalid, NoTool
from fakeazure.machines.login import NoSsh
from fakeazure.machines.network import NoNetwork
from fakeazure.machines.nspawn import NoContainer
from fakeazure.machines.options import MachineOptions
from fakeazure.machines.qmp import NoMonitor
from fakeazure.platform.events import LedgerInvalid, read_events
from fakeazure.platform.openssl import OpensslFailed
from fakeazure.platform.scenario import Scenario
from fakeazure.scenarios.catalogue import NoSuchScenario, find_scenario, names, scenario_text, template
from fakeazure.scenarios.spec import SpecInvalid

USAGE = 2
LONGEST_SOCKET = 107  # bytes of its path, by the kernel
COMMAND_HINT = "give the command after --, as in: fakeazure run -- azure-init --root DIR"


class UsageError(Exception):
    """Options that do not fit together, or name what does not exist."""


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    own, command = (given[: given.index("--")], given[given.index("--") + 1 :]) if "--" in given else (given, [])
    whole = parser()
    options, unknown = whole.parse_known_args(own)
    if unknown and options.verb == "run" and "--" not in given:
        return complain(f"unrecognized arguments: {' '.join(unknown)}: {COMMAND_HINT}")
    if unknown:
        whole.error(f"unrecognized arguments: {' '.join(unknown)}")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a machine's texts may not fit the terminal's encoding
    try:
        if options.verb == "run":
            return run_verb(options, command)
        if command:
            return complain(f"{options.verb} takes no command: remove -- and what follows")
        return VERBS[options.verb](options)
    except COMPLAINTS as error:
        return complain(str(error).removeprefix("fakeazure: "))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        discard_output()
        return 1
    except OSError as error:
        discard_output()
        what = f"{error.filename}: " if error.filename else ""
        return complain(f"cannot set up the platform: {what}{(error.strerror or str(error)).lower()}")


def discard_output() -> None:
    """Unwritten output goes to /dev/null: the interpreter would try to write it again at exit, and fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_verb(options: argparse.Namespace, command: list[str]) -> int:
    if not command:
        return complain(f"no command to run: {COMMAND_HINT}")
    scenario = scenario_of(options)
    check_directories(options, "ledger")
    return run(
        scenario,
        command,
        ledger=options.ledger,
        until_verdict=options.until_verdict,
        pools=options.pools,
        judged=provisions(command) and not options.no_verdict,
    )


def boot_verb(options: argparse.Namespace) -> int:
    scenario = scenario_of(options)
    for name in ("kernel", "initrd"):
        if (file := getattr(options, name)) and not file.is_file():
            raise UsageError(f"--{name} {file}: no such file")
    check_directories(options, "ledger", "console", "control")
    check_control(options.control)
    if (options.initrd or options.append) and not options.kernel:
        raise UsageError("--initrd and --append need --kernel")
    direct = qemu.Direct(kernel=options.kernel, initrd=options.initrd, append=options.append)
    chosen = boot.BootOptions(
        ledger=options.ledger,
        console=options.console,
        keep=options.keep,
        login=options.login,
        stay=options.stay,
        boots=options.boots,
        control=options.control,
        accel=options.accel,
        memory_mb=options.memory,
        direct=direct if options.kernel else None,
    )
    return boot.boot(scenario, options.disk, chosen)


def container_verb(options: argparse.Namespace) -> int:
    container.check_host(options.root)
    scenario = scenario_of(options)
    container.check_scenario(scenario)
    check_directories(options, "ledger", "console", "control")
    check_control(options.control)
    chosen = MachineOptions(
        ledger=options.ledger,
        console=options.console,
        keep=options.keep,
        login=options.login,
        stay=options.stay,
        boots=options.boots,
        control=options.control,
    )
    return container.boot(scenario, options.root.resolve(), chosen)


def scenario_of(options: argparse.Namespace) -> Scenario:
    return find_scenario(options.scenario) if options.scenario else Scenario()


def check_directories(options: argparse.Namespace, *names: str) -> None:
    """The directories of output files must exist."""
    for name in names:
        file: Path | None = getattr(options, name)
        if file and not file.absolute().parent.is_dir():
            raise UsageError(f"--{name} {file}: no such directory")


def check_control(control: Path | None) -> None:
    if control and len(os.fsencode(control)) > LONGEST_SOCKET:
        raise UsageError(f"--control {control}: the path of a socket has at most {LONGEST_SOCKET} bytes")
    if control and os.path.lexists(control):
        raise UsageError(f"--control {control}: exists already: remove it, or choose another name")


def tell_verb(options: argparse.Namespace) -> int:
    tell(options.control, options.words)
    return 0


def judge_verb(options: argparse.Namespace) -> int:
    events = read_events(options.ledger)
    judgement = judge(events)
    paint = show.palette_for(sys.stdout)
    lines = [] if options.brief else [*show.timeline(events, paint), ""]
    print("\n".join([*lines, *show.verdict(judgement, paint)]), flush=True)
    return 0 if judgement.ok else 1


def scenarios_verb(options: argparse.Namespace) -> int:
    if options.name:
        print(scenario_text(options.name), end="", flush=True)
        return 0
    shipped = {name: find_scenario(name) for name in names()}
    width = max(map(len, shipped))
    for name, scenario in shipped.items():
        verdict = scenario.expect.verdict if scenario.expect else "ready"
        print(f"{name:<{width}}  {verdict:<7}  {scenario.description}")
    sys.stdout.flush()
    return 0


def new_verb(options: argparse.Namespace) -> int:
    if options.file is None:
        print(template(), end="", flush=True)
        return 0
    try:
        with options.file.open("x", encoding="utf-8") as file:
            file.write(template())
    except FileExistsError:
        return complain(f"{options.file} already exists: choose another name, or remove it")
    except OSError as error:
        return complain(f"{options.file}: {(error.strerror or str(error)).lower()}")
    command = shlex.join(["fakeazure", "run", str(options.file), "--", "azure-init", "--root", "DIR"])
    print(f"fakeazure: {options.file} is written; to run it: {command}", file=sys.stderr)
    return 0


VERBS = {
    "boot": boot_verb,
    "container": container_verb,
    "serve": serve.main,
    "judge": judge_verb,
    "new": new_verb,
    "scenarios": scenarios_verb,
    "tell": tell_verb,
}
COMPLAINTS = (
    UsageError, SpecInvalid, NoSuchScenario, LedgerInvalid, OpensslFailed, CannotRun, serve.CannotServe, NoContainer,
    NoNetwork, NotTold, NoSsh, NoMonitor, NoTool, DiskInvalid, qemu.CannotBoot,
)  # fmt: skip


def complain(message: str) -> int:
    for line in message.splitlines():
        print(f"fakeazure: {line}", file=sys.stderr)
    return USAGE


if __name__ == "__main__":
    sys.exit(main())
