"""Help texts, made from the option table in clap's layout: what it does, usage, commands, arguments, options."""

from __future__ import annotations

from textwrap import fill, wrap

from azureinit.cli.commands import AZURE_INIT
from azureinit.cli.options import HELP, Argument, Command, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

WIDTH = 120
WIDEST = 26  # columns of names; the sentence of a longer one begins on the next line
UNBROKEN = "\xa0"  # a blank where a line must not end
FOOTER = "Options for every command, such as --config and --root: see azure-init --help."

EXAMPLE = "as in info,libazureinit::http=debug"
ENVIRONMENT = (
    ("AZURE_INIT_CONFIG", "the same as --config, which wins over it"),
    ("AZURE_INIT_KVP_FILTER", "the filter for diagnostics sent to the host, in the form of AZURE_INIT_LOG"),
    ("AZURE_INIT_LOG", f"the log filter: off, error, warn, info, debug or trace, for all or for one target, {EXAMPLE}"),
    ("AZURE_INIT_USER_GROUPS", "the same as --groups, which wins over it; an empty value counts as unset"),
)
EXIT_CODES = (
    (0, "done, already done, or not on Azure"),
    (1, "failed; the report names the cause"),
    (2, "the command line is wrong"),
    (3, "plan --check: work is left to do"),
    (4, "plan --check: no work is left, as far as a user other than root can tell"),
    (75, "done, but the platform has not accepted the report yet"),
    (78, "the configuration is wrong, or a user that it needs does not exist"),
)


def azure_init_help() -> str:
    """`azure-init --help`, with the commands of `config` and what each command takes."""
    rows = [(name, " ".join([command.help, *_takes(command)])) for name, command in _leaves(AZURE_INIT)]
    return "\n".join(
        [
            f"{sentence(AZURE_INIT.help)}\n",
            f"Usage: {usage(AZURE_INIT, prog=AZURE_INIT.name)}\n",
            _section("Commands", rows),
            _section("Options", _option_rows(AZURE_INIT.options)),
            _section("Environment", ENVIRONMENT),
            _section("Exit codes", ((str(code), told) for code, told in EXIT_CODES)),
        ]
    )


def command_help(command: Command, *, prog: str, above: Command | None = None) -> str:
    """The help of a command. `above` holds options that are accepted here, too, if it shares them."""
    parts = [
        f"{fill(command.about or sentence(command.help), WIDTH)}\n",
        f"Usage: {usage(command, prog=prog)}\n",
    ]
    if command.commands:
        parts.append(_section("Commands", ((each.name, each.help) for each in command.commands)))
    if command.arguments:
        parts.append(_section("Arguments", ((argument_label(each), each.help) for each in command.arguments)))
    parts.append(_section("Options", _option_rows(every_option(command, above))))
    if prog.startswith(f"{AZURE_INIT.name} "):
        parts.append(f"{FOOTER}\n")
    return "\n".join(parts)


def usage(command: Command, *, prog: str) -> str:
    words = [prog, "[OPTIONS]"]
    words += [f"{option.name} {value_label(option)}" for option in command.options if option.required]
    words += [argument_label(argument) for argument in command.arguments]
    if command.commands:
        words.append("[COMMAND]" if command is AZURE_INIT else "<COMMAND>")
    return " ".join(words)


def every_option(command: Command, above: Command | None) -> tuple[Option, ...]:
    """Its own options, those that the command above shares with it, and --help."""
    own = tuple(option for option in command.options if option is not HELP)
    shared = above.options if above is not None and above.shared else ()
    return (*own, *(option for option in shared if option is not HELP), HELP)


def value_label(option: Option) -> str:
    return f"[{option.value}]" if option.optional else f"<{option.value}>"


def argument_label(argument: Argument) -> str:
    label = f"<{argument.name}>" if argument.required else f"[{argument.name}]"
    return f"{label}..." if argument.many else label


def described(option: Option) -> str:
    """The help sentence with default, choices and environment variable, as clap adds them."""
    parts = [option.help]
    if option.default is not None:
        parts.append(f"[default: {option.default}]")
    if any(choice not in option.help + option.value for choice in option.choices):
        parts.append(f"[possible values: {', '.join(option.choices)}]")
    if option.env:
        parts.append(f"[env: {option.env}]")
    return " ".join(parts)


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _leaves(command: Command, above: str = "") -> Iterator[tuple[str, Command]]:
    for each in command.commands:
        name = f"{above}{each.name}"
        yield from _leaves(each, f"{name} ") if each.commands else [(name, each)]


def _takes(command: Command) -> Iterator[str]:
    """Options and arguments of a command, in brackets."""
    for option in command.options:
        yield f"[{option.name}{UNBROKEN}{value_label(option)}]" if option.value else f"[{option.name}]"
    for argument in command.arguments:
        yield argument_label(argument)


def _option_rows(options: Iterable[Option]) -> Iterator[tuple[str, str]]:
    for option in options:
        indent = "" if len(option.names) > 1 else "    "
        value = f" {value_label(option)}" if option.value else ""
        yield (
            f"{indent}{', '.join(option.names)}{value}",
            described(option).replace("[env: ", f"[env:{UNBROKEN}").replace("[default: ", f"[default:{UNBROKEN}"),
        )


def _section(title: str, rows: Iterable[tuple[str, str]]) -> str:
    listed = list(rows)
    column = 4 + max((len(name) for name, _ in listed if len(name) <= WIDEST), default=0)
    lines = [f"{title}:"]
    for name, told in listed:
        start = f"  {name}"
        if len(start) > column - 2:
            lines.append(start)
            start = ""
        wrapped = wrap(told, WIDTH - column, break_long_words=False, break_on_hyphens=False)
        lines += [f"{start:<{column}}{wrapped[0]}" if wrapped else start]
        lines += [f"{'':<{column}}{line}" for line in wrapped[1:]]
    return "\n".join(lines).replace(UNBROKEN, " ") + "\n"
