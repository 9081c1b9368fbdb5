"""Parsers, help, completions, manual pages and docs/ contain every row of the option table, and nothing else."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from azureinit.cli import main
from azureinit.cli.commands import AZURE_INIT, BY_NAME
from azureinit.cli.help import azure_init_help, command_help, every_option
from azureinit.cli.kvp import VERBS as KVP_VERBS, main as kvp_main
from azureinit.cli.kvp_options import KVP
from azureinit.cli.operate import VERBS as OPERATED
from azureinit.cli.options import COMMANDS, HELP, VERSION, Command, Option
from azureinit.cli.parser import parse
from azureinit.cli.words import VALUED, parse_args
from azureinit.errors import UsageError
from azureinit.machine import Machine

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "packaging"))

import commands  # noqa: E402
from completions import bash, fish, zsh  # noqa: E402
from manual import page  # noqa: E402

PAGES = {"azure-init": "azure-init.8", "libazureinit-kvp": "libazureinit-kvp.8"}
PROGRAMS = {"azure-init": commands.azure_init(), "libazureinit-kvp": commands.kvp()}
OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][a-z-]*")


def rows(command: Command, above: Command | None = None, path: str = "") -> list[tuple[str, Command, Command | None]]:
    """Each command with its path and the command above it."""
    below = [row for each in command.commands for row in rows(each, command, f"{path} {each.name}".strip())]
    return [(path, command, above), *below]


AGENT_ROWS = rows(AZURE_INIT)[1:]
KVP_ROWS = [row for row in rows(KVP) if row[0] != "help"]


def names(options: tuple[Option, ...]) -> set[str]:
    return {name for option in options for name in option.names}


def every_name(program: str) -> set[str]:
    return {name for _path, command in commands.walk(PROGRAMS[program]) for name in names(command.options)}


# ---- parsers


def test_every_verb_has_a_function() -> None:
    assert set(OPERATED) == set(BY_NAME) - {"provision", "help"}
    assert set(KVP_VERBS) == {command.name for command in KVP.commands} - {"help"}


def test_global_options_are_read_by_the_boot_s_parser() -> None:
    assert set(VALUED) == names(AZURE_INIT.options) - names((HELP, VERSION))
    for option in AZURE_INIT.options:
        if option.value:
            for name in option.names:
                value = option.choices[0] if option.choices else "x"
                read = getattr(parse_args([name, value]), option.key)
                assert read == ((value,) if option.many else value)


PARSED = [row for row in AGENT_ROWS + KVP_ROWS if not (row[1].commands or row[1].table)]
PARSED = [row for row in PARSED if row[0] not in ("provision", "help")]  # the boot's parser reads these two


@pytest.mark.parametrize(("path", "command", "above"), PARSED)
def test_a_command_takes_its_options_and_no_others(path: str, command: Command, above: Command) -> None:
    required = [word for option in command.options if option.required for word in (option.name, "x")]
    arguments = ["x" for argument in command.arguments if argument.required]

    def read(*words: str) -> SimpleNamespace | None:
        if above is AZURE_INIT:
            return parse(command, list(words), prog=f"p {path}", out=io.StringIO())
        return parse(above, [command.name, *words], prog="p", out=io.StringIO())

    taken = [option for option in every_option(command, above) if option is not HELP and not option.required]
    for option in taken:
        value = [option.choices[0] if option.choices else "1" if option.value == "N" else "k=v"] if option.value else []
        values = read(*required, option.name, *value, *arguments)
        assert values is not None and getattr(values, option.key) not in (None, False, [], option.default)
    with pytest.raises(UsageError, match="unexpected argument '--none'"):
        read("--none")


# ---- help


def test_the_help_of_azure_init_lists_every_command_and_option_and_nothing_else() -> None:
    text = azure_init_help()
    listed = text.partition("Commands:\n")[2].partition("\n\n")[0]
    leaves = {path for path, command, _above in AGENT_ROWS if not command.commands}
    assert set(re.findall(r"^  ([a-z-]+(?: [a-z-]+)?)  ", listed, re.MULTILINE)) == leaves
    options = {name for _path, command, _above in AGENT_ROWS for name in names(command.options)}
    assert set(OPTION.findall("".join(re.findall(r"\[--[^]]*\]", listed)))) == options
    told = text.partition("\nOptions:\n")[2].partition("\n\n")[0]
    assert set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", told, re.MULTILINE)) == {o.name for o in AZURE_INIT.options}
    for option in AZURE_INIT.options:
        assert option.help in re.sub(r"\s+", " ", told) and option.env in told


@pytest.mark.parametrize(("path", "command", "above"), AGENT_ROWS + KVP_ROWS)
def test_the_help_of_a_command_lists_its_rows_and_nothing_else(
    path: str, command: Command, above: Command | None
) -> None:
    text = command_help(command, prog=f"p {path}", above=above)
    taken = every_option(command, above)
    told = text.partition("\nOptions:\n")[2]
    assert re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", told, re.MULTILINE) == [option.name for option in taken]
    flat = re.sub(r"\s+", " ", text)
    assert all(option.help in flat for option in taken)
    assert all(argument.name in flat and argument.help in flat for argument in command.arguments)
    listed = text.partition("\nCommands:\n")[2].partition("\n\n")[0]
    assert re.findall(r"^  ([a-z-]+)", listed, re.MULTILINE) == [below.name for below in command.commands]
    assert max(map(len, text.splitlines())) <= 120 and text.isascii()


def test_a_command_prints_the_help_of_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    for path, command, above in AGENT_ROWS:
        if command.name in ("provision", "help") or command.table:
            continue
        assert main([*path.split(), "--help"]) == 0
        assert capsys.readouterr().out == command_help(command, prog=f"azure-init {path}", above=above)
    for path, command, above in KVP_ROWS:
        out = io.StringIO()
        assert kvp_main([*path.split(), "-h"], machine=Machine(environ={}), out=out, err=io.StringIO()) == 0
        assert out.getvalue() == command_help(command, prog=f"libazureinit-kvp {path}".strip(), above=above)


# ---- completions


@pytest.mark.parametrize("program", PROGRAMS)
def test_completions_offer_every_command_and_option_and_nothing_else(program: str) -> None:
    table = PROGRAMS[program]
    paths = {path for path, _command in commands.walk(table)}
    text = bash(table)
    offers = dict(re.findall(r'^ +"([a-z -]*)"\) words="(.*)" ;;$', text, re.MULTILINE))
    assert set(offers) == paths
    for path, command in commands.walk(table):
        inherited = names(table.options) - (names((VERSION,)) if path else set())
        words = {below.name for below in command.commands} | names(command.options) | inherited
        words |= {choice for argument in command.arguments for choice in argument.choices}
        assert set(offers[path].split()) == words
    offered = " ".join(line.partition(" -d ")[0] for line in fish(table).splitlines() if line.startswith("complete "))
    long, short = re.findall(r" -l ([a-z-]+)", offered), re.findall(r" -s (\w)", offered)
    assert {f"--{name}" for name in long} | {f"-{letter}" for letter in short} == every_name(program)
    assert set(re.findall(r"'(--?[a-zA-Z][a-z-]*):", zsh(table))) == every_name(program)


def test_completions_of_help_offer_the_commands_beside_it() -> None:
    for table in PROGRAMS.values():
        (row,) = (command for command in table.commands if command.name == "help")
        assert [argument.kind for argument in row.arguments] == [COMMANDS]
        assert row.arguments[0].choices == tuple(command.name for command in table.commands)


# ---- manual pages and docs


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_manual_page_lists_every_command_and_option_and_nothing_else(program: str) -> None:
    text = page(PAGES[program], epoch=0, program=PROGRAMS[program]).partition(".Sh DESCRIPTION")[2]
    text = text.partition("\n.Sh ")[0]
    table = AZURE_INIT if program == "azure-init" else KVP
    leaves = [path for path, command, _above in rows(table)[1:] if not command.commands]
    assert re.findall(r"^\.It Cm ([a-z][a-z -]*?)(?= [A-Z]|$)", text, re.MULTILINE) == leaves
    named = set(re.findall(r"Fl (-?[a-zA-Z][a-z-]*)", text))
    known = {name for _path, command, _above in rows(table) for name in names(command.options)}
    assert {f"-{name}" for name in named} == known
    flat = re.sub(r"\\f.|\s+", " ", text)
    for _path, command, _above in rows(table)[1:]:
        if not command.commands:
            assert command.help[1:] in flat


def test_the_page_of_commands_shows_the_help_of_every_row_and_nothing_else() -> None:
    text = (ROOT / "docs/commands.md").read_text()
    shown = re.findall(r"^## (azure-init[a-z -]*)\n\n(?:```text\n(.*?)```\n)?", text, re.MULTILINE | re.DOTALL)
    expected = [("azure-init", azure_init_help())]
    for path, command, above in AGENT_ROWS:
        if command.name not in ("provision", "help"):
            told = "" if command.table else command_help(command, prog=f"azure-init {path}", above=above)
            expected.append((f"azure-init {path}", told))
    assert shown == expected
    assert text.count("```text\n") == sum(1 for _path, told in expected if told)


def test_the_page_of_the_key_value_tool_tells_every_row_and_nothing_else() -> None:
    text = (ROOT / "docs/kvp.md").read_text()
    options, commands_told = (
        re.findall(r"^\| `([^`]+)`", text.partition(f"\n## {title}\n")[2].partition("\n## ")[0], re.MULTILINE)
        for title in ("Options", "Commands")
    )
    assert {cell.split()[0] for cell in options} == names(KVP.options) - names((HELP,))
    assert {cell.split()[0] for cell in commands_told} == {command.name for command in KVP.commands} - {"help"}
    own = {name for _path, command, _above in KVP_ROWS[1:] for name in names(command.options)}
    assert set(OPTION.findall(" ".join(commands_told))) <= own <= set(OPTION.findall(text))
