"""sshd's configuration as sshd itself reads it: the first value counts, Include is expanded at its place.

Match blocks are kept apart, except `Match all`: sshd applies that to every connection, over the global values. Pure:
the files are handed in as two functions, so that the same walk answers "what is" and "what would be".
"""

from __future__ import annotations

from azureinit.errors import LocalError
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Values = dict[str, tuple[str, ...]]
    Line = tuple[str, tuple[str, ...]]

ETC_SSH = "/etc/ssh"
DEEPEST = 16  # sshd's own limit
MOST_FILES = 256
BLANK = " \t"
SPACE = " \t\r\n"
GLOBAL, ALWAYS, SOMETIMES = range(3)


class Block(Record):
    """A Match line and its file. `outer`: the Match line around the Include that this file came by."""

    path: str
    line: str
    criteria: tuple[str, ...] = ()
    outer: Block | None = None


class Directive(Record):
    """A line that sets a value, and the Match line that it belongs to; None: it is global."""

    path: str
    number: int
    line: str
    keyword: str
    arguments: tuple[str, ...]
    block: Block | None = None


class Walk:
    """One reading. `files`: everything it was made from, in reading order; `values`: what is in force for everyone."""

    def __init__(
        self,
        main: str,
        *,
        read: Callable[[str], bytes | None],
        expand: Callable[[str], tuple[str, ...]],
        aliases: Mapping[str, str],
    ) -> None:
        self._read, self._expand, self._aliases = read, expand, aliases
        self._found: tuple[Values, Values] = ({}, {})
        self._opened = 0
        self.files: dict[str, bytes] = {}
        self.host_keys: list[str] = []
        # Every line that sets a value, in reading order; and those of them that count for some connections only.
        self.directives: list[Directive] = []
        self.conditional: list[Directive] = []
        self._enter(main, None, depth=0)
        for said in self.directives:
            scope = _scope(said.block)
            if scope == SOMETIMES:
                self.conditional.append(said)
                continue
            if said.keyword == "hostkey" and scope == GLOBAL:
                self.host_keys.append(said.arguments[0])
            self._found[scope].setdefault(said.keyword, said.arguments)
        self.values: Values = {**self._found[GLOBAL], **self._found[ALWAYS]}

    def _enter(self, path: str, outer: Block | None, *, depth: int) -> None:
        if depth > DEEPEST or self._opened >= MOST_FILES:
            return
        self._opened += 1
        data = self._read(path)
        if data is None:
            return
        self.files[path] = data
        block = outer
        for number, raw, keyword, arguments in said_in(data):
            if keyword == "match":
                inner = Block(path=path, line=raw.strip(), criteria=arguments, outer=outer)
                block = outer if outer is not None and _is_all(arguments) else inner
            elif keyword == "include":
                for pattern in arguments:
                    absolute = pattern if pattern.startswith("/") else f"{ETC_SSH}/{pattern}"
                    for included in self._expand(absolute):
                        self._enter(included, block, depth=depth + 1)
            else:
                said = Directive(
                    path=path,
                    number=number,
                    line=raw.strip(),
                    keyword=self._aliases.get(keyword, keyword),
                    arguments=arguments,
                    block=block,
                )
                self.directives.append(said)


def _scope(block: Block | None) -> int:
    """`Match all` counts for every connection, over the global values."""
    if block is None:
        return GLOBAL
    return ALWAYS if _is_all(block.criteria) and _scope(block.outer) != SOMETIMES else SOMETIMES


def _is_all(criteria: tuple[str, ...]) -> bool:
    return len(criteria) == 1 and criteria[0].lower() == "all"


_known: dict[bytes, tuple[tuple[int, str, str, tuple[str, ...]], ...]] = {}


def said_in(data: bytes) -> tuple[tuple[int, str, str, tuple[str, ...]], ...]:
    """Every line that sets a value, with its number. Cached: the same few files are parsed repeatedly."""
    if data not in _known:
        parsed = ((number, raw, *parse_line(raw)) for number, raw in enumerate(lines_of(data), 1))
        _known[data] = tuple(line for line in parsed if line[3])
    return _known[data]


def lines_of(data: bytes) -> list[str]:
    """To sshd a NUL ends a line, and the next line continues it."""
    text = data.decode("utf-8", "surrogateescape")
    if "\0" in text:
        pieces = (line.partition("\0") for line in text.split("\n"))
        text = "".join(line if nul else f"{line}\n" for line, nul, _ in pieces)
    return text.split("\n")


