"""The programs' option tables, complete for completions and manual pages.

The tables of azure-init and libazureinit-kvp are azureinit.cli's. fakeazure's is read from its argparse parser.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from azureinit.cli.commands import AZURE_INIT
from azureinit.cli.help import every_option
from azureinit.cli.kvp_options import KVP
from azureinit.cli.options import COMMANDS, DIRECTORY, FILE, TEXT, Argument, Command, Option
from azureinit.record import replace

# How fakeazure's parser names values that are files or directories.
KINDS = {"FILE": FILE, "LEDGER": FILE, "PATH": FILE, "SCENARIO": FILE, "DIR": DIRECTORY}


def azure_init() -> Command:
    """With the commands of the key-value tool under `kvp`."""
    tools = {"kvp_options": KVP}
    commands = []
    for row in AZURE_INIT.commands:
        if row.table:
            tool = tools[row.table]
            row = replace(row, options=tool.options, commands=tool.commands, shared=tool.shared, arguments=())
        commands.append(row)
    return expanded(replace(AZURE_INIT, commands=tuple(commands)))


def kvp() -> Command:
    return expanded(KVP)


def nvme_id() -> Command:
    """It parses its options itself, because udev starts it: a test compares this table with its help."""
    return Command(
        name="azure-nvme-id",
        help="list the NVMe namespaces of this Azure VM, and what each is",
        options=(
            Option(names=("--debug",), help="tell on standard error what is read"),
            Option(
                names=("--format",),
                help="how to print the list: lines of text, or JSON",
                value="FORMAT",
                choices=("plain", "json"),
                default="plain",
            ),
            Option(names=("--udev",), help="print the properties of DEVNAME, a variable, for a udev rule"),
            Option(names=("--version",), help="print the version"),
            Option(names=("-h", "--help"), help="print help"),
        ),
    )


def fakeazure() -> Command:
    from fakeazure.arguments import parser
    from fakeazure.scenarios.catalogue import names

    return from_argparse(parser(), name="fakeazure", choices={"scenario": tuple(names()), "name": tuple(names())})


def expanded(command: Command, above: Command | None = None) -> Command:
    """Each command with the options that it shares with the one above, and arguments with the commands they name."""
    options, arguments = command.options, command.arguments
    if above is not None:
        if above.shared and command.name != "help":
            options = every_option(command, above)
        names = tuple(each.name for each in above.commands)
        arguments = tuple(replace(each, choices=names) if each.kind == COMMANDS else each for each in arguments)
    below = tuple(expanded(each, command) for each in command.commands)
    return replace(command, options=options, arguments=arguments, commands=below)


def walk(command: Command, above: str = "") -> Iterator[tuple[str, Command]]:
    """This command under "", and all below it under their names, with a blank before each."""
    yield above, command
    for each in command.commands:
        yield from walk(each, f"{above} {each.name}")


# ---- fakeazure


def from_argparse(
    parser: argparse.ArgumentParser, *, name: str, choices: dict[str, tuple[str, ...]], told: str = ""
) -> Command:
    """`choices`: of arguments that accept other values, too, by their attribute."""
    options: list[Option] = []
    arguments: list[Argument] = []
    commands: list[Command] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {each.dest: each.help or "" for each in action._choices_actions}
            for verb, below in action.choices.items():
                commands.append(from_argparse(below, name=verb, choices=choices, told=helps.get(verb, "")))
            continue
        help_text = (action.help or "") % {"default": action.default, "prog": name, "metavar": action.metavar}
        own = tuple(map(str, action.choices or ()))
        label = str(action.metavar or "|".join(own) or action.dest).strip("<>")
        kind = KINDS.get(label.upper(), TEXT)
        if action.option_strings:
            options.append(
                Option(
                    names=tuple(action.option_strings),
                    help=help_text,
                    value="" if action.nargs == 0 else label,
                    kind=DIRECTORY if "--root" in action.option_strings else kind,
                    choices=choices.get(action.option_strings[-1]) or own,
                    required=action.required,
                    optional=action.nargs == "?",
                )
            )
        else:
            arguments.append(
                Argument(
                    name=label,
                    help=help_text,
                    kind=kind,
                    choices=choices.get(action.dest) or own,
                    required=action.nargs not in ("?", "*"),
                    many=action.nargs in ("*", "+"),
                )
            )
    options.sort(key=lambda option: "--help" in option.names)
    if " -- " in (parser.usage or ""):  # the program that fakeazure runs; argparse does not read it
        arguments.append(Argument(name="-- " + str(parser.usage).partition(" -- ")[2].strip(" ."), many=True))
    return Command(
        name=name,
        help=told or parser.description or "",
        options=tuple(options),
        arguments=tuple(arguments),
        commands=tuple(commands),
    )
