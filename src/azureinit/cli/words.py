"""One hand parser for the global options and the verb, so that a boot needs no argparse."""

from __future__ import annotations

from azureinit.errors import UsageError
from azureinit.record import Record

VERBS = ("provision", "plan", "facts", "config", "clean", "deprovision", "kvp", "help")
VALUED = {"-g": "groups", "--groups": "groups", "--config": "config", "--root": "root", "--stage": "stage"}
STAGES = ("local", "failed", "resend", "hostname")


class Command(Record):
    verb: str = "provision"
    rest: tuple[str, ...] = ()
    groups: tuple[str, ...] | None = None
    config: str | None = None
    root: str = "/"
    stage: str = ""  # of a boot, beside the run itself
    version: bool = False  # print it, once the rest of the line has turned out to be right


def parse_args(argv: list[str]) -> Command:
    """Words are read as clap, the Rust agent's parser, reads them; but global options count after the verb, too.

    What a verb's own parser must see stays in `rest`.
    """
    words = Words(argv)
    words.read()
    verb, rest = _meant(words.verb or "provision", words.rest)
    if verb != "help" and not {"-h", "--help"} & set(rest):
        words.settle()
    return Command(
        verb=verb,
        rest=tuple(rest),
        groups=tuple(group for group in words.groups if group) if words.groups else None,
        config=words.values.get("config"),
        root=words.values.get("root", "/"),
        stage=_stage(words.values.get("stage", ""), verb),
        version=words.version,
    )


class Words:
    """What the words said so far."""

    def __init__(self, argv: list[str]) -> None:
        self.left = list(argv)
        self.verb = ""
        self.rest: list[str] = []
        self.groups: list[str] = []
        self.values: dict[str, str] = {}
        self.version = False
        # A value in a word of its own is looked at when the next option comes; help that follows it comes first.
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
                self.rest.append(word)  # printed as soon as it is met
                self.left = []
            elif word.startswith("--"):
                self._long(word)
            elif word.startswith("-") and word != "-":
                self._short(word)
            elif self.verb:
                self.rest.append(word)
            elif word in VERBS:
                self.verb = word
            else:
                raise _unknown(word)
        if self.verb == "help":
            self.rest += self.left

    def settle(self) -> None:
        if self.pending is not None:
            option, value = self.pending
            self.pending = None
            self._give(option, value)

    def _long(self, word: str) -> None:
        option, equals, value = word.partition("=")
        if option in VALUED:
            self.settle()
            self._give(option, value) if equals else self._separate(option)
        elif self.verb:
            self.rest.append(word)
        elif word in ("--help", "--version"):
            self._flag(word)
        else:
            raise _unknown(word)

    def _short(self, word: str) -> None:
        for place, letter in enumerate(word[1:], 2):
            if f"-{letter}" in VALUED and (place == 2 or not self.verb):
                self.settle()
                value = word[place:]
                self._give(f"-{letter}", value.removeprefix("=")) if value else self._separate(f"-{letter}")
                return
            if self.verb:
                self.rest.append(word)
                return
            self._flag(f"-{letter}")
            if self.verb:  # -hx: nothing after it counts
                return

    def _flag(self, flag: str) -> None:
        if flag not in ("-h", "--help", "-V", "--version"):
            raise _unknown(flag)
        self.settle()
        if flag in ("-h", "--help"):
            self.verb = "help"
            self.left = [word for word in self.left[:1] if word in VERBS]
        elif self.version:
            raise _wrong("--version can be given once only")
        self.version = flag in ("-V", "--version")

    def _separate(self, option: str) -> None:
        """The value is the next word; an option is no other option's value, unless it says so with an equals sign."""
        if not self.left or (self.left[0].startswith("-") and self.left[0] != "-"):
            raise _wrong(f"a value is required for {option}")
        self.pending = option, self.left.pop(0)

    def _give(self, option: str, value: str) -> None:
        key = VALUED[option]
        if key == "groups":
            try:
                value.encode()
            except UnicodeEncodeError:
                raise _wrong(f"the value of {option} is not UTF-8") from None
            self.groups += value.split(",")
        elif not value:
            raise _wrong(f"a value is required for {option}")
        elif key in self.values:
            raise _wrong(f"{option} can be given once only")
        else:
            self.values[key] = value


def _stage(name: str, verb: str) -> str:
    if name and (name not in STAGES or verb != "provision"):
        raise _wrong(f"--stage takes one of {', '.join(STAGES)}, and no command but provision")
    return name


def _meant(verb: str, rest: list[str]) -> tuple[str, list[str]]:
    """`help plan` is `plan --help`; the verbs that have no parser of their own take nothing else."""
    if verb == "help" and rest and not rest[0].startswith("-"):
        if rest[0] not in VERBS:
            raise _unknown(rest[0])
        if rest[1:] and rest[0] not in ("config", "kvp"):
            raise _unknown(rest[1])
        verb, rest = rest[0], [*rest[1:], "--help"]
    if verb not in ("provision", "help"):
        return verb, rest
    if verb == "provision" and rest and rest[0] in ("-h", "--help"):
        verb, rest = "help", []
    rest = [word for word in rest if word not in ("-h", "--help")] if verb == "help" else rest
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

    near = get_close_matches(word[:64], VERBS, n=1)
    return _wrong(f"unknown command: {word}" + (f"; the nearest known is {near[0]}" if near else ""))


def _wrong(what: str) -> UsageError:
    return UsageError(what, hint="see azure-init --help")