def parse_line(line: str) -> Line:
    """The keyword in lower case and its arguments; both empty for a comment, an empty line or one that sshd refuses."""
    keyword, rest = _delimited(line.rstrip(SPACE + "\f"))
    if not keyword:
        keyword, rest = _delimited(rest)  # a line may begin with blanks, or with one "="
    if not keyword or keyword[0] == "#":
        return "", ()
    return keyword.lower(), _arguments(rest)


def _delimited(text: str) -> tuple[str, str]:
    """The text before the first blank, "=" or quote, and the text after it: OpenSSH's strdelim."""
    at = next((at for at, letter in enumerate(text) if letter in SPACE + '"='), -1)
    if at < 0:
        return text, ""
    if text[at] == '"':
        quoted, closed, rest = text[at + 1 :].partition('"')
        return (text[:at] + quoted, rest.lstrip(SPACE)) if closed else ("", "")
    rest = text[at + 1 :].lstrip(SPACE)
    if text[at] != "=" and rest.startswith("="):
        rest = rest[1:].lstrip(SPACE)
    return text[:at], rest


def _arguments(text: str) -> tuple[str, ...]:
    """Words, split as a shell does; a word that starts with # ends the line."""
    words: list[str] = []
    at = 0
    while at < len(text):
        if text[at] in BLANK:
            at += 1
            continue
        if text[at] == "#":
            break
        word, at = _word(text, at)
        if at < 0:
            return ()
        words.append(word)
    return tuple(words)


def _word(text: str, at: int) -> tuple[str, int]:
    """One word and the index of its end: -1 for an unterminated quote."""
    word = ""
    quote = ""
    while at < len(text):
        letter = text[at]
        following = text[at + 1 : at + 2]
        if letter == "\\" and (following in ("'", '"', "\\") or (following == " " and not quote)):
            word += following
            at += 1
        elif letter == quote:
            quote = ""
        elif not quote and letter in "'\"":
            quote = letter
        elif not quote and letter in BLANK:
            break
        else:
            word += letter
        at += 1
    return word, -1 if quote else at


def expand(pattern: str, names: Callable[[str], tuple[str, ...] | None]) -> tuple[str, ...]:
    """The result of glob(3) for an absolute pattern, in its order; `names` lists a directory."""

    def listed(directory: str) -> tuple[str, ...]:
        try:
            return names(directory) or ()
        except LocalError:
            return ()  # glob(3) ignores it too

    found = [""]
    for part in [part for part in pattern.split("/") if part]:
        if any(letter in part for letter in "*?[\\"):
            found = [f"{base}/{name}" for base in found for name in listed(base or "/") if matches(name, part)]
        else:
            found = [f"{base}/{part}" for base in found]
    return tuple(sorted(path for path in found if path))


def matches(name: str, pattern: str) -> bool:
    """A file's name against one part of a glob. Linear, with a single backtracking point."""
    if name.startswith(".") and not pattern.startswith((".", "\\.")):
        return False
    at = place = 0
    star, marked = -1, 0
    while at < len(name):
        fits, after = _one(name[at], pattern, place)
        if fits:
            at, place = at + 1, after
        elif place < len(pattern) and pattern[place] == "*":
            star, marked = place, at
            place += 1
        elif star >= 0:
            marked += 1
            at, place = marked, star + 1
        else:
            return False
    return not pattern[place:].strip("*")


def _one(letter: str, pattern: str, place: int) -> tuple[bool, int]:
    """Whether the pattern's next element takes the letter, and where the element after it starts."""
    if place >= len(pattern) or pattern[place] == "*":
        return False, place
    if pattern[place] == "?":
        return True, place + 1
    if pattern[place] == "\\" and place + 1 < len(pattern):
        return letter == pattern[place + 1], place + 2
    close = pattern.find("]", place + 3 if pattern[place + 1 : place + 2] in ("!", "^") else place + 2)
    if pattern[place] != "[" or close < 0:
        return letter == pattern[place], place + 1
    inside = pattern[place + 1 : close]
    negated = inside[0] in "!^"
    return _in_set(letter, inside[1:] if negated else inside) != negated, close + 1


def _in_set(letter: str, inside: str) -> bool:
    at = 0
    while at < len(inside):
        if inside[at + 1 : at + 2] == "-" and at + 2 < len(inside):
            if inside[at] <= letter <= inside[at + 2]:
                return True
            at += 3
        else:
            if letter == inside[at]:
                return True
            at += 1
    return False
