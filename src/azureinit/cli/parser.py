"""The commands' own arguments: argparse holds the tables and prints the help; the words are read by clap's rules.

clap is the parser of Azure's own agent and KVP tool, and scripts rely on what it refuses: an option twice, `-1` or any
other word that looks like an option as a value, an abbreviation, a value for a flag, a text that is not UTF-8.
"""

from __future__ import annotations

import argparse

from azureinit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

GLOBAL = "Options for every command, such as --config and --root: see azure-init --help."
SEVERAL = ("+", "*")


class Parser(argparse.ArgumentParser):
    def __init__(self, *, prog: str, description: str = "", **_more: Any) -> None:
        super().__init__(prog=prog, description=description, epilog=GLOBAL, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog.partition(' ')[2]}: {message}", hint=f"see {self.prog} --help")


def parsed(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace | None:
    """None where help was asked for, and given."""
    try:
        return Reader(parser, list(argv)).read()
    except SystemExit:
        return None


def path(text: str) -> str:
    """The type of an argument that names a file: any bytes, but not nothing."""
    if not text:
        raise argparse.ArgumentTypeError("a value is required")
    return text


class Reader:
    """One level of a command line: the program's own options, or those of one command."""

    def __init__(self, parser: argparse.ArgumentParser, words: list[str]) -> None:
        self.parser, self.words = parser, words
        self.options = {name: action for action in parser._actions for name in action.option_strings}
        self.arguments = [action for action in parser._actions if not action.option_strings]
        self.asked = argparse.Namespace()
        self.given: set[argparse.Action] = set()
        self.taken: list[Any] = []  # arguments so far
        # clap looks at a value that stands in a word of its own only when the next option or argument comes; the help
        # of a command that follows is printed before that.
        self.pending: Callable[[], None] | None = None

    def read(self) -> argparse.Namespace:
        for action in self.parser._actions:
            if argparse.SUPPRESS not in (action.dest, action.default):
                setattr(self.asked, action.dest, action.default)
        vars(self.asked).update(self.parser._defaults)
        only_arguments = False
        while self.words:
            word = self.words.pop(0)
            if only_arguments or not is_option(word):
                if self.arguments and isinstance(self.arguments[0], argparse._SubParsersAction):
                    self._command(word, self.arguments[0], only_arguments=only_arguments)
                    return self.asked
                self._argument(word)
            elif word == "--":
                only_arguments = True
            elif word.startswith("--"):
                self._long(word)
            else:
                self._short(word)
        self._settle()
        self._finish()
        return self.asked

    # ---- options

    def _long(self, word: str) -> None:
        name, equals, value = word.partition("=")
        action = self.options.get(name) or self._unexpected(word)
        if action.nargs == 0 and equals:
            self.parser.error(f"unexpected value {shown(value)} for '{name}'")
        self._settle()
        if action.nargs == 0:
            self._flag(action)
        elif equals:
            self._give(action, value)
        else:
            self._separate(action)

    def _short(self, word: str) -> None:
        for letter in word[1:]:
            action = self.options.get(f"-{letter}") or self._unexpected(word)
            self._settle()
            self._flag(action)

    def _flag(self, action: argparse.Action) -> None:
        if isinstance(action, argparse._HelpAction):
            self.parser.print_help()
            raise SystemExit(0)
        self._once(action)
        setattr(self.asked, action.dest, action.const)

    def _separate(self, action: argparse.Action) -> None:
        """The value is the next word, unless that is an option."""
        if self.words and not is_option(self.words[0]):
            value = self.words.pop(0)
            self.pending = lambda: self._give(action, value)
        elif action.nargs == "?":
            self._flag(action)
        else:
            self.parser.error(f"a value is required for '{action.option_strings[-1]}'")

    def _give(self, action: argparse.Action, value: str) -> None:
        converted = self._converted(action, value)
        if isinstance(action, argparse._AppendAction):
            before = getattr(self.asked, action.dest) if action in self.given else ()
            self.given.add(action)
            setattr(self.asked, action.dest, [*before, converted])
        else:
            self._once(action)
            setattr(self.asked, action.dest, converted)

    def _once(self, action: argparse.Action) -> None:
        if action in self.given:
            self.parser.error(f"the argument '{action.option_strings[-1]}' cannot be used multiple times")
        self.given.add(action)

    def _settle(self) -> None:
        pending, self.pending = self.pending, None
        if pending is not None:
            pending()

    # ---- arguments

    def _command(self, word: str, commands: argparse._SubParsersAction[Any], *, only_arguments: bool) -> None:
        """It takes all that follows; its value of an option that stands on both sides counts."""
        if only_arguments or word not in commands.choices:
            self.parser.error(f"unrecognized command {shown(word)}")
        if word == "help":
            self._help(commands)
        below = Reader(commands.choices[word], self.words).read()
        self._settle()
        setattr(self.asked, commands.dest, word)
        vars(self.asked).update(vars(below))

    def _help(self, commands: argparse._SubParsersAction[Any]) -> NoReturn:
        about: argparse.ArgumentParser = self.parser
        if self.words:
            about = commands.choices.get(self.words[0]) or self.parser.error(f"unrecognized command {self.words[0]!r}")
        if self.words[1:]:
            self.parser.error(f"unrecognized command {shown(self.words[1])}")
        about.print_help()
        raise SystemExit(0)

    def _argument(self, word: str) -> None:
        self._settle()
        last = self.arguments[-1] if self.arguments else None
        if len(self.taken) < len(self.arguments):
            last = self.arguments[len(self.taken)]
        elif last is None or last.nargs not in SEVERAL:
            self._unexpected(word)
        self.taken.append(self._converted(last, word))

    def _finish(self) -> None:
        missing = [action for action in self.options.values() if action.required and action not in self.given]
        taken = self.taken
        for action in self.arguments:
            if isinstance(action, argparse._SubParsersAction):
                setattr(self.asked, action.dest, None)
                missing += [action] if action.required else []
                continue
            mine, taken = (taken, []) if action.nargs in SEVERAL else (taken[:1], taken[1:])
            if mine:
                setattr(self.asked, action.dest, mine if action.nargs in SEVERAL else mine[0])
            elif action.nargs in (None, "+"):
                missing.append(action)
        if missing:
            names = ", ".join(
                action.option_strings[-1] if action.option_strings else named(action) for action in missing
            )
            self.parser.error(f"the following arguments are required: {names}")

    def _converted(self, action: argparse.Action, value: str) -> Any:
        try:
            if action.type is not path:
                value.encode()
            made = action.type(value) if callable(action.type) else value
        except UnicodeEncodeError:
            self.parser.error(f"invalid UTF-8 in {shown(value)}")
        except argparse.ArgumentTypeError as error:
            self.parser.error(
                f"argument {action.option_strings[-1] if action.option_strings else named(action)}: {error}"
            )
        if action.choices is not None and made not in action.choices:
            self.parser.error(f"invalid value {shown(value)}, it must be one of {', '.join(map(str, action.choices))}")
        return made

    def _unexpected(self, word: str) -> NoReturn:
        tip = "; to pass it as a value, put -- before it" if word.startswith("-") and self.arguments else ""
        self.parser.error(f"unexpected argument {shown(word)}{tip}")


def is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def named(action: argparse.Action) -> str:
    return str(action.metavar or action.dest)


def shown(word: str) -> str:
    """In a message: on one line, and printable."""
    start = word[:60]
    return "'" + (start if start.isprintable() else ascii(start)[1:-1]) + "'"
