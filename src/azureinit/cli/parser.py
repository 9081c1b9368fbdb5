"""The parser of an operator's commands: reads words by clap's rules, from a command of the option table.

clap is the parser of Azure's own agent and KVP tool, and scripts rely on what it refuses: an option given twice, `-1`
or any other word that looks like an option as a value, an abbreviation, a value for a flag, text that is not UTF-8.
"""

from __future__ import annotations

from types import SimpleNamespace

from azureinit.cli.help import argument_label, command_help, every_option
from azureinit.cli.options import DIRECTORY, FILE, HELP, Argument, Command, Option
from azureinit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn, TextIO


class HelpAsked(Exception):
    """Carries the help text. Words after the request for help are not read."""


def parse(command: Command, argv: list[str], *, prog: str, out: TextIO) -> SimpleNamespace | None:
    """The values, one attribute for each option and argument; None if help was asked for and written to `out`.

    `command` holds the name of the command below this one, or None.
    """
    try:
        return Reader(command, list(argv), prog=prog).read()
    except HelpAsked as asked:
        out.write(str(asked))
        return None


class Reader:
    """Reads one level of a command line: the options of a program, or those of one command."""

    def __init__(self, command: Command, words: list[str], *, prog: str, above: Command | None = None) -> None:
        self.command, self.words, self.prog, self.above = command, words, prog, above
        self.options = {name: option for option in every_option(command, above) for name in option.names}
        self.values = SimpleNamespace()
        self.given: set[str] = set()
        self.arguments: list[Any] = []  # values so far
        # clap checks a value that is a separate word only when it meets the next option or argument. Help of a
        # command that comes in between is printed even if the value is invalid.
        self.pending: Callable[[], None] | None = None

    def read(self) -> SimpleNamespace:
        self._set_defaults()
        only_arguments = False
        while self.words:
            word = self.words.pop(0)
            if only_arguments or not is_option(word):
                if self.command.commands:
                    self._subcommand(word, only_arguments=only_arguments)
                    return self.values
                self._argument(word)
            elif word == "--":
                only_arguments = True
            elif word.startswith("--"):
                self._long(word)
            else:
                self._short(word)
        self._check_pending()
        self._finish()
        return self.values

    def _set_defaults(self) -> None:
        """Options shared with the level above keep the values set there."""
        for option in self.command.options:
            setattr(self.values, option.key, [] if option.many else option.default if option.value else False)
        for argument in self.command.arguments:
            setattr(self.values, argument.key, [] if argument.many else "")
        vars(self.values).update(self.command.fixed)
        if self.above is None:
            self.values.command = None

    # ---- options

    def _long(self, word: str) -> None:
        name, equals, value = word.partition("=")
        option = self.options.get(name) or self._unexpected(word)
        if not option.value and equals:
            self._error(f"unexpected value {shown(value)} for '{name}'")
        self._check_pending()
        if not option.value:
            self._flag(option)
        elif equals:
            self._set(option, value)
        else:
            self._take_next(option)

    def _short(self, word: str) -> None:
        for letter in word[1:]:
            option = self.options.get(f"-{letter}") or self._unexpected(word)
            self._check_pending()
            self._flag(option)

    def _flag(self, option: Option) -> None:
        if option is HELP:
            raise HelpAsked(command_help(self.command, prog=self.prog, above=self.above))
        self._once(option)
        setattr(self.values, option.key, "" if option.value else True)

    def _take_next(self, option: Option) -> None:
        """The value is the next word, unless that is an option."""
        if self.words and not is_option(self.words[0]):
            value = self.words.pop(0)
            self.pending = lambda: self._set(option, value)
        elif option.optional:
            self._flag(option)
        else:
            self._error(f"a value is required for '{option.name}'")

    def _set(self, option: Option, value: str) -> None:
        converted = self._converted(option, value)
        if option.many:
            before = getattr(self.values, option.key) if option.name in self.given else ()
            self.given.add(option.name)
            setattr(self.values, option.key, [*before, converted])
        else:
            self._once(option)
            setattr(self.values, option.key, converted)

    def _once(self, option: Option) -> None:
        if option.name in self.given:
            self._error(f"the argument '{option.name}' cannot be used multiple times")
        self.given.add(option.name)

    def _check_pending(self) -> None:
        pending, self.pending = self.pending, None
        if pending is not None:
            pending()

    # ---- commands and arguments

    def _subcommand(self, word: str, *, only_arguments: bool) -> None:
        """It reads all words that follow; of an option given before and after it, the later value counts."""
        commands = {command.name: command for command in self.command.commands}
        if only_arguments or word not in commands:
            self._error(f"unrecognized command {shown(word)}")
        if word == "help":
            self._help(commands)
        below = Reader(commands[word], self.words, prog=f"{self.prog} {word}", above=self.command).read()
        self._check_pending()
        self.values.command = word
        vars(self.values).update(vars(below))

    def _help(self, commands: dict[str, Command]) -> NoReturn:
        if self.words[1:]:
            self._error(f"unrecognized command {shown(self.words[1])}")
        if not self.words:
            raise HelpAsked(command_help(self.command, prog=self.prog, above=self.above))
        name = self.words[0]
        if name not in commands:
            self._error(f"unrecognized command {shown(name)}")
        raise HelpAsked(command_help(commands[name], prog=f"{self.prog} {name}", above=self.command))

    def _argument(self, word: str) -> None:
        self._check_pending()
        known = self.command.arguments
        if len(self.arguments) < len(known):
            argument = known[len(self.arguments)]
        elif known and known[-1].many:
            argument = known[-1]
        else:
            self._unexpected(word)
        self.arguments.append(self._converted(argument, word))

    def _finish(self) -> None:
        required = {option.name: option for option in self.options.values() if option.required}
        missing = [name for name in required if name not in self.given]
        left = self.arguments
        for argument in self.command.arguments:
            mine, left = (left, []) if argument.many else (left[:1], left[1:])
            if mine:
                setattr(self.values, argument.key, mine if argument.many else mine[0])
            elif argument.required:
                missing.append(argument_label(argument))
        if missing:
            self._error(f"the following arguments are required: {', '.join(missing)}")

    def _converted(self, item: Option | Argument, value: str) -> Any:
        name = item.name if isinstance(item, Option) else argument_label(item)
        if item.kind in (FILE, DIRECTORY):
            if not value:
                self._error(f"argument {name}: a value is required")
            return value
        try:
            value.encode()
        except UnicodeEncodeError:
            self._error(f"invalid UTF-8 in {shown(value)}")
        if isinstance(item, Option) and item.parse is not None:
            try:
                return item.parse(value)
            except ValueError as error:
                self._error(f"argument {name}: {error}")
        if item.choices and value not in item.choices:
            self._error(f"invalid value {shown(value)}, it must be one of {', '.join(item.choices)}")
        return value

    # ---- errors

    def _unexpected(self, word: str) -> NoReturn:
        takes_arguments = self.command.arguments or self.command.commands
        tip = "; to pass it as a value, put -- before it" if word.startswith("-") and takes_arguments else ""
        self._error(f"unexpected argument {shown(word)}{tip}")

    def _error(self, message: str) -> NoReturn:
        command = self.prog.partition(" ")[2]
        raise UsageError(f"{command}: {message}" if command else message, hint=f"see {self.prog} --help")


def is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def shown(word: str) -> str:
    """A word in a message: on one line, and printable."""
    start = word[:60]
    return "'" + (start if start.isprintable() else ascii(start)[1:-1]) + "'"
