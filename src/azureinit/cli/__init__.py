"""The command line: one hand parser for the global options and the verb; each verb's module is imported when called."""

from __future__ import annotations

import sys

from azureinit.errors import AzureInitError, ConfigInvalid, UsageError
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.load import Loaded
    from azureinit.machine import Machine
    from azureinit.telemetry.events import Events

HELP = """\
Provision this Linux machine from Azure's metadata, and tell the platform how it went.

Usage: azure-init [OPTIONS] [COMMAND]

Commands:
  provision        make the machine what the platform asked for, then report (what happens without a command)
  plan             show what provision would do, and do nothing   [--json] [--check]
  facts            show what the machine is, as the plan sees it
  config show      every setting, and who said it                 [--json]
  config check     tell what is wrong with a configuration file   [FILE...]
  config schema    JSON Schema of the configuration, for editors
  clean            forget that this machine was provisioned       [--logs]
  help             this text

Options:
  -g, --groups <GROUPS>   supplementary groups of the admin, comma separated, repeatable [env: AZURE_INIT_USER_GROUPS]
      --config <CONFIG>   configuration file or directory, read last [env: AZURE_INIT_CONFIG]
      --root <DIR>        work on the file tree in DIR; the running kernel and services are not touched
  -V, --version           print the version
  -h, --help              print this text

Environment: AZURE_INIT_LOG sets how much is told (error, warn, info, debug).

Exit codes: 0 done, already done, or not on Azure; 1 failed; 2 usage; 3 plan --check found work to do;
75 done but the platform has not accepted the verdict yet; 78 configuration error or user missing.
"""
VERBS = ("provision", "plan", "facts", "config", "clean", "help")
VALUED = {"-g": "groups", "--groups": "groups", "--config": "config", "--root": "root"}


class Command(Record):
    verb: str = "provision"
    rest: tuple[str, ...] = ()
    groups: tuple[str, ...] | None = None
    config: str | None = None
    root: str = "/"


def parse_args(argv: list[str]) -> Command:
    """Global options count before and after the verb; what a verb's own parser must see stays in `rest`."""
    values: dict[str, str] = {}
    groups: list[str] = []
    rest: list[str] = []
    verb = ""
    words = list(argv)
    while words:
        word = words.pop(0)
        option, equals, value = word.partition("=")
        if word.startswith("-g") and not word.startswith("--") and len(word) > 2:
            option, equals, value = "-g", "=", word[2:].lstrip("=")
        if word in ("-h", "--help") and not verb:
            verb = "help"
        elif word in ("-V", "--version") and not verb:
            verb = "version"
        elif option in VALUED:
            if not equals:
                if not words:
                    raise UsageError(f"a value is required for {option}", hint="see azure-init --help")
                value = words.pop(0)
            if VALUED[option] == "groups":
                groups += value.split(",")
            else:
                values[VALUED[option]] = value
        elif verb:
            rest.append(word)
        elif word in VERBS:
            verb = word
        else:
            what = "option" if word.startswith("-") else "command"
            raise UsageError(f"unknown {what}: {word}", hint="see azure-init --help")
    if verb in ("", "provision") and rest and rest not in (["-h"], ["--help"]):
        raise UsageError(f"provision takes no argument: {rest[0]}", hint="see azure-init --help")
    if rest in (["-h"], ["--help"]) and verb != "config":
        verb = "help"
    return Command(
        verb=verb or "provision",
        rest=tuple(rest),
        groups=tuple(group for group in groups if group) if groups else None,
        config=values.get("config"),
        root=values.get("root", "/"),
    )


def main(argv: list[str] | None = None) -> int:
    try:
        command = parse_args(sys.argv[1:] if argv is None else argv)
        if command.verb == "help":
            sys.stdout.write(HELP)
            return 0
        if command.verb == "version":
            from azureinit.version import VERSION

            sys.stdout.write(f"azure-init {VERSION}\n")
            return 0
        return run(command)
    except AzureInitError as error:
        hint = f"\nazure-init: {error.hint}" if error.hint else ""
        sys.stderr.write(f"azure-init: {error}{hint}\n")
        return error.exit_code
    except BrokenPipeError:
        return 0  # whoever read our output has seen enough
    except KeyboardInterrupt:
        sys.stderr.write("azure-init: interrupted\n")
        return 130


def run(command: Command) -> int:
    from azureinit.machine import Machine

    machine = Machine(root=command.root)
    if command.root != "/" and not machine.is_dir("/"):
        raise UsageError(f"--root {command.root}: there is no such directory")
    if command.verb == "config":
        from azureinit.cli.config import main as config_main

        return config_main(
            list(command.rest),
            machine=machine,
            config=command.config,
            groups=command.groups,
            out=sys.stdout,
            err=sys.stderr,
        )
    if command.verb == "provision":
        return provision(command, machine)
    loaded = load(command, machine)
    if command.verb == "clean":
        from azureinit.cli.clean import main as clean_main

        return clean_main(list(command.rest), machine=machine, config=loaded.config)
    from azureinit.cli.show import main as show_main

    return show_main(command.verb, list(command.rest), machine=machine, config=loaded.config)


def load(command: Command, machine: Machine) -> Loaded:
    from azureinit.config.load import load

    return load(machine, config=command.config, groups=command.groups)


def provision(command: Command, machine: Machine) -> int:
    from azureinit.engine import Context, provision, reject

    started = machine.clock.monotonic()
    try:
        loaded = load(command, machine)
    except ConfigInvalid as error:
        from azureinit.config.load import load_usable

        usable = load_usable(machine, config=command.config, groups=command.groups)
        events = listeners(machine, "")
        return reject(Context(machine=machine, config=usable, events=events, started=started), error)
    events = listeners(machine, loaded.config.azure_init_log_path.path)
    for warning in loaded.warnings:
        events.tell(30, "config", warning)
    return provision(Context(machine=machine, config=loaded.config, events=events, started=started))


def listeners(machine: Machine, log_path: str) -> Events:
    from azureinit.telemetry.events import INFO, Events
    from azureinit.telemetry.log import chosen_level, file_listener, stream_listener

    level = chosen_level(machine.environ.get("AZURE_INIT_LOG", ""), INFO)
    chosen = [stream_listener(sys.stderr.write, level=level)]
    if log_path:
        chosen.append(file_listener(machine, log_path, level=level))
    return Events(clock=machine.clock, listeners=tuple(chosen))
