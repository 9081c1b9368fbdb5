"""The command line: run, serve, boot, container, scenarios, judge, new."""

from __future__ import annotations

import argparse
import io
import os
import shlex
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 - one sentence instead of a traceback
    sys.exit("fakeazure needs Python 3.11 or newer; the agent itself runs on 3.9")

from fakeazure import boot, container, service, show
from fakeazure.catalogue import NAMING, NoSuchScenario, find_scenario, names, scenario_text
from fakeazure.events import LedgerInvalid, read_events
from fakeazure.judge import judge
from fakeazure.login import NoSsh
from fakeazure.network import NoNetwork
from fakeazure.nspawn import NoContainer
from fakeazure.openssl import CannotSign
from fakeazure.run import CannotRun, run
from fakeazure.service import CannotServe
from fakeazure.spec import Scenario, SpecInvalid
from fakeazure.version import VERSION
from fakeazure.words import provisions

USAGE = 2
AFTER = "say the command after --, as in: fakeazure run -- azure-init --root DIR"

RUN_HELP = """\
Starts a platform on loopback, makes the provisioning medium, runs COMMAND, and says what the platform was told.

COMMAND runs on this computer as it is, with your rights: an agent that is run as root changes this computer. Give it a
root of its own (azure-init --root DIR), or use `fakeazure container` or `fakeazure boot`.

COMMAND finds the platform through its environment:
  FAKEAZURE_IMDS         where the metadata service answers, e.g. http://127.0.0.1:40001
  FAKEAZURE_WIRESERVER   where the wireserver answers (goal state, certificates, health reports)
  FAKEAZURE_HOSTPLUGIN   where the host's plugin for guest agents answers (in Azure: port 32526)
  FAKEAZURE_MEDIA        the provisioning medium, an image file (absent if the scenario has none)
  FAKEAZURE_CONFIG       a configuration file for azure-init; AZURE_INIT_CONFIG names it too
  FAKEAZURE_KVP          a directory for its key-value pools; the platform reads .kvp_pool_1 there, as Hyper-V does
  FAKEAZURE_LEDGER       the ledger, one JSON object a line, as it is being written
  FAKEAZURE_KEY          the private half of the machine's SSH key, unless the scenario brings keys
The medium is taken away after a verdict, as Azure does. Where the scenario asks for the guest proxy agent, a stub of
azure-proxy-agent stands first on the PATH.
"""
RUN_END = """\
exit status: 0 the platform was told the truth in time; 1 it was not; 2 the command line or the scenario is wrong.
The command's own exit status is shown and does not count. A command that does not provision (azure-init plan; any other
with --no-verdict) is not judged: where it reports nothing, its own exit status is the one of fakeazure.

examples:
  fakeazure run imds-truncated -- azure-init --root DIR
  fakeazure run -- sh -c 'curl -sH Metadata:true "$FAKEAZURE_IMDS/metadata/instance?api-version=2023-11-15"'
"""


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(
        prog="fakeazure", description="Azure's provisioning platform on a laptop.", allow_abbrev=False
    )
    whole.add_argument("-V", "--version", action="version", version=f"fakeazure {VERSION}", help="print the version")
    verbs = whole.add_subparsers(dest="verb", metavar="VERB", required=True)
    one = verbs.add_parser(
        "run",
        help="run a command with a platform around it",
        usage="fakeazure run [--ledger FILE] [--until-verdict] [--no-verdict] [--pools DIR] [SCENARIO] -- COMMAND...",
        description=RUN_HELP,
        epilog=RUN_END,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.add_argument("scenario", nargs="?", metavar="SCENARIO", help=NAMING)
    one.add_argument("--ledger", type=Path, metavar="FILE", help="keep the ledger here")
    one.add_argument(
        "--until-verdict", action="store_true", help="end the command once it has told a verdict (for agents that stay)"
    )
    one.add_argument(
        "--pools", type=Path, metavar="DIR", help="where the command keeps its key-value pools, if it is not to be told"
    )
    one.add_argument(
        "--no-verdict",
        action="store_true",
        help="the command does not provision: it must report nothing, and its own exit status counts "
        "(known of azure-init plan and its like)",
    )
    boot.add_parser(verbs)
    container.add_parser(verbs)
    service.add_parser(verbs)
    one = verbs.add_parser("scenarios", help="list the scenarios that are shipped, one a line")
    one.add_argument("name", nargs="?", metavar="NAME", help="print this one's file instead")
    one = verbs.add_parser("judge", help="say what the platform believes, from a ledger")
    one.add_argument("ledger", type=Path, metavar="LEDGER")
    one.add_argument("--brief", action="store_true", help="the verdict alone, without the timeline")
    one = verbs.add_parser("new", help="write a scenario with every setting explained")
    one.add_argument("file", nargs="?", type=Path, metavar="FILE", help="default: standard output")
    return whole


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    own, command = (given[: given.index("--")], given[given.index("--") + 1 :]) if "--" in given else (given, [])
    whole = parser()
    options, unknown = whole.parse_known_args(own)
    if unknown and options.verb == "run" and "--" not in given:
        return complain(f"unrecognized arguments: {' '.join(unknown)}: {AFTER}")
    if unknown:
        whole.error(f"unrecognized arguments: {' '.join(unknown)}")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what machines say need not fit the reader's alphabet
    try:
        if options.verb == "run":
            return run_verb(options, command)
        if command:
            return complain(f"{options.verb} runs no command: leave out what follows --")
        return VERBS[options.verb](options)
    except COMPLAINTS as error:
        return complain(str(error).removeprefix("fakeazure: "))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        forget_output()
        return 1
    except OSError as error:
        forget_output()
        what = f"{error.filename}: " if error.filename else ""
        return complain(f"cannot set up the platform: {what}{(error.strerror or str(error)).lower()}")


def forget_output() -> None:
    """What could not be written, the interpreter would try once more at its end, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_verb(options: argparse.Namespace, command: list[str]) -> int:
    if not command:
        return complain(f"nothing to run: {AFTER}")
    scenario = find_scenario(options.scenario) if options.scenario else Scenario()
    if options.ledger and not options.ledger.absolute().parent.is_dir():
        return complain(f"--ledger {options.ledger}: no such directory")
    return run(
        scenario,
        command,
        ledger=options.ledger,
        until_verdict=options.until_verdict,
        pools=options.pools,
        judged=provisions(command) and not options.no_verdict,
    )


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
    template = resources.files("fakeazure").joinpath("scenario.toml").read_text(encoding="utf-8")
    if options.file is None:
        print(template, end="", flush=True)
        return 0
    try:
        with options.file.open("x", encoding="utf-8") as file:
            file.write(template)
    except FileExistsError:
        return complain(f"{options.file} is there already: name another, or remove it")
    except OSError as error:
        return complain(f"{options.file}: {(error.strerror or str(error)).lower()}")
    play = shlex.join(["fakeazure", "run", str(options.file), "--", "azure-init", "--root", "DIR"])
    print(f"fakeazure: {options.file} is written; to play it: {play}", file=sys.stderr)
    return 0


VERBS = {
    "boot": boot.main,
    "container": container.main,
    "serve": service.main,
    "judge": judge_verb,
    "new": new_verb,
    "scenarios": scenarios_verb,
}
COMPLAINTS = (
    SpecInvalid, NoSuchScenario, LedgerInvalid, CannotRun, CannotServe, CannotSign, NoContainer, NoNetwork, NoSsh,
)  # fmt: skip


def complain(message: str) -> int:
    for line in message.splitlines():
        print(f"fakeazure: {line}", file=sys.stderr)
    return USAGE


if __name__ == "__main__":
    sys.exit(main())
