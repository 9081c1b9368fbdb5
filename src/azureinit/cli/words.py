"""The boot's parser: global options and the command, read by hand from the option table, without argparse."""

from __future__ import annotations

from azureinit.cli.options import GLOBAL, HELP, VERSION
from azureinit.errors import UsageError
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.cli.options import Command

VALUED = {name: option.key for option in GLOBAL if option.value for name in option.names}
(STAGES,) = (option.choices for option in GLOBAL if option.key == "stage")


class Invocation(Record):
    """What the command line asks for."""

    verb: str = "provision"
    rest: tuple[str, ...] = ()  # what the verb's own parser reads
    groups: tuple[str, ...] | None = None
    config: str | None = None
    root: str = "/"
    stage: str = ""  # of a boot; empty for the run itself
    version: bool = False  # print the version, if the rest of the command line is valid


def parse_args(argv: list[str]) -> Invocation:
    """Follows the rules of clap, the Rust agent's parser, but accepts global options after the verb, too."""
    words = Words(argv)
    words.read()
    verb, rest = _resolve_help(words.verb or "provision", words.rest)
    if verb != "help" and not set(HELP.names) & set(rest):
        words.check_pending()
    return Invocation(
        verb=verb,
        rest=tuple(rest),
        groups=tuple(group for group in words.groups if group) if words.groups else None,
        config=words.values.get("config"),
        root=words.values.get("root", "/"),
        stage=_stage(words.values.get("stage", ""), verb),
        version=words.version,
    )


class Words:
    """What the words read so far have set."""

    def __init__(self, argv: list[str]) -> None:
        self.left = list(argv)
        self.verb = ""
        self.rest: list[str] = []
        self.groups: list[str] = []
        self.values: dict[str, str] = {}
        self.version = False
        # clap checks a value that is a separate word only when it meets the next option. Help that comes in between
        # is printed even if the value is invalid.
        self.pending: tuple[str, str] | None = None

    def read(self) -> None:
        while self.left and self.verb != "help":
            word = self.left.pop(0)
            if word == "--":
                self.rest += [word, *self.left] if self.verb else self.left
                self.left = []
                if self.rest and not self.verb:
                    raise _unknown(self.rest[0])
            elif self.verb and (word == "--help" or word.startswith("-h")):
                self.rest.append(word)  # help is printed at once: later words are not read
                self.left = []
            elif word.startswith("--"):
                self._long(word)
            elif word.startswith("-") and word != "-":
                self._short(word)
            elif self.verb:
                self.rest.append(word)
            elif word in known_commands():
                self.verb = word
            else:
                raise _unknown(word)
        if self.verb == "help":
            self.rest += self.left

    def check_pending(self) -> None:
        if self.pending is not None:
            name, value = self.pending
            self.pending = None
            self._set(name, value)

    def _long(self, word: str) -> None:
        name, equals, value = word.partition("=")
        if name in VALUED:
            self.check_pending()
            self._set(name, value) if equals else self._take_next(name)
        elif self.verb:
            self.rest.append(word)
        elif word in (*HELP.names, *VERSION.names):
            self._flag(word)
        else:
            raise _unknown(word)

    def _short(self, word: str) -> None:
        for place, letter in enumerate(word[1:], 2):
            if f"-{letter}" in VALUED and (place == 2 or not self.verb):
                self.check_pending()
                value = word[place:]
                self._set(f"-{letter}", value.removeprefix("=")) if value else self._take_next(f"-{letter}")
                return
            if self.verb:
                self.rest.append(word)
                return
            self._flag(f"-{letter}")
            if self.verb:  # -hx: letters after -h are ignored
                return

    def _flag(self, flag: str) -> None:
        if flag not in (*HELP.names, *VERSION.names):
            raise _unknown(flag)
        self.check_pending()
        if flag in HELP.names:
            self.verb = "help"
            self.left = [word for word in self.left[:1] if word in known_commands()]
        elif self.version:
            raise _wrong("--version can be given once only")
        self.version = flag in VERSION.names

    def _take_next(self, name: str) -> None:
        """The value is the next word. A value that begins with a hyphen must follow an equals sign."""
        if not self.left or (self.left[0].startswith("-") and self.left[0] != "-"):
            raise _wrong(f"a value is required for {name}")
        self.pending = name, self.left.pop(0)

    def _set(self, name: str, value: str) -> None:
        key = VALUED[name]
        if key == "groups":
            try:
                value.encode()
            except UnicodeEncodeError:
                raise _wrong(f"the value of {name} is not UTF-8") from None
            self.groups += value.split(",")
        elif not value:
            raise _wrong(f"a value is required for {name}")
        elif key in self.values:
            raise _wrong(f"{name} can be given once only")
        else:
            self.values[key] = value


def known_commands() -> dict[str, Command]:
    """The table of commands; a boot without a command does not load it."""
    from azureinit.cli.commands import BY_NAME

    return BY_NAME


def _stage(name: str, verb: str) -> str:
    if name and (name not in STAGES or verb != "provision"):
        raise _wrong(f"--stage takes one of {', '.join(STAGES)}, and no command but provision")
    return name


def _resolve_help(verb: str, rest: list[str]) -> tuple[str, list[str]]:
    """`help plan` is `plan --help`. `provision` and `help` have no parser of their own and take no argument."""
    if verb == "help" and rest and not rest[0].startswith("-"):
        about = known_commands().get(rest[0])
        if about is None:
            raise _unknown(rest[0])
        if rest[1:] and not (about.commands or about.table):
            raise _unknown(rest[1])
        verb, rest = rest[0], [*rest[1:], "--help"]
    if verb not in ("provision", "help"):
        return verb, rest
    if verb == "provision" and rest and rest[0] in HELP.names:
        verb, rest = "help", []
    rest = [word for word in rest if word not in HELP.names] if verb == "help" else rest
    wrong = [word for word in rest if word != "--" or verb == "help"]
    if wrong and wrong[0].startswith("-"):
        raise _unknown(wrong[0])
    if wrong:
        raise _wrong(f"{verb} takes no argument: {wrong[0]}")
    return verb, []


def _unknown(word: str) -> UsageError:
    if word.startswith("-"):
        return _wrong(f"unknown option: {word}")
    from difflib import get_close_matches

    near = get_close_matches(word[:64], known_commands(), n=1)
    return _wrong(f"unknown command: {word}" + (f"; the nearest known is {near[0]}" if near else ""))


def _wrong(what: str) -> UsageError:
    return UsageError(what, hint="see azure-init --help")
