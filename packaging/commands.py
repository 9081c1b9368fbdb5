"""What our programs can be told: read from their own tables, for the completions and the manual pages."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from unittest import mock

COMMAND = re.compile(r"^  ([a-z-]+(?: [a-z-]+)?)  +(.*?)((?: *\[[^]]+\])*)$")
OPTION = re.compile(r"^ {2,6}((?:-\w, )?--[a-z-]+)(?: <(\w+)>)?  +(.*)$")
FILES, DIRECTORIES, GROUPS = "files", "directories", "groups"
KINDS = {
    "config": FILES,
    "file": FILES,
    "FILE": FILES,
    "LEDGER": FILES,
    "PATH": FILES,
    "--dir": DIRECTORIES,
    "--root": DIRECTORIES,
    "groups": GROUPS,
}


@dataclass(frozen=True)
class Option:
    names: tuple[str, ...]
    told: str
    value: str = ""  # what the help calls it; empty means that it takes none
    choices: tuple[str, ...] = ()
    required: bool = False
    optional: bool = False  # the value, as in --user [NAME]

    @property
    def takes_next(self) -> bool:
        """Whether the next word is its value, whatever it is."""
        return bool(self.value) and not self.optional

    @property
    def kind(self) -> str:
        """How a shell finds candidates for the value."""
        return KINDS.get(self.names[-1]) or KINDS.get(self.value) or KINDS.get(self.value.lower(), "")


@dataclass(frozen=True)
class Command:
    name: str
    told: str
    arguments: tuple[str, ...] = ()  # as the help shows them
    choices: tuple[str, ...] = ()  # of an argument
    options: tuple[Option, ...] = ()
    commands: tuple[Command, ...] = ()

    def walk(self, above: str = "") -> list[tuple[str, Command]]:
        """This one under "", and all below it, under their names with a blank in front of each."""
        below = [row for command in self.commands for row in command.walk(f"{above} {command.name}")]
        return [(above, self), *below]


def azure_init() -> Command:
    from azureinit.cli import HELP
    from azureinit.cli.words import STAGES

    options = help_options(HELP, {"--stage": STAGES})
    commands: dict[str, Command] = {}
    for words, told, arguments in help_commands(HELP):
        first, _blank, second = words.partition(" ")
        flags = verb_options(words) if any(word.startswith("--") for word in arguments) else ()
        takes = tuple(f"[{word}]" for word in arguments if not word.startswith("--"))
        made = Command(second or first, told, arguments=takes, options=flags)
        if second:
            above = commands.get(first, Command(first, ""))
            commands[first] = Command(first, above.told, commands=(*above.commands, made))
        else:
            commands[first] = made
    below = kvp("azure-init kvp")
    commands["kvp"] = Command("kvp", commands["kvp"].told, options=below.options, commands=below.commands)
    commands["help"] = Command("help", commands["help"].told, choices=tuple(commands))
    described = tuple(
        Command("config", "what is asked of this machine, and who asked it", commands=each.commands)
        if each.name == "config"
        else each
        for each in commands.values()
    )
    return Command("azure-init", HELP.partition("\n")[0], options=options, commands=described)


def verb_options(words: str) -> tuple[Option, ...]:
    """A verb makes its parser when it is called: it is met where it would print its help."""
    from azureinit.cli import run
    from azureinit.cli.parser import Parser
    from azureinit.cli.words import parse_args

    met: list[argparse.ArgumentParser] = []
    with mock.patch.object(Parser, "print_help", lambda parser: met.append(parser)):
        run(parse_args([*words.split(), "--help"]))
    options = from_argparse(met[0], name=words, choices={}).options
    return tuple(option for option in options if "--help" not in option.names)


def help_commands(text: str) -> list[tuple[str, str, list[str]]]:
    block = text.partition("Commands:\n")[2].partition("\n\n")[0]
    found = []
    for line in block.splitlines():
        row = COMMAND.match(line)
        if row is None:
            raise ValueError(f"azure-init --help: this line is not of the form that is read here: {line!r}")
        found.append((row[1], row[2], re.findall(r"\[([^]]+)\]", row[3])))
    return found


def help_options(text: str, choices: dict[str, tuple[str, ...]]) -> tuple[Option, ...]:
    found: list[Option] = []
    for line in text.partition("Options:\n")[2].partition("\n\n")[0].splitlines():
        row = OPTION.match(line)
        if row is not None:
            names = tuple(row[1].split(", "))
            found.append(Option(names, row[3], value=row[2] or "", choices=choices.get(names[-1], ())))
        elif found and line.startswith(" " * 20):
            last = found[-1]
            found[-1] = Option(last.names, f"{last.told} {line.strip()}", value=last.value, choices=last.choices)
        else:
            raise ValueError(f"azure-init --help: this line is not of the form that is read here: {line!r}")
    return tuple(found)


def kvp(prog: str) -> Command:
    from azureinit.cli.kvp_arguments import parser
    from azureinit.kvp.store import POOLS

    return from_argparse(parser(prog), name=prog, choices={"--pool": tuple(POOLS)})


def fakeazure() -> Command:
    from fakeazure.scenarios.catalogue import names
    from fakeazure.cli import parser

    return from_argparse(parser(), name="fakeazure", choices={"scenario": tuple(names()), "name": tuple(names())})


def from_argparse(
    parser: argparse.ArgumentParser, *, name: str, choices: dict[str, tuple[str, ...]], told: str = ""
) -> Command:
    options: list[Option] = []
    arguments: list[str] = []
    offered: tuple[str, ...] = ()
    commands: list[Command] = []
    for action in parser._actions:
        help_text = (action.help or "") % {"default": action.default, "prog": name, "metavar": action.metavar}
        if isinstance(action, argparse._SubParsersAction):
            helps = {each.dest: each.help or "" for each in action._choices_actions}
            for verb, below in action.choices.items():
                commands.append(from_argparse(below, name=verb, choices=choices, told=helps.get(verb, "")))
        elif action.option_strings:
            own = tuple(map(str, action.choices or ()))
            value = "" if action.nargs == 0 else str(action.metavar or "|".join(own) or action.dest).strip("<>")
            options.append(
                Option(
                    tuple(action.option_strings),
                    help_text,
                    value=value,
                    choices=choices.get(action.option_strings[-1]) or own,
                    required=action.required,
                    optional=action.nargs == "?",
                )
            )
        else:
            word = str(action.metavar or action.dest).strip("<>")
            word += "..." if action.nargs in ("*", "+") else ""
            arguments.append(f"[{word}]" if action.nargs in ("?", "*") else word)
            offered += choices.get(action.dest, ()) or tuple(map(str, action.choices or ()))
    options.sort(key=lambda option: "--help" in option.names)
    if " -- " in (parser.usage or ""):  # what follows is not argparse's
        arguments.append("-- " + str(parser.usage).partition(" -- ")[2])
    return Command(
        name,
        told or parser.description or "",
        arguments=tuple(arguments),
        choices=offered,
        options=tuple(options),
        commands=tuple(commands),
    )
